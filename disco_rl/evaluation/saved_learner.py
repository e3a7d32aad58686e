"""Loads the learner of a run's agent, with the state of its rule."""

import os
from typing import Any, NamedTuple

import jax

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl.evaluation import saved_run
from disco_rl.runs import checkpoint
from disco_rl.runs import run_folder
from disco_rl.runs import states


class SavedLearner(NamedTuple):
  """The learner of one agent.

  Attributes:
    learner: that of the last checkpoint.
    env_name: name of the environment of the run.
  """

  learner: agent_lib.LearnerState
  env_name: str


def load_learner(
  path: str | os.PathLike[str], run: saved_run.SavedRun, seed: int
) -> SavedLearner:
  """Loads the learner of one agent from a run's checkpoint.

  Args:
    path: path of the run's folder.
    run: the run, from `load_run`.
    seed: seed of the agent, one of `run.params`.

  Returns:
    The learner, with its environment.

  Raises:
    RunFolderError: if the folder has no checkpoint of one process.
  """
  folder = run_folder.RunFolder.view(path)
  found = states.find(folder.state_path)
  if found is None or found.is_dir():
    raise run_folder.RunFolderError(
      f'{folder.path} holds no checkpoint of one process '
      f"({folder.state_path.name}), which has the state of the agent's rule"
    )
  like = jax.eval_shape(
    lambda: run.agent.initial_learner_state(jax.random.PRNGKey(0))
  )
  seeds = list(run.settings.seeds)
  stacked: Any = jax.tree.map(
    lambda x: types.ArraySpec((len(seeds), *x.shape), x.dtype), like
  )
  learners = checkpoint.load(found, stacked, part='learner')
  k = seeds.index(seed)
  learner = jax.tree.map(lambda x: x[k], learners)
  return SavedLearner(learner, str(folder.config['request']['env']))
