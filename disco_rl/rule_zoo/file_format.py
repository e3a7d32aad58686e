"""Loads and saves the parameters η of a rule.

The format is that of the published Disco103 file: a flat npz with keys
`module/name` (custom rules may have plain names). Metadata is stored in the
comment of the zip archive, which readers of npz files ignore. Nothing is ever
unpickled.

```python
params = file_format.load('disco_103')          # by name
params = file_format.load('runs/mine.npz')      # by path
file_format.save('better.npz', params, {'step': 1000})
```
"""

from collections.abc import Mapping
import hashlib
import json
import os
import pathlib
from typing import Any
import zipfile
import zlib

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types
from disco_rl.rule_zoo import store
from disco_rl.runs import files
from disco_rl.runs import npz
from disco_rl.runs import reading

RuleFileError = store.RuleFileError

# The zip format's own limits.
_MAX_COMMENT_BYTES = (1 << 16) - 1
_MAX_KEY_BYTES = _MAX_COMMENT_BYTES - len('.npy')


def load(
  source: str | os.PathLike[str], like: types.MetaParams | None = None
) -> types.MetaParams:
  """Loads a rule's parameters.

  Args:
    source: a path (a `Path`, or a string with a separator or ending in
      `.npz`), or a name; see `store` for where names are looked up.
    like: parameters, or specs, whose names and shapes the file must have, e.g.
      `rule.init_params(rng)[0]`; None for no check.

  Returns:
    `{module: {name: array}}`, float32; `name: array` for keys without module.

  Raises:
    RuleFileError: if there is no such file, it is damaged, or it does not fit.
  """
  path = _resolve(source)
  params = _read(path)
  if like is not None:
    check_like(params, like, str(path))
  return params


def load_metadata(source: str | os.PathLike[str]) -> dict[str, Any]:
  """Loads the metadata of a rule file; empty if there is none.

  Args:
    source: see `load`.

  Returns:
    The metadata.
  """
  path = _resolve(source)
  try:
    comment, checksum = npz.read_comments(path)
    if checksum not in (b'', _checksum(comment)):  # Older files have none.
      raise reading.UnreadableFileError('it is damaged: get the file again')
    return reading.parse_json(comment) if comment else {}
  except reading.UnreadableFileError as error:
    raise RuleFileError(f'{path}: cannot read its metadata: {error}') from None


def save(
  path: str | os.PathLike[str],
  params: types.MetaParams,
  metadata: Mapping[str, Any] | None = None,
) -> None:
  """Saves a rule's parameters atomically.

  Args:
    path: path of the file, which must end in `.npz`; an existing file is
      replaced.
    params: `{module: {name: array}}`, all finite; saved as float32.
    metadata: how the rule was trained; JSON types, up to 64 KiB.

  Raises:
    RuleFileError: if the parameters or the metadata cannot be saved.
    StorageError: if the file cannot be written.
  """
  path = pathlib.Path(path)
  if path.suffix != '.npz':
    raise RuleFileError(f'a rule is saved as .npz, got {path}')
  where = f'cannot save {path}'
  flat: dict[str, Any] = check_savable(params, where)
  comment = _to_comment(metadata, where)

  with files.atomic_writer(path, make_folder=True) as file:
    np.savez(file, **flat)
    with zipfile.ZipFile(file, 'a') as archive:
      archive.comment = comment
      for info in archive.infolist()[:1]:
        info.comment = _checksum(comment)


def check_savable(params: types.MetaParams, where: str) -> dict[str, Any]:
  """Checks that parameters can be saved.

  Args:
    params: must be `{module: {name: array}}`, all finite.
    where: the beginning of an error message.

  Returns:
    The parameters by their keys in a file, as float32.

  Raises:
    RuleFileError: if they cannot be saved.
  """
  flat = {
    key: _as_float32(key, value, where)
    for key, value in _flatten(params, where).items()
  }
  _by_module(flat, where)  # As when they are loaded.
  return flat


def digest(params: types.MetaParams | None) -> str:
  """Returns a hash of parameters; empty for None.

  Args:
    params: a tree of arrays.
  """
  if params is None:
    return ''
  hashed = hashlib.sha256()
  for path, leaf in jax.tree_util.tree_leaves_with_path(params):
    array = np.asarray(leaf)
    what = f'{jax.tree_util.keystr(path)} {array.dtype}{array.shape}'
    hashed.update(what.encode())
    hashed.update(np.ascontiguousarray(array).tobytes())
  return hashed.hexdigest()


def check_like(
  params: types.MetaParams, like: types.MetaParams, where: str = 'parameters'
) -> None:
  """Raises a `RuleFileError` if names or shapes of tensors differ.

  Args:
    params: `{module: {name: array}}`, or any other tree of arrays.
    like: a tree of arrays or specs with the expected names and shapes.
    where: name of `params` in the message.
  """
  if isinstance(params, str | os.PathLike):
    _flatten(params, where)  # Raises an error that explains how to load them.
  found, expected = _shapes(params), _shapes(like)
  problems = [f'{k} is missing' for k in sorted(expected.keys() - found.keys())]
  problems += [
    f'{k} is not expected' for k in sorted(found.keys() - expected.keys())
  ]
  problems += [
    f'{k} has shape {found[k]} instead of {expected[k]}'
    for k in sorted(found.keys() & expected.keys())
    if found[k] != expected[k]
  ]
  if problems:
    shown = '; '.join(problems[:5])
    more = f'; and {len(problems) - 5} more' if len(problems) > 5 else ''
    raise RuleFileError(
      f'{where} do not fit the meta-network: {shown}{more}. Use the settings '
      'the rule was trained with'
    )


def _to_comment(metadata: Mapping[str, Any] | None, where: str) -> bytes:
  """Returns metadata as they are stored; checks that they can be loaded."""
  if not metadata:
    return b''
  try:
    comment = json.dumps(dict(metadata)).encode()
    reading.parse_json(comment)
  except (RecursionError, TypeError, ValueError) as error:
    raise RuleFileError(f'{where}: its metadata: {error}') from error
  if len(comment) > _MAX_COMMENT_BYTES:
    raise RuleFileError(
      f'{where}: its metadata takes {len(comment)} bytes, more than '
      f'{_MAX_COMMENT_BYTES}'
    )
  return comment


def _shapes(params: types.MetaParams) -> dict[str, tuple[int, ...]]:
  return {
    jax.tree_util.keystr(path, simple=True, separator='/'): np.shape(x)
    for path, x in jax.tree_util.tree_leaves_with_path(params)
  }


def _resolve(source: str | os.PathLike[str]) -> pathlib.Path:
  is_name = (
    isinstance(source, str)
    and not source.endswith('.npz')
    and not any(sep in source for sep in ('/', os.sep))
  )
  if is_name:
    return store.fetch(str(source))
  path = pathlib.Path(source)
  if not reading.is_file(path):
    if path.exists():
      raise RuleFileError(f'{path} is not an ordinary file')
    raise RuleFileError(
      f'no rule file at {path}; give the path of an npz file or one of the '
      f'names {", ".join(sorted(store.known_rules()))}'
    )
  return path


def _read(path: pathlib.Path) -> types.MetaParams:
  try:
    if not npz.is_archive(path):
      raise RuleFileError(
        f'{path} is not an npz file, or is cut short: get it again'
      )
    arrays = files.read_npz(path)
  except files.UnreadableFileError as e:
    raise RuleFileError(
      f'{path} is not a readable rule file: {e}. It may be damaged: get it '
      'again'
    ) from None
  arrays = {k: _as_float32(k, x, str(path)) for k, x in arrays.items()}
  return jax.tree.map(jnp.asarray, _by_module(arrays, str(path)))


def _by_module(
  arrays: Mapping[str, np.ndarray], where: str
) -> types.MetaParams:
  """Returns arrays by module and name, as `load` does.

  Args:
    arrays: arrays by their keys in a file.
    where: the beginning of an error message.

  Raises:
    RuleFileError: if the keys are not those of parameters.
  """
  params: dict[str, Any] = {}
  for key, value in arrays.items():
    module, separator, name = key.rpartition('/')
    if not name or bool(separator) != bool(module):
      raise RuleFileError(
        f'{where}: the key {key[:60]!r} is not of the form module/name'
      )
    if (module or name) in _taken(params, module):
      raise RuleFileError(
        f'{where}: {key[:60]!r} is both a module and an array'
      )
    if module:
      params.setdefault(module, {})[name] = value
    else:
      params[name] = value
  if not params:
    raise RuleFileError(f'{where}: it holds no parameters')
  return params


def _taken(params: Mapping[str, Any], module: str) -> set[str]:
  """Returns the names of arrays for a module, else those of modules."""
  return {
    name
    for name, value in params.items()
    if isinstance(value, Mapping) != bool(module)
  }


def _checksum(comment: bytes) -> bytes:
  """Computes a checksum of metadata; the zip format only has those of arrays.

  It is stored as the comment of the first array, apart from the metadata.

  Args:
    comment: the metadata, as it is stored.

  Returns:
    A text in ASCII.
  """
  return f'metadata crc32 {zlib.crc32(comment):08x}'.encode()


def _as_float32(key: str, value: Any, where: str) -> np.ndarray:
  value = np.asarray(value)
  if not jnp.issubdtype(value.dtype, jnp.floating):
    raise RuleFileError(
      f'{where}: {key} is of dtype {value.dtype}, not floating point'
    )
  with np.errstate(over='ignore'):
    value = value.astype(np.float32)
  if not np.isfinite(value).all():
    raise RuleFileError(f'{where}: {key} contains NaN or infinity')
  return value


def _check_key(key: str, where: str) -> None:
  """Raises an error if a zip archive cannot hold a file of this name."""
  try:
    size = len(key.encode())
  except UnicodeEncodeError:
    size = -1
  if not 0 <= size <= _MAX_KEY_BYTES or '\0' in key:
    raise RuleFileError(
      f'{where}: {key!r:.60} cannot be the name of an array: names have up to '
      f'{_MAX_KEY_BYTES} bytes in UTF-8 and no null character'
    )


def _flatten(params: types.MetaParams, where: str) -> dict[str, Any]:
  """Returns parameters by their keys in a file: `module/name`, or a name."""
  if not isinstance(params, Mapping):
    hint = ''
    if isinstance(params, str | os.PathLike):
      hint = f'; load them first: disco_rl.load_rule({str(params)!r}).eta'
    raise RuleFileError(
      f'{where}: parameters must be {{module: {{name: array}}}}, got '
      f'{params!r:.60}{hint}'
    )
  flat: dict[str, Any] = {}
  for module, tensors in params.items():
    own = {module: tensors}
    if isinstance(tensors, Mapping):
      own = {f'{module}/{name}': value for name, value in tensors.items()}
      # Modules may have slashes in their names, but their arrays may not.
      for name in tensors:
        if '/' in str(name):
          raise RuleFileError(
            f'{where}: the name {str(name)[:60]!r} in {str(module)[:60]!r} has '
            'a slash'
          )
    for key in own:
      if not isinstance(key, str) or key in flat:
        raise RuleFileError(
          f'{where}: {key!r:.60} is not a text, or there are two of it'
        )
      _check_key(key, where)
    flat |= own
  deep = [key for key, value in flat.items() if isinstance(value, Mapping)]
  if deep:
    raise RuleFileError(
      f'{where}: {deep[0]} has further levels below it; parameters are '
      '{module: {name: array}}'
    )
  return flat
