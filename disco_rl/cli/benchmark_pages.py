"""Puts the results of a benchmark on one page of HTML."""

import csv
import pathlib
import shlex

from disco_rl.benchmarking import campaign
from disco_rl.cli import errors
from disco_rl.runs import page as page_lib
from disco_rl.runs import reading

_MAX_BYTES = 1 << 26
# Pictures and tables that `benchmarking/report.py` writes, to their captions.
_PICTURES = {
  'curves.png': 'Learning curves, one panel per task.',
  'profiles.png': 'Fraction of runs above each normalised score.',
  'sample_efficiency.png': 'Interquartile mean of scores during training.',
}
_TABLES = {
  'aggregates.csv': 'Statistics of normalised scores, with 95% intervals.',
  'scores.csv': 'Final returns of every rule, task and seed.',
}


def is_benchmark(path: pathlib.Path) -> bool:
  """Returns whether a folder holds a benchmark."""
  return (path / 'spec.json').is_file()


def page_of(path: pathlib.Path) -> page_lib.Page:
  """Makes the page of a benchmark.

  Args:
    path: path of its folder.

  Returns:
    The page, not written yet.

  Raises:
    CampaignError: if the folder was changed.
    UsageError: if the benchmark has no results yet.
  """
  spec = campaign.read_spec(path)
  if not (path / 'scores.csv').exists():
    raise errors.UsageError(
      f'{path} has no results yet: it has no scores.csv. Only benchmarks have '
      'one (not --tune and --anchors), when they are finished'
    )
  rules, seeds = list(spec['rules']), spec['seeds']
  page = page_lib.Page(
    f'Benchmark {spec["suite"]}',
    f'{", ".join(rules)}; seeds {", ".join(map(str, seeds))}',
  )
  page.section('Results')
  for name, caption in _PICTURES.items():
    if (path / name).is_file():
      page.figure((path / name).read_bytes(), caption)
  page.section('Tables')
  for name, caption in _TABLES.items():
    if (path / name).is_file():
      text = reading.read_text(path / name, _MAX_BYTES)
      header, *rows = list(csv.reader(text.splitlines())) or [[]]
      if header and all(len(row) == len(header) for row in rows):
        page.table(header, [list(map(_short, row)) for row in rows], caption)
  page.section('Repeat')
  page.code(
    shlex.join(
      [
        *('disco-rl', 'benchmark', '--suite', spec['suite']),
        *('--seeds', str(len(seeds)), '--out', 'DIR', '--rules', *rules),
      ]
    )
  )
  page.paragraph(
    'With the same tuned settings and anchors (--tuned, --anchors-file), if '
    'other ones were used than those of the suite.'
  )
  return page


def _short(cell: str) -> str:
  """Returns a cell with numbers in a readable length."""
  try:
    value = float(cell)
  except ValueError:
    return cell
  return cell if value.is_integer() else f'{value:.3f}'
