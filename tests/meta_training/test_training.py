"""The training of η in the run loop."""

import jax
import numpy as np

from disco_rl.config import meta_training as config_lib
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.meta_training import training
from disco_rl.runs import loop
from disco_rl.runs import sinks

NAN = float('nan')


class FakeTrainer:
  """Counts meta-updates; those in `skipped` have no finite gradient."""

  config = config_lib.Config()

  def __init__(self, skipped=()):
    self.skipped = skipped
    self.keys = []

  def update(self, state, rng):
    self.keys.append(np.asarray(rng))
    is_skipped = int(state.step) + 1 in self.skipped
    state = state._replace(
      step=state.step + 1,
      num_skipped=state.num_skipped + 1 if is_skipped else 0,
    )
    averages = {'meta_loss': 0.5, 'return/a': NAN, 'return/b': 2.0}
    return state, trainer_lib.UpdateLog(averages, {})


def _state(step=0):
  return trainer_lib.TrainState(step, 0, 0, None, None, groups=())


def test_every_meta_update_has_a_key_and_a_row_of_its_own():
  trainer, rows = FakeTrainer(), []
  trainable = training.Training(trainer, seed=7)
  outcome = loop.run(trainable, _state(), 3, sinks=[sinks.Rows(rows)])
  assert outcome.reason is loop.Reason.FINISHED and outcome.done == 3
  assert [(row['iteration'], row['seed']) for row in rows] == [
    (1, 7),
    (2, 7),
    (3, 7),
  ]
  # Of one agent: two rollouts of 16 steps and 32 of validation, 32 streams.
  assert [row['env_steps'] for row in rows] == [2048, 4096, 6144]
  *_, step_rng = training.keys(7)
  for i, key in enumerate(trainer.keys):
    np.testing.assert_array_equal(key, jax.random.fold_in(step_rng, i))
  # Resumed: the keys are those of the meta-updates that are left.
  resumed = FakeTrainer()
  loop.run(training.Training(resumed, seed=7), _state(2), 3)
  np.testing.assert_array_equal(resumed.keys, trainer.keys[2:])


def test_training_stops_after_too_many_nonfinite_meta_updates_in_a_row():
  rows = []
  trainable = training.Training(
    FakeTrainer(skipped=(2, 4, 5)), max_nonfinite_updates=2
  )
  outcome = loop.run(trainable, _state(), 9, sinks=[sinks.Rows(rows)])
  assert outcome.reason is loop.Reason.DIVERGED and outcome.done == 5
  assert len(rows) == 5
  assert '2 meta-updates in a row, the last being number 5' in str(
    outcome.error
  )


def test_a_progress_bar_shows_loss_and_returns():
  _, log = FakeTrainer().update(_state(), jax.random.PRNGKey(0))
  note, values = training.describe_rows([dict(iteration=1, **log.averages)])
  assert note == '' and list(values) == ['meta_loss', 'return/a', 'return/b']
