"""Draws learning curves."""

from collections.abc import Mapping, Sequence
import importlib
import io
import logging
import os
import pathlib
import sys
from typing import Any

import numpy as np

from disco_rl import fields
from disco_rl import installation
from disco_rl.runs import files
from disco_rl.runs import plot_style

Rows = plot_style.Rows

# Characters of `sparkline`, and their ASCII replacements.
SPARKS = '▁▂▃▄▅▆▇█'
ASCII_SPARKS = '_.-=*#'

# Formats that matplotlib writes without another program.
_FORMATS = frozenset(
  ('eps', 'jpeg', 'jpg', 'pdf', 'png', 'ps', 'svg', 'tif', 'tiff', 'webp')
)


def is_available() -> bool:
  """Returns whether matplotlib is installed."""
  try:
    _import_figure()
  except ImportError:
    return False
  return True


def learning_curves(
  runs: Mapping[str, Rows],
  column: str = 'average_return',
  x: str = 'iteration',
  title: str = '',
  limits: plot_style.Limits | None = None,
  has_legend: bool | None = None,
) -> Any:
  """Draws the curves of one or more runs.

  Thick lines are means of seeds, smoothed if they have many points, with a 95%
  interval for three seeds or more; faint lines are the seeds. If all runs have
  the same number of environment steps per iteration, both have an axis.

  Args:
    runs: name to table of metrics.
    column: column of the vertical axis.
    x: column of the horizontal axis, `'iteration'` or `'env_steps'`.
    title: title of the picture.
    limits: lowest and highest possible value, to which intervals are clipped;
      None for those that were observed.
    has_legend: whether there is a legend; None for one unless a title names a
      single run.

  Returns:
    A matplotlib figure.
  """
  is_crowded = len(runs) > plot_style.MOST_INSIDE
  figure = _new_figure(height=5.2 if is_crowded else 4.2)
  axes = figure.subplots()
  drawn = _draw_curves(axes, runs, column, x, limits)
  plot_style.label_x(axes, runs.values(), x)
  axes.set_ylabel(plot_style.name(column))
  if has_legend is None:
    has_legend = len(drawn) > 1 or not title
  plot_style.finish(axes, has_legend=has_legend and bool(drawn))
  plot_style.head(axes, title, plot_style.describe(drawn, x))
  return figure


def _draw_curves(
  axes: Any,
  runs: Mapping[str, Rows],
  column: str,
  x: str,
  limits: plot_style.Limits | None = None,
  marker: str = '',
  numbers: Mapping[str, int] | None = None,
) -> list[plot_style.Curve]:
  """Draws all seeds of all runs, and their means with intervals."""
  curves = []
  is_crowded = len(runs) > plot_style.MOST_INSIDE
  for i, (name, rows) in enumerate(runs.items()):
    curve = plot_style.curve(rows, column, x, limits)
    if curve is not None:
      number = i if numbers is None else numbers[name]
      plot_style.draw(axes, curve, number, name, marker, is_crowded)
      curves.append(curve)
  return curves


def panels(rows: Rows, columns: Mapping[str, Sequence[str]]) -> Any:
  """Draws columns of one table over meta-updates, in panels.

  Args:
    rows: rows of one seed.
    columns: title of a panel to its columns, of whose names the part after the
      last slash is shown.

  Returns:
    A matplotlib figure.
  """
  figure, grid = _panels(len(columns))
  for axes, (title, names) in zip(grid, columns.items(), strict=True):
    for i, name in enumerate(names):
      at = [row['iteration'] for row in rows]
      label = name.rpartition('/')[2]
      values = [row[name] for row in rows]
      axes.plot(at, values, linewidth=1.1, label=label, **plot_style.line(i))
    axes.set_title(title, fontsize='medium')
    axes.set_xlabel('meta-updates')
    plot_style.finish(axes, has_legend=len(names) > 1)
  return figure


def grid(
  curves: Mapping[str, Mapping[str, Rows]],
  column: str,
  lines: Mapping[str, Mapping[str, float]] | None = None,
  x: str | None = None,
  limits: Mapping[str, plot_style.Limits | None] | None = None,
  title: str = '',
  y_label: str | None = None,
) -> Any:
  """Draws the curves of one or more runs, in panels.

  Args:
    curves: title of a panel to its tables, by name of the run.
    column: column of the vertical axis.
    lines: title of a panel to its horizontal lines, name to value.
    x: column of the horizontal axis; None for meta-updates.
    limits: title of a panel to the lowest and highest possible value, see
      `learning_curves`.
    title: title of the picture.
    y_label: name of the vertical axes; None for that of the column.

  Returns:
    A matplotlib figure.
  """
  figure, all_axes = _panels(len(curves))
  all_drawn: list[plot_style.Curve] = []
  legend: dict[str, Any] = {}
  # A run has the same line in all panels.
  all_names = dict.fromkeys(name for runs in curves.values() for name in runs)
  numbers = {name: i for i, name in enumerate(all_names)}
  for axes, (panel, runs) in zip(all_axes, curves.items(), strict=True):
    # Few points are marked; a single one would not be visible otherwise.
    longest = max((len(rows) for rows in runs.values()), default=0)
    marker = '.' if longest < 50 else ''
    range_of_values = (limits or {}).get(panel)
    drawn = _draw_curves(
      axes, runs, column, x or 'iteration', range_of_values, marker, numbers
    )
    for i, (name, value) in enumerate((lines or {}).get(panel, {}).items()):
      style = dict(color='0.35', linestyle=('--', ':')[i % 2], linewidth=1.2)
      axes.axhline(value, label=name, **style)
    if x is None:
      axes.set_xlabel('meta-updates')
    else:
      plot_style.label_x(axes, runs.values(), x)
    axes.set_ylabel(plot_style.name(column) if y_label is None else y_label)
    axes.set_title(panel, fontsize='medium')
    plot_style.finish(axes, has_legend=False)
    handles, names = axes.get_legend_handles_labels()
    legend |= dict(zip(names, handles, strict=True))
    all_drawn += drawn
  if all_axes:
    # One for all panels; a title names a single run.
    if len(legend) > 1 or not title:
      plot_style.legend_below(figure, legend)
    unit = 'meta-updates' if x is None else ''
    subtitle = plot_style.describe(all_drawn, x or 'iteration', unit)
    plot_style.head(all_axes[0], title, subtitle)
  return figure


def bands(
  curves: Mapping[str, tuple[Any, Any]],
  x_label: str,
  y_label: str,
  title: str = '',
) -> Any:
  """Draws curves with intervals.

  Args:
    curves: name to x, [N], and to (value, low, high), each [N]; intervals that
      are NaN are left out.
    x_label: name of the horizontal axis.
    y_label: name of the vertical axis.
    title: title of the picture.

  Returns:
    A matplotlib figure.
  """
  figure = _new_figure()
  axes = figure.subplots()
  for i, (name, (at, (value, low, high))) in enumerate(curves.items()):
    look = plot_style.line(i)
    axes.plot(at, value, linewidth=1.9, label=name, **look)
    axes.fill_between(
      at, low, high, color=look['color'], alpha=0.18, linewidth=0
    )
  axes.set_xlabel(x_label)
  axes.set_ylabel(y_label)
  plot_style.finish(axes, has_legend=bool(curves))
  plot_style.head(axes, title, 'bands: 95% intervals' if curves else '')
  return figure


def save(figure: Any, path: str | os.PathLike[str]) -> None:
  """Writes a figure atomically, in the format of the file's extension.

  Args:
    figure: a matplotlib figure.
    path: path of the file, see `check_path`.
  """
  check_path(path)
  content = to_bytes(figure, _format_of(path))
  with files.atomic_writer(path, make_folder=True) as file:
    file.write(content)


def to_bytes(figure: Any, picture_format: str) -> bytes:
  """Returns the contents of a figure's file.

  Args:
    figure: a matplotlib figure.
    picture_format: e.g. `'png'` or `'svg'`.

  Returns:
    The contents, the same for the same figure.
  """
  # Without metadata and random identifiers.
  metadata = {'png': 'Software', 'pdf': 'CreationDate', 'svg': 'Date'}
  name = metadata.get(picture_format)
  more = {} if name is None else dict(metadata={name: None})
  content = io.BytesIO()
  for text in figure.findobj(lambda artist: hasattr(artist, 'set_parse_math')):
    text.set_parse_math(False)  # Names may have dollar signs.
  with importlib.import_module('matplotlib').rc_context(
    {'svg.hashsalt': 'disco_rl'}
  ):
    figure.savefig(content, format=picture_format, dpi=120, **more)
  return content.getvalue()


def check_path(path: str | os.PathLike[str]) -> None:
  """Raises a `ValueError` for a file that no picture can be written to.

  Args:
    path: path of the file, whose extension must be a format of matplotlib.
  """
  from matplotlib.backends import backend_agg

  supported = backend_agg.FigureCanvasAgg.get_supported_filetypes()
  known = _FORMATS & supported.keys()
  if _format_of(path) not in known:
    raise ValueError(
      f'a picture cannot be written to {fields.shorten(str(path))}: its name '
      f'must end in {", ".join(f".{name}" for name in sorted(known))}'
    )
  if pathlib.Path(path).is_dir():
    raise ValueError(f'a picture cannot be written to {path}: it is a folder')


def _format_of(path: str | os.PathLike[str]) -> str:
  return pathlib.Path(path).suffix.lower().removeprefix('.')


def _panels(number: int) -> tuple[Any, Sequence[Any]]:
  """Makes a figure with panels in up to two columns, and returns their axes."""
  num_rows = -(-number // 2)
  figure = _new_figure(height=4.2 if num_rows < 2 else 1 + 2.9 * num_rows)
  all_axes = np.ravel(figure.subplots(-(-number // 2), min(2, number)))
  for axes in all_axes[number:]:
    axes.remove()
  return figure, list(all_axes[:number])


def _new_figure(height: float = 4.2) -> Any:
  try:
    figure = _import_figure()
  except ImportError:
    raise ImportError(
      f'pictures need matplotlib: {installation.install_hint("plots")}'
    ) from None
  # Not through pyplot, which has windows and global state.
  return figure.Figure(figsize=(7, height), layout='constrained')


def _import_figure() -> Any:
  """Imports `matplotlib.figure`.

  Suppresses the long warning that it logs if it has no folder for its settings
  and uses a temporary one.
  """
  logger = logging.getLogger('matplotlib')
  level = logger.level
  logger.setLevel(logging.ERROR)
  try:
    try:
      importlib.import_module('matplotlib')
    except ValueError:
      # An unknown backend in its variable. Figures are made without one.
      if os.environ.pop('MPLBACKEND', None) is None:
        raise
      for name in [x for x in sys.modules if x.startswith('matplotlib')]:
        del sys.modules[name]  # Imported in part.
      importlib.import_module('matplotlib')
    return importlib.import_module('matplotlib.figure')
  finally:
    logger.setLevel(level)


def sparkline(values: Sequence[float], marks: str = SPARKS) -> str:
  """Draws a curve as one line of text, for terminals.

  Args:
    values: the points; non-finite values leave a gap.
    marks: characters from low to high.

  Returns:
    One character per point.
  """
  finite = [value for value in values if np.isfinite(value)]
  if not finite:
    return ' ' * len(values)
  low, high = min(finite), max(finite)
  scale = (len(marks) - 1) / ((high - low) or 1.0)
  return ''.join(
    marks[round((value - low) * scale)] if np.isfinite(value) else ' '
    for value in values
  )


def blank(width: float, height: float) -> Any:
  """Makes an empty figure, for other pictures than curves of runs.

  Args:
    width: in inches.
    height: in inches.

  Returns:
    A matplotlib figure without axes.
  """
  figure = _new_figure(height)
  figure.set_size_inches(width, height)
  return figure
