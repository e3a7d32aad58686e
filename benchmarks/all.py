"""Runs all benchmarks of speed, each in a process of its own.

Prints one table and, with `--json`, writes it to a file. Takes less than ten
minutes on 2 cores. Processes are started without special settings, as users
start theirs; the machine should do nothing else.

  python -m benchmarks.all --json results.json
"""

import argparse
from collections.abc import Sequence
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks import table

# Module and arguments of each section.
SECTIONS = (
  'learner_step --actions 3 6 18 --ways naive client unroll summary',
  'meta_update --agents 2 --inner 2 --rounds 9',
  'meta_update --agents 1 --inner 20 --rounds 3',
  'meta_update --size small --agents 8 --inner 4 --envs 16 --rounds 9',
  'training_iteration',
  'host_environment',
  'start',
)
# The same at sizes that only show that everything runs.
TINY_SECTIONS = (
  'learner_step --size small --actions 3 --steps 4 --batch 2 --rounds 1 '
  '--ways naive client unroll summary',
  'meta_update --size small --agents 1 --inner 1 --envs 2 --steps 3 --rounds 1',
  'training_iteration --size small --batch 2 --chunk 1 --chunks 1',
  'host_environment --size small --streams 2 --steps 4 --chunk 1 --rounds 1',
  'start --tiny --rounds 1',
)


def run(sections: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
  """Runs benchmarks one after the other.

  Args:
    sections: for each, the name of a module in `benchmarks` and its arguments.

  Returns:
    The rows of all, each with the seconds of its section in `details`; and the
    sections that failed.
  """
  rows: list[dict[str, Any]] = []
  failed = []
  for section in sections:
    module, *words = section.split()
    print(f'{section} ...', file=sys.stderr, flush=True)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
      path = pathlib.Path(folder) / 'rows.json'
      command = [sys.executable, '-m', f'benchmarks.{module}', *words]
      done = subprocess.run(
        [*command, '--json', str(path)],
        stdout=subprocess.DEVNULL,
        check=False,
      )
      if done.returncode or not path.exists():
        failed.append(section)
        continue
      new_rows = table.read(path)
    seconds = time.perf_counter() - start
    for row in new_rows:
      row['details'].update(section=section, section_seconds=seconds)
    rows += new_rows
  return rows, failed


def main() -> int:
  """Runs everything; returns 1 if a benchmark failed, else 0."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--json', help='file to write the results to')
  parser.add_argument(
    '--tiny', action='store_true', help='sizes that only show that it runs'
  )
  arguments = parser.parse_args()
  rows, failed = run(TINY_SECTIONS if arguments.tiny else SECTIONS)
  if rows:
    table.report(rows, arguments.json)
  for section in failed:
    print(f'failed: python -m benchmarks.{section}', file=sys.stderr)
  return 1 if failed else 0


if __name__ == '__main__':
  sys.exit(main())
