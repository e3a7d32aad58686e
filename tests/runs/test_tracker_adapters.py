"""What TensorBoard and wandb get, read back from their files."""

import json
import os

import numpy as np
import pytest

import disco_rl
from disco_rl.runs import metrics
from disco_rl.runs import run_folder
from disco_rl.runs import tracker_files
from disco_rl.runs import trackers
from tests.support import events

ROWS = [
  dict(
    iteration=i,
    seed=s,
    env_steps=6 * i,
    episodes=2,
    average_return=i + s,
    loss=loss,
  )
  for i, loss in ((1, np.nan), (2, 0.25), (4, np.inf))
  for s in (0, 1)
]
CONFIG = dict(settings=dict(seeds=[0, 1], batching=dict(batch_size=8)))


def _track(name, folder, rows=ROWS):
  """Writes rows to a tracker, in two parts, and ends it."""
  if name == 'tensorboard':
    pytest.importorskip('tensorboardX', reason='needs the extra [tensorboard]')
  else:
    pytest.importorskip('wandb', reason='needs the extra [wandb]')
  (chosen,) = trackers.find([name])
  tracker = chosen.make(trackers.RunInfo(folder, CONFIG))
  tracker.write(rows[:2])
  tracker.write(rows[2:])
  return tracker


def _png(path):
  figure = pytest.importorskip('matplotlib.figure').Figure(figsize=(2, 1))
  figure.savefig(path, dpi=50)


def test_events_are_rows_settings_picture_and_table(tmp_path):
  tracker = _track('tensorboard', tmp_path)
  # Before the end, too, for those who watch.
  events.check_same(tmp_path, ROWS)
  _png(tmp_path / 'curve.png')
  tracker.finish(trackers.summarize(tmp_path, ROWS))
  tracker.close()
  events.check_same(tmp_path, ROWS)
  values = [
    value
    for event in events.events(tmp_path / 'tensorboard' / 'run')
    for value in event.summary.value
  ]
  config, table, picture = values
  text = config.tensor.string_val[0].decode()
  assert json.loads(text.strip('`').removeprefix('json')) == CONFIG
  assert '| 4 | 1 | 24 | ' in table.tensor.string_val[0].decode()
  assert picture.tag == 'curve'
  assert (picture.image.width, picture.image.height) == (100, 50)
  content = (tmp_path / 'curve.png').read_bytes()
  assert picture.image.encoded_image_string == content


def test_a_new_tracker_replaces_its_files_and_no_others(tmp_path):
  other = tmp_path / 'tensorboard' / 'seed_0' / 'notes.txt'
  other.parent.mkdir(parents=True)
  other.touch()
  _track('tensorboard', tmp_path).close()
  fewer = ROWS[:2]
  _track('tensorboard', tmp_path, fewer).close()
  events.check_same(tmp_path, fewer)
  assert other.exists()
  tracker_files.remove(tmp_path)
  assert not tracker_files.find(tmp_path)
  assert [path.name for path in other.parent.iterdir()] == ['notes.txt']
  assert [path.name for path in other.parents[1].iterdir()] == ['seed_0']


def test_wandb_gets_the_rows_offline(tmp_path, monkeypatch):
  for name in ('WANDB_MODE', 'WANDB_PROJECT', 'WANDB_NAME'):
    monkeypatch.delenv(name, raising=False)
  _track('wandb', tmp_path, ROWS[:4]).close()
  tracker = _track('wandb', tmp_path)
  _png(tmp_path / 'curve.png')
  tracker.finish(trackers.summarize(tmp_path, ROWS))
  tracker.close()
  (link,) = (tmp_path / 'wandb').glob('latest-run')
  assert os.readlink(link).startswith('offline-run-')
  records = events.wandb_records(tmp_path)  # Of the last tracker only.
  (run,) = [x.run for x in records if x.HasField('run')][:1]
  assert run.project == 'disco_rl' and run.display_name == tmp_path.name
  config = {x.key: json.loads(x.value_json) for x in run.config.update}
  assert config['settings'] == CONFIG['settings']
  history = [
    {
      (x.key or '/'.join(x.nested_key)): json.loads(x.value_json)
      for x in record.history.item
    }
    for record in records
    if record.HasField('history')
  ]
  *rows, final = history
  for found, (one, other) in zip(
    rows, zip(ROWS[::2], ROWS[1::2], strict=True), strict=True
  ):
    assert found['env_steps'] == one['env_steps']
    assert found['iteration'] == one['iteration']
    for row in (one, other):
      name = f'average_return/seed_{row["seed"]}'
      assert found[name] == row['average_return']
      assert (f'loss/seed_{row["seed"]}' in found) is (row['iteration'] > 1)
  assert final['final/nrows'] == 2 and 'curve/path' in final
  tracker_files.remove(tmp_path)
  assert not (tmp_path / 'wandb').exists()


def test_files_of_trackers_belong_to_the_folder_of_a_run(tmp_path):
  _track('tensorboard', tmp_path / 'run').close()
  with pytest.raises(run_folder.RunFolderError, match='holds tensorboard/run/'):
    run_folder.RunFolder.create(tmp_path / 'run', {})
  with run_folder.RunFolder.create(tmp_path / 'run', {}, overwrite=True):
    assert not (tmp_path / 'run' / 'tensorboard').exists()


def test_trackers_of_the_library(tmp_path):
  pytest.importorskip('tensorboardX', reason='needs the extra [tensorboard]')
  found = []

  class Own(trackers.Tracker):
    def write(self, rows):
      found.extend(rows)

  arguments = dict(
    env_settings=dict(rows=5, columns=4),
    batching=disco_rl.Batching(batch_size=4, num_envs=4, rollout_length=4),
    settings={'agent.net_settings.net_args.dense': (8,), 'chunk_size': 2},
    out=tmp_path,
    track=['tensorboard', Own],
  )
  rows = []
  for steps in (4, 6):
    result = disco_rl.evaluate(
      *('catch', 'actor_critic'),
      num_iterations=steps,
      resume=bool(rows),
      **arguments,
    )
    rows = result.rows
    table = metrics.read_csv(tmp_path / 'metrics.csv')
    assert [x['iteration'] for x in rows] == list(range(2, steps + 1, 2))
    events.check_same(tmp_path, table)
  # Of the second call, all rows again.
  assert [row['iteration'] for row in found] == [2, 4, 2, 4, 6]
