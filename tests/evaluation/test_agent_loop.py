"""The loop of one agent, as pure functions."""

import re

import jax
import numpy as np
import pytest

from disco_rl.config import batching as batching_lib
from disco_rl.environments import foreign
from disco_rl.environments import registry
from disco_rl.evaluation import agent_loop
from disco_rl.learning import actors
from disco_rl.update_rules import actor_critic
from tests.support import golden
from tests.support import small


def _make_loop(num_envs=2, config=None):
  an_agent = small.make_agent('actor_critic', config)
  env = small.environment(num_envs)
  actor = actors.make(an_agent, env)
  batching = batching_lib.Batching(**small.SIZES)
  return agent_loop.AgentLoop(an_agent, actor, batching)


def test_environment_of_another_size_is_refused():
  env = registry.get_environment('catch', 3, rows=5, columns=4)
  an_agent = small.make_agent('actor_critic')
  with pytest.raises(ValueError, match='has 3 streams'):
    agent_loop.AgentLoop(
      an_agent, actors.make(an_agent, env), batching_lib.Batching()
    )


def test_the_loop_is_pure():
  """The same state gives the same result, and a scan equals repeated calls."""
  loop = _make_loop()
  state = jax.jit(loop.init)(jax.random.PRNGKey(0))
  run = jax.jit(loop.run, static_argnums=2)
  wanted, metrics = run({}, state, 6)
  jax.tree.map(np.testing.assert_array_equal, run({}, state, 6)[0], wanted)
  for _ in range(6):
    state, _ = run({}, state, 1)
  golden.check_trees_close(state, wanted, 1e-6)
  assert {x.shape for x in metrics.values()} == {(6,)}


def test_a_nonfinite_step_is_not_taken_and_the_array_is_named():
  config = small.settings('actor_critic')
  config.learning_rate = 1e38
  config.max_abs_update = 1e38
  loop = _make_loop(config=config)
  state = jax.jit(loop.init)(jax.random.PRNGKey(0))
  before = state.learner
  state, metrics = jax.jit(loop.run, static_argnums=2)({}, state, 8)
  first = np.asarray(metrics['first_nonfinite'])
  assert (first[:3] == -1).all() and (first >= 0).any()
  leaves = jax.tree.leaves(state.learner)
  assert all(np.isfinite(x).all() for x in leaves)
  culprit = agent_loop.name_of_nonfinite(
    int(first.max()), metrics, state.learner
  )
  names = {name for name, _ in golden.named_leaves(before)}
  assert culprit in names | set(metrics)
  # The counts of the log come first, then the leaves of the learner.
  not_logs = {'first_nonfinite', 'num_episodes', 'total_return', 'total_length'}
  assert (np.asarray(metrics['first_fault']) == -1).all()  # None.
  not_logs.add('first_fault')
  logs = sorted(set(metrics) - not_logs)
  name_of = lambda i: agent_loop.name_of_nonfinite(i, metrics, state.learner)
  assert [name_of(i) for i in range(len(logs))] == logs
  assert name_of(len(logs)) in names


def test_a_rule_that_fails_in_a_learner_step_is_named(monkeypatch):
  def fail(*args, **kwargs):
    raise KeyError('as asked for')

  monkeypatch.setattr(actor_critic.ActorCritic, 'agent_loss', fail)
  loop = _make_loop()
  state = jax.eval_shape(loop.init, jax.random.PRNGKey(0))
  match = (
    'the rule actor_critic or the network mlp failed in a learner step: '
    rf'KeyError: .as asked for. .{re.escape(__file__)}, line \d+'
  )
  with pytest.raises(foreign.ForeignCodeError, match=match):
    jax.eval_shape(lambda eta, own: loop.run(eta, own, 1), {}, state)
