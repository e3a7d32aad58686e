"""Finds rule files by name: on this machine, or at their publisher's.

A name is looked up, in this order, in the folder named by the environment
variable `DISCO_RL_WEIGHTS`, among the files shipped with the package, in the
folder `update_rules/weights` of the package, where programs written for the
published library have put them, in the user's cache folder, and at the address
its manifest entry gives.
"""

from collections.abc import Iterator
import dataclasses
import hashlib
import http.client
import json
import logging
import os
import pathlib
import time
import urllib.request

from disco_rl.runs import files

_WEIGHTS_VARIABLE = 'DISCO_RL_WEIGHTS'
_CHUNK_BYTES = 1 << 16


class RuleFileError(ValueError):
  """A rule's file cannot be had, or is not what it should be."""


@dataclasses.dataclass(frozen=True)
class RuleInfo:
  """What the manifest knows of a rule.

  Attributes:
    name: what to ask for.
    file: the file's name, in whatever folder it is found.
    sha256: the file's checksum.
    license: under which it may be used.
    provenance: how it came to be.
    url: where it is published, None if it is shipped with the package.
  """

  name: str
  file: str
  sha256: str
  license: str
  provenance: str
  url: str | None = None


def known_rules() -> dict[str, RuleInfo]:
  """The rules of the manifest, by name."""
  text = (shipped_folder() / 'manifest.json').read_text(encoding='utf-8')
  rules = [RuleInfo(**entry) for entry in json.loads(text)['rules']]
  return {rule.name: rule for rule in rules}


def shipped_folder() -> pathlib.Path:
  """The folder of the manifest: in a wheel, or in a source checkout."""
  package = pathlib.Path(__file__).resolve().parents[1]
  installed = package / '_weights'
  return installed if installed.is_dir() else package.parent / 'weights'


def published_folder() -> pathlib.Path:
  """Where the published library has its weights; it may not exist."""
  package = pathlib.Path(__file__).resolve().parents[1]
  return package / 'update_rules' / 'weights'


def find(name: str) -> pathlib.Path | None:
  """The file of a rule on this machine, or None.

  Args:
    name: of a rule of the manifest, or of a file `<name>.npz` in one of the
      folders.

  Returns:
    A path whose checksum, if the manifest has one, was verified.
  """
  info = known_rules().get(name)
  file = info.file if info else f'{name}.npz'
  for folder in _folders():
    path = folder / file
    if not path.is_file():
      continue
    if info is None or _sha256(path) == info.sha256:
      return path
    if (
      folder != files.cache_folder()
    ):  # A damaged download is simply made again.
      raise RuleFileError(
        f'{path} is not the published {name}: its SHA-256 is {_sha256(path)}, '
        f'not {info.sha256}. Remove it, or give it another name'
      )
  return None


def own_files() -> list[pathlib.Path]:
  """Rule files that can be asked for by name, and are not of the manifest."""
  published = {info.file for info in known_rules().values()}
  found: dict[str, pathlib.Path] = {}
  for folder in _folders():
    for path in sorted(folder.glob('*.npz')):
      if path.name not in published:
        found.setdefault(path.name, path)
  return list(found.values())


def fetch(name: str) -> pathlib.Path:
  """The file of a rule, downloaded into the cache if it is nowhere else.

  Args:
    name: as in `find`.

  Returns:
    The path of the file.
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
  """Downloads a rule; the file appears whole and verified, or not at all.

  Args:
    info: what to download.
    folder: where to put it; made if need be.
    timeout: seconds without any data after which to give up.
    total_timeout: seconds after which to give up in any case.
    max_bytes: size beyond which the file cannot be right.

  Returns:
    The path of the file.
  """
  assert info.url is not None
  advice = (
    f'download {info.url} by some other way and put it, as {info.file}, into '
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
          f'what {info.url} sent is not {info.name}: its SHA-256 is '
          f'{digest.hexdigest()}, not {info.sha256}. Try again; or {advice}'
        )
  except (OSError, http.client.HTTPException) as error:
    raise RuleFileError(
      f'could not download {info.name} ({error}). Is there a network? If not, '
      f'{advice}'
    ) from None
  return folder / info.file


def _folders() -> Iterator[pathlib.Path]:
  """The folders a rule may be in, in the order they are asked."""
  named = os.environ.get(_WEIGHTS_VARIABLE)
  if named:
    folder = pathlib.Path(named)
    if not folder.is_dir():
      raise RuleFileError(
        f'{_WEIGHTS_VARIABLE} is {named!r}, which is not a folder'
      )
    yield folder
  yield shipped_folder()
  yield published_folder()
  yield files.cache_folder()


def _sha256(path: pathlib.Path) -> str:
  with path.open('rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()
