"""Whole meta-updates: many agents, groups, lifetimes and devices."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disco_rl import compat
from disco_rl.environments import registry as environments
from disco_rl.meta_training import trainer as trainer_lib
from tests.support import golden
from tests.support import small_meta


@pytest.mark.slow
def test_eight_devices_are_shards_of_one():
  """The same experience on one device, mapped over shards.

  Agents are sharded over two rows of devices, their batches over the four of
  a row.
  """
  num_lane_shards = 2
  sizes = dict(batch_size=16, num_envs=16)
  many = small_meta.make_trainer(
    num_devices=8, num_lane_shards=num_lane_shards, lanes_at_once=1, **sizes
  )
  eta = many.init_params(jax.random.PRNGKey(1))
  key, step_key = jax.random.split(jax.random.PRNGKey(2))
  state = many.init(key, eta)
  state, log = many.update(state, step_key)

  num_shards = 8 // num_lane_shards
  shard = small_meta.make_meta_agent('batch', num_shards, **sizes)
  act_key, update_key = jax.random.split(step_key)

  def one_agent(keys):
    init_key, act_key, update_key = keys

    def of_shard(_):
      agent_state = shard.init(init_key)
      return shard.meta_gradient(eta, agent_state, act_key, update_key)

    return jax.vmap(of_shard, axis_name='batch')(jnp.arange(num_shards))

  results = jax.jit(lambda keys: jax.lax.map(one_agent, keys))(
    tuple(jax.random.split(k, 2) for k in (key, act_key, update_key))
  )
  for name, actual in log.per_agent.items():
    np.testing.assert_allclose(
      actual, results.log[name][:, 0], 2e-4, 1e-5, err_msg=name
    )
  grads = jax.tree.map(lambda x: x[:, 0].mean(0), results.grads)
  np.testing.assert_allclose(
    log.averages['meta_grad_norm'], compat.tree_norm(grads), 1e-3
  )
  # Adam's first step is about the sign of the gradient: of that part of it
  # which is more than rounding, η must have moved alike.
  scale = max(np.abs(x).max() for x in jax.tree.leaves(grads))
  num_compared = 0
  for grad, new, old in zip(
    *map(jax.tree.leaves, (grads, state.eta, eta)), strict=True
  ):
    is_large = np.abs(grad) > 1e-2 * scale
    num_compared += is_large.sum()
    np.testing.assert_allclose(
      (new - old)[is_large], -5e-4 * np.sign(grad)[is_large], 1e-2
    )
  assert num_compared > 100


def test_agents_on_two_devices_are_those_of_one():
  results = []
  for num_devices in (1, 2):
    trainer = small_meta.make_trainer(
      num_devices=num_devices, num_lane_shards=num_devices, lanes_at_once=1
    )
    state = trainer.init(
      jax.random.PRNGKey(2), trainer.init_params(jax.random.PRNGKey(1))
    )
    _, log = trainer.update(state, jax.random.PRNGKey(3))
    results.append((log.per_agent, log.averages['meta_grad_norm']))
  golden.check_trees_close(results[1], results[0], 1e-4)


@pytest.mark.slow
def test_vmapped_and_sequential_agents_are_the_same():
  results = []
  for at_once in (1, 2):  # Of three agents, two are vmapped, then one.
    trainer = small_meta.make_trainer(
      small_meta.make_group(num_agents=3), lanes_at_once=at_once
    )
    eta = trainer.init_params(jax.random.PRNGKey(1))
    state = trainer.init(jax.random.PRNGKey(2), eta)
    state, log = trainer.update(state, jax.random.PRNGKey(3))
    results.append((log.averages['meta_grad_norm'], state.eta))
  for norm, eta in results[1:]:
    np.testing.assert_allclose(norm, results[0][0], 1e-3)
    golden.check_trees_close(
      jax.device_get(eta), jax.device_get(results[0][1]), 1e-5
    )


@pytest.mark.slow
def test_groups_train_one_eta_with_an_adam_per_agent():
  """Compared with a loop over agents: η − (1/n)·Σ Adam(gᵢ)."""
  groups = (
    small_meta.make_group(num_agents=2),
    small_meta.make_group(num_agents=1, rows=6, dense=(7,)),
  )
  settings = dict(
    adam_per_agent=True,
    max_grad_norm=1e-3,
    max_abs_update=1.0,
    batch_size=6,
    num_envs=3,
    replay_capacity=12,
  )
  trainer = small_meta.make_trainer(*groups, **settings)
  eta = first_eta = trainer.init_params(jax.random.PRNGKey(1))
  key = jax.random.PRNGKey(2)
  state = trainer.init(key, eta)
  states = [
    jax.jit(trainer._meta_agents[g].init)(k)
    for g, k in zip((0, 0, 1), jax.random.split(key, 3), strict=True)
  ]
  optimizer = optax.chain(
    optax.clip_by_global_norm(1e-3),
    optax.scale_by_adam(),
    optax.clip(1.0),
    optax.scale(-5e-4),
  )
  opt_states = [optimizer.init(eta) for _ in range(3)]
  gradient_fns = [jax.jit(a.meta_gradient) for a in trainer._meta_agents]
  for i in range(2):
    step_key = jax.random.PRNGKey(10 + i)
    state, _ = trainer.update(state, step_key)
    act_keys, update_keys = (
      jax.random.split(k, 3) for k in jax.random.split(step_key)
    )
    updates = []
    for n, group in enumerate((0, 0, 1)):
      result = gradient_fns[group](eta, states[n], act_keys[n], update_keys[n])
      states[n] = result.state
      update, opt_states[n] = optimizer.update(result.grads, opt_states[n])
      updates.append(update)
    mean = jax.tree.map(lambda *xs: sum(xs) / 3, *updates)
    eta = optax.apply_updates(eta, mean)
  golden.check_trees_close(jax.device_get(state.eta), jax.device_get(eta), 2e-5)
  moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), eta, first_eta)
  assert max(jax.tree.leaves(moved)) > 1e-4
  buffer = state.groups[0].agents.buffer
  np.testing.assert_array_equal(buffer.num_added, [12, 12])


@pytest.mark.slow
def test_agents_are_reset_when_their_lifetime_ends():
  trainer = small_meta.make_trainer(lifetimes=(4, 8))
  eta = trainer.init_params(jax.random.PRNGKey(1))
  state = trainer.init(jax.random.PRNGKey(2), eta)
  left, opt_counts, resets = [], [], 0
  for i in range(8):
    state, log = trainer.update(state, jax.random.PRNGKey(i))
    resets += int(log.averages['num_resets'])
    left.append(np.asarray(state.groups[0].updates_left))
    opt_counts.append(
      np.asarray(state.groups[0].agents.learner.opt_state[0].count)
    )
  left, opt_counts = np.stack(left), np.stack(opt_counts)
  # Two inner updates per meta-update, and never more than the longest lifetime.
  assert (opt_counts % 2 == 0).all() and opt_counts.max() <= 8
  assert resets == (opt_counts[1:] == 2).sum() > 0
  assert (left <= 6).all()
  for n in range(2):
    for i in range(7):
      if left[i, n] <= 0:
        assert opt_counts[i + 1, n] == 2 and left[i + 1, n] in (2, 6)
      else:
        assert opt_counts[i + 1, n] == opt_counts[i, n] + 2


@pytest.mark.slow
def test_a_reset_keeps_only_the_optimizer_of_eta():
  """It resets agent, optimiser, target network, meta-state and critic."""
  trainer = small_meta.make_trainer(lifetimes=(4, 8), adam_per_agent=True)
  eta = trainer.init_params(jax.random.PRNGKey(1))
  state = trainer.init(jax.random.PRNGKey(2), eta)
  (group,) = state.groups
  aged = jax.tree.map(
    lambda x: x + 1 if jnp.issubdtype(x.dtype, jnp.floating) else x,
    (group.agents.learner, group.opt_states, state.eta),
  )
  learner, opt_states, eta = jax.device_get(aged)
  assert learner.critic is not None
  agents = group.agents._replace(learner=learner)
  group = group._replace(
    agents=agents,
    opt_states=opt_states,
    updates_left=jnp.asarray([0, 5], jnp.int32),
  )
  of = lambda tree, n: jax.device_get(jax.tree.map(lambda x: x[n], tree))
  other = of(agents, 1)
  rng = jax.random.PRNGKey(3)
  after = trainer._reset(
    state._replace(eta=eta, groups=(group,), num_over=jnp.ones([], jnp.int32)),
    rng,
  )
  fresh = jax.jit(trainer._meta_agents[0].init)(jax.random.split(rng, 2)[0])
  (group,) = after.groups
  golden.check_trees_close(of(group.agents, 0), jax.device_get(fresh), 1e-6)
  golden.check_trees_close(of(group.agents, 1), other, 0)
  golden.check_trees_close(jax.device_get(group.opt_states), opt_states, 0)
  golden.check_trees_close(jax.device_get(after.eta), eta, 0)
  assert after.num_over == 0
  drawn, kept = np.asarray(group.updates_left)
  assert drawn in (4, 8) and kept == 5


@pytest.mark.slow
def test_the_program_does_not_grow_with_the_number_of_agents():
  lines = []
  for num_agents in (1, 64):
    trainer = small_meta.make_trainer(small_meta.make_group(num_agents))
    rng = jax.random.PRNGKey(0)
    state = jax.eval_shape(trainer._init, rng, trainer.eta_spec)
    lines.append(len(trainer.trace(state, rng).lower().as_text().splitlines()))
  assert lines[0] == lines[1]


@pytest.mark.slow
def test_agents_with_a_memory_and_replay():
  group = small_meta.make_group(num_agents=1)
  with group.agent_settings.unlocked():
    group.agent_settings.net_settings.net_args.update(
      core='lstm', core_kwargs=dict(size=4)
    )
  trainer = small_meta.make_trainer(
    group, batch_size=4, num_envs=2, replay_capacity=8
  )
  rng = jax.random.PRNGKey(1)
  state = trainer.init(rng, trainer.init_params(rng))
  for i in range(2):
    state, log = trainer.update(state, jax.random.PRNGKey(i))
    assert log.averages['num_nonfinite_agents'] == 0
    assert {*trainer.average_names()} == {*log.averages}
    assert log.averages['meta_grad_norm'] > 0
  memory = jax.tree.leaves(state.groups[0].agents.buffer.data.states)
  assert any(np.abs(x).max() > 0 for x in memory)


@pytest.mark.slow
def test_a_nonfinite_agent_does_not_count_and_is_reset():
  trainer = small_meta.make_trainer()
  eta = trainer.init_params(jax.random.PRNGKey(1))
  state = trainer.init(jax.random.PRNGKey(2), eta)

  def break_agents(state, which):
    (group,) = state.groups
    params = jax.tree.map(
      lambda x: x.at[which].set(jnp.nan), group.agents.learner.params
    )
    learner = group.agents.learner.replace(params=params)
    agents = group.agents._replace(learner=learner)
    return state._replace(groups=(group._replace(agents=agents),))

  state, log = trainer.update(break_agents(state, 0), jax.random.PRNGKey(3))
  assert log.averages['num_nonfinite_agents'] == 1
  assert np.isfinite(log.averages['meta_grad_norm'])
  assert np.asarray(state.groups[0].updates_left)[0] == 0
  before = jax.device_get(state.eta)
  state = break_agents(state, 1)
  # The first is reset; the second is non-finite now: one is left.
  state, log = trainer.update(state, jax.random.PRNGKey(4))
  assert log.averages['num_resets'] == 1
  assert log.averages['num_nonfinite_agents'] == 1
  assert any(
    (a != b).any()
    for a, b in zip(
      jax.tree.leaves(before),
      jax.tree.leaves(jax.device_get(state.eta)),
      strict=True,
    )
  )
  before = jax.device_get((state.eta, state.opt_state))
  state = break_agents(state, jnp.arange(2))
  state = state._replace(
    groups=(state.groups[0]._replace(updates_left=jnp.full(2, 9, jnp.int32)),),
    num_over=jnp.zeros([], jnp.int32),
  )
  assert state.num_skipped == 0
  state, log = trainer.update(state, jax.random.PRNGKey(5))
  assert log.averages['num_nonfinite_agents'] == 2
  golden.check_trees_close(
    jax.device_get((state.eta, state.opt_state)), before, 0
  )
  assert state.num_skipped == 1


@pytest.mark.slow
def test_groups_have_returns_and_eta_an_optimizer_of_its_own(own_rule):
  """Returns by name of the group; η as a tree, one optimiser per agent."""
  settings = small_meta.with_critic(own_rule['agent_settings'])
  sizes = small_meta.config(
    num_inner_updates=1,
    rollout_length=8,
    batch_size=4,
    num_envs=4,
    adam_per_agent=True,
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
  over = state.groups[0]._replace(updates_left=jnp.zeros(1, jnp.int32))
  state = trainer._reset(state._replace(groups=(over, state.groups[1])), rng)
  near, far = (group.agents.episodes.length for group in state.groups)
  np.testing.assert_array_equal(near, -np.ones((1, 4)))
  assert (np.asarray(far) > 0).all()
