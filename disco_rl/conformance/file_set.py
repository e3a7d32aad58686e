"""The file set: one folder per case, with inputs, expected outputs and text.

```text
index.json              version, sizes, the cases in their order
<case>/case.json        what is computed, settings, arrays, tolerances
<case>/inputs.npz       inputs
<case>/expected.npz     expected outputs
<case>/mistakes.npz     what known mistakes give, <mistake>/<output>
```

The files of this library are beside this module; `generate.py` makes them. They
are read without JAX.
"""

import dataclasses
import io
import json
import os
import pathlib
from typing import Any
import zipfile

import numpy as np

from disco_rl import utils
from disco_rl.runs import files
from disco_rl.runs import npz
from disco_rl.runs import reading

# First part: raised if an output of a case changes. Second: for additions.
VERSION = '1.0'
FOLDER = pathlib.Path(__file__).parent / 'vectors'
INDEX = 'index.json'
_MEMBERS = ('case.json', 'inputs.npz', 'expected.npz', 'mistakes.npz')


@dataclasses.dataclass(frozen=True)
class Reference:
  """What a case expects.

  Attributes:
    description: the contents of `case.json`.
    inputs: name to array.
    expected: name to array, in the order in which they are compared.
    mistakes: name of a known mistake to the outputs that it changes.
  """

  description: dict[str, Any]
  inputs: dict[str, np.ndarray]
  expected: dict[str, np.ndarray]
  mistakes: dict[str, dict[str, np.ndarray]]


def names() -> list[str]:
  """Returns the names of all cases, in their order."""
  return list(reading.read_json(FOLDER / INDEX)['cases'])


def chosen(text: str | None) -> list[str]:
  """Returns the cases that a text names, separated by commas, in their order.

  Args:
    text: e.g. `'retrace,adam'`; None for all cases.
  """
  known = names()
  if text is None:
    return known
  wanted = [name.strip() for name in text.split(',') if name.strip()]
  for name in wanted:
    utils.lookup(dict.fromkeys(known), name, 'case')
  if not wanted:
    raise ValueError(f'no case is named; known: {", ".join(known)}')
  return [name for name in known if name in wanted]


def load(name: str) -> Reference:
  """Reads a case of the library's own file set."""
  folder = FOLDER / name
  description = reading.read_json(folder / 'case.json')
  expected = npz.read(folder / 'expected.npz')
  mistakes: dict[str, dict[str, np.ndarray]] = {
    mistake: {} for mistake in description['mistakes']
  }
  for key, array in npz.read(folder / 'mistakes.npz').items():
    mistake, _, output = key.partition('/')
    mistakes[mistake][output] = array
  return Reference(
    description,
    npz.read(folder / 'inputs.npz'),
    {output: expected[output] for output in description['outputs']},
    mistakes,
  )


def export(folder: str | os.PathLike[str]) -> int:
  """Copies the file set to a folder.

  Args:
    folder: a folder that does not exist, or is empty.

  Returns:
    The number of files.
  """
  target = pathlib.Path(folder)
  if target.exists() and (not target.is_dir() or any(target.iterdir())):
    raise ValueError(
      f'{target} exists already: the file set is written to a new or an empty '
      'folder'
    )
  paths = [INDEX, *(f'{name}/{m}' for name in names() for m in _MEMBERS)]
  for path in paths:
    write_file(target / path, (FOLDER / path).read_bytes())
  return len(paths)


def write_file(path: pathlib.Path, content: bytes) -> None:
  """Writes a file atomically, and makes its folder if needed."""
  with files.atomic_writer(path, make_folder=True) as file:
    file.write(content)


def to_npz(arrays: dict[str, np.ndarray]) -> bytes:
  """Encodes arrays as an uncompressed npz file, always to the same bytes."""
  stream = io.BytesIO()
  with zipfile.ZipFile(stream, 'w') as archive:
    for name, array in arrays.items():
      member = io.BytesIO()
      np.lib.format.write_array(
        member, np.asarray(array, order='C'), allow_pickle=False
      )
      archive.writestr(zipfile.ZipInfo(f'{name}.npy'), member.getvalue())
  return stream.getvalue()


def to_json(tree: dict[str, Any]) -> bytes:
  """Encodes plain data as JSON, with one line per entry of two levels."""
  dump = lambda x: json.dumps(x, ensure_ascii=False)
  parts = []
  for key, value in tree.items():
    text = dump(value)
    if isinstance(value, dict) and value:
      entries = [f'  {dump(name)}: {dump(x)}' for name, x in value.items()]
      text = '{\n' + ',\n'.join(entries) + '\n }'
    parts.append(f' {dump(key)}: {text}')
  return ('{\n' + ',\n'.join(parts) + '\n}\n').encode()
