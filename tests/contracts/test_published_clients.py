"""Programs written for the published library run and learn with this one.

They use its public names only, in the ways of its notebooks and of libraries
that call a rule from a loss of their own. Sizes are small.
"""

import collections
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl import utils
from disco_rl.environments import jittable_envs
from disco_rl.value_fns import value_fn

NUM_DEVICES = 2
AXIS = 'i'


def _environment(batch_size):
  env_settings = jittable_envs.get_config_catch()
  env_settings.rows = env_settings.columns = 5
  return jittable_envs.CatchJittableEnvironment(batch_size, env_settings)


def _make_agent(env, settings):
  return agent_lib.Agent(
    single_observation_spec=env.single_observation_spec(),
    single_action_spec=env.single_action_spec(),
    agent_settings=settings,
    batch_axis_name=AXIS,
  )


def _unroll_actor(agent, env, params, env_state, timestep, actor_state, rngs):
  """Acts once for each of the keys."""

  def step(carry, rng):
    env_state, timestep, actor_state = carry
    actor_timestep, actor_state = agent.actor_step(
      actor_params=params, rng=rng, timestep=timestep, actor_state=actor_state
    )
    env_state, timestep = env.step(env_state, actor_timestep.actions)
    return (env_state, timestep, actor_state), actor_timestep

  carry, steps = jax.lax.scan(step, (env_state, timestep, actor_state), rngs)
  return carry, types.ActorRollout.from_timestep(steps)


def _replicate(tree):
  return jax.tree.map(lambda x: jnp.stack([x] * NUM_DEVICES), tree)


def test_evaluation_loop_with_a_replay_on_the_host():
  """Acts, stores trajectories as NumPy arrays, learns from samples."""
  rollout_length, num_envs, batch_size = 9, 32, 64
  env = _environment(num_envs)
  settings = agent_lib.get_settings_actor_critic()
  settings.learning_rate = 5e-3
  settings.hyper_params.entropy_cost = 0.05
  settings.update_rule.categorical_value = False
  settings.update_rule.nonlinear_value_transform = False
  agent = _make_agent(env, settings)
  assert agent.settings.learning_rate == 5e-3

  rng, env_rng, net_rng = jax.random.split(jax.random.PRNGKey(0), 3)
  learner_state = _replicate(agent.initial_learner_state(rng_key=net_rng))
  carry = (*env.reset(env_rng), agent.initial_actor_state(net_rng))
  act = jax.jit(
    lambda params, carry, rng: _unroll_actor(
      agent, env, params, *carry, jax.random.split(rng, rollout_length)
    )
  )

  def learn(rng, trajectories, learner_state):
    rollout = jax.tree.map(lambda x: x.swapaxes(0, 1), trajectories)
    new_learner_state, _, log = agent.learner_step(
      rng=rng,
      rollout=rollout,
      learner_state=learner_state,
      agent_net_state=rollout.first_state(time_axis=0),
      update_rule_params={},
      is_meta_training=False,
    )
    return new_learner_state, log

  devices = jax.devices()[:NUM_DEVICES]
  learn = jax.pmap(learn, axis_name=AXIS, devices=devices)

  replay: Any = collections.deque(maxlen=256)
  sampler = np.random.RandomState(0)
  returns = []
  for key in jax.random.split(rng, 120):
    params = jax.tree.map(lambda x: x[0], learner_state.params)
    carry, rollout = act(params, carry, key)
    rollout = jax.device_get(rollout)
    replay.extend(
      jax.tree.map(lambda x, i=i: x[:, i], rollout) for i in range(num_envs)
    )
    ends = rollout.discounts == 0
    returns.append(rollout.rewards[ends].mean())
    if len(replay) >= batch_size:
      sampled = sampler.randint(len(replay), size=batch_size)
      batch = jax.tree.map(
        lambda *xs: np.stack(xs), *[replay[i] for i in sampled]
      )
      batch = utils.shard_across_devices(batch, devices)
      keys = jax.random.split(key, NUM_DEVICES)
      learner_state, log = learn(keys, batch, learner_state)
  log = utils.gather_from_devices(log)
  assert all(value.shape == (NUM_DEVICES,) for value in log.values())
  assert {'entropy', 'total_loss', 'global_gradient_norm'} <= set(log)
  assert np.mean(returns[:10]) < -0.3
  assert np.mean(returns[-20:]) > 0.7


def _small_disco_settings():
  settings = agent_lib.get_settings_disco()
  settings.update_rule.num_bins = 11
  settings.update_rule.max_abs_value = 5.0
  probability = ('drop_last', 'softmax', 'stop_grad')
  policies = ('agent_out/logits', 'behaviour_agent_out/logits')
  settings.update_rule.net.update(
    prediction_size=7,
    hidden_size=10,
    embedding_size=(5, 1),
    # Few inputs: half the time to compile.
    input_option=types.MetaNetInputOption(
      base=[
        types.TransformConfig(source='rewards', transforms=['sign_log']),
        types.TransformConfig(
          source='is_terminal', transforms=['masks_to_discounts']
        ),
        types.TransformConfig(
          source='extra_from_rule/adv', transforms=['sign_log', 'stop_grad']
        ),
        types.TransformConfig(
          source='agent_out/y', transforms=['softmax', 'y_net', 'td_pair']
        ),
        types.TransformConfig(
          source='agent_out/z',
          transforms=['softmax', 'z_net', 'pi_weighted_avg', 'td_pair'],
        ),
      ],
      action_conditional=[
        types.TransformConfig(source=policy, transforms=probability)
        for policy in policies
      ],
    ),
  )
  settings.update_rule.net.meta_rnn_kwargs.hidden_size = 6
  settings.net_settings.net_args.dense = (16, 8)
  settings.net_settings.net_args.model_kwargs = dict(
    head_mlp_hiddens=(6,), lstm_size=5
  )
  settings.learning_rate = 3e-2
  return settings


def _entropy(logits):
  log_probs = jax.nn.log_softmax(logits)
  return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)


class _MetaTrainer:
  """One agent per device, all of them with one η."""

  length = 7

  def __init__(self, num_inner_steps):
    self.num_inner_steps = num_inner_steps
    self.env = _environment(4)
    self.agent = _make_agent(self.env, _small_disco_settings())
    config = types.ValueFnConfig(
      net='mlp',
      net_args=dict(
        dense=(6, 6),
        head_w_init_std=1e-2,
        action_spec=self.env.single_action_spec(),
      ),
      learning_rate=1e-3,
      max_abs_update=1.0,
      discount_factor=0.99,
      td_lambda=0.96,
      outer_value_cost=1.0,
    )
    self.value_fn = value_fn.ValueFunction(config, axis_name=AXIS)
    assert self.value_fn.config.td_lambda == 0.96
    self.optimizer = optax.adam(1e-2)

  def init(self, rng):
    """The state of the agent of one device."""
    env_state, timestep = self.env.reset(rng)
    learner_rng, actor_rng, value_rng = jax.random.split(rng, 3)
    return dict(
      learner=self.agent.initial_learner_state(learner_rng),
      value=self.value_fn.initial_state(value_rng, timestep.observation),
      actor=(env_state, timestep, self.agent.initial_actor_state(actor_rng)),
    )

  def step(self, rng, eta, opt_state, state, weights):
    """One meta-update, on each device; `weights` are the meta-loss's."""
    params = state['learner'].params
    act_rng, learn_rng = jax.random.split(rng)
    num_train = self.num_inner_steps * self.length
    carry, rollout = _unroll_actor(
      self.agent,
      self.env,
      params,
      *state['actor'],
      jax.random.split(act_rng, num_train + 2 * self.length),
    )
    train_rollouts = jax.tree.map(
      lambda x: x[:num_train].reshape(-1, self.length, *x.shape[1:]), rollout
    )
    valid_rollout = jax.tree.map(lambda x: x[num_train:], rollout)
    (meta_loss, aux), grads = jax.value_and_grad(self._meta_loss, has_aux=True)(
      eta, state, train_rollouts, valid_rollout, learn_rng, weights
    )
    grads, meta_loss = jax.lax.pmean((grads, meta_loss), AXIS)
    updates, opt_state = self.optimizer.update(grads, opt_state)
    log = dict(
      meta_loss=meta_loss,
      rewards=train_rollouts.rewards.sum(),
      grads=jax.tree.map(lambda g: jnp.max(jnp.abs(g)), grads),
    )
    state = dict(learner=aux[0], value=aux[1], actor=carry)
    return optax.apply_updates(eta, updates), opt_state, state, log

  def _meta_loss(self, eta, state, train_rollouts, valid_rollout, rng, weights):
    learner_state, value_state = state['learner'], state['value']
    regularizer = 0.0
    for i, step_rng in enumerate(jax.random.split(rng, self.num_inner_steps)):
      rollout = jax.tree.map(lambda x, i=i: x[i], train_rollouts)
      agent_out, _ = self.agent.unroll_net(
        agent_net_params=learner_state.params,
        agent_net_state=rollout.first_state(time_axis=0),
        rollout=rollout,
      )
      learner_state, _, log = self.agent.learner_step(
        step_rng,
        rollout,
        learner_state,
        rollout.first_state(time_axis=0),
        eta,
        is_meta_training=True,
      )
      value_state, _, _ = self.value_fn.update(
        value_state, rollout, jax.lax.stop_gradient(agent_out['logits'])
      )
      for name in ('y', 'z', 'pi'):
        regularizer += jnp.square(jnp.mean(log['meta_out'][name]))
    agent_out, _ = self.agent.unroll_net(
      learner_state.params, valid_rollout.first_state(0), valid_rollout
    )
    logits = agent_out['logits']
    value_out, _, _, _ = self.value_fn.get_value_outs(
      value_state, valid_rollout, logits
    )
    pg_loss = utils.differentiable_policy_gradient_loss(
      logits[:-1],
      valid_rollout.actions[:-1],
      value_out.normalized_adv,
      backprop=False,
    )
    meta_loss = (
      weights['policy_gradient'] * jnp.mean(pg_loss)
      + weights['entropy'] * jnp.mean(_entropy(logits[:-1]))
      + weights['targets'] * regularizer / self.num_inner_steps
    )
    return meta_loss, (learner_state, value_state)


@pytest.mark.slow
@pytest.mark.parametrize('num_inner_steps', [1, 2])
def test_meta_training_loop_on_two_devices(num_inner_steps):
  trainer = _MetaTrainer(num_inner_steps)
  rng, eta_rng, init_rng = jax.random.split(jax.random.PRNGKey(1), 3)
  eta, _ = trainer.agent.update_rule.init_params(eta_rng)
  opt_state = trainer.optimizer.init(eta)
  eta, opt_state = _replicate((eta, opt_state))
  devices = jax.devices()[:NUM_DEVICES]
  # All devices learn as one agent.
  states = jax.pmap(trainer.init, devices=devices)(
    jnp.stack([init_rng] * NUM_DEVICES)
  )
  step = jax.pmap(
    trainer.step,
    axis_name=AXIS,
    devices=devices,
    in_axes=(0, 0, 0, 0, None),
  )

  weights = dict(policy_gradient=1.0, entropy=-1e-2, targets=1e-3)
  losses = []
  for key in jax.random.split(rng, (3, NUM_DEVICES)):
    before = jax.device_get(eta)
    eta, opt_state, states, log = step(key, eta, opt_state, states, weights)
    losses.append(float(log['meta_loss'][0]))
    for leaf in jax.tree.leaves((eta, states['learner'].params)):
      np.testing.assert_array_equal(leaf[0], leaf[1])
  for module, grads in log['grads'].items():
    # The life-long LSTM changes the targets of later inner steps only.
    is_memory = 'meta_lstm' in module or module == 'lstm/linear_1'
    has_part = num_inner_steps > 1 or not is_memory
    for name, grad in grads.items():
      assert np.isfinite(grad).all()
      assert ((np.asarray(grad) > 0) == has_part).all(), (module, name)
      assert (np.asarray(eta[module][name]) != before[module][name]).any() == (
        has_part
      )
  assert np.isfinite(losses).all() and len(set(losses)) == len(losses)
  rewards = utils.gather_from_devices(log['rewards'])
  assert rewards.shape == (NUM_DEVICES,)

  # Advantages follow η but carry no gradient, so the sum of all terms need not
  # fall. The entropy after learning depends on η through the learning alone:
  # for the same experience, η is trained to lower it.
  weights = dict(policy_gradient=0.0, entropy=1.0, targets=0.0)
  entropies = []
  for _ in range(30):
    eta, opt_state, _, log = step(key, eta, opt_state, states, weights)
    entropies.append(float(log['meta_loss'][0]))
  assert np.isfinite(entropies).all()
  assert entropies[-1] < entropies[0] - 0.004
