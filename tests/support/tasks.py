"""Plays random tasks with policies in NumPy, and finds optimal ones."""

import functools
from typing import Any, NamedTuple

import dm_env
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl.environments import registry

LAST = int(dm_env.StepType.LAST)
NUM_STREAMS = 400


class Played(NamedTuple):
  """The first episode of every stream."""

  returns: np.ndarray  # [B], divided by the scale of rewards.
  lengths: np.ndarray  # [B]

  def mean(self) -> float:
    return float(self.returns.mean())

  def error(self) -> float:
    """The standard error of the mean; more than 0, for rare events."""
    return float(self.returns.std() / np.sqrt(self.returns.size)) + 1e-3


@functools.cache
def environment(name: str, batch_size: int = NUM_STREAMS, **settings) -> Any:
  """Makes an environment; cached, so that its programs are compiled once."""
  return registry.get_environment(f'tasks:{name}', batch_size, **settings)


def task_of(env: Any, seed: int) -> Any:
  """Returns the parameters of a seed's task, in NumPy, and its horizon."""
  states, _ = env.reset(jax.random.PRNGKey(seed))
  _, params, _ = env.inspect(states)
  task = jax.tree.map(lambda x: np.asarray(x[0]), states.task)
  return jax.tree.map(np.asarray, params), task


def play(env: Any, seed: int, policy: Any) -> Played:
  """Plays until every stream has finished one episode.

  Args:
    env: from `environment`.
    seed: of the task.
    policy: from time, states of the streams and observations [B, D] to meanings
      of actions, [B]; None for random actions.
  """
  states, timestep = env.reset(jax.random.PRNGKey(seed))
  meanings = np.asarray(states.task.meanings[0])
  action_of = {int(m): i for i, m in enumerate(meanings)}
  rng = np.random.RandomState(seed)
  size = env.batch_size
  returns, lengths = np.zeros(size), np.zeros(size)
  is_over = np.zeros(size, bool)
  for time in range(1000):
    if is_over.all():
      break
    if policy is None:
      actions = rng.randint(meanings.size, size=size)
    else:
      _, _, streams = env.inspect(states)
      streams = jax.tree.map(np.asarray, streams)
      chosen = policy(time, streams, np.asarray(timestep.observation))
      actions = [action_of[int(m)] for m in np.broadcast_to(chosen, size)]
    states, timestep = env.step(states, jnp.asarray(actions, jnp.int32))
    returns += np.where(is_over, 0, np.asarray(timestep.reward, float))
    lengths += ~is_over
    is_over |= np.asarray(timestep.step_type) == LAST
  assert is_over.all()
  return Played(returns / float(states.task.scale[0]), lengths)


def solve(
  outcomes: Any, num_states: int, num_actions: int, horizon: int
) -> tuple[np.ndarray, np.ndarray]:
  """Finds the best actions for every number of steps by backward induction.

  Args:
    outcomes: from state and action to a list of (probability, next state or
      None at the end of an episode, reward).
    num_states: S.
    num_actions: A.
    horizon: H.

  Returns:
    The values of states, [S], and the best action at every time, [H, S].
  """
  table = [
    [outcomes(s, a) for a in range(num_actions)] for s in range(num_states)
  ]
  for row in table:
    for own in row:
      np.testing.assert_allclose(sum(p for p, _, _ in own), 1.0, atol=1e-5)
  values = np.zeros(num_states)
  best = np.zeros((horizon, num_states), int)
  for time in reversed(range(horizon)):
    q = np.array(
      [
        [
          sum(p * (r + (0 if n is None else values[n])) for p, n, r in own)
          for own in row
        ]
        for row in table
      ]
    )
    values, best[time] = q.max(axis=1), q.argmax(axis=1)
  return values, best
