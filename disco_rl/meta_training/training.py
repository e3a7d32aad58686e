"""The training of η, for the run loop."""

from typing import Any

import chex
import jax

from disco_rl import types
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.runs import loop
from disco_rl.runs import metrics


def keys(seed: int) -> tuple[chex.PRNGKey, chex.PRNGKey, chex.PRNGKey]:
  """Splits the seed of a run; the same in the command and in the library.

  Args:
    seed: any whole number.

  Returns:
    The keys for `Trainer.init`, for `Trainer.init_params`, and for all
    meta-updates: each uses the last with its number, from 0, folded in.
  """
  init_rng, eta_rng, step_rng = jax.random.split(jax.random.PRNGKey(seed), 3)
  return init_rng, eta_rng, step_rng


class Training:
  """A `loop.Trainable`: a trainer that improves η."""

  def __init__(
    self,
    trainer: trainer_lib.Trainer,
    seed: int = 0,
    max_nonfinite_updates: int = 10,
    eta: types.MetaParams | None = None,
  ):
    """Bundles a trainer and the seed of a run.

    Args:
      trainer: the agents, and how η is trained with them.
      seed: of all that is random, see `keys`.
      max_nonfinite_updates: after how many meta-updates in a row without any
        finite meta-gradient training stops.
      eta: where η begins; None to draw it at random.
    """
    self._trainer = trainer
    self._seed = seed
    self._max_nonfinite_updates = max_nonfinite_updates
    self._eta = eta
    self._init_rng, self._eta_rng, self._step_rng = keys(seed)

  def init(self) -> trainer_lib.TrainState:
    """Makes fresh agents and the initial η."""
    return self._trainer.init(self._init_rng, self.initial_eta())

  def initial_eta(self) -> types.MetaParams:
    """Returns where η begins, also that of a run that is resumed."""
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
      state: donated.
      total: meta-updates in all.

    Returns:
      The state after, and one row: `iteration` (from 1), `seed`, averages over
      agents, the norms of the meta-gradient and of the update of η, and by name
      of the group, the number of episodes that ended (`episodes/NAME`) and
      their average return (`return/NAME`).
    """
    del total
    done = self.done(state)
    state, log = self._trainer.update(
      state, jax.random.fold_in(self._step_rng, done)
    )
    rows: list[metrics.Row] = [
      dict(iteration=done + 1, seed=self._seed, **log.averages)
    ]
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
    """Returns the state in a form that can be saved: as it is."""
    return state

  def checkpoint_like(self) -> Any:
    """Returns a tree like that of `to_checkpoint`, of specs."""
    return jax.eval_shape(self.init)

  def from_checkpoint(self, saved: Any) -> trainer_lib.TrainState:
    """Returns the state to resume from."""
    return self._trainer.from_checkpoint(saved)

  def close(self) -> None:
    """Does nothing: environments in JAX hold nothing."""


def describe_rows(rows: list[metrics.Row]) -> tuple[str, dict[str, float]]:
  """Says what a progress bar shows of a meta-update.

  Args:
    rows: of `Training.advance`.

  Returns:
    No note, and values by name.
  """
  row = rows[-1]
  returns = {k: x for k, x in row.items() if k.startswith('return/')}
  return '', {'meta_loss': row['meta_loss'], **returns}
