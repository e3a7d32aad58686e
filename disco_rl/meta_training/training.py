"""Trains η, as a `Trainable` of the run loop."""

from collections.abc import Sequence
from typing import Any

import chex
import jax

from disco_rl import memory
from disco_rl import types
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.runs import loop
from disco_rl.runs import metrics


def keys(seed: int) -> tuple[chex.PRNGKey, chex.PRNGKey, chex.PRNGKey]:
  """Makes the keys of a run from its seed.

  Args:
    seed: the seed.

  Returns:
    The keys for `Trainer.init`, for `Trainer.init_params`, and for all
    meta-updates: the number of each, from 0, is folded into the last one.
  """
  init_rng, eta_rng, step_rng = jax.random.split(jax.random.PRNGKey(seed), 3)
  return init_rng, eta_rng, step_rng


class Training:
  """Trains η with the random keys of one seed, see `loop.Trainable`."""

  def __init__(
    self,
    trainer: trainer_lib.Trainer,
    seed: int = 0,
    max_nonfinite_updates: int = 10,
    eta: types.MetaParams | None = None,
    saves_replay: bool = True,
  ):
    """Initialises the training.

    Args:
      trainer: the trainer.
      seed: seed of all random numbers, see `keys`.
      max_nonfinite_updates: number of successive meta-updates without any
        finite meta-gradient after which training stops.
      eta: the initial η; None to draw it at random.
      saves_replay: whether the agents' replays are part of checkpoints; if not,
        they are empty after a resume.
    """
    self._saves_replay = saves_replay
    self._trainer = trainer
    self._seed = seed
    self._max_nonfinite_updates = max_nonfinite_updates
    self._eta = eta
    self._init_rng, self._eta_rng, self._step_rng = keys(seed)

  def init(self) -> trainer_lib.TrainState:
    """Makes fresh agents and the initial η."""
    self.check_memory()
    return self._trainer.init(self._init_rng, self.initial_eta())

  def check_memory(self) -> memory.Estimate:
    """Estimates the memory of the run, see `loop.Trainable`.

    Environments on the host are made and reset.
    """
    return self._trainer.check_memory(self._init_rng)

  def columns(self) -> tuple[str, ...]:
    """Returns the columns of the rows of `advance`, see `loop.Trainable`."""
    names = self._trainer.average_names()
    return ('iteration', 'seed', 'env_steps', *names)

  def initial_eta(self) -> types.MetaParams:
    """Returns the initial η, as given or drawn from the seed."""
    if self._eta is None:
      return self._trainer.init_params(self._eta_rng)
    return self._eta

  def done(self, state: trainer_lib.TrainState) -> int:
    """Returns how many meta-updates are done."""
    return int(state.step)

  def advance(
    self, state: trainer_lib.TrainState, total: int
  ) -> tuple[trainer_lib.TrainState, list[metrics.Row]]:
    """Runs one meta-update, see `loop.Trainable`.

    Args:
      state: the state before; donated.
      total: meta-updates in all.

    Returns:
      The state after, and one row: `iteration` (from 1), `seed`, `env_steps`
      (of one agent, in all), and the averages of `trainer.UpdateLog`.

    Raises:
      DivergenceError: if too many successive meta-gradients are non-finite.
      NonFiniteError: if an environment returns NaN or infinity.
      ForeignCodeError: if an environment fails in another way.
    """
    del total
    done = self.done(state)
    state, log = self._trainer.update(
      state, jax.random.fold_in(self._step_rng, done)
    )
    row = dict(
      iteration=done + 1,
      seed=self._seed,
      env_steps=(done + 1) * self._trainer.config.env_steps,
      **log.averages,
    )
    rows: list[metrics.Row] = [row]
    num_skipped = int(state.num_skipped)
    if num_skipped >= self._max_nonfinite_updates:
      raise loop.DivergenceError(
        f'{num_skipped} meta-updates in a row, the last being number '
        f'{done + 1}, had no finite meta-gradient and were skipped. Perhaps a '
        'learning rate is too high',
        state,
        rows,
      )
    return state, rows

  def to_checkpoint(self, state: trainer_lib.TrainState) -> Any:
    """Returns the state in a form that can be saved."""
    return self._saved_part(self._trainer.to_checkpoint(state))

  def checkpoint_like(self) -> Any:
    """Returns a tree like that of `to_checkpoint`, of specs where possible."""
    return self._saved_part(
      self._trainer.checkpoint_like(self._init_rng, self.initial_eta())
    )

  def from_checkpoint(self, saved: Any) -> trainer_lib.TrainState:
    """Returns the state to resume from."""
    if not self._saves_replay:
      fresh = self.init().groups
      saved = _with_buffers(saved, [group.agents.buffer for group in fresh])
    return self._trainer.from_checkpoint(saved)

  def snapshots(self, state: trainer_lib.TrainState) -> Any:
    """Returns what `to_checkpoint` saves of environments on the host."""
    return self._trainer.hosts.to_checkpoint(state)

  def names_without_snapshots(self, saved: Any) -> list[str]:
    """Returns the names of the environments that `from_checkpoint` resets."""
    return self._trainer.names_without_snapshots(saved)

  def close(self) -> None:
    """Closes environments on the host."""
    self._trainer.close()

  def _saved_part(self, state: trainer_lib.TrainState) -> Any:
    if self._saves_replay:
      return state
    return _with_buffers(state, [None] * len(state.groups))


def _with_buffers(
  state: trainer_lib.TrainState, buffers: Sequence[Any]
) -> trainer_lib.TrainState:
  """Replaces the replays of all groups."""
  groups = tuple(
    group._replace(agents=group.agents._replace(buffer=buffer))
    for group, buffer in zip(state.groups, buffers, strict=True)
  )
  return state._replace(groups=groups)


def describe_rows(rows: list[metrics.Row]) -> tuple[str, dict[str, float]]:
  """Summarises a meta-update for the progress bar.

  Args:
    rows: rows of `Training.advance`.

  Returns:
    No note, and values by name.
  """
  row = rows[-1]
  returns = {k: x for k, x in row.items() if k.startswith('return/')}
  return '', {'meta_loss': row['meta_loss'], **returns}
