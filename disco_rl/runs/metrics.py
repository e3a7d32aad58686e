"""Writes and reads tables of metrics, one row per chunk and seed.

```python
iteration, seed, env_steps, episodes, average_return, average_length, ...
```

`iteration` and `env_steps` are totals at the end of the chunk; all others
describe the chunk alone. `average_return` is the mean over the episodes that
ended in the chunk; see `average_returns` for longer spans. Whole rows are
appended to CSV files, which can be read at any time, also after their writer
was killed.
"""

from collections.abc import Iterable, Mapping, Sequence
import csv
import io
import os
import pathlib
from typing import Any

import numpy as np
import scipy.special

from disco_rl import fields
from disco_rl.runs import files
from disco_rl.runs import reading

Row = dict[str, float]

_INTEGERS = ('iteration', 'seed', 'env_steps', 'episodes')
# Columns that the tables of evaluations have, besides iteration and seed.
COLUMNS = ('env_steps', 'episodes', 'average_return', 'average_length')
# Larger tables are not read. A run writes about 100 bytes per chunk and seed.
_MAX_BYTES = 1 << 30
# How many of the last iterations a report averages over.
LAST = 100


def summarize(
  metrics: Mapping[str, np.ndarray],
  *,
  last_iteration: int,
  seeds: Sequence[int],
  env_steps_per_iteration: int,
) -> list[Row]:
  """Summarises a chunk of iterations.

  Args:
    metrics: from `Population.run`, name to [N, K] for N iterations.
    last_iteration: iterations done at the end of the chunk.
    seeds: the K seeds.
    env_steps_per_iteration: environment steps of one seed per iteration.

  Returns:
    One row per seed. Averages without any values are NaN.
  """
  rows = []
  for k, seed in enumerate(seeds):
    own = {name: np.asarray(x[:, k], np.float64) for name, x in metrics.items()}
    episodes = float(own.pop('num_episodes').sum())
    total_return = float(own.pop('total_return').sum())
    total_length = float(own.pop('total_length').sum())
    own.pop('first_nonfinite', None)
    row: Row = dict(
      iteration=last_iteration,
      seed=seed,
      env_steps=last_iteration * env_steps_per_iteration,
      episodes=int(episodes),
      average_return=total_return / episodes if episodes else np.nan,
      average_length=total_length / episodes if episodes else np.nan,
    )
    for name, x in sorted(own.items()):
      # Iterations without a learner step are NaN.
      learned = x[~np.isnan(x)]
      row[name] = float(learned.mean()) if learned.size else np.nan
    rows.append(row)
  return rows


def append_csv(
  path: str | os.PathLike[str],
  rows: Sequence[Mapping[str, float]],
  columns: Sequence[str] | None = None,
) -> list[str]:
  """Appends rows to a CSV file, all or none; a new file gets a header.

  Args:
    path: path of the file, made if it does not exist.
    rows: rows with the same columns as the file, in any order.
    columns: the columns of the file, from the last call; None to read them.

  Returns:
    The columns of the file; empty if there are no rows.
  """
  if not rows:
    return list(columns or ())
  columns = list(columns or _columns(path) or rows[0])
  if set(columns) != set(rows[0]):
    raise files.StorageError(
      f'cannot write {os.fspath(path)}: it has other columns than the rows of '
      f'this run, {", ".join(rows[0])}'
    )
  ordered = [{name: row[name] for name in columns} for row in rows]
  files.append(path, lambda is_new: _to_text(ordered, header=is_new).encode())
  return columns


def to_csv(rows: Sequence[Mapping[str, float]]) -> str:
  """Returns the contents of a CSV file with these rows."""
  return _to_text(rows, header=True) if rows else ''


def read_csv(
  path: str | os.PathLike[str], columns: Sequence[str] | None = None
) -> list[Row]:
  """Reads all complete rows of a CSV file; the last may be incomplete.

  Args:
    path: path of the file; without a file, there are no rows.
    columns: the columns that its writer writes, which must be those of the
      file, in any order; None for any.

  Returns:
    The rows, with NaN for empty fields.

  Raises:
    UnreadableFileError: if it is not such a table.
  """
  path = pathlib.Path(path)
  if not path.exists():
    return []
  try:
    *lines, rest = reading.read_text(path, _MAX_BYTES).split('\n')
    table = csv.reader(lines, strict=True)
    found = next(table, [])
    # Its writer may have been killed in the first line.
    is_cut = not lines and (
      columns is None or _header(columns).startswith(rest)
    )
    if not is_cut and not {'iteration', 'seed'} <= set(found):
      raise ValueError('its first line does not name the columns')
    if len(set(found)) < len(found):
      raise ValueError('its first line names a column twice')
    if not is_cut and columns is not None:
      _check_columns(found, columns)
    rows = [
      _parse_row(found, row, number) for number, row in enumerate(table, 2)
    ]
    _check_order(rows)
    return rows
  except (csv.Error, ValueError) as error:
    raise reading.UnreadableFileError(
      f'{path} is not a table of metrics: {error}'
    ) from None


def curves(
  rows: Iterable[Mapping[str, float]], column: str, x: str = 'iteration'
) -> tuple[np.ndarray, np.ndarray]:
  """Extracts one curve per seed from a table.

  Args:
    rows: rows of a table; points that not all seeds have are left out.
    column: column of the values.
    x: column of the horizontal axis, `'iteration'` or `'env_steps'`.

  Returns:
    x, [N], and the curves, [K, N], seeds in increasing order.
  """
  by_seed: dict[float, dict[float, float]] = {}
  for row in rows:
    if column not in row:
      raise ValueError(f'no column {column!r}; there are {sorted(row)}')
    by_seed.setdefault(row['seed'], {})[row[x]] = row[column]
  if not by_seed:
    return np.zeros(0), np.zeros((0, 0))
  common = sorted(
    set.intersection(*(set(points) for points in by_seed.values()))
  )
  values = [[by_seed[seed][at] for at in common] for seed in sorted(by_seed)]
  return np.asarray(common), np.asarray(values)


def mean_and_band(
  values: np.ndarray, confidence: float = 0.95
) -> tuple[Any, Any]:
  """Computes the mean over seeds, and its confidence band.

  Args:
    values: [K, ...], one per seed; non-finite values are left out.
    confidence: confidence level of the interval (Student's t).

  Returns:
    The mean, [...], and the half-width of the interval, [...], which is NaN for
    fewer than two values.
  """
  is_there = np.isfinite(values)
  num = is_there.sum(axis=0)
  known = np.where(is_there, values, 0.0)
  with np.errstate(invalid='ignore', divide='ignore'):
    mean = known.sum(axis=0) / num
    squares = np.where(is_there, np.square(known - mean), 0.0).sum(axis=0)
    quantile = scipy.special.stdtrit(num - 1, 0.5 + confidence / 2)
    band = quantile * np.sqrt(squares / (num - 1) / num)
  return mean, np.where(num < 2, np.nan, band)


def average_returns(
  rows: Sequence[Mapping[str, float]], num_iterations: int | None = None
) -> dict[int, float]:
  """Computes the average return of every seed, the mean over its episodes.

  All episodes have the same weight, also if their rows have different numbers
  of episodes. All reports use this definition.

  Args:
    rows: rows of a table.
    num_iterations: how many of the last iterations count (by the `iteration` of
      a row); None for all.

  Returns:
    Seed to average; NaN for a seed without episodes.
  """
  if not rows:
    return {}
  first = -np.inf
  if num_iterations is not None:
    first = max(row['iteration'] for row in rows) - num_iterations
  averages = {}
  for seed in sorted({int(row['seed']) for row in rows}):
    counted = [
      row for row in rows if row['seed'] == seed and row['iteration'] > first
    ]
    averages[seed] = weighted_mean(
      [row['average_return'] for row in counted],
      [row['episodes'] for row in counted],
    )
  return averages


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
  """Computes a weighted mean, e.g. of rows by their numbers of episodes.

  Args:
    values: [N]; non-finite values are left out.
    weights: [N], at least 0.

  Returns:
    The mean; NaN without any weight.
  """
  counted = [
    (weight, value)
    for weight, value in zip(weights, values, strict=True)
    if np.isfinite(value)
  ]
  count = sum(weight for weight, _ in counted)
  total = sum(weight * value for weight, value in counted)
  return float(total / count) if count else float('nan')


def _columns(path: str | os.PathLike[str]) -> list[str]:
  """Returns the columns of a CSV file; none if it is new."""
  path = pathlib.Path(path)
  if not path.is_file() or not path.stat().st_size:
    return []
  with reading.open_file(path) as (file, _):
    header = file.readline(1 << 16).decode(errors='replace')
  return next(csv.reader([header.strip()]), [])


def _to_text(rows: Sequence[Mapping[str, float]], header: bool) -> str:
  text = io.StringIO()
  if header:
    text.write(_header(list(rows[0])))
  writer = csv.DictWriter(text, list(rows[0]), lineterminator='\n')
  for row in rows:
    writer.writerow({name: _format(name, x) for name, x in row.items()})
  return text.getvalue()


def _header(columns: Sequence[str]) -> str:
  """Returns the first line of a CSV file."""
  text = io.StringIO()
  csv.writer(text, lineterminator='\n').writerow(columns)
  return text.getvalue()


def _format(name: str, value: float) -> str:
  if name in _INTEGERS:
    return str(int(value))
  return '' if np.isnan(value) else f'{value:.7g}'


def _parse_row(columns: list[str], row: list[str], number: int) -> Row:
  """Parses the texts of line `number`."""
  if len(row) != len(columns):
    raise ValueError(
      f'line {number} has {len(row)} fields, but there are {len(columns)} '
      'columns'
    )
  parsed = {}
  for name, text in zip(columns, row, strict=True):
    try:
      parsed[name] = _parse(name, text)
    except ValueError:
      raise ValueError(
        f'line {number}: {name} is {fields.shorten(text)}, which is not a '
        'valid number'
      ) from None
  return parsed


def _check_columns(found: Sequence[str], columns: Sequence[str]) -> None:
  """Raises a `ValueError` if a file has other columns than a run writes."""
  absent = [name for name in columns if name not in found]
  others = [name for name in found if name not in columns]
  if not absent and not others:
    return
  if absent:
    what = f'no column {absent[0]}'
  else:
    what = f'a column {fields.shorten(others[0])} that this run does not write'
  raise ValueError(
    f'it has {what}; it was changed, or is of another run or version'
  )


def _check_order(rows: Sequence[Row]) -> None:
  """Raises a `ValueError` if rows are repeated or not in their order."""
  known, last = set(), 0.0
  for number, row in enumerate(rows, 2):
    if row['iteration'] < last:
      raise ValueError(
        f'line {number} is of iteration {row["iteration"]}, after one of '
        f'iteration {last}'
      )
    last = row['iteration']
    key = row['iteration'], row['seed']
    if key in known:
      raise ValueError(
        f'line {number} repeats iteration {key[0]} of seed {key[1]}'
      )
    known.add(key)


def _parse(name: str, text: str) -> float:
  if name not in _INTEGERS:
    return float(text) if text else float('nan')
  value = int(text)
  if not 0 <= value < 2**53:
    raise ValueError(f'{name} is out of range')
  return value
