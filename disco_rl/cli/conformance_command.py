"""Checks another implementation of the rule against numbers, case by case.

  disco-rl conformance --write cases
  disco-rl conformance outputs

The first command writes the cases: inputs, settings, expected outputs. An
implementation in any language reads cases/<case>/inputs.npz and writes
outputs/<case>/outputs.npz (or outputs.json, or npy files). The second command
compares, and names the first quantity that departs; see docs/conformance.md.
The exit code is 0 if all is well, 1 if something departs or is missing, and 2
for files that cannot be read.
"""

import argparse
from collections.abc import Iterable
import os
import pathlib

from disco_rl import utils
from disco_rl.cli import errors
from disco_rl.cli import tables
from disco_rl.conformance import compare
from disco_rl.conformance import file_set
from disco_rl.conformance import outputs
from disco_rl.runs import console


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the command's options."""
  add = parser.add_argument
  add(
    'folder',
    nargs='?',
    metavar='DIR',
    help='folder with the outputs of another implementation',
  )
  add('--write', metavar='DIR', help='write the cases to a new folder')
  add(
    '--self-test',
    action='store_true',
    help='compare this library with its own cases, in 32 bits',
  )
  add('--cases', metavar='A,B', help='only these cases (default: all)')


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  given = [arguments.folder, arguments.write, arguments.self_test or None]
  if sum(x is not None for x in given) != 1:
    raise errors.UsageError(
      'one of three is needed: a folder with outputs, --write DIR or '
      '--self-test'
    )
  with errors.as_usage_errors():
    if arguments.write is not None:
      if arguments.cases is not None:
        raise errors.UsageError('--write writes all cases, without --cases')
      number = file_set.export(arguments.write)
      print(f'{number} files (version {file_set.VERSION}): {arguments.write}')
      return 0
    names = file_set.chosen(arguments.cases)
    if arguments.self_test:
      results = _results_of_library(names)
    else:
      results = _results_of_folder(pathlib.Path(arguments.folder), names)
  return _report(results)


def _results_of_library(names: Iterable[str]) -> list[compare.Result]:
  # Not needed, and slow to import, for another implementation.
  from disco_rl.conformance import case as case_lib
  from disco_rl.conformance import catalogue

  results = []
  for name in names:
    console.complain(f'computing {name}')
    reference = file_set.load(name)
    found = case_lib.run(
      catalogue.CASES[name].compute, reference.inputs, in_64_bits=False
    )
    results.append(compare.compare(reference, found))
  return results


def _results_of_folder(
  folder: pathlib.Path, names: list[str]
) -> list[compare.Result]:
  if not folder.is_dir():
    raise errors.UsageError(f'{folder} is not a folder')
  known = file_set.names()
  if not any((folder / name).is_dir() for name in known):
    raise errors.UsageError(
      f'{folder} has no folder with the name of a case, e.g. '
      f'{folder / known[0]}'
    )
  # All files are read before anything is said.
  found, references = {}, {}
  for name in names:
    references[name] = file_set.load(name)
    found[name] = outputs.read(folder / name, references[name].expected)
  for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
    if entry.name not in known and entry.is_dir():
      near = utils.did_you_mean(entry.name, known)
      console.complain(f'{entry.name} is not a case{near}')
  return [compare.compare(references[name], found[name]) for name in names]


def _report(results: list[compare.Result]) -> int:
  """Prints a table and the first departure; returns the exit code."""
  cells = [
    (
      result.case,
      result.status,
      '' if result.used is None else f'{result.used:.2g}',
    )
    for result in results
  ]
  print(tables.format_table(('case', 'result', 'error / allowed'), cells))
  counts = {
    status: sum(result.status == status for result in results)
    for status in (compare.OK, compare.DEPARTS, compare.MISSING)
  }
  words = ', '.join(f'{n} {status}' for status, n in counts.items() if n)
  print(f'\n{words} (version {file_set.VERSION} of the cases)')
  departs = [r for r in results if r.status == compare.DEPARTS]
  missing = [r for r in results if r.status == compare.MISSING]
  for first, word in ((departs, 'departs'), (missing, 'is missing')):
    if first:
      print(f'first that {word}: {first[0].case}: {first[0].sentence}')
      if first[0].hint:
        print(f'looks like: {first[0].hint}')
  return 0 if not departs and not missing else 1
