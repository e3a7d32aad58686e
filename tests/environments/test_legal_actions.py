"""Action masks of environments, and what is wrong with some of them."""

import gymnasium
import jax
import numpy as np
import pytest

import disco_rl
from disco_rl.benchmarking import random_policy
from disco_rl.environments import base
from disco_rl.environments import foreign
from disco_rl.environments import registry
from disco_rl.environments.wrappers import guarded_env
from tests.support import environments
from tests.support import masked

GYM = 'gym:tests.support.masked:GymDoors'
# The doors that are locked on the host, at the steps 0, 1, ...
WANTED = np.arange(4) != (np.arange(9) % 4)[:, None]


@pytest.mark.parametrize(
  'make',
  [
    lambda: registry.get_environment(GYM, 2, action_mask=True),
    lambda: registry.get_environment('dm:tests.support.masked:DmDoors', 2),
  ],
  ids=['gym', 'dm'],
)
def test_on_the_host_masks_are_those_after_a_reset(make):
  env = make()
  assert env.has_action_mask
  trace = environments.play(env, 8)
  np.testing.assert_array_equal(trace.action_mask[:, 1], WANTED)
  assert (trace.reward >= 0).all()


@pytest.mark.slow
def test_workers_send_masks():
  env = registry.get_environment(GYM, 4, action_mask=True, num_workers=2)
  assert env.has_action_mask
  trace = environments.play(env, 8)
  env.close()
  np.testing.assert_array_equal(trace.action_mask[:, 3], WANTED)


def test_masks_of_gymnasium_are_read_only_if_asked_for():
  env = registry.get_environment(GYM, 2)
  _, timestep = env.reset(None)
  assert not env.has_action_mask and timestep.action_mask is None
  # Gymnasium refuses all but its newest version.
  taxi = max(name for name in gymnasium.registry if name.startswith('Taxi-v'))
  env = registry.get_environment(f'gym:{taxi}', 2, action_mask=True)
  trace = environments.play(env, 20)
  assert 0 < trace.action_mask.mean() < 1


@pytest.mark.parametrize(
  ('mask_of', 'message'),
  [
    ('nothing', r"has no info\['action_mask'\], which the setting action_mask"),
    ('fewer', 'has the action mask .*; 4 booleans, or numbers 0 and 1, are'),
    ('fractions', 'has the action mask .*; 4 booleans, or numbers 0 and 1,'),
    ('none_legal', r'without a legal action in stream 0 \(step 2\); at least'),
  ],
)
def test_wrong_masks_of_gymnasium(mask_of, message):
  with pytest.raises(foreign.InvalidEnvironmentError, match=message) as raised:
    make = registry.environment_fn(
      GYM, action_mask=True, kwargs=dict(mask_of=mask_of)
    )
    environments.play(make(2, 0), 4)
  assert '\n' not in str(raised.value)


class _Wrong(base.Environment):
  """Returns a mask of its argument."""

  def __init__(self, mask, has_action_mask=True):
    super().__init__(2)
    self._inner = masked.environment(2)
    self._mask = mask
    self.has_action_mask = has_action_mask

  def reset(self, rng_key):
    state, timestep = self._inner.reset(rng_key)
    return state, jax.device_get(timestep.replace(action_mask=self._mask))

  def step(self, states, actions):
    raise NotImplementedError

  def single_observation_spec(self):
    return self._inner.single_observation_spec()

  def single_action_spec(self):
    return self._inner.single_action_spec()


@pytest.mark.parametrize(
  ('mask', 'declared', 'message'),
  [
    (None, True, 'reset returned no action_mask, but its attribute'),
    (np.ones((2, 4), bool), False, 'an action_mask, but its attribute'),
    (np.ones((2, 4), np.int8), True, r'of int8 and the shape \(2, 4\)'),
    (np.ones((2, 3), bool), True, r'booleans of the shape \(2, 4\) are needed'),
    (np.ones(4, bool), True, r'of bool and the shape \(4,\)'),
    ([True] * 4, True, 'an action_mask of'),
    (np.eye(2, 4, 1) * [[1], [0]] > 0, True, r'in stream 1 \(reset\)'),
  ],
)
def test_wrong_masks_on_the_host(mask, declared, message):
  env = guarded_env.GuardedEnvironment(_Wrong(mask, declared), 'maze')
  with pytest.raises(foreign.InvalidEnvironmentError, match=message) as raised:
    env.reset(jax.random.PRNGKey(0))
  assert str(raised.value).startswith('maze')


def test_wrong_masks_in_jax_are_found_when_they_are_traced():
  class Wrong(masked.Doors):
    def legal_actions(self, state):
      return super().legal_actions(state)[1:]

  disco_rl.register_environment('wrong_doors', Wrong)
  with pytest.raises(foreign.InvalidEnvironmentError, match=r'shape \(2, 3\)'):
    registry.environment_fn('wrong_doors')(2, 0)


def test_a_state_without_legal_actions_ends_a_run_in_jax():
  disco_rl.register_environment('no_doors', masked.NoLegalDoors)
  with pytest.raises(foreign.InvalidEnvironmentError) as raised:
    disco_rl.evaluate(
      'no_doors',
      'actor_critic',
      num_iterations=2,
      batching=disco_rl.Batching(batch_size=4, num_envs=4, rollout_length=4),
    )
  assert str(raised.value).startswith(
    'no_doors returned an action_mask without a legal action in stream 0 ('
  )
  assert 'step 1 of the rollout' in str(raised.value)


def test_the_random_policy_chooses_legal_actions():
  returns = random_policy.returns(
    lambda batch_size, seed: masked.environment(batch_size), num_streams=200
  )
  assert returns.min() >= 0
  np.testing.assert_allclose(returns.mean(), masked.STEPS / 3, atol=0.2)
