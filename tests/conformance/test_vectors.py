"""The file set is what the library computes."""

import re

import numpy as np
import pytest

from disco_rl.conformance import case as case_lib
from disco_rl.conformance import catalogue
from disco_rl.conformance import compare
from disco_rl.conformance import file_set
from disco_rl.conformance import generate
from disco_rl.conformance import samples

SLOW = ('learner_steps', 'meta_gradient')
CASES = [
  pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW))
  for name in catalogue.CASES
]


@pytest.mark.parametrize('name', CASES)
def test_files_are_made_again(name):
  case, stored = catalogue.CASES[name], file_set.load(name)
  made = generate.make_reference(case)
  # Other versions of JAX may differ in the last bits.
  assert made.inputs.keys() == stored.inputs.keys()
  for key, x in made.inputs.items():
    np.testing.assert_array_equal(stored.inputs[key], x, strict=True)
  result = compare.compare(stored, made.expected)
  assert result.status == compare.OK and result.used < 0.05, result
  assert list(made.expected) == list(stored.expected)
  assert made.mistakes.keys() == stored.mistakes.keys()
  for mistake, outputs in made.mistakes.items():
    assert outputs.keys() == stored.mistakes[mistake].keys()
    for key, x in outputs.items():
      np.testing.assert_allclose(
        x, stored.mistakes[mistake][key], rtol=1e-3, atol=1e-5
      )
  description = generate.make_files(stored)['case.json']
  assert description == (file_set.FOLDER / name / 'case.json').read_bytes()
  _check_descriptions(made.description, stored.description)


def _check_descriptions(made, stored):
  for output, entry in made['outputs'].items():
    np.testing.assert_allclose(
      entry.pop('atol'), stored['outputs'][output].pop('atol'), rtol=0.05
    )
  assert _as_json(made) == stored


def _as_json(tree):
  if isinstance(tree, dict):
    return {k: _as_json(x) for k, x in tree.items()}
  return [_as_json(x) for x in tree] if isinstance(tree, tuple | list) else tree


@pytest.mark.parametrize('name', CASES)
def test_the_library_passes_in_32_bits(name):
  stored = file_set.load(name)
  found = case_lib.run(
    catalogue.CASES[name].compute, stored.inputs, in_64_bits=False
  )
  result = compare.compare(stored, found)
  # Ten times what is seen here is allowed, or nearly.
  assert result.status == compare.OK and result.used < 0.25, result


def test_files_are_complete_and_small():
  assert file_set.names() == list(catalogue.CASES)
  index = (file_set.FOLDER / file_set.INDEX).read_bytes()
  assert index == generate.make_index()
  folders = {p.name for p in file_set.FOLDER.iterdir() if p.is_dir()}
  assert folders == catalogue.CASES.keys()
  paths = [p for p in file_set.FOLDER.rglob('*') if p.is_file()]
  assert sum(p.stat().st_size for p in paths) < 1_000_000


@pytest.mark.parametrize('name', catalogue.CASES)
def test_files_are_plain(name):
  reference = file_set.load(name)
  earlier = file_set.names()[: file_set.names().index(name)]
  assert set(reference.description['builds_on']) <= set(earlier)
  for file in ('inputs', 'expected', 'mistakes'):
    # Without pickles, and readable by NumPy itself.
    with np.load(file_set.FOLDER / name / f'{file}.npz') as archive:
      for key in archive.files:
        x = archive[key]
        assert x.dtype in (np.float32, np.int32, np.bool_), key
        assert np.isfinite(x).all(), key
        assert re.fullmatch(r'[\w/~]+', key), key
  for entry in reference.description['outputs'].values():
    assert entry['meaning'].startswith('[') or entry['meaning']
  for mistake, outputs in reference.mistakes.items():
    assert outputs and outputs.keys() <= reference.expected.keys(), mistake


def test_sizes_differ_so_that_exchanged_axes_show():
  sizes = [*samples.SIZES.values(), samples.T + 1]
  assert len(set(sizes)) == len(sizes)


def test_files_have_the_same_bytes_every_time():
  arrays = dict(a=np.arange(3, dtype=np.int32), b=np.float32(2))
  assert file_set.to_npz(arrays) == file_set.to_npz(arrays)
