"""What pictures of curves have in common."""

import colorsys
import itertools

import numpy as np
import pytest

from disco_rl.runs import plot_style
from disco_rl.runs import plots


def _rows(num, seeds=(0,), steps=7.0, scale=1.0):
  rng = np.random.RandomState(0)
  return [
    dict(
      iteration=i,
      env_steps=steps * i,
      seed=seed,
      average_return=float(scale * rng.uniform(0.5, 1.0)),
    )
    for i in range(1, num + 1)
    for seed in seeds
  ]


def test_smoothing_is_a_centred_moving_average():
  values = np.random.RandomState(0).normal(size=(2, 9))
  values[0, 3] = np.nan
  expected = [
    [np.nanmean(own[max(i - 2, 0) : i + 3]) for i in range(9)] for own in values
  ]
  np.testing.assert_allclose(plot_style.smooth(values, 5), expected)
  np.testing.assert_array_equal(plot_style.smooth(values, 1), values)
  assert np.isnan(plot_style.smooth(np.full(5, np.nan), 3)).all()


def test_intervals_are_clipped_to_what_is_possible():
  rows = _rows(60, seeds=(0, 1, 2))
  free = plot_style.curve(rows, 'average_return', 'iteration', (-9.0, 9.0))
  observed = plot_style.curve(rows, 'average_return', 'iteration')
  declared = plot_style.curve(rows, 'average_return', 'iteration', (-1.0, 0.8))
  largest = max(row['average_return'] for row in rows)
  assert free.high.max() > largest >= observed.high.max()
  assert declared.high.max() == 0.8
  np.testing.assert_array_equal(free.mean, observed.mean)
  assert free.window == 3
  two = plot_style.curve(_rows(5, seeds=(0, 1)), 'average_return', 'iteration')
  assert np.isnan(two.low).all() and two.window == 1


def test_lines_can_be_told_apart_in_grey():
  looks = [plot_style.line(i) for i in range(12)]
  assert len({str(look) for look in looks}) == 12

  def lightness(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return colorsys.rgb_to_yiq(*parts)[0]

  for one, other in itertools.combinations(looks[:4], 2):
    assert one['linestyle'] != other['linestyle']
    assert abs(lightness(one['color']) - lightness(other['color'])) > 0.1


def test_axes_are_named_with_units_and_steps_are_above():
  pytest.importorskip('matplotlib')
  figure = plots.learning_curves({'a': _rows(3), 'b': _rows(4)}, title='Both')
  (axes,) = figure.axes
  assert axes.get_xlabel() == 'iterations'
  assert axes.get_ylabel() == 'average return per episode'
  (above,) = axes.child_axes
  assert above.get_xlabel() == 'environment steps of one agent'
  figure.draw_without_rendering()
  np.testing.assert_allclose(above.get_xlim(), 7 * np.asarray(axes.get_xlim()))
  names = [text.get_text() for text in axes.get_legend().get_texts()]
  assert names == ['a', 'b']
  # Runs with different numbers of steps have only one axis.
  figure = plots.learning_curves({'a': _rows(3), 'b': _rows(3, steps=8.0)})
  assert not figure.axes[0].child_axes
  figure = plots.learning_curves({'a': _rows(3)}, x='env_steps', title='Only a')
  assert figure.axes[0].get_xlabel() == 'environment steps of one agent'
  assert figure.axes[0].get_legend() is None  # The title names it.


def test_what_is_drawn_is_said_in_words():
  curve = lambda rows: plot_style.curve(rows, 'average_return', 'iteration')
  describe = lambda *curves: plot_style.describe(curves, 'iteration')
  assert describe() == '' == describe(curve(_rows(5)))
  assert describe(curve(_rows(60))) == (
    'moving average over 3 iterations; faint: without it'
  )
  text = describe(curve(_rows(60, (0, 1, 2))), curve(_rows(60, (0,))))
  assert text.startswith('mean of 1 to 3 seeds with 95% interval; moving')


@pytest.mark.parametrize('suffix', ['svg', 'pdf', 'png'])
def test_the_same_curves_give_the_same_file(suffix, tmp_path):
  pytest.importorskip('matplotlib')
  for name in ('a', 'b'):
    figure = plots.learning_curves({'x': _rows(3, (0, 1, 2))}, title='x')
    plots.save(figure, tmp_path / f'{name}.{suffix}')
  contents = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
  assert contents[0] == contents[1] and len(contents) == 2
  with pytest.raises(ValueError, match=r'must end in .*\.pdf, .*\.png'):
    plots.save(figure, tmp_path / 'c.xcf')


def test_names_may_have_any_characters():
  pytest.importorskip('matplotlib')
  runs = {'$\\bad$ <&>': _rows(3), '$': _rows(3)}
  figure = plots.learning_curves(runs, title='of $\\worse$')
  assert plots.to_bytes(figure, 'svg').startswith(b'<?xml')
