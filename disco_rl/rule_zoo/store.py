"""Finds rule files by name, on this machine or by download.

A name is looked up, in this order, in

- the folder named by the environment variable `DISCO_RL_WEIGHTS`,
- the files shipped with the package,
- the folder `update_rules/weights` of the package, where programs written for
  the published library put them,
- the user's cache folder,

and then downloaded into the cache from the address in its manifest entry.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import hashlib
import http.client
import json
import logging
import os
import pathlib
import time
import urllib.request

from disco_rl import fields
from disco_rl.runs import files
from disco_rl.runs import os_errors

_WEIGHTS_VARIABLE = 'DISCO_RL_WEIGHTS'
_CHUNK_BYTES = 1 << 16


class RuleFileError(ValueError):
  """Raised for rule files that cannot be found, read or used.

  Attributes:
    is_user_facing: see `files.StorageError`.
  """

  is_user_facing = True


@dataclasses.dataclass(frozen=True)
class RuleInfo:
  """The entry of a rule in the manifest.

  Attributes:
    name: the rule's name.
    file: name of its file, in any of the folders.
    sha256: the file's checksum.
    license: the file's licence.
    provenance: how the rule was made.
    url: address of the file; None if it is shipped with the package.
  """

  name: str
  file: str
  sha256: str
  license: str
  provenance: str
  url: str | None = None


def check_variables() -> None:
  """Raises a `RuleFileError` for environment variables with unusable folders.

  Otherwise, a rule of the same name might be loaded from another folder.
  """
  weights = os.environ.get(_WEIGHTS_VARIABLE)
  if weights and not os.path.isdir(weights):
    raise RuleFileError(
      f'{_WEIGHTS_VARIABLE} is {fields.shorten(weights)}, which is not a folder'
    )
  cache = os.environ.get(files.CACHE_VARIABLE)
  if not cache:
    return
  above = pathlib.Path(cache).absolute()
  while not os.path.exists(above) and above != above.parent:
    above = above.parent
  if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
    raise RuleFileError(
      f'{files.CACHE_VARIABLE} is {fields.shorten(cache)}, which is not a '
      'folder that can be made or written to'
    )


def known_rules() -> dict[str, RuleInfo]:
  """Returns the rules of the manifest, by name."""
  text = (shipped_folder() / 'manifest.json').read_text(encoding='utf-8')
  rules = [RuleInfo(**entry) for entry in json.loads(text)['rules']]
  return {rule.name: rule for rule in rules}


def shipped_folder() -> pathlib.Path:
  """Returns the folder of the manifest, of a wheel or of a source checkout."""
  package = pathlib.Path(__file__).resolve().parents[1]
  installed = package / '_weights'
  return installed if installed.is_dir() else package.parent / 'weights'


def published_folder() -> pathlib.Path:
  """Returns the weights folder of the published library; it may not exist."""
  package = pathlib.Path(__file__).resolve().parents[1]
  return package / 'update_rules' / 'weights'


def find(name: str) -> pathlib.Path | None:
  """Finds the file of a rule on this machine.

  Args:
    name: a name of the manifest, or that of a file `<name>.npz` in one of the
      folders.

  Returns:
    The path, after verifying the checksum if the manifest has one; None if
    there is no such file.

  Raises:
    RuleFileError: if a file, except in the cache, has another checksum.
  """
  info = known_rules().get(name)
  file = info.file if info else f'{name}.npz'
  for folder in _folders():
    path = folder / file
    if not _is_file(path):
      continue
    if info is None or _sha256(path) == info.sha256:
      return path
    # A damaged file in the cache is downloaded again.
    if folder != files.cache_folder():
      raise RuleFileError(
        f'{path} is not the published {name}: its SHA-256 is {_sha256(path)}, '
        f'not {info.sha256}. Remove it, or give it another name'
      )
  return None


def own_files() -> list[pathlib.Path]:
  """Lists the rule files in all folders that the manifest does not list."""
  published = {info.file for info in known_rules().values()}
  found: dict[str, pathlib.Path] = {}
  for folder in _folders():
    with contextlib.suppress(OSError):  # It may not be readable.
      for path in sorted(folder.glob('*.npz')):
        if path.name not in published:
          found.setdefault(path.name, path)
  return list(found.values())


def fetch(name: str) -> pathlib.Path:
  """Finds the file of a rule, and downloads it into the cache if necessary.

  Args:
    name: see `find`.

  Returns:
    The path of the file.

  Raises:
    RuleFileError: if the name is unknown, or the file cannot be downloaded.
  """
  path = find(name)
  if path is not None:
    return path
  info = known_rules().get(name)
  if info is None:
    raise RuleFileError(
      f'unknown rule {name!r}; known: {", ".join(sorted(known_rules()))}. '
      f'A file of your own is loaded by its path, or by its name from the '
      f'folder in {_WEIGHTS_VARIABLE}'
    )
  if info.url is None:
    raise RuleFileError(
      f'the rule {name!r} should be shipped with the package, but '
      f'{shipped_folder() / info.file} is missing: repeat the installation'
    )
  return download(info, files.cache_folder())


def download(
  info: RuleInfo,
  folder: pathlib.Path,
  *,
  timeout: float = 30.0,
  total_timeout: float = 300.0,
  max_bytes: int = 1 << 28,
) -> pathlib.Path:
  """Downloads a rule file, verifies its checksum, and writes it atomically.

  Args:
    info: the rule.
    folder: folder to write to; made if it does not exist.
    timeout: limit on the time without any data, in seconds.
    total_timeout: limit on the total time, in seconds.
    max_bytes: limit on the size of the file.

  Returns:
    The path of the file.

  Raises:
    RuleFileError: if it cannot be downloaded, verified or written.
  """
  assert info.url is not None
  advice = (
    f'download {info.url} in another way and put it, as {info.file}, into '
    f'a folder named by {_WEIGHTS_VARIABLE}'
  )
  logging.getLogger(__name__).info('downloading %s', info.url)
  deadline = time.monotonic() + total_timeout
  try:
    folder.mkdir(parents=True, exist_ok=True)
    writable = os.access(folder, os.W_OK)
  except OSError:
    writable = False
  if not writable:
    raise RuleFileError(
      f'cannot download {info.name}: the folder {folder} cannot be written to; '
      f'name another in {files.CACHE_VARIABLE}'
    )
  try:
    with files.atomic_writer(folder / info.file) as file:
      digest = hashlib.sha256()
      size = 0
      with urllib.request.urlopen(info.url, timeout=timeout) as response:
        while chunk := response.read1(_CHUNK_BYTES):
          size += len(chunk)
          if time.monotonic() > deadline:
            raise TimeoutError(f'not finished after {total_timeout} s')
          if size > max_bytes:
            raise OSError(f'larger than {max_bytes} bytes')
          digest.update(chunk)
          file.write(chunk)
      if digest.hexdigest() != info.sha256:
        raise RuleFileError(
          f'the file from {info.url} is not {info.name}: its SHA-256 is '
          f'{digest.hexdigest()}, not {info.sha256}. Try again; or {advice}'
        )
  except files.StorageError as error:
    raise RuleFileError(
      f'could not download {info.name}: {error}; name another folder in '
      f'{files.CACHE_VARIABLE}'
    ) from None
  except (OSError, http.client.HTTPException) as error:
    words = str(error)
    if isinstance(error, OSError):
      words = os_errors.describe(error)
    raise RuleFileError(
      f'could not download {info.name} ({words}). Is there a network? If not, '
      f'{advice}'
    ) from None
  return folder / info.file


def _folders() -> Iterator[pathlib.Path]:
  """Yields the folders that are searched for rules, in order."""
  check_variables()
  named = os.environ.get(_WEIGHTS_VARIABLE)
  if named:
    yield pathlib.Path(named)
  yield shipped_folder()
  yield published_folder()
  yield files.cache_folder()


def _is_file(path: pathlib.Path) -> bool:
  """Returns whether a path is a file; False if its folder cannot be read."""
  try:
    return path.is_file()
  except OSError:
    return False


def _sha256(path: pathlib.Path) -> str:
  with path.open('rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()
