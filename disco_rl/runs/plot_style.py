"""What pictures of curves have in common: lines, axes, smoothing, intervals.

Lines differ in lightness and in their dashes, so that they can be told apart in
grey, too.
"""

from collections.abc import Iterable, Mapping, Sequence
import importlib
import textwrap
from typing import Any, NamedTuple

import numpy as np

from disco_rl.runs import metrics

Rows = Sequence[Mapping[str, float]]
Limits = tuple[float, float]

# Neighbours are far from each other in lightness.
COLORS = (*('#08306b', '#e07f10', '#1a7a6c', '#9bcaf0', '#a11838', '#7d8a1e'),)
_DASHES: Sequence[Any] = ('-', (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 2, 2)))

# Names of columns, with their units.
_NAMES = dict(
  average_return='average return per episode',
  average_length='average length of episodes (steps)',
  env_steps='environment steps of one agent',
  iteration='iterations',
  final_return='return of fresh agents',
  value='return',
  rewards='average reward per step',
  total_loss='loss',
  entropy='entropy of the policy (nats)',
  global_gradient_norm='norm of the gradient',
  global_update_norm='norm of the update of θ',
)
_OTHER_X = dict(iteration='env_steps', env_steps='iteration')

# Most names of a legend among the lines; longer ones are below them.
MOST_INSIDE = 4

# Shorter curves are not smoothed.
_LEAST_POINTS = 40
# The width of the moving average, as a fraction of a curve.
_PART = 0.05
_LONGEST_LINE = 64  # Characters of a title.
_LONGEST_SMALL_LINE = 92
_SOFT = '0.35'  # A grey.
_LEGEND = dict(fontsize='small', handlelength=3.2)


class Curve(NamedTuple):
  """The curves of the seeds of one run."""

  at: np.ndarray  # [N], horizontal.
  seeds: np.ndarray  # [K, N].
  mean: np.ndarray  # [N], smoothed.
  low: np.ndarray  # [N], of the 95% interval; NaN with fewer than three seeds.
  high: np.ndarray  # [N].
  window: int  # Points of the moving average.


def line(number: int) -> dict[str, Any]:
  """Returns colour and dashes of the line of a number, from 0."""
  return dict(
    color=COLORS[number % len(COLORS)],
    linestyle=_DASHES[number % len(_DASHES)],
  )


def name(column: str) -> str:
  """Returns the name of a column in words, with its unit."""
  return _NAMES.get(column, column.replace('_', ' '))


def smooth(values: np.ndarray, window: int) -> np.ndarray:
  """Computes a centred moving average, over fewer points at both ends.

  Args:
    values: [..., N]; non-finite values are left out.
    window: number of points, odd.

  Returns:
    [..., N]; NaN where all points of a window are missing.
  """
  if window <= 1:
    return np.where(np.isfinite(values), values, np.nan)
  is_there = np.isfinite(values)
  half = window // 2

  def windows(x: np.ndarray) -> np.ndarray:
    padding = [(0, 0)] * (x.ndim - 1) + [(half, half)]
    padded = np.pad(x.astype(float), padding)
    return np.lib.stride_tricks.sliding_window_view(padded, window, axis=-1)

  total = windows(np.where(is_there, values, 0.0)).sum(axis=-1)
  count = windows(is_there).sum(axis=-1)
  with np.errstate(invalid='ignore', divide='ignore'):
    return total / count


def curve(
  rows: Rows, column: str, x: str, limits: Limits | None = None
) -> Curve | None:
  """Computes the mean of a run's seeds, with an interval.

  Args:
    rows: the run's table of metrics.
    column: column of the values.
    x: column of the horizontal axis.
    limits: lowest and highest possible value, to which intervals are clipped;
      None for those that were observed.

  Returns:
    The curve; None if there are no points.
  """
  at, seeds = metrics.curves(rows, column, x)
  if not at.size:
    return None
  window = 1
  if len(at) >= _LEAST_POINTS:
    window = 2 * int(_PART * len(at) / 2) + 1
  mean, band = metrics.mean_and_band(smooth(seeds, window))
  if len(seeds) < 3:  # The interval of two seeds is too wide to draw.
    band = np.full_like(mean, np.nan)
  finite = seeds[np.isfinite(seeds)]
  if limits is None:
    limits = (finite.min(), finite.max()) if finite.size else (-np.inf, np.inf)
  low, high = np.clip((mean - band, mean + band), *limits)
  return Curve(at, seeds, mean, low, high, window)


def draw(
  axes: Any,
  drawn: Curve,
  number: int,
  label: str,
  marker: str,
  is_crowded: bool = False,
) -> None:
  """Draws single seeds, their mean, and its interval.

  Args:
    axes: axes of matplotlib.
    drawn: the curve.
    number: number of the line, see `line`.
    label: name in the legend.
    marker: marker of the mean.
    is_crowded: whether there are many curves, so that seeds are fainter.
  """
  look = line(number)
  color = look['color']
  faint, shade = (0.1, 0.1) if is_crowded else (0.25, 0.18)
  if len(drawn.seeds) > 1 or drawn.window > 1:
    for own in drawn.seeds:
      axes.plot(drawn.at, own, color=color, alpha=faint, linewidth=0.7)
  if np.isfinite(drawn.low).any():
    axes.fill_between(
      drawn.at, drawn.low, drawn.high, color=color, alpha=shade, linewidth=0
    )
  axes.plot(
    drawn.at, drawn.mean, linewidth=1.9, label=label, marker=marker, **look
  )


def describe(curves: Iterable[Curve], x: str, unit: str = '') -> str:
  """Describes in words what is drawn.

  Args:
    curves: the curves of one panel.
    x: column of the horizontal axis.
    unit: name of the values of `x`; empty for that of the column.

  Returns:
    A line for the reader; empty if there is nothing to explain.
  """
  curves = list(curves)
  numbers = {len(own.seeds) for own in curves}
  if not numbers:
    return ''
  few, many = min(numbers), max(numbers)
  parts = []
  if many > 1:
    words = f'{many}' if few == many else f'{few} to {many}'
    parts.append(f'mean of {words} seeds')
    if any(np.isfinite(own.low).any() for own in curves):
      parts[-1] += ' with 95% interval'
  widths = {
    float(np.median(np.diff(own.at)) * own.window)
    for own in curves
    if own.window > 1
  }
  if len(widths) == 1:
    unit = unit or dict(env_steps='steps').get(x, name(x))
    parts.append(f'moving average over {next(iter(widths)):,.0f} {unit}')
  elif widths:
    parts.append(f'moving average over {_PART:.0%} of a curve')
  if many > 1 or widths:
    parts.append(f'faint: {"single seeds" if many > 1 else "without it"}')
  return '; '.join(parts)


def head(axes: Any, title: str, subtitle: str) -> None:
  """Writes a title above and, smaller and below, what is drawn.

  Args:
    axes: axes of matplotlib, with the legend of the figure, if it has one.
    title: the title; empty for none.
    subtitle: see `describe`.
  """
  figure = axes.figure
  if title:
    figure.suptitle(textwrap.fill(title, _LONGEST_LINE), fontsize='large')
  text = textwrap.fill(subtitle, _LONGEST_SMALL_LINE)
  if text and figure.legends:  # Both would be in one place.
    legend = figure.legends[0]
    legend.set_title(text, prop=dict(size='small'))
    legend.get_title().set_color(_SOFT)
  elif text:
    figure.supxlabel(text, fontsize='small', color=_SOFT)


def label_x(axes: Any, runs: Iterable[Rows], x: str) -> None:
  """Names the horizontal axis, and adds that of steps or iterations above.

  Args:
    axes: axes of matplotlib.
    runs: the tables that are drawn.
    x: column of the horizontal axis.
  """
  axes.set_xlabel(name(x))
  ticker = importlib.import_module('matplotlib.ticker')
  formatter = lambda: ticker.EngFormatter(sep='')
  axes.xaxis.set_major_formatter(formatter())
  other = _OTHER_X.get(x)
  ratio = other and _ratio(runs, x, other)
  if other and ratio:
    above = axes.secondary_xaxis(
      'top', functions=(lambda v: v * ratio, lambda v: v / ratio)
    )
    above.set_xlabel(name(other), fontsize='small')
    above.tick_params(labelsize='small')
    above.xaxis.set_major_formatter(formatter())


def _ratio(runs: Iterable[Rows], x: str, other: str) -> float | None:
  """Returns one column per unit of another; None if rows or runs differ."""
  ratios = {
    round(row[other] / row[x], 6)
    for rows in runs
    for row in (*rows[:1], *rows[-1:])
    if row.get(x) and row.get(other)
  }
  return ratios.pop() if len(ratios) == 1 else None


def finish(axes: Any, has_legend: bool) -> None:
  """Sets grid, margins, the vertical range, and the legend.

  Args:
    axes: axes of matplotlib.
    has_legend: whether there is a legend: among the lines if it is short, and
      otherwise below them.
  """
  axes.grid(alpha=0.3)
  axes.margins(x=0)
  for side in ('top', 'right'):
    axes.spines[side].set_visible(False)
  _fit_to_lines(axes)
  handles, names = axes.get_legend_handles_labels()
  if has_legend and len(names) > MOST_INSIDE:
    legend_below(axes.figure, dict(zip(names, handles, strict=True)))
  elif has_legend and names:
    legend = axes.legend(
      loc='best', framealpha=0.75, edgecolor='none', **_LEGEND
    )
    legend.set_in_layout(False)  # Long names must not shrink the axes.


def legend_below(figure: Any, lines: Mapping[str, Any]) -> None:
  """Adds a legend below all axes of a figure.

  Args:
    figure: the figure.
    lines: names to lines of matplotlib.
  """
  longest = max(map(len, lines), default=0)
  columns = max(1, min(len(lines), int(_LONGEST_LINE / (longest + 6))))
  figure.legend(
    list(lines.values()),
    list(lines),
    loc='outside lower center',
    frameon=False,
    ncols=columns,
    **_LEGEND,
  )


def _fit_to_lines(axes: Any) -> None:
  """Fits the axis to the lines, not to the bands, which may be much wider."""
  values = [line.get_ydata() for line in axes.get_lines()]
  if not values:
    return
  together = np.concatenate([np.asarray(own, float) for own in values])
  together = together[np.isfinite(together)]
  if together.size:
    low, high = together.min(), together.max()
    margin = 0.08 * ((high - low) or 1.0)
    axes.set_ylim(low - margin, high + margin)
