"""Runs all benchmarks of speed, each in a process of its own.

Prints one table and, with `--json`, writes it to a file. Takes less than ten
minutes on 2 cores. Processes are started without special settings, as users
start theirs; the machine should do nothing else.

  python -m benchmarks.all --json results.json
"""

import argparse
import sys

from benchmarks import sections
from benchmarks import table

# Module and arguments of each section.
SECTIONS = (
  'learner_step --actions 3 6 18 --ways naive client unroll summary',
  'meta_update --agents 2 --inner 2 --modes naive default --rounds 5',
  'meta_update --agents 1 --inner 20 --rounds 3',
  'meta_update --size small --agents 8 --inner 4 --envs 16 --rounds 5 '
  '--modes naive default sharded',
  'training_iteration',
  'host_environment',
  'start',
)
# The same at sizes that only show that everything runs.
TINY_SECTIONS = (
  'learner_step --size small --actions 3 --steps 4 --batch 2 --rounds 1 '
  '--ways naive client unroll summary',
  'meta_update --size small --agents 1 --inner 1 --envs 2 --steps 3 --rounds 1 '
  '--modes naive default',
  'training_iteration --size small --batch 2 --chunk 1 --chunks 1',
  'host_environment --size small --streams 2 --steps 4 --chunk 1 --rounds 1',
  'start --tiny --rounds 1',
)


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
  rows, failed = sections.run(TINY_SECTIONS if arguments.tiny else SECTIONS)
  if rows:
    table.report(rows, arguments.json)
  return 1 if failed else 0


if __name__ == '__main__':
  sys.exit(main())
