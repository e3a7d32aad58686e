"""Batches of single streams in JAX: automatic resets, all or only some."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.environments.wrappers import vmapped_env
from tests.support import golden

NUM_STREAMS, NUM_STEPS = 5, 40


class Clock:
  """Episodes of random lengths; observations show the key of the episode."""

  name = 'clock'
  num_actions = 3
  resets_itself = False

  def __init__(self, on_reset=None):
    self._on_reset = on_reset

  def reset(self, rng):
    if self._on_reset is not None:
      jax.debug.callback(self._on_reset, rng)
    length = jax.random.randint(rng, (), 1, 9)
    # A weak type, which steps do not keep.
    state = dict(left=length, total=0.0)
    return state, dict(key=rng, left=length)

  def step(self, rng, state, action):
    state = dict(left=state['left'] - 1, total=state['total'] + action)
    noise = jax.random.uniform(rng)
    observation = dict(key=rng, left=state['left'])
    return vmapped_env.Step(
      state, observation, state['total'] + noise, state['left'] == 0
    )


def _play(env, key):
  actions = jax.random.randint(
    jax.random.PRNGKey(1), (NUM_STEPS, env.batch_size), 0, 3
  )
  states, first = env.reset(key)
  _, timesteps = jax.lax.scan(env.step, states, actions)
  return first, timesteps


def test_streams_begin_again_where_they_end():
  """Against a loop over streams and steps, with the documented keys."""
  env, stream = vmapped_env.VmappedEnvironment(Clock(), NUM_STREAMS), Clock()
  key = jax.random.PRNGKey(3)
  _, timesteps = _play(env, key)
  actions = jax.random.randint(
    jax.random.PRNGKey(1), (NUM_STEPS, NUM_STREAMS), 0, 3
  )
  num_ends = 0
  for b, rng in enumerate(jax.random.split(key, NUM_STREAMS)):
    rng, reset_rng = jax.random.split(rng)
    state, observation = stream.reset(reset_rng)
    for t in range(NUM_STEPS):
      rng, step_rng = jax.random.split(rng)
      step_rng, reset_rng = jax.random.split(step_rng)
      step = stream.step(step_rng, state, actions[t, b])
      state, observation = step.state, step.observation
      if step.is_last:
        state, observation = stream.reset(reset_rng)
        num_ends += 1
      np.testing.assert_array_equal(
        timesteps.observation['key'][t, b], observation['key']
      )
      np.testing.assert_allclose(timesteps.reward[t, b], step.reward)
      assert timesteps.step_type[t, b] == (2 if step.is_last else 1)
  assert num_ends > 20


@pytest.mark.parametrize('resets_at_once', [1, 2, NUM_STREAMS, 99])
def test_resets_where_episodes_end_are_the_same(resets_at_once):
  keys = jax.random.split(jax.random.PRNGKey(0), 3)
  plain, few = (
    vmapped_env.VmappedEnvironment(Clock(), NUM_STREAMS, number)
    for number in (0, resets_at_once)
  )
  # Also if agents are mapped over, whose episodes end in different steps.
  golden.check_trees_close(
    *(
      jax.jit(jax.vmap(lambda key, env=env: _play(env, key)))(keys)
      for env in (plain, few)
    ),
    0,
  )


def test_nothing_is_reset_while_no_episode_ends():
  seen = []
  env = vmapped_env.VmappedEnvironment(Clock(seen.append), NUM_STREAMS, 1)
  _, timesteps = jax.jit(lambda key: _play(env, key))(jax.random.PRNGKey(0))
  jax.effects_barrier()
  num_ends = int((timesteps.step_type == 2).sum())
  assert NUM_STREAMS * NUM_STEPS / 2 > num_ends > 20
  assert len(seen) == NUM_STREAMS + num_ends


def test_rewards_have_a_gradient_through_acting():
  """As in meta-training, where acting is part of what is differentiated."""
  env = vmapped_env.VmappedEnvironment(Clock(), NUM_STREAMS, 2)

  def score(weight):
    def step(states, rng):
      logits = weight * jnp.arange(3.0)
      actions = jax.random.categorical(rng, logits, shape=(NUM_STREAMS,))
      states, timestep = env.step(states, actions)
      chosen = jax.nn.log_softmax(logits)[actions]
      return states, (chosen * timestep.reward).sum()

    states, _ = env.reset(jax.random.PRNGKey(0))
    rngs = jax.random.split(jax.random.PRNGKey(1), NUM_STEPS)
    return jax.lax.scan(step, states, rngs)[1].sum()

  gradient = jax.jit(jax.grad(score))(0.3)
  assert np.isfinite(gradient) and gradient != 0


def test_layers_of_numbers_become_one_hot():
  layers = jnp.asarray([[[0, 2], [3, 1]]])  # [1, 2, 2]
  hots = vmapped_env.one_hot_layers(layers, (3, 3))
  assert hots.dtype == bool
  np.testing.assert_array_equal(
    hots, [[[1, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 0]]]
  )
