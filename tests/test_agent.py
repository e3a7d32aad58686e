"""The agent: every rule through it, errors at its boundary, many devices."""

from dm_env import specs as dm_env_specs
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disco_rl import agent
from disco_rl import optimizers
from disco_rl import types
from disco_rl import utils
from disco_rl.networks import nets
from disco_rl.update_rules import registry
from tests.support import golden
from tests.support import small

RULES = sorted(registry.UPDATE_RULES)


def test_settings_that_an_optimizer_would_replace_are_refused():
  settings = small.settings('actor_critic')
  with settings.unlocked():
    settings.optimizer = dict(optimizers.get_settings(), weight_decay=0.1)
  env = small.environment()
  message = r'optimizer.weight_decay \(0.1\) would have no effect beside optim'
  with pytest.raises(ValueError, match=message):
    agent.Agent.for_environment(env, settings, optimizer=optax.sgd(1.0))
  agent.Agent.for_environment(env, settings)


def _setting(rule):
  an_agent = small.make_agent(rule)
  rng = jax.random.PRNGKey(0)
  state = an_agent.initial_learner_state(rng)
  meta_params, _ = an_agent.update_rule.init_params(rng)
  return an_agent, state, meta_params


@pytest.mark.parametrize('rule', RULES)
def test_learning_keeps_the_state_and_changes_the_parameters(rule):
  an_agent, state, meta_params = _setting(rule)
  rng = jax.random.PRNGKey(1)
  rollout = small.act(an_agent, state.params, rng, 6)
  step = jax.jit(an_agent.learner_step, static_argnums=5)
  copies = utils.copy_tree((state, rollout))
  new_state = state
  for _ in range(2):
    new_state, net_state, log = step(
      rng, rollout, new_state, {}, meta_params, False
    )
  assert step._cache_size() == 1
  jax.tree.map(np.testing.assert_array_equal, (state, rollout), copies)
  golden.check_trees_close(
    jax.tree.map(jnp.zeros_like, new_state),
    jax.tree.map(jnp.zeros_like, state),
    0,
  )
  assert net_state == {}
  assert all(np.shape(value) == () for value in log.values())
  assert {'total_loss', 'global_gradient_norm', 'global_update_norm'} <= set(
    log
  )
  moved = jax.tree.map(
    lambda a, b: bool((a != b).any()), new_state.params, state.params
  )
  assert all(jax.tree.leaves(moved))


def test_learning_through_taken_actions_is_learning_through_all(monkeypatch):
  """Compares the fast path with a network that does not have it."""

  def plain(**kwargs):
    network = nets.get_network('mlp', **kwargs)
    return types.PolicyNetwork(
      init=network.init, one_step=network.one_step, unroll=network.unroll
    )

  monkeypatch.setitem(nets.NETWORKS, 'plain', plain)
  fast, state, meta_params = _setting('disco')
  slow = small.make_agent('disco', _changed('net_settings.name', 'plain'))
  rollout = small.act(fast, state.params, jax.random.PRNGKey(1), 6)

  def learn(an_agent):
    state_and_log = an_agent.learner_step(
      None, rollout, state, {}, meta_params, False
    )
    return state_and_log[0], state_and_log[2]

  golden.check_trees_close(
    jax.jit(lambda: learn(fast))(), jax.jit(lambda: learn(slow))(), 1e-4
  )


def test_state_can_be_donated():
  an_agent, state, meta_params = _setting('disco')
  rollout = small.act(an_agent, state.params, jax.random.PRNGKey(1), 4)
  step = jax.jit(
    an_agent.learner_step, static_argnums=5, donate_argnames='learner_state'
  )
  for _ in range(2):
    state, _, _ = step(
      jax.random.PRNGKey(0), rollout, state, {}, meta_params, False
    )
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(state.params))


def test_targets_are_logged_in_meta_training_only():
  an_agent, state, meta_params = _setting('disco')
  rollout = small.act(an_agent, state.params, jax.random.PRNGKey(1), 4)

  def logged(is_meta_training):
    return jax.eval_shape(
      lambda: an_agent.learner_step(
        None, rollout, state, {}, meta_params, is_meta_training
      )[2]
    )

  assert set(logged(True)) - set(logged(False)) == {'meta_out'}


def test_meta_gradients_flow_through_an_update():
  an_agent, state, meta_params = _setting('disco')
  rollout = small.act(an_agent, state.params, jax.random.PRNGKey(1), 4)

  def loss_after_update(meta_params, is_meta_training):
    new_state, _, _ = an_agent.learner_step(
      None, rollout, state, {}, meta_params, is_meta_training
    )
    outs, _ = an_agent.unroll_net(new_state.params, {}, rollout)
    return jnp.mean(jnp.square(outs['y']))

  grad = jax.jit(jax.grad(loss_after_update), static_argnums=1)
  size = lambda tree: sum(
    float(jnp.abs(g).sum()) for g in jax.tree.leaves(tree)
  )
  assert size(grad(meta_params, True)) > 0
  assert size(grad(meta_params, False)) == 0


def test_steps_that_end_an_episode_carry_no_loss():
  """The action on a LAST step does not change gradients."""
  an_agent, state, _ = _setting('actor_critic')
  rollout = small.act(an_agent, state.params, jax.random.PRNGKey(1), 6)
  assert not rollout.discounts[4].any() and rollout.discounts[5].all()
  # With γ = 0, the loss of a step depends on its own reward only.
  config = small.settings('actor_critic')
  config.hyper_params.discount_factor = 0.0
  an_agent = small.make_agent('actor_critic', config)
  other = rollout.replace(
    rewards=rollout.rewards.at[5].add(3.0),
    actions=rollout.actions.at[4].set((rollout.actions[4] + 1) % 3),
  )
  step = jax.jit(an_agent.learner_step, static_argnums=5)
  one, _, _ = step(None, rollout, state, {}, {}, False)
  two, _, _ = step(None, other, state, {}, {}, False)
  golden.check_trees_close(one.params, two.params, 1e-7)
  three, _, _ = step(
    None,
    rollout.replace(rewards=rollout.rewards.at[4].add(3.0)),
    state,
    {},
    {},
    False,
  )
  with pytest.raises(AssertionError):
    golden.check_trees_close(one.params, three.params, 1e-7)


@pytest.mark.parametrize('rule', RULES)
def test_eight_devices_learn_as_one(rule):
  devices = jax.devices()
  assert len(devices) == 8
  an_agent, state, meta_params = _setting(rule)
  rng = jax.random.PRNGKey(1)
  rollout = small.act(an_agent, state.params, rng, 7, batch_size=16)
  # Episodes end anywhere, so shards have different numbers of masked steps.
  ends = jax.random.bernoulli(rng, 0.3, rollout.discounts.shape)
  rollout = rollout.replace(discounts=~ends)
  one, _, log = jax.jit(an_agent.learner_step, static_argnums=5)(
    rng, rollout, state, {}, meta_params, False
  )

  parallel = small.make_agent(rule, axis_name='devices')
  shards = utils.shard_across_devices(
    jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), rollout), devices
  )  # [D, B / D, T+1, ...]
  step = lambda shard, state: parallel.learner_step(
    rng,
    jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), shard),
    state,
    {},
    meta_params,
    False,
  )
  many, _, many_log = jax.pmap(step, axis_name='devices', in_axes=(0, None))(
    shards, state
  )
  for d in (0, 7):
    at = jax.tree.map(lambda x, d=d: np.asarray(x[d]), many)
    golden.check_trees_close(at, one, 2e-4)
    golden.check_trees_close({k: v[d] for k, v in many_log.items()}, log, 2e-4)


def test_policy_gradient_learns_catch():
  """End to end, with the critic of the agent."""
  config = agent.get_settings_policy_gradient()
  config.learning_rate = 3e-3
  env = small.environment(32)
  an_agent = agent.Agent(
    single_observation_spec=env.single_observation_spec(),
    single_action_spec=env.single_action_spec(),
    agent_settings=config,
    batch_axis_name=None,
  )
  rng = jax.random.PRNGKey(0)

  def iteration(carry, rng):
    state, env_state, timestep = carry

    def act(carry, rng):
      env_state, timestep = carry
      step, _ = an_agent.actor_step(state.params, rng, timestep, {})
      return env.step(env_state, step.actions), step

    (env_state, timestep), steps = jax.lax.scan(
      act, (env_state, timestep), jax.random.split(rng, 17)
    )
    rollout = types.ActorRollout.from_timestep(steps)
    state, _, _ = an_agent.learner_step(rng, rollout, state, {}, {}, False)
    ends = rollout.discounts == 0
    episode_return = jnp.sum(rollout.rewards * ends) / jnp.sum(ends)
    return (state, env_state, timestep), episode_return

  carry = (an_agent.initial_learner_state(rng), *env.reset(rng))
  _, returns = jax.jit(
    lambda carry: jax.lax.scan(iteration, carry, jax.random.split(rng, 200))
  )(carry)
  assert np.mean(returns[:10]) < 0.0
  assert np.mean(returns[-10:]) > 0.8


def test_critic_is_needed_where_the_rule_says_so():
  config = small.settings('policy_gradient')
  with config.unlocked():
    del config.value_fn
  with pytest.raises(ValueError, match='PolicyGradientUpdate needs a critic'):
    small.make_agent('policy_gradient', config)


@pytest.mark.parametrize(
  ('spec', 'message'),
  [
    (dm_env_specs.BoundedArray((2,), np.int32, 0, 2), r'got shape \(2,\)'),
    (dm_env_specs.BoundedArray((), np.float32, 0, 2), 'got dtype float32'),
    (dm_env_specs.BoundedArray((), np.int64, 0, 2), 'got dtype int64'),
    (dm_env_specs.BoundedArray((), np.int32, 1, 2), 'got minimum 1'),
    (dm_env_specs.Array((), np.int32), 'not a dm_env BoundedArray'),
  ],
)
def test_unsupported_action_specs_are_refused(spec, message):
  env = small.environment()
  with pytest.raises(ValueError, match=f'discrete int32.*{message}'):
    agent.Agent(
      single_observation_spec=env.single_observation_spec(),
      single_action_spec=spec,
      agent_settings=small.settings('disco'),
      batch_axis_name=None,
    )


def _changed(path, value):
  config = small.settings('disco')
  with config.unlocked():
    *parents, last = path.split('.')
    node = config
    for name in parents:
      node = node[name]
    node[last] = value
  return config


@pytest.mark.parametrize(
  ('path', 'value', 'error', 'message'),
  [
    ('update_rule_name', 'dqn', ValueError, "update rule 'dqn'"),
    ('net_settings.name', 'cnn', ValueError, "network 'cnn'"),
    ('net_settings.net_args.model_arch_name', 'gru', ValueError, "'gru'"),
    ('update_rule.net.name', 'gru', ValueError, "meta-network 'gru'"),
    ('update_rule.max_abs_value', 0.0, ValueError, 'positive, got 0.0'),
    ('net_settings.net_args.model_arch_name', None, ValueError, 'None'),
    ('update_rule.num_bins', 1, ValueError, 'num_bins must be at least 2'),
    ('hyper_params.pi_cots', 1.0, KeyError, r"unknown \['pi_cots'\]"),
  ],
)
def test_bad_settings_are_refused(path, value, error, message):
  with pytest.raises(error, match=message):
    small.make_agent('disco', _changed(path, value))


def test_building_does_not_change_the_settings():
  config = small.settings('disco')
  before = config.to_json_best_effort()
  small.make_agent('disco', config)
  assert config.to_json_best_effort() == before


@pytest.mark.parametrize(
  ('field', 'value', 'message'),
  [
    ('rewards', jnp.zeros((1, 3)), r'rewards must be \[T\+1, B\]'),
    ('rewards', jnp.zeros((4, 0)), r'rewards must be \[T\+1, B\]'),
    ('actions', jnp.zeros((3, 3), int), r'actions must start with \[4, 3\]'),
    ('logits', jnp.zeros((4, 2, 3)), r'logits must start with \[4, 3\]'),
    (
      'agent_outs',
      {'y': jnp.zeros((4, 1, 7)), 'logits': jnp.zeros((4, 3, 3))},
      r"agent_outs\['y'\] must",
    ),
    ('agent_outs', {}, r"agent_outs\['logits'\] is missing"),
  ],
)
def test_rollouts_whose_shapes_disagree_are_refused(field, value, message):
  an_agent, state, meta_params = _setting('disco')
  rollout = small.act(an_agent, state.params, jax.random.PRNGKey(1), 4)
  with pytest.raises(ValueError, match=message):
    an_agent.learner_step(
      None, rollout.replace(**{field: value}), state, {}, meta_params, False
    )


def test_timestep_conversions():
  an_agent, state, _ = _setting('actor_critic')
  rollout = small.act(an_agent, state.params, jax.random.PRNGKey(1), 6)
  timestep = types.ActorTimestep.from_rollout(rollout)
  assert type(timestep) is types.ActorTimestep
  again = types.ActorRollout.from_timestep(timestep)
  assert type(again) is types.ActorRollout
  jax.tree.map(np.testing.assert_array_equal, again, rollout)
  env_timestep = timestep.to_env_timestep()
  np.testing.assert_array_equal(
    env_timestep.step_type, np.where(rollout.discounts, 1, 2)
  )
  np.testing.assert_array_equal(env_timestep.reward, rollout.rewards)


def test_network_must_predict_what_the_rule_needs(monkeypatch):
  def forgetful(**kwargs):
    kwargs.pop('model_out_spec')
    return nets.get_network('mlp', **kwargs)

  monkeypatch.setitem(nets.NETWORKS, 'forgetful', forgetful)
  config = _changed('net_settings.name', 'forgetful')
  with pytest.raises(
    ValueError, match=r'predicts .* but the rule needs \w+ of'
  ):
    small.make_agent('disco', config)
