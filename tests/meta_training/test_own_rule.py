"""Rules, regularisers and optimisers of one's own are meta-trained."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disco_rl import agent
from disco_rl.config import agents as settings_lib
from disco_rl.environments import registry as environments
from disco_rl.meta_training import config as config_lib
from disco_rl.meta_training import meta_train as training
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.update_rules import policy_gradient
from disco_rl.update_rules import registry
from tests.support import small
from tests.support import small_meta

DOCUMENT = pathlib.Path(__file__).parents[2] / 'docs' / 'your_own_rule.md'


@pytest.fixture(scope='module')
def documented():
  """What the how-to defines and computes, all its blocks run in order."""
  text = DOCUMENT.read_text(encoding='utf-8')
  names = {}
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(registry, 'UPDATE_RULES', dict(registry.UPDATE_RULES))
    patch.setattr(settings_lib, 'SETTINGS', dict(settings_lib.SETTINGS))
    for block in re.findall(r'```python\n(.*?)```', text, flags=re.DOTALL):
      exec(compile(block, DOCUMENT.name, 'exec'), names)
    yield names


def _in_float64(tree):
  return jax.tree.map(
    lambda x: jnp.asarray(
      x, jnp.float64 if jnp.issubdtype(x.dtype, jnp.floating) else x.dtype
    ),
    tree,
  )


def test_the_document_trains_a_number(documented):
  result, tuned = documented['result'], documented['tuned']
  first = np.log(0.2)
  for trained in (result, tuned):
    (log_cost,) = jax.tree.leaves(trained.eta)
    assert np.isfinite(log_cost) and abs(log_cost - first) > 1e-3
    assert {'return/catch', 'episodes/catch'} < set(trained.rows[0])
  # The loop of the document is that of `meta_train`.
  np.testing.assert_equal(documented['rows'], result.rows)
  # The regulariser is 0 where η begins, and then grows with it.
  values = [row['regularizer'] for row in tuned.rows]
  assert values[0] == 0 and values[-1] > 0
  assert 'regularizer' not in result.rows[0]


def test_groups_have_returns_and_eta_an_optimizer_of_its_own(documented):
  """Returns by name of the group; η as a tree, one optimiser per agent."""
  settings = documented['agent_settings']
  sizes = config_lib.Config(
    num_inner_updates=1, rollout_length=8, batch_size=4, adam_per_agent=True
  )
  make = lambda rows, **names: trainer_lib.Group(
    environments.environment_fn('catch', rows=rows, columns=5),
    settings,
    num_agents=1,
    **names,
  )
  groups = [make(5, name='near'), make(40, name='far')]
  seen = []

  def halve(updates, state, params=None):
    seen.append((jax.tree.structure(updates), jax.tree.structure(params)))
    return jax.tree.map(lambda g, p: 0 * g - 0.5 * p, updates, params), state

  optimizer = optax.GradientTransformation(lambda _: (), halve)
  trainer = trainer_lib.Trainer(groups, sizes, meta_optimizer=optimizer)
  rng = jax.random.PRNGKey(0)
  eta = trainer.init_params(rng)
  state = trainer.init(rng, eta)
  # Catch gives +1 or −1 at the end of an episode, and 0 before.
  totals = dict(near=[0.0, 0.0], far=[0.0, 0.0])
  for i in range(2):
    state, log = trainer.update(state, jax.random.PRNGKey(i))
    averages = log.averages
    for n, name in enumerate(('near', 'far')):
      episodes = averages[f'episodes/{name}']
      assert episodes == log.per_agent['num_episodes'][n]
      totals[name][0] += episodes
      if episodes:
        totals[name][1] += episodes * averages[f'return/{name}']
    assert np.isnan(averages['return/far']) == (averages['episodes/far'] == 0)
  structure = jax.tree.structure(eta)
  assert seen and set(seen) == {(structure, structure)}
  np.testing.assert_allclose(
    state.eta['entropy_cost']['log'], 0.25 * np.log(0.2), 1e-6
  )
  # In 4 environments 24 steps per meta-update, 47 transitions in all; an
  # episode takes one less than there are rows.
  assert totals['near'][0] == 4 * (47 // 4)
  assert totals['far'][0] == 4 * (47 // 39)
  for episodes, total in totals.values():
    # A sum of +1 and −1.
    assert abs(total) <= episodes and (round(total) - episodes) % 2 == 0
    np.testing.assert_allclose(total, round(total), atol=1e-5)
  running = state.groups[0].agents.episodes
  np.testing.assert_array_equal(running.length, [[3, 3, 3, 3]])
  # They are reset with their agent.
  state = trainer._reset(state, rng, (np.array([True]), np.array([False])))
  near, far = (group.agents.episodes.length for group in state.groups)
  np.testing.assert_array_equal(near, -np.ones((1, 4)))
  assert (np.asarray(far) > 0).all()


def test_a_trainer_refuses(documented):
  group = documented['group']
  with pytest.raises(ValueError, match='different names'):
    trainer_lib.Trainer([group, group], documented['sizes'])
  for change in (dict(learning_rate=1e-3), dict(max_grad_norm=1.0)):
    with pytest.raises(ValueError, match='which a meta_optimizer replaces'):
      trainer_lib.Trainer(
        [group], config_lib.Config(**change), meta_optimizer=optax.sgd(1.0)
      )


@pytest.mark.parametrize(
  ('num_updates', 'mode'), [(1, 'reverse'), (2, 'mixed')]
)
def test_the_meta_gradient_of_an_entropy_cost(documented, num_updates, mode):
  """Against plain `jax.grad` by hand, and against finite differences.

  Those are exact for one inner update by SGD: with more of them, gradients are
  stopped on purpose where values are bootstrapped.
  """
  an_agent = small_meta.make_meta_agent(
    settings=documented['agent_settings'],
    optimizer=optax.sgd(0.3),
    num_inner_updates=num_updates,
    meta_gradient_mode=mode,
  )
  keys = jax.random.split(jax.random.PRNGKey(3), 3)
  state, train, valid = jax.jit(
    lambda: an_agent.act(an_agent.init(keys[0]), keys[1])
  )()
  learner_agent, critic = an_agent._agent, an_agent._critic

  def by_hand(eta, state, train, valid, advantages):
    learner, values = state.learner, state.critic
    for n in range(num_updates):
      rollout = jax.tree.map(lambda x, n=n: x[n], train)
      outs, _ = learner_agent.unroll_net(learner.params, {}, rollout)
      values, _, _ = critic.update(
        values, rollout, jax.lax.stop_gradient(outs['logits'])
      )
      learner, _, _ = learner_agent.learner_step(
        keys[2], rollout, learner, {}, eta, is_meta_training=True
      )
    outs, _ = learner_agent.unroll_net(learner.params, {}, valid)
    if advantages is None:
      out, *_ = critic.get_value_outs(values, valid, outs['logits'])
      advantages = jax.lax.stop_gradient(out.normalized_adv)
    log_pi = jax.nn.log_softmax(outs['logits'][:-1])
    taken = jnp.take_along_axis(log_pi, valid.actions[:-1, :, None], -1)[..., 0]
    entropy = -jnp.sum(jnp.exp(log_pi) * log_pi, -1)
    loss = -jnp.mean(taken * advantages) - 0.01 * jnp.mean(entropy)
    return loss, advantages

  eta, _ = learner_agent.update_rule.init_params(keys[0])
  with small.enable_x64(True):
    inputs = _in_float64((eta, state, train, valid))
    wanted, advantages = jax.jit(jax.grad(by_hand, has_aux=True))(*inputs, None)
    wanted = wanted['entropy_cost']['log']
    assert abs(wanted) > 1e-7
    result = jax.jit(an_agent.differentiate)(*inputs, keys[2])
    actual = result.grads['entropy_cost']['log']
    np.testing.assert_allclose(actual, wanted, 1e-8)
    if num_updates == 1:
      loss = jax.jit(lambda eta: by_hand(eta, *inputs[1:], advantages)[0])
      step = 1e-3
      ends = [
        loss(jax.tree.map(lambda x, d=d: x + d, inputs[0]))
        for d in (step, -step)
      ]
      np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), wanted, 1e-5)


class ScaledAdvantages(policy_gradient.PolicyGradientUpdate):
  """Has a critic, whole numbers among its targets, and η that is no dict."""

  def init_params(self, rng):
    return (jax.random.uniform(rng, (2,)),), {}

  def unroll_meta_net(self, meta_params, *args):
    meta_out, meta_state = super().unroll_meta_net(meta_params, *args)
    rollout = args[3]
    scales = jnp.asarray(meta_params[0])
    return dict(meta_out, scales=scales, taken=rollout.actions), meta_state

  def agent_loss(self, rollout, meta_out, hyper_params, backprop):
    loss, log = super().agent_loss(rollout, meta_out, hyper_params, backprop)
    scale = meta_out['scales'][meta_out['taken'][:-1] % 2]
    return loss * scale * rollout.value_out.rho, log


def test_any_rule_can_be_differentiated_in_both_modes(monkeypatch):
  monkeypatch.setitem(registry.UPDATE_RULES, 'scaled', ScaledAdvantages)
  settings = small.settings('policy_gradient')
  settings.update_rule_name = 'scaled'
  make = lambda **changes: small_meta.make_meta_agent(
    settings=settings, num_kept_updates=0, **changes
  )
  keys = jax.random.split(jax.random.PRNGKey(3), 3)
  first = make()
  state, train, valid = jax.jit(
    lambda: first.act(first.init(keys[0]), keys[1])
  )()
  eta, _ = ScaledAdvantages().init_params(keys[2])
  with small.enable_x64(True):
    inputs = _in_float64((eta, state, train, valid))
    grads = [
      jax.jit(make(meta_gradient_mode=mode).differentiate)(
        *inputs, keys[2]
      ).grads[0]
      for mode in ('mixed', 'reverse')
    ]
    assert np.abs(grads[0]).min() > 1e-6
    np.testing.assert_allclose(*grads, 1e-8)


def test_weights_by_name(documented):
  bounded = documented['Bounded']()
  settings = documented['agent_settings'].copy_and_resolve_references()
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(registry.UPDATE_RULES, 'bounded', type(bounded))
    settings.update_rule_name = 'bounded'
    regularizer = lambda eta, meta_out, agent_out: (
      2 * eta['entropy_cost']['log'] + 0 * jnp.sum(agent_out['logits'])
    )
    make = lambda weights: small_meta.make_meta_agent(
      settings=settings,
      regularizer=regularizer,
      weights=weights,
      num_inner_updates=1,
    )
    an_agent = make(documented['weights'])
    rng = jax.random.PRNGKey(0)
    eta, _ = bounded.init_params(rng)

    def log_of(an_agent):
      return lambda: (
        an_agent.meta_gradient(eta, an_agent.init(rng), rng, rng).log
      )

    log = jax.jit(log_of(an_agent))()
    wanted = (
      log['policy_gradient']
      - 0.01 * log['entropy']
      + 1e-3 * np.log(2) ** 2
      + 2 * np.log(0.2)
    )
    np.testing.assert_allclose(log['meta_loss'], wanted, 1e-5)
    np.testing.assert_allclose(log['distance'], np.log(2) ** 2, 1e-5)
    np.testing.assert_allclose(log['regularizer'], 2 * np.log(0.2), 1e-5)
    # Defaults that do not apply are left out, whatever else is refused.
    jax.eval_shape(log_of(make(config_lib.MetaLossWeights(entropy=0.0))))
    for wrong in (
      config_lib.MetaLossWeights(y_mean=0.5),
      dict(policy_gradient=1.0, y_mean=0.5),
    ):
      with pytest.raises(ValueError, match=r"\['y_mean'\], which are no terms"):
        jax.eval_shape(log_of(make(wrong)))


def test_an_optimizer_of_the_agent_replaces_that_of_the_settings():
  env = small.environment()
  an_agent = agent.Agent(
    single_observation_spec=env.single_observation_spec(),
    single_action_spec=env.single_action_spec(),
    agent_settings=small.settings('policy_gradient'),
    batch_axis_name=None,
    optimizer=optax.sgd(0.0),
  )
  state = an_agent.initial_learner_state(jax.random.PRNGKey(0))
  rollout = small.act(an_agent, state.params, jax.random.PRNGKey(1), 6)
  after, _, log = jax.jit(an_agent.learner_step, static_argnums=5)(
    jax.random.PRNGKey(2), rollout, state, {}, {}, False
  )
  assert log['global_gradient_norm'] > 0 and log['global_update_norm'] == 0
  jax.tree.map(np.testing.assert_array_equal, after.params, state.params)


def test_a_rule_without_parameters_is_refused():
  group = trainer_lib.Group(
    environments.environment_fn('catch', rows=5, columns=4),
    small.settings('actor_critic'),
  )
  with pytest.raises(ValueError, match='has no parameters'):
    trainer_lib.Trainer([group], config_lib.Config())


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (dict(envs='catch_numpy'), 'runs on the host, outside of JAX'),
    (dict(envs=['catch', 'catch']), 'different names'),
    (
      dict(envs='catch', env_settings=dict(cath={})),
      r"env_settings of \['cath",
    ),
    (dict(envs='catch', init='actor_critic'), 'has no parameters to train'),
    (dict(envs='catch', init={'m': {'w': np.ones(2)}}), 'do not fit'),
    (dict(envs=[]), 'at least one group'),
  ],
)
def test_meta_train_refuses(arguments, message):
  with pytest.raises(ValueError, match=message):
    training.meta_train(**arguments)


def test_a_trained_rule_is_trained_on_gently(documented, monkeypatch):
  """Its learning rate is small unless a config says otherwise."""
  seen = []

  class SeenError(Exception):
    pass

  def stop(groups, config, **arguments):
    seen.append(config.learning_rate)
    raise SeenError

  monkeypatch.setattr(trainer_lib, 'Trainer', stop)
  eta = documented['result'].eta
  sizes = config_lib.Config(learning_rate=0.1)
  for arguments in (
    dict(),
    dict(init=eta),
    dict(init=eta, config=sizes),
    dict(init=eta, meta_optimizer=optax.sgd(1.0)),
  ):
    with pytest.raises(SeenError):
      training.meta_train('catch', **arguments)
  assert seen == [5e-4, 1e-5, 0.1, 5e-4]
