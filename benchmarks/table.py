"""Rows of results: printed as a table, written as JSON."""

from collections.abc import Sequence
import json
import os
import pathlib
import platform
from typing import Any

import jax

from benchmarks import units
from disco_rl.runs import files

# Columns of the table; `details` are only in the JSON.
COLUMNS = (
  'name',
  'units',
  'milliseconds',
  'baseline',
  'ratio',
  'share_of_limit',
  'temporaries_mb',
  'compile_seconds',
  'note',
)


def row(
  name: str,
  timing: units.Timing,
  *,
  baseline: str | None = None,
  gflop: float | None = None,
  temporaries_mb: float | None = None,
  compile_seconds: float | None = None,
  note: str | None = None,
  **details: Any,
) -> dict[str, Any]:
  """Makes a row.

  Args:
    name: what was measured.
    timing: its time.
    baseline: what it was alternated with and is compared to; None if nothing.
    gflop: the arithmetic it cannot avoid, if that is known.
    temporaries_mb: megabytes of the program's temporaries.
    compile_seconds: seconds of tracing and compilation.
    note: a short remark for the table.
    **details: further facts, for the JSON.

  Returns:
    The row; `share_of_limit` is the time that the arithmetic would take at the
    speed of large products, as a share of the time measured.
  """
  share = None
  if gflop is not None:
    share = gflop / (units.UNIT_GFLOP * timing.units)
  return dict(
    name=name,
    units=timing.units,
    milliseconds=1e3 * timing.seconds,
    unit_milliseconds=1e3 * timing.unit_seconds,
    baseline=baseline,
    ratio=None if baseline is None else timing.ratio,
    gflop=gflop,
    share_of_limit=share,
    temporaries_mb=temporaries_mb,
    compile_seconds=compile_seconds,
    note=note,
    details=details,
  )


def header() -> dict[str, Any]:
  """Describes versions and the machine."""
  return dict(
    jax=jax.__version__,
    python=platform.python_version(),
    cores=len(os.sched_getaffinity(0)),
    machine=platform.machine(),
    processor=_processor(),
  )


def report(rows: Sequence[dict[str, Any]], json_path: str | None) -> None:
  """Prints rows as a table, and writes them as JSON if a path is given.

  Args:
    rows: dicts of the same keys, for example from `row`. Those with `name` are
      printed with the columns `COLUMNS`, others with all of theirs.
    json_path: file of `{"header": ..., "rows": ...}`, or None.
  """
  described = header()
  unit = [x['unit_milliseconds'] for x in rows if 'unit_milliseconds' in x]
  if unit:
    described['unit_milliseconds'] = sorted(unit)[len(unit) // 2]
  print(', '.join(f'{k} {_format(v)}' for k, v in described.items()))
  columns = list(rows[0])
  if 'name' in columns:
    columns = [c for c in COLUMNS if any(r.get(c) is not None for r in rows)]
  lines = [columns] + [[_format(r.get(c)) for c in columns] for r in rows]
  widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
  for line in lines:
    cells = [x.ljust(n) for x, n in zip(line, widths, strict=True)]
    print(' | '.join(cells).rstrip())
  if json_path:
    content = dict(header=described, rows=list(rows))
    with files.atomic_writer(json_path) as file:
      file.write(json.dumps(content, indent=2).encode())


def read(json_path: str | pathlib.Path) -> list[dict[str, Any]]:
  """Reads the rows that `report` wrote."""
  return json.loads(pathlib.Path(json_path).read_text())['rows']


def _format(value: Any) -> str:
  if value is None:
    return '-'
  return f'{value:.3g}' if isinstance(value, float) else str(value)


def _processor() -> str:
  """Returns the name of the processor, where the system tells it."""
  try:
    lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
  except OSError:
    return platform.processor()
  names = [x.partition(':')[2] for x in lines if x.startswith('model name')]
  return names[0].strip() if names else platform.processor()
