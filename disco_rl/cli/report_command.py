"""Shows runs on one page: curves, tables, settings, and how to repeat them.

  disco-rl report runs/catch-disco_103
  disco-rl report runs/disco runs/actor_critic --out both.html
  disco-rl report runs/benchmark

The page is one file of HTML that needs no network. Runs of eval and of
meta-train may be unfinished; several of one command are compared. The folder of
a benchmark gives the page of its results.
"""

import argparse
import pathlib

from disco_rl.cli import benchmark_pages
from disco_rl.cli import errors
from disco_rl.cli import run_names
from disco_rl.cli import run_pages
from disco_rl.runs import page as page_lib


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the command's options."""
  add = parser.add_argument
  add('runs', nargs='+', metavar='RUN', help='folder of a run')
  add(
    '--out',
    default='report.html',
    metavar='FILE',
    help='file of the page (default: report.html)',
  )
  add('--overwrite', action='store_true', help='replace --out if it exists')


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  with errors.as_usage_errors():
    out = pathlib.Path(arguments.out)
    page_lib.check_path(out)
    if out.exists() and not arguments.overwrite:
      raise errors.UsageError(
        f'{out} exists already: replace it with --overwrite'
      )
    paths = [pathlib.Path(path) for path in arguments.runs]
    if any(benchmark_pages.is_benchmark(path) for path in paths):
      if len(paths) > 1:
        raise errors.UsageError(
          'a benchmark has a page of its own: give one folder'
        )
      page = benchmark_pages.page_of(paths[0])
    else:
      page = run_pages.page_of([run_names.read(path) for path in paths])
    page.save(out)
  print(f'page: {out}')
  return 0
