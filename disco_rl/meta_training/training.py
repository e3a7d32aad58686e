"""Meta-training as a loop: one meta-update after the other, and a table.

eta_rng, init_rng, rng = jax.random.split(jax.random.PRNGKey(0), 3)
state = trainer.init(init_rng, trainer.init_params(eta_rng))
for state, row in training.train(trainer, state, rng, num_updates=800):
  print(row['iteration'], row['meta_loss'], row['rewards'])
"""

from collections.abc import Iterator

import chex
import jax

from disco_rl import metrics_table
from disco_rl.meta_training import trainer as trainer_lib


def train(
  trainer: trainer_lib.Trainer,
  state: trainer_lib.TrainState,
  rng: chex.PRNGKey,
  num_updates: int,
) -> Iterator[tuple[trainer_lib.TrainState, metrics_table.Row]]:
  """Improves η until `num_updates` are done.

  Args:
    trainer: the agents, and how η is trained with them.
    state: from `trainer.init`, or from an earlier training; used up.
    rng: with the number of a meta-update folded in, its key. The same key
      makes a training in parts the same as in one go.
    num_updates: the total, those already done included.

  Yields:
    The state, good until the next one is asked for, and what was measured:
    `iteration` (from 1), averages over agents, and the norms of the
    meta-gradient and of the update of η.
  """
  if num_updates < 1:
    raise ValueError(f'num_updates must be at least 1, got {num_updates}')
  for done in range(int(state.step), num_updates):
    state, log = trainer.update(state, jax.random.fold_in(rng, done))
    yield state, dict(iteration=done + 1, **log.averages)
