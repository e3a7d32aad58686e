"""Tables of metrics, their files, and statistics of them."""

import numpy as np
import pytest

from disco_rl.runs import files
from disco_rl.runs import metrics as metrics_lib
from disco_rl.runs import plots
from disco_rl.runs import sinks

METRICS = dict(
  num_episodes=np.array([[0, 2], [1, 2], [3, 0]]),
  total_return=np.array([[0.0, 2.0], [1.0, -2.0], [2.0, 0.0]]),
  total_length=np.array([[0.0, 8.0], [5.0, 8.0], [11.0, 0.0]]),
  total_loss=np.array([[np.nan, np.nan], [1.0, np.nan], [2.0, np.nan]]),
  first_nonfinite=-np.ones((3, 2), int),
)


def _rows(last_iteration=3):
  return metrics_lib.summarize(
    METRICS,
    last_iteration=last_iteration,
    seeds=(4, 7),
    env_steps_per_iteration=10,
  )


def test_a_chunk_is_averaged_over_episodes_not_iterations():
  first, second = _rows()
  assert first == dict(
    iteration=3,
    seed=4,
    env_steps=30,
    episodes=4,
    average_return=0.75,
    average_length=4.0,
    total_loss=1.5,
  )
  assert second['average_return'] == 0 and np.isnan(second['total_loss'])


def test_csv_round_trip_in_pieces(tmp_path):
  path = tmp_path / 'm.csv'
  assert metrics_lib.read_csv(path) == []
  for last in (3, 6):
    metrics_lib.append_csv(path, _rows(last))
  read = metrics_lib.read_csv(path)
  wanted = _rows(3) + _rows(6)
  assert [list(row) for row in read] == [list(row) for row in wanted]
  for row, wanted_row in zip(read, wanted, strict=True):
    np.testing.assert_equal(list(row.values()), list(wanted_row.values()))
  assert path.read_text() == metrics_lib.to_csv(wanted)
  # A row that was being written when the process was killed does not count.
  path.write_text(path.read_text() + '9,4,90,1')
  assert len(metrics_lib.read_csv(path)) == 4
  for nonsense in ('nonsense\n1\n', 'iteration,seed\n1,x\n', '\0\n1\n'):
    path.write_text(nonsense)
    with pytest.raises(ValueError, match='is not a table of metrics'):
      metrics_lib.read_csv(path)


def test_curves_have_the_points_all_seeds_have():
  rows = _rows(3) + _rows(6) + _rows(9)[:1]
  at, values = metrics_lib.curves(rows, 'average_return', x='env_steps')
  np.testing.assert_array_equal(at, [30, 60])
  np.testing.assert_array_equal(values, [[0.75, 0.75], [0, 0]])
  with pytest.raises(ValueError, match="no column 'reward'"):
    metrics_lib.curves(rows, 'reward')


def test_band_is_students():
  values = np.array([[1.0], [2.0], [4.0]])
  mean, band = metrics_lib.mean_and_band(values)
  np.testing.assert_allclose(mean, 7 / 3)
  # 4.302653 is the 97.5% quantile of t with two degrees of freedom.
  np.testing.assert_allclose(band, 4.302653 * np.sqrt(7 / 9), rtol=1e-6)
  assert np.isnan(metrics_lib.mean_and_band(values[:1])[1]).all()
  # Of the seeds that have a value.
  gaps = np.array([[1.0, np.nan], [np.nan, np.nan], [2.0, 3.0], [4.0, np.nan]])
  mean, gap_band = metrics_lib.mean_and_band(gaps)
  np.testing.assert_allclose(mean, [7 / 3, 3])
  np.testing.assert_allclose(gap_band, [band[0], np.nan])


def test_last_and_whole_are_one_average_over_the_same_rows():
  """Rows of one and of nine episodes: every episode counts once."""
  rows = [
    dict(iteration=20, seed=0, episodes=9, average_return=10.0),
    dict(iteration=40, seed=0, episodes=1, average_return=100.0),
  ]
  wanted = {0: 19.0}
  assert metrics_lib.average_returns(rows) == wanted
  assert metrics_lib.average_returns(rows, 100) == wanted
  assert metrics_lib.average_returns(rows, metrics_lib.LAST) == wanted


def test_average_returns_of_the_last_iterations_weigh_episodes():
  def row(iteration, episodes, average_return):
    return dict(
      iteration=iteration,
      seed=0,
      episodes=episodes,
      average_return=average_return,
    )

  rows = [row(80, 9, -1.0), row(120, 1, 0.0), row(180, 3, 1.0)]
  assert metrics_lib.average_returns(rows, 100) == {0: 0.75}
  assert metrics_lib.average_returns([], 100) == {}


def test_pictures(tmp_path):
  runs = dict(one=_rows(3) + _rows(6), other=_rows(3)[:1], nothing=[])
  figure = plots.learning_curves(runs, title='both')
  (axes,) = figure.axes
  # Two seeds and their mean; a single seed is its own mean.
  assert len(axes.lines) == 4
  plots.save(figure, tmp_path / 'x.png')
  assert (tmp_path / 'x.png').read_bytes()[:4] == b'\x89PNG'


def test_sparkline():
  assert plots.sparkline([0, 1, np.nan, 0.5]) == '▁█ ▅'
  assert plots.sparkline([np.nan]) == ' '


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    (b'iteration,x\n1,2\n', 'its first line does not name the columns'),
    (b'iteration,seed,iteration\n1,2,3\n', 'names a column twice'),
    (b'iteration,seed,x\n1,2\n', 'line 2 has 2 fields, but there are 3'),
    (b'iteration,seed\n1,2\n1,2,3\n', 'line 3 has 3 fields'),
    (
      b'iteration,seed\n1,2\n1,3\n1,2\n',
      'line 4 repeats iteration 1 of seed 2',
    ),
    (
      b'iteration,seed\n1,2\n3,2\n2,2\n',
      'line 4 is of iteration 2, after one of iteration 3',
    ),
    (b'iteration,seed\n-1,2\n', "line 2: iteration is '-1'"),
    (b'iteration,seed\n1,2.5\n', "line 2: seed is '2.5'"),
    (b'iteration,seed,x\n1,2,abc\n', "line 2: x is 'abc'"),
    (b'iteration,seed\n' + b'9' * 5000 + b',1\n', 'line 2: iteration is'),
    (b'iteration,seed\n1,2\xff\n', 'it is not a text in UTF-8'),
    (b'iteration,seed\n1,"2\n', 'is not a table of metrics'),
  ],
)
def test_damaged_tables_are_refused_with_the_line(tmp_path, content, message):
  path = tmp_path / 'metrics.csv'
  path.write_bytes(content)
  with pytest.raises(ValueError, match=message) as error:
    metrics_lib.read_csv(path)
  assert str(path) in str(error.value) and len(str(error.value)) < 300


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    ('iteration,seed,foo\n', 'it has no column loss; it was changed'),
    ('iteration,seed\n1,0\n', 'it has no column loss'),
    ('iteration,seed,loss,foo\n', "a column 'foo' that this run does not"),
    ('zz', 'its first line does not name the columns'),
    ('iteration,seed,loss' + 99 * 'x', 'does not name the columns'),
  ],
)
def test_tables_with_other_columns_are_refused(tmp_path, content, message):
  """Also without any rows."""
  path = tmp_path / 'metrics.csv'
  path.write_text(content)
  with pytest.raises(ValueError, match=message):
    metrics_lib.read_csv(path, ('seed', 'iteration', 'loss'))


@pytest.mark.parametrize('content', ['', 'iter', 'iteration,seed,loss\n1,'])
def test_a_writer_that_was_killed_at_the_start(tmp_path, content):
  path = tmp_path / 'metrics.csv'
  path.write_text(content)
  assert metrics_lib.read_csv(path, ('iteration', 'seed', 'loss')) == []


def test_rows_are_appended_in_the_order_of_the_file(tmp_path):
  path = tmp_path / 'metrics.csv'
  path.write_text('seed,iteration,loss\n0,1,2.5\n')
  metrics_lib.append_csv(path, [dict(iteration=2, seed=0, loss=3.5)])
  assert path.read_text().endswith('0,1,2.5\n0,2,3.5\n')
  with pytest.raises(files.StorageError, match='it has other columns'):
    metrics_lib.append_csv(path, [dict(iteration=3, seed=0)])
  assert path.read_text().endswith('0,2,3.5\n')


def test_a_sink_reads_the_columns_of_its_file_once(tmp_path, monkeypatch):
  path = tmp_path / 'metrics.csv'
  path.write_text('iteration,loss,seed\n1,2.5,0\n')
  sink, reads = sinks.Csv(path), []
  read = metrics_lib._columns
  monkeypatch.setattr(
    metrics_lib, '_columns', lambda path: reads.append(path) or read(path)
  )
  for i in (2, 3, 4):
    sink.write([dict(iteration=i, seed=0, loss=3.5)])
  assert path.read_text().endswith('\n4,3.5,0\n') and len(reads) == 1
  with pytest.raises(files.StorageError, match='it has other columns'):
    sink.write([dict(iteration=5, seed=0)])
  path.unlink()  # The next rows have a header again.
  sink.write([dict(iteration=5, seed=0, loss=3.5)])
  assert path.read_text() == 'iteration,loss,seed\n5,3.5,0\n'
