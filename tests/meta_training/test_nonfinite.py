"""NaN in meta-training, from environments and from agents that diverge."""

import types

import jax
import jax.numpy as jnp
from ml_collections import config_dict
import numpy as np
import pytest

from disco_rl import types as disco_types
from disco_rl.environments import foreign
from disco_rl.environments import registry
from disco_rl.environments import timesteps
from disco_rl.learning import actors
from disco_rl.learning import faults
from disco_rl.meta_training import nonfinite
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.runs import finite
from tests.support import broken
from tests.support import small_meta


def _state(num_over=1):
  """Two agents; the first has non-finite numbers and is to be reset."""
  agents = dict(
    params=jnp.asarray([[jnp.nan, 1.0], [2.0, 3.0]]),
    moments=jnp.asarray([-jnp.inf, 4.0]),
    counts=jnp.asarray([5, 6]),
  )
  left, age = jnp.asarray([0, 7]), jnp.asarray([4, 1])
  group = trainer_lib.GroupState(agents, left, age, None)
  return trainer_lib.TrainState(
    step=jnp.asarray(3),
    num_skipped=jnp.asarray(0),
    num_over=jnp.asarray(num_over),
    eta={},
    opt_state=None,
    groups=(group,),
  )


def test_agents_that_are_reset_put_no_nan_into_a_checkpoint():
  cleaned = nonfinite.clean(_state())
  finite.check(cleaned)
  agents = cleaned.groups[0].agents
  np.testing.assert_array_equal(agents['params'], [[0.0, 1.0], [2.0, 3.0]])
  np.testing.assert_array_equal(agents['moments'], [0.0, 4.0])
  assert agents['counts'].tolist() == [5, 6]
  # Without such agents nothing is copied; other agents are unchanged.
  state = _state(num_over=0)
  assert nonfinite.clean(state) is state
  spoiled = _state()
  spoiled.groups[0].agents['moments'] = jnp.asarray([0.0, jnp.nan])
  with pytest.raises(finite.NonFiniteStateError, match='agents/moments'):
    finite.check(nonfinite.clean(spoiled))


def test_the_agent_whose_environment_fails_is_named():
  timestep = disco_types.EnvironmentTimestep(
    observation=np.zeros((2, 4, 3), np.uint8),
    step_type=np.ones((2, 4), np.int32),
    reward=np.zeros((2, 4), np.float32),
  )
  actor = types.SimpleNamespace(timestep=timestep)
  group = types.SimpleNamespace(agents=types.SimpleNamespace(actor=actor))
  state = types.SimpleNamespace(step=3, groups=(group, group))
  logs = [
    {faults.METRIC: np.asarray([-1, -1]), 'x': np.zeros(2)},
    # Of a step, 4 rewards and 4 step types are checked.
    {faults.METRIC: np.asarray([-1, (4 + 4) * 5 + 2]), 'x': np.ones(2)},
  ]
  names = ['catch', 'maze']
  place = r'stream 2 \(meta-update 3, agent 1, step 5 of the rollout\)'
  with pytest.raises(timesteps.NonFiniteError, match=f'maze .*{place}'):
    nonfinite.check_environments(names, state, logs, 4)
  fine = nonfinite.check_environments(names[:1], group_only(state), logs[:1], 4)
  assert list(fine[0]) == ['x']


def test_the_memory_of_a_diverged_agent_on_the_host_is_cleaned():
  net_state = dict(cell=jnp.asarray([[jnp.nan, 1.0]]), count=jnp.asarray(3))
  state = actors.ActorState('private', 'finite', net_state)
  cleaned = nonfinite.clean_actors((state, state), np.asarray([True, False]))
  np.testing.assert_array_equal(cleaned[0].net_state['cell'], [[0.0, 1.0]])
  assert np.isnan(cleaned[1].net_state['cell'][0, 0])
  for own in cleaned:
    assert own[:2] == ('private', 'finite') and own.net_state['count'] == 3


def group_only(state):
  return types.SimpleNamespace(step=state.step, groups=state.groups[:1])


@pytest.mark.slow
def test_an_environment_that_returns_nan_ends_meta_training():
  settings = lambda: config_dict.ConfigDict(dict(trouble='nan', at=40))
  registry.register_environment('broken', broken.BrokenJax, settings)
  group = small_meta.make_group(num_agents=2)
  group = trainer_lib.Group(
    registry.environment_fn('broken'), group.agent_settings, 2, name='broken'
  )
  trainer = small_meta.make_trainer(group)
  eta = trainer.init_params(jax.random.PRNGKey(1))
  state = trainer.init(jax.random.PRNGKey(2), eta)
  # Two rollouts and one of twice the length: 28 steps per meta-update.
  state, _ = trainer.update(state, jax.random.PRNGKey(3))
  match = (
    r"broken returned .* in the observation\['b'\] of stream 0 "
    r'\(meta-update 2, agent 0, step 12 of the rollout\)'
  )
  with pytest.raises(timesteps.NonFiniteError, match=match):
    trainer.update(state, jax.random.PRNGKey(4))


@pytest.mark.slow
def test_a_callback_that_fails_ends_meta_training():
  settings = lambda: config_dict.ConfigDict(dict(trouble='pure_callback', at=9))
  registry.register_environment('broken', broken.BrokenJax, settings)
  group = small_meta.make_group(num_agents=2)
  group = trainer_lib.Group(
    registry.environment_fn('broken'), group.agent_settings, 2, name='broken'
  )
  trainer = small_meta.make_trainer(group)
  eta = trainer.init_params(jax.random.PRNGKey(1))
  state = trainer.init(jax.random.PRNGKey(2), eta)
  match = 'in the program of broken failed: KeyError: .*broken.py, line'
  with pytest.raises(foreign.ForeignCodeError, match=match):
    trainer.update(state, jax.random.PRNGKey(3))


@pytest.mark.slow
def test_a_checkpoint_with_a_diverged_agent_is_bit_exact():
  trainer = small_meta.make_trainer()
  eta = trainer.init_params(jax.random.PRNGKey(1))
  state = trainer.init(jax.random.PRNGKey(2), eta)
  (group,) = state.groups
  params = jax.tree.map(
    lambda x: x.at[0].set(jnp.nan), group.agents.learner.params
  )
  learner = group.agents.learner.replace(params=params)
  agents = group.agents._replace(learner=learner)
  state = state._replace(groups=(group._replace(agents=agents),))
  state, log = trainer.update(state, jax.random.PRNGKey(3))
  assert log.averages['num_nonfinite_agents'] == 1
  with pytest.raises(finite.NonFiniteStateError):
    finite.check(state)
  saved = jax.device_get(nonfinite.clean(state))
  finite.check(saved)
  wanted, wanted_log = trainer.update(state, jax.random.PRNGKey(4))
  actual, actual_log = trainer.update(
    trainer.from_checkpoint(saved), jax.random.PRNGKey(4)
  )
  jax.tree.map(
    np.testing.assert_array_equal,
    jax.device_get((actual, actual_log)),
    jax.device_get((wanted, wanted_log)),
  )
  finite.check(actual)
