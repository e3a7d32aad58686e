"""Meta-training: identities between its ways of computing the same thing."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disco_rl import compat
from disco_rl.learning import mixed_mode
from disco_rl.meta_training import config as config_lib
from tests.support import golden
from tests.support import small
from tests.support import small_meta


def _in_float64(tree):
  return jax.tree.map(
    lambda x: jnp.asarray(
      x, jnp.float64 if jnp.issubdtype(x.dtype, jnp.floating) else x.dtype
    ),
    tree,
  )


@pytest.mark.parametrize(
  ('dtype', 'tolerance'), [(np.float64, 1e-9), (np.float32, 1e-4)]
)
def test_mixed_mode_is_plain_reverse_mode(dtype, tolerance):
  """On a small network with everything a learner step has."""

  def loss_fn(theta, targets, data):
    hidden = jnp.tanh(data @ theta['w'] + theta['b'])
    frozen = jax.lax.stop_gradient(jnp.roll(hidden, 1, 0))
    loss = jnp.sum(jnp.square(hidden - targets['y'])) + jnp.sum(
      hidden * frozen * jnp.exp(targets['scale'])
    )
    return loss, dict(size=jnp.sum(hidden))

  def after_steps(gradient_fn, eta, theta, data):
    for _ in range(3):
      targets = dict(
        y=jnp.sin(eta * jnp.sum(data @ theta['w'], 0)), scale=eta**2
      )
      grads, (_, aux) = gradient_fn(theta, targets, data)
      theta = jax.tree.map(lambda x, g: x - 0.1 * g, theta, grads)
    return jnp.sum(jnp.cos(theta['w'])) + 0 * aux['size']

  def plain(theta, targets, data):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(
      theta, targets, data
    )
    return grads, (loss, aux)

  with small.enable_x64(True):
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    theta = dict(
      w=jax.random.normal(keys[0], (4, 5), dtype),
      b=jax.random.normal(keys[1], (5,), dtype),
    )
    data = jax.random.normal(keys[2], (6, 4), dtype)
    results = [
      jax.grad(after_steps, argnums=(1, 2))(fn, dtype(0.3), theta, data)
      for fn in (plain, mixed_mode.gradient(loss_fn))
    ]
    golden.check_trees_close(*map(jax.device_get, results), tolerance)
    assert abs(results[0][0]) > 1e-3


@pytest.mark.slow
def test_all_ways_to_the_meta_gradient_are_one():
  """Inner updates rematerialised or not, in reverse mode and mixed mode.

  In float64 to 1e-9, and in float32 to 1e-4 of the largest derivative.
  """
  eta, _ = small.make_agent('disco').update_rule.init_params(
    jax.random.PRNGKey(1)
  )
  sizes = dict(num_inner_updates=3)
  first = small_meta.make_meta_agent(**sizes)
  keys = jax.random.split(jax.random.PRNGKey(3), 3)
  state = jax.jit(first.init)(keys[0])
  state, train, valid = jax.jit(first.act)(state, keys[1])
  inputs = (eta, state, train, valid)

  def gradient(inputs, **changes):
    an_agent = small_meta.make_meta_agent(**sizes, **changes)
    result = jax.jit(an_agent.differentiate)(*inputs, keys[2])
    return jax.device_get(result.grads)

  plainly = dict(num_kept_updates=None, meta_gradient_mode='reverse')
  ways = [
    dict(num_kept_updates=0, meta_gradient_mode='mixed'),
    dict(num_kept_updates=0, meta_gradient_mode='reverse'),
    dict(num_kept_updates=None, meta_gradient_mode='mixed'),
    dict(num_kept_updates=1),
  ]
  with small.enable_x64(True):
    plain = gradient(_in_float64(inputs), **plainly)
    for way in ways:
      _check_gradients(gradient(_in_float64(inputs), **way), plain, 1e-9)
    assert all(x.dtype == np.float64 for x in jax.tree.leaves(plain))
  plain = gradient(inputs, **plainly)
  _check_gradients(gradient(inputs, **ways[0]), plain, 1e-4)


def _check_gradients(actual, wanted, tolerance):
  scale = max(np.abs(x).max() for x in jax.tree.leaves(wanted))
  assert scale > 1e-3
  for a, b in zip(*map(jax.tree.leaves, (actual, wanted)), strict=True):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale)


def test_segments_of_a_window():
  """The first update alone, then those made again, then those kept."""
  make = lambda n, **kw: config_lib.Config(num_inner_updates=n, **kw)
  assert make(2).segments(2) == [(0, 1, False), (1, 2, False)]
  assert make(20).segments(20) == [
    (0, 1, False),
    (1, 14, True),
    (14, 20, False),
  ]
  least = make(20, num_kept_updates=0)
  assert least.segments(20) == [(0, 1, True), (1, 20, True)]
  plain = make(20, num_kept_updates=None)
  assert plain.segments(20) == [(0, 1, False), (1, 20, False)]
  assert make(1, num_kept_updates=0).segments(1) == [(0, 1, True)]
  assert make(1).segments(1) == [(0, 1, False)]


@pytest.mark.slow
def test_eight_devices_are_shards_of_one():
  """The same experience on one device, mapped over shards.

  Agents are spread over two rows of devices, their batches over the four of a
  row.
  """
  num_agent_shards = 2
  sizes = dict(batch_size=16, agents_at_once=1)
  many = small_meta.make_trainer(
    num_devices=8, num_agent_shards=num_agent_shards, **sizes
  )
  eta = many.init_params(jax.random.PRNGKey(1))
  key, step_key = jax.random.split(jax.random.PRNGKey(2))
  state = many.init(key, eta)
  state, log = many.update(state, step_key)

  num_shards = 8 // num_agent_shards
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


@pytest.mark.slow
def test_one_batch_in_shards_has_the_gradient_of_the_whole():
  """On the same data: eight devices against one that sees all of it."""
  whole = small_meta.make_meta_agent(batch_size=16)
  eta, _ = small.make_agent('disco').update_rule.init_params(
    jax.random.PRNGKey(1)
  )
  keys = jax.random.split(jax.random.PRNGKey(3), 3)
  state = jax.jit(whole.init)(keys[0])
  state, train, valid = jax.jit(whole.act)(state, keys[1])
  state = state._replace(actor=None)
  wanted = jax.jit(whole.differentiate)(eta, state, train, valid, keys[2])

  shard = small_meta.make_meta_agent('batch', 8, batch_size=16)
  spec = jax.sharding.PartitionSpec
  mesh = jax.sharding.Mesh(np.asarray(jax.devices()), ('batch',))
  actual = jax.jit(
    compat.shard_map(
      shard.differentiate,
      mesh,
      in_specs=(
        spec(),
        spec(),
        spec(None, None, 'batch'),
        spec(None, 'batch'),
        spec(),
      ),
      out_specs=spec(),
    )
  )(eta, state, train, valid, keys[2])
  for a, b in zip(
    jax.tree.leaves(wanted.grads), jax.tree.leaves(actual.grads), strict=True
  ):
    np.testing.assert_allclose(b, a, rtol=2e-3, atol=2e-4 * np.abs(a).max())
  golden.check_trees_close(
    jax.device_get(actual.state.learner.params),
    jax.device_get(wanted.state.learner.params),
    2e-4,
  )
  for name, value in wanted.log.items():
    np.testing.assert_allclose(actual.log[name], value, 2e-4, 1e-5)


@pytest.mark.slow
def test_lockstep_and_turns_are_the_same():
  results = []
  for at_once in (1, 2):  # Of three: two in lockstep, then one.
    trainer = small_meta.make_trainer(
      small_meta.make_group(num_agents=3), agents_at_once=at_once
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
  """Against a loop over agents: η − (1/n)·Σ Adam(gᵢ)."""
  groups = (
    small_meta.make_group(num_agents=2),
    small_meta.make_group(num_agents=1, rows=6, dense=(7,)),
  )
  settings = dict(
    adam_per_agent=True,
    max_grad_norm=1e-3,
    max_abs_update=1.0,
    replay_fraction=0.5,
    batch_size=6,
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
def test_lives_end_and_begin_anew():
  trainer = small_meta.make_trainer(lifetimes=(4, 8))
  eta = trainer.init_params(jax.random.PRNGKey(1))
  state = trainer.init(jax.random.PRNGKey(2), eta)
  lives, opt_counts, resets = [], [], 0
  for i in range(8):
    state, log = trainer.update(state, jax.random.PRNGKey(i))
    resets += int(log.averages['num_resets'])
    lives.append(np.asarray(state.groups[0].updates_left))
    opt_counts.append(
      np.asarray(state.groups[0].agents.learner.opt_state[0].count)
    )
  lives, opt_counts = np.stack(lives), np.stack(opt_counts)
  # Two inner updates per meta-update, and never older than the longest life.
  assert (opt_counts % 2 == 0).all() and opt_counts.max() <= 8
  assert resets == (opt_counts[1:] == 2).sum() > 0
  assert (lives <= 6).all()
  for n in range(2):
    for i in range(7):
      if lives[i, n] <= 0:
        assert opt_counts[i + 1, n] == 2 and lives[i + 1, n] in (2, 6)
      else:
        assert opt_counts[i + 1, n] == opt_counts[i, n] + 2


@pytest.mark.slow
def test_a_new_life_forgets_all_but_what_it_taught():
  """Agent, optimiser, target network, meta-state and critic; not the Adam."""
  trainer = small_meta.make_trainer(lifetimes=(4, 8), adam_per_agent=True)
  eta = trainer.init_params(jax.random.PRNGKey(1))
  state = trainer.init(jax.random.PRNGKey(2), eta)
  (group,) = state.groups
  aged = jax.tree.map(
    lambda x: x + 1 if jnp.issubdtype(x.dtype, jnp.floating) else x,
    (group.agents.learner, group.agents.critic, group.opt_states, state.eta),
  )
  learner, critic, opt_states, eta = jax.device_get(aged)
  agents = group.agents._replace(learner=learner, critic=critic)
  group = group._replace(agents=agents, opt_states=opt_states)
  of = lambda tree, n: jax.device_get(jax.tree.map(lambda x: x[n], tree))
  other = of(agents, 1)
  rng = jax.random.PRNGKey(3)
  after = trainer._reset(
    state._replace(eta=eta, groups=(group,)),
    rng,
    (np.array([True, False]),),
  )
  newborn = jax.jit(trainer._meta_agents[0].init)(jax.random.split(rng, 2)[0])
  (group,) = after.groups
  golden.check_trees_close(of(group.agents, 0), jax.device_get(newborn), 1e-6)
  golden.check_trees_close(of(group.agents, 1), other, 0)
  golden.check_trees_close(jax.device_get(group.opt_states), opt_states, 0)
  golden.check_trees_close(jax.device_get(after.eta), eta, 0)


def test_batches_are_the_fresh_trajectories_and_replayed_ones():
  an_agent = small_meta.make_meta_agent(
    batch_size=6, replay_fraction=0.5, replay_capacity=12
  )
  act = jax.jit(an_agent.act)
  state = jax.jit(an_agent.init)(jax.random.PRNGKey(0))
  seen_old = False
  for i in range(2):
    state, batches, _ = act(state, jax.random.PRNGKey(i))
    stored = np.asarray(state.buffer.data.logits)  # [12, L, A]
    logits = np.moveaxis(batches.logits, 2, 1)  # [N, B, L, A]
    assert logits.shape[:2] == (2, 6)
    for n in range(2):
      first = 6 * i + 3 * n
      np.testing.assert_array_equal(logits[n, :3], stored[first : first + 3])
      for replayed in logits[n, 3:]:
        (rows,) = (stored == replayed).all(axis=(1, 2)).nonzero()
        assert rows.size and rows[0] < 6 * (i + 1)
        seen_old |= rows[0] < 6 * i
  assert seen_old


def test_replay_keeps_one_network_state_per_trajectory():
  """The first, as the replay of evaluation does; shapes only."""
  settings = small.settings('policy_gradient')
  with settings.unlocked():
    settings.net_settings.net_args.update(core='lstm', core_kwargs=dict(size=4))
  an_agent = small_meta.make_meta_agent(
    settings=settings, batch_size=4, replay_fraction=0.5, replay_capacity=8
  )
  rng = jax.random.PRNGKey(0)
  state, train, valid = jax.eval_shape(
    lambda: an_agent.act(an_agent.init(rng), rng)
  )
  stored = jax.tree.leaves(state.buffer.data.states)
  assert stored and all(x.shape[:2] == (8, 1) for x in stored)
  assert state.buffer.data.rewards.shape == (8, 7)
  for x in jax.tree.leaves(train.states):
    assert x.shape[:3] == (2, 1, 4)
  for x in jax.tree.leaves(valid.states):
    assert x.shape[:2] == (1, 2)


@pytest.mark.slow
def test_the_program_does_not_grow_with_the_number_of_agents():
  lines = []
  for num_agents in (1, 64):
    trainer = small_meta.make_trainer(small_meta.make_group(num_agents))
    rng = jax.random.PRNGKey(0)
    state = jax.eval_shape(trainer._init, rng, trainer.eta_spec)
    lines.append(len(trainer.lower(state, rng).as_text().splitlines()))
  assert lines[0] == lines[1]


@pytest.mark.slow
def test_agents_with_a_memory_and_replay():
  group = small_meta.make_group(num_agents=1)
  with group.agent_settings.unlocked():
    group.agent_settings.net_settings.net_args.update(
      core='lstm', core_kwargs=dict(size=4)
    )
  trainer = small_meta.make_trainer(
    group, batch_size=4, replay_fraction=0.5, replay_capacity=8
  )
  rng = jax.random.PRNGKey(1)
  state = trainer.init(rng, trainer.init_params(rng))
  for i in range(2):
    state, log = trainer.update(state, jax.random.PRNGKey(i))
    assert log.averages['num_bad_agents'] == 0
    assert log.averages['meta_grad_norm'] > 0
  memory = jax.tree.leaves(state.groups[0].agents.buffer.data.states)
  assert any(np.abs(x).max() > 0 for x in memory)


def test_lifetimes_are_drawn_with_weight_one_over_lifetime():
  trainer = small_meta.make_trainer(lifetimes=(10, 40))
  keys = jax.random.split(jax.random.PRNGKey(0), 4000)
  drawn = np.asarray(jax.vmap(trainer._sample_lifetime)(keys))
  assert set(drawn.tolist()) == {10, 40}
  np.testing.assert_allclose((drawn == 10).mean(), 0.8, atol=0.03)


@pytest.mark.slow
def test_an_agent_that_breaks_does_not_count_and_begins_anew():
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
  assert log.averages['num_bad_agents'] == 1
  assert np.isfinite(log.averages['meta_grad_norm'])
  assert np.asarray(state.groups[0].updates_left)[0] == 0
  before = jax.device_get(state.eta)
  state = break_agents(state, 1)
  # The first begins anew; the second breaks now: one is left.
  state, log = trainer.update(state, jax.random.PRNGKey(4))
  assert log.averages['num_resets'] == 1
  assert log.averages['num_bad_agents'] == 1
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
    groups=(state.groups[0]._replace(updates_left=jnp.full(2, 9, jnp.int32)),)
  )
  state, log = trainer.update(state, jax.random.PRNGKey(5))
  assert log.averages['num_bad_agents'] == 2
  golden.check_trees_close(
    jax.device_get((state.eta, state.opt_state)), before, 0
  )


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    (dict(num_inner_updates=0), 'num_inner_updates must be at least 1'),
    (dict(rollout_length=1), 'rollout_length must be at least 2'),
    (dict(replay_fraction=1.0), r'replay_fraction must be in \[0, 1\)'),
    (dict(replay_fraction=0.5, replay_capacity=17), 'multiple of the 16'),
    (dict(replay_fraction=0.5, replay_capacity=16), 'must hold the 32'),
    (dict(lifetimes=(1, 20)), r'at least num_inner_updates \(2\), got \[1\]'),
    (dict(agents_at_once=0), 'agents_at_once must be at least 1'),
    (dict(meta_gradient_mode='auto?'), 'did you mean auto'),
    (dict(num_kept_updates=-1), 'num_kept_updates must be at least 0'),
    (dict(learning_rate=0.0), 'learning_rate must be positive'),
  ],
)
def test_nonsense_is_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    config_lib.Config(**changes)


def test_groups_that_cannot_train_together_are_refused():
  other = small_meta.make_group()
  other.agent_settings.update_rule.net.hidden_size = 12
  with pytest.raises(ValueError, match='the parameters of group 1 do not fit'):
    small_meta.make_trainer(small_meta.make_group(), other)
  with pytest.raises(ValueError, match='cannot be spread over 8 devices'):
    small_meta.make_trainer(num_devices=8)
  with pytest.raises(ValueError, match=r'2 agents .* over 8 rows'):
    small_meta.make_trainer(num_devices=8, num_agent_shards=8)
  with pytest.raises(ValueError, match='at least one group'):
    small_meta.trainer.Trainer([], config_lib.Config())
