"""Makes the file set: `python -m disco_rl.conformance.generate`.

Inputs depend on nothing but the names of cases. Outputs are computed in 64 bits
and rounded to 32.
"""

import pathlib
from typing import Any

import numpy as np

from disco_rl.conformance import case as case_lib
from disco_rl.conformance import catalogue
from disco_rl.conformance import file_set
from disco_rl.conformance import samples
from disco_rl.runs import console


def make_reference(case: case_lib.Case) -> file_set.Reference:
  """Computes inputs, expected outputs, known mistakes and text of a case."""
  inputs = case_lib.in_order(case_lib.inputs_of(case), case.inputs)
  expected = case_lib.in_order(case_lib.run(case.compute, inputs), case.outputs)
  mistakes = {
    name: case_lib.run(mistake.compute, inputs)
    for name, mistake in case.mistakes.items()
  }
  return file_set.Reference(
    _describe(case, inputs, expected), inputs, expected, mistakes
  )


def _describe(
  case: case_lib.Case,
  inputs: dict[str, np.ndarray],
  expected: dict[str, np.ndarray],
) -> dict[str, Any]:
  """Makes the contents of `case.json`."""

  def entry(name: str, x: np.ndarray, table: Any) -> dict[str, Any]:
    key = case_lib.key_of(name, table)
    return dict(shape=list(x.shape), dtype=x.dtype.name, meaning=table[key])

  outputs = {}
  for name, x in expected.items():
    absolute, relative = case_lib.tolerances(case, name, x)
    # Rounded, so that a last bit of an output does not change it.
    tolerance = dict(atol=float(f'{absolute:.1e}'), rtol=relative)
    outputs[name] = entry(name, x, case.outputs) | tolerance
  return dict(
    name=case.name,
    computes=case.computes,
    equation=case.equation,
    settings=dict(case.settings),
    builds_on=list(case.builds_on),
    inputs={k: entry(k, x, case.inputs) for k, x in inputs.items()},
    outputs=outputs,
    mistakes={k: mistake.sentence for k, mistake in case.mistakes.items()},
  )


def make_files(reference: file_set.Reference) -> dict[str, bytes]:
  """Encodes a case; returns file name to content."""
  mistakes = {
    f'{mistake}/{output}': x
    for mistake, outputs in reference.mistakes.items()
    for output, x in outputs.items()
  }
  return {
    'case.json': file_set.to_json(reference.description),
    'inputs.npz': file_set.to_npz(reference.inputs),
    'expected.npz': file_set.to_npz(reference.expected),
    'mistakes.npz': file_set.to_npz(mistakes),
  }


def make_index() -> bytes:
  """Encodes the index of the file set."""
  return file_set.to_json(
    dict(
      version=file_set.VERSION,
      license='Apache-2.0',
      sizes=samples.SIZES,
      cases=list(catalogue.CASES),
    )
  )


def main(folder: pathlib.Path = file_set.FOLDER) -> None:
  """Writes all files, replacing those that are there."""
  for name, case in catalogue.CASES.items():
    for file, content in make_files(make_reference(case)).items():
      file_set.write_file(folder / name / file, content)
    console.say(name)
  file_set.write_file(folder / file_set.INDEX, make_index())


if __name__ == '__main__':
  main()
