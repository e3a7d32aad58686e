"""Measures how meta-updates scale over devices and processes.

Weak scaling has as many agents as devices, strong scaling always eight agents;
devices are simulated, or processes of one device each, over the loopback
interface. Further rows have the memory of programs by agents, inner updates and
actions. All devices share the cores of this machine: the best that can be seen
is that the throughput stays what it is with as many devices as cores. Prints
tables in Markdown. Each program has a process of its own. Takes about eleven
minutes on 2 cores.

  python -m benchmarks.scaling --json scaling.json --png docs/scaling.png
  python -m benchmarks.scaling --from-json scaling.json --png docs/scaling.png
  python -m benchmarks.scaling --quick
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
import sys
from typing import Any

from benchmarks import sections
from benchmarks import table
from disco_rl.runs import files

_UPDATE = 'sharded_update --rounds 5'
_MEMORY = 'meta_update --size small --envs 16 --rounds 1'
WEAK, STRONG, MEMORY = 'weak', 'strong', 'memory'
# Kind of each section, and what varies in it, to the sections.
Sections = Mapping[tuple[str, str], tuple[str, ...]]
SECTIONS: Sections = {
  (WEAK, 'devices'): tuple(
    f'{_UPDATE} --agents {n} --devices {n}' for n in (1, 2, 4, 8)
  ),
  (WEAK, 'processes'): tuple(
    f'{_UPDATE} --agents {n} --processes {n}' for n in (1, 2, 4)
  ),
  (STRONG, 'devices'): tuple(
    f'{_UPDATE} --agents 8 --devices {n}' for n in (1, 2, 4, 8)
  ),
  (STRONG, 'processes'): tuple(
    f'{_UPDATE} --agents 8 --processes {n}' for n in (1, 2, 4)
  ),
  (MEMORY, 'agents'): (f'{_MEMORY} --inner 2 --agents 1 2 4 8',),
  (MEMORY, 'inner updates'): (f'{_MEMORY} --agents 1 --inner 1 2 4 8 20',),
  (MEMORY, 'actions'): (
    'learner_step --ways summary --rounds 1 --actions 3 6 18',
  ),
}
_TINY = '--size small --rounds 1 --steps 3'
_TINY_UPDATE = f'sharded_update {_TINY} --envs 2 --inner 1'
# The same at sizes that only show that everything runs.
QUICK_SECTIONS: Sections = {
  (WEAK, 'devices'): (
    f'{_TINY_UPDATE} --agents 1 --devices 1',
    f'{_TINY_UPDATE} --agents 2 --devices 2',
  ),
  (STRONG, 'processes'): (f'{_TINY_UPDATE} --agents 2 --processes 2',),
  (MEMORY, 'inner updates'): (
    f'meta_update {_TINY} --envs 2 --agents 1 --inner 1',
  ),
  (MEMORY, 'actions'): (
    'learner_step --size small --ways summary --batch 2 --steps 4 --rounds 1 '
    '--actions 2 3',
  ),
}
_DETAILS = {
  'devices': 'num_devices',
  'processes': 'num_processes',
  'agents': 'num_agents',
  'inner updates': 'num_inner_updates',
  'actions': 'num_actions',
}


def benchmark(
  chosen: Sections,
) -> tuple[list[dict[str, Any]], list[str]]:
  """Runs all sections.

  Args:
    chosen: see `SECTIONS`.

  Returns:
    Rows of `table.py`, whose details have the `scaling` (weak, strong or
    memory), the `quantity` that varies and its `value`; and the sections that
    failed.
  """
  rows, failed = [], []
  for (scaling, quantity), own in chosen.items():
    new_rows, new_failed = sections.run(own)
    for row in new_rows:
      row['details'].update(
        scaling=scaling,
        quantity=quantity,
        value=row['details'][_DETAILS[quantity]],
      )
    rows += new_rows
    failed += new_failed
  return rows, failed


def markdown(rows: Sequence[dict[str, Any]]) -> str:
  """Returns the tables of the page: of scaling, and of memory.

  Args:
    rows: from `benchmark`.
  """
  detail = lambda name: lambda row: str(row['details'][name])
  number = lambda name: lambda row: f'{row["details"][name]:.3g}'
  of_scaling: dict[str, Callable[[Any], str]] = {
    'scaling': detail('scaling'),
    'over': lambda row: (
      f'{row["details"]["value"]} {row["details"]["quantity"]}'
    ),
    'agents': detail('num_agents'),
    'ms': lambda row: f'{row["milliseconds"]:.3g}',
    'agents/s': number('agents_per_second'),
    'collective operations': detail('calls'),
    'their bytes': lambda row: f'{row["details"]["communicated_bytes"]:,}',
    'a sum of these alone, ms': number('sum_milliseconds'),
    'share': lambda row: f'{row["details"]["communication_share"]:.2%}',
    'state, MB per device': number('state_mb'),
    'temporaries, MB per device': lambda row: f'{row["temporaries_mb"]:.3g}',
  }
  of_memory: dict[str, Callable[[Any], str]] = {
    'what varies': detail('quantity'),
    'value': detail('value'),
    'temporaries, MB': lambda row: f'{row["temporaries_mb"]:.3g}',
  }
  is_memory = lambda row: row['details']['scaling'] == MEMORY
  return '\n\n'.join(
    _table(columns, [row for row in rows if is_memory(row) == wanted])
    for columns, wanted in ((of_scaling, False), (of_memory, True))
  )


def draw(rows: Sequence[dict[str, Any]], path: str) -> None:
  """Draws throughput and memory, as PNG, 900 pixels wide.

  Args:
    rows: from `benchmark`.
    path: file to write.
  """
  import matplotlib.figure  # An extra.

  figure = matplotlib.figure.Figure(
    figsize=(9, 3), dpi=100, layout='constrained'
  )
  axes = figure.subplots(1, 3)
  for ax, quantity in zip(axes, ('devices', 'processes'), strict=False):
    for scaling, marker in ((WEAK, 'o'), (STRONG, 's')):
      _draw_line(
        ax, rows, scaling, quantity, marker, scaling, _agents_per_second
      )
    ax.set_xlabel(f'{quantity}, on the same cores', fontsize=9)
    ax.set_ylabel('agents per second', fontsize=9)
  for quantity, marker in (('agents', 'o'), ('inner updates', 's')):
    _draw_line(
      axes[2],
      rows,
      MEMORY,
      quantity,
      marker,
      quantity,
      lambda row: row['temporaries_mb'],
    )
  axes[2].set_xlabel('number', fontsize=9)
  axes[2].set_ylabel('temporaries, MB', fontsize=9)
  for ax in axes:
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.tick_params(labelsize=8)
    ax.spines[['top', 'right']].set_visible(False)
    if ax.lines:
      ax.legend(fontsize=8, frameon=False)
  with files.atomic_writer(path) as file:
    figure.savefig(file, format='png')


def _agents_per_second(row: dict[str, Any]) -> float:
  return float(row['details']['agents_per_second'])


def _draw_line(
  ax: Any,
  rows: Sequence[dict[str, Any]],
  scaling: str,
  quantity: str,
  marker: str,
  label: str,
  value: Callable[[Any], float],
) -> None:
  """Draws the rows of one kind of scaling and one quantity, if any."""
  own = [
    row
    for row in rows
    if (row['details']['scaling'], row['details']['quantity'])
    == (scaling, quantity)
  ]
  if own:
    xs = [row['details']['value'] for row in own]
    ax.plot(xs, list(map(value, own)), marker=marker, markersize=4, label=label)


def _table(
  columns: Mapping[str, Callable[[Any], str]], rows: Sequence[dict[str, Any]]
) -> str:
  lines = [list(columns), ['---'] * len(columns)]
  lines += [[show(row) for show in columns.values()] for row in rows]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def main() -> int:
  """Measures and draws; returns 1 if a benchmark failed, else 0."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--json', help='file to write the results to')
  parser.add_argument('--png', help='file to draw the plots to')
  parser.add_argument(
    '--from-json', metavar='FILE', help='show earlier results, measure nothing'
  )
  parser.add_argument(
    '--quick', action='store_true', help='sizes that only show that it runs'
  )
  arguments = parser.parse_args()
  failed: list[str] = []
  if arguments.from_json:
    rows = table.read(arguments.from_json)
  else:
    rows, failed = benchmark(QUICK_SECTIONS if arguments.quick else SECTIONS)
  if rows:
    if not arguments.from_json:
      table.report(rows, arguments.json)
    print(markdown(rows))
    if arguments.png:
      draw(rows, arguments.png)
  return 1 if failed else 0


if __name__ == '__main__':
  sys.exit(main())
