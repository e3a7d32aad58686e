"""Draws how times grow with sizes."""

from collections.abc import Sequence
import math
from typing import Any

import matplotlib.figure

from benchmarks import units
from disco_rl.runs import files

# Way to label, color and marker.
_STYLES = {
  'naive': ('plain', '0.55', 's'),
  'summary': ('agent', 'tab:blue', 'o'),
  'default': ('trainer', 'tab:blue', 'o'),
}
_NUM_COLUMNS = 3


def draw(rows: Sequence[dict[str, Any]], path: str) -> None:
  """Draws one small plot for each quantity, as PNG, 900 pixels wide.

  Args:
    rows: rows of `growth.benchmark`.
    path: file to write.
  """
  quantities = list(dict.fromkeys(row['details']['quantity'] for row in rows))
  num_lines = math.ceil(len(quantities) / _NUM_COLUMNS)
  figure = matplotlib.figure.Figure(
    figsize=(9, 2.9 * num_lines), dpi=100, layout='constrained'
  )
  axes = figure.subplots(num_lines, _NUM_COLUMNS, squeeze=False).flat
  for ax, quantity in zip(axes, quantities, strict=False):
    _draw_one(ax, [r for r in rows if r['details']['quantity'] == quantity])
  for ax in list(axes)[len(quantities) :]:
    ax.set_axis_off()
  with files.atomic_writer(path) as file:
    figure.savefig(file, format='png')


def _draw_one(ax: Any, rows: Sequence[dict[str, Any]]) -> None:
  """Draws the rows of one quantity, one line for each way."""
  value = lambda row: row['details']['value']
  rows = sorted(rows, key=value)
  details = rows[0]['details']
  is_step = 'way' in details
  ways = [r['details'].get('way') or r['details']['mode'] for r in rows]
  for way in dict.fromkeys(ways):
    own = [r for r, w in zip(rows, ways, strict=True) if w == way]
    label, color, marker = _STYLES.get(way, (way, None, 'o'))
    ax.plot(
      [value(r) for r in own],
      [r['units'] for r in own],
      color=color,
      marker=marker,
      markersize=4,
      label=label,
    )
  if is_step:
    limits = {value(r): r['gflop'] / units.UNIT_GFLOP for r in rows}
    ax.plot(
      list(limits),
      list(limits.values()),
      color='0.3',
      linestyle=':',
      label='products alone',
    )
  if len(ax.lines) > 1:
    ax.legend(fontsize=8, frameon=False)
  ticks = sorted({value(r) for r in rows})
  ax.set_xticks(ticks, [str(x) for x in ticks], fontsize=8)
  ax.tick_params(axis='y', labelsize=8)
  ax.set_xlim(left=0)
  ax.set_ylim(bottom=0)
  ax.set_xlabel(details['quantity'], fontsize=9)
  ax.set_ylabel('units', fontsize=9)
  ax.set_title(details['work'], fontsize=9)
  ax.spines[['top', 'right']].set_visible(False)
