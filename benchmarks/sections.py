"""Runs several benchmarks, each in a process of its own."""

from collections.abc import Sequence
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks import table


def run(sections: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
  """Runs benchmarks one after the other.

  Args:
    sections: for each, the name of a module in `benchmarks` and its arguments.

  Returns:
    The rows of all, each with its section and that section's seconds among its
    details; and the sections that failed, whose errors are printed.
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
        print(f'failed: {section}', file=sys.stderr, flush=True)
        continue
      new_rows = table.read(path)
    seconds = time.perf_counter() - start
    for row in new_rows:
      row['details'].update(section=section, section_seconds=seconds)
    rows += new_rows
  return rows, failed
