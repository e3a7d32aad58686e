"""Records the learning of an agent: its learner at a few points of its life."""

from collections.abc import Mapping
import os
import pathlib
from typing import Any, NamedTuple

import jax
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl.runs import checkpoint
from disco_rl.runs import files
from disco_rl.runs import hooks

# File of a run's folder with the record of its first agent.
FILE = 'life.npz'


class Life(NamedTuple):
  """Snapshots of one agent, on the host.

  Attributes:
    iterations: [N], the iterations that were done.
    learners: `params`, `meta_state` and `critic` of the learner, leaves [N,
      ...].
  """

  iterations: np.ndarray
  learners: dict[str, Any]

  def learner(self, i: int) -> agent_lib.LearnerState:
    """Returns the learner of snapshot `i`, without its optimiser's state."""
    parts = jax.tree.map(lambda x: x[i], self.learners)
    return agent_lib.LearnerState(opt_state=None, **parts)

  def states(self) -> np.ndarray | None:
    """Returns the outputs of the life-long state, [N, H]; None without one."""
    return lifelong_output(self.learners['meta_state'])


class Recorder:
  """Collects snapshots during a run."""

  def __init__(self, every: int):
    """Initialises the recorder.

    Args:
      every: iterations between two snapshots.
    """
    self._iterations: list[int] = []
    self._learners: list[dict[str, Any]] = []
    self.hook = hooks.Periodic(every, self._record, at_start=True)

  def life(self) -> Life:
    """Returns the snapshots that were collected."""
    learners = jax.tree.map(lambda *xs: np.stack(xs), *self._learners)
    return Life(np.asarray(self._iterations, np.int32), learners)

  def _record(self, done: int, state: Any) -> None:
    """Copies the first agent of a population to the host."""
    first = jax.tree.map(lambda x: np.asarray(x[0]), _parts(state.learner))
    self._iterations.append(done)
    self._learners.append(first)


def save(folder: str | os.PathLike[str], life: Life) -> None:
  """Saves a record.

  Args:
    folder: the folder of the run.
    life: the record.
  """
  checkpoint.save(pathlib.Path(folder) / FILE, life)


def load(
  folder: str | os.PathLike[str], an_agent: agent_lib.Agent
) -> Life | None:
  """Loads the record of a run.

  Args:
    folder: the folder of the run.
    an_agent: its agent.

  Returns:
    The record; None if there is none.
  """
  path = pathlib.Path(folder) / FILE
  if not path.exists():
    return None
  # The number of snapshots is not known from anything else.
  number = files.read_npz(path)['iterations'].shape[0]
  one = jax.eval_shape(
    lambda: _parts(an_agent.initial_learner_state(jax.random.PRNGKey(0)))
  )
  like = jax.tree.map(
    lambda x: types.ArraySpec((number, *x.shape), x.dtype), one
  )
  iterations: Any = types.ArraySpec((number,), np.int32)
  found = checkpoint.load(path, Life(iterations, like))
  return jax.tree.map(np.asarray, found)


def lifelong_output(meta_state: Mapping[str, Any]) -> np.ndarray | None:
  """Returns the output of the rule's life-long state.

  Args:
    meta_state: of the rule, leaves [..., H].

  Returns:
    [..., H], the hidden units of its LSTM; None for a rule without one.
  """
  leaves = jax.tree_util.tree_leaves_with_path(meta_state.get('rnn_state'))
  for path, leaf in leaves:
    if 'hidden' in jax.tree_util.keystr(path):
      return np.asarray(leaf)
  return None


def _parts(learner: agent_lib.LearnerState) -> dict[str, Any]:
  return dict(
    params=learner.params,
    meta_state=learner.meta_state,
    critic=learner.critic,
  )
