"""Timesteps of 64 bits, and specs and timesteps that cannot be read."""

import warnings

import jax
import numpy as np
import pytest

from disco_rl import types
from disco_rl.environments import foreign
from disco_rl.environments import layouts
from disco_rl.environments import registry
from disco_rl.environments import timesteps
from tests.support import broken

INTEGERS = dict(a=types.ArraySpec((2,), np.int64))


def _env(spec=None, **timestep):
  """Makes an environment of two streams on the host."""

  class Own(broken.BrokenBatch):
    def single_observation_spec(self):
      return super().single_observation_spec() if spec is None else spec

    def _timestep(self):
      return super()._timestep().replace(**timestep)

  return registry.as_environment_fn(lambda size, seed: Own(size))(2, 0)


def _step(env):
  states, _ = env.reset(None)
  return env.step(states, np.zeros(2, np.int32))[1]


@pytest.mark.parametrize('field', ['observation', 'reward'])
def test_numbers_above_32_bits_are_not_finite(field):
  shape = dict(observation=(2, 2), reward=(2,))[field]
  values = np.zeros(shape)
  values[1] = 1e300
  env = _env(**{field: values})
  with warnings.catch_warnings():
    warnings.simplefilter('error')
    with pytest.raises(timesteps.NonFiniteError) as caught:
      env.reset(None)
  assert (caught.value.array, caught.value.stream) == (field, 1)
  assert caught.value.value == np.inf


@pytest.mark.parametrize(
  ('spec', 'field', 'value', 'name'),
  [
    (INTEGERS, 'observation', 2**40 + 5, r"observation\['a'\]"),
    (INTEGERS, 'observation', -(2**31) - 1, r"observation\['a'\]"),
    (None, 'step_type', 2**32 + 1, 'step_type'),
  ],
)
def test_integers_that_32_bits_cannot_hold_are_refused(
  spec, field, value, name
):
  array = np.ones((2, 2) if spec else 2, np.int64)
  array[1] = value
  fields = dict(observation=dict(a=np.ones((2, 2), np.int64))) if spec else {}
  fields[field] = dict(a=array) if spec else array
  with pytest.raises(
    foreign.InvalidEnvironmentError,
    match=rf'reset returned {value} in the {name} of stream 1; .*int32',
  ):
    _env(spec, **fields).reset(None)


def test_every_array_has_the_dtype_that_is_learned_from():
  observation = dict(a=np.full((2, 2), 2**31 - 1, np.int64))
  timestep = _step(_env(INTEGERS, observation=observation))
  assert timestep.observation['a'].dtype == np.int32
  assert timestep.observation['a'].tolist() == [[2**31 - 1] * 2] * 2


def test_timesteps_of_32_bits_are_not_copied():
  env = broken.BrokenBatch(2)
  layout = layouts.make_layout('x', 2, env.single_observation_spec())
  _, timestep = env.reset(None)
  assert timesteps.check(timestep, layout, 'reset') is timestep
  wide = timestep.replace(reward=np.zeros(2))
  checked = timesteps.check(wide, layout, 'reset')
  assert checked.observation is timestep.observation


def test_integers_are_cast_while_tracing():
  layout = layouts.make_layout('x', 2, types.ArraySpec((), np.float32))

  @jax.jit
  def check(step_type):
    timestep = types.EnvironmentTimestep(
      observation=np.zeros(2, np.float32),
      step_type=step_type,
      reward=np.zeros(2, np.float32),
    )
    return timesteps.check(timestep, layout, 'step').step_type

  assert check(np.ones(2, np.uint32)).dtype == np.int32


class _Unreadable:
  """A spec or timestep of which nothing can be read."""

  @property
  def shape(self):
    raise RuntimeError('no shape')

  def __repr__(self):
    raise RuntimeError('no text')


class _Infinite:
  shape, dtype = (np.inf,), np.float32


@pytest.mark.parametrize(
  ('spec', 'message'),
  [
    (_Infinite(), 'observation spec must have a shape and a dtype, got'),
    (_Unreadable(), 'specs: RuntimeError: no shape .*test_timesteps.py, line'),
    (
      {1: types.ArraySpec((), np.float32), 'a': types.ArraySpec((), np.int32)},
      r'has the keys \[1\], which are no strings',
    ),
    (
      [{(): types.ArraySpec((), np.float32), 'a': None}],
      r'has the keys \[\(\)\], which are no strings',
    ),
  ],
)
def test_specs_that_cannot_be_read(spec, message):
  with pytest.raises(foreign.ForeignCodeError, match=message):
    _env(spec)


def test_timesteps_that_cannot_be_shown():
  make = lambda size, seed: broken.BrokenBatch(size, result=(0, _Unreadable()))
  with pytest.raises(
    foreign.InvalidEnvironmentError,
    match='step 1 returned a _Unreadable as its timestep',
  ):
    _step(registry.as_environment_fn(make)(2, 0))


def test_timesteps_that_cannot_be_read():
  env = _env(observation={1: np.zeros(2), 'a': np.zeros(2)})
  with pytest.raises(
    foreign.ForeignCodeError, match='reset returned a bad timestep: ValueError'
  ):
    env.reset(None)
