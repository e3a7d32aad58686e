"""Reads npz files: only arrays, within limits, after verifying checksums.

Sizes are checked before anything is allocated. Members must be uncompressed,
as `numpy.savez` writes them, so that arrays are no larger than their file; or
compressed from at most 256 MiB in all. Nothing is unpickled.
"""

import ast
import math
import os
import re
from typing import Any, IO
import zipfile
import zlib

import numpy as np

from disco_rl.runs import reading

# Limit on the bytes of all compressed arrays of a file, uncompressed.
_MAX_UNPACKED = 1 << 28
_MAX_HEADER = 10_000
_MAX_MEMBERS = 100_000
_CHUNK = 1 << 20

# NumPy warns about other descriptions, which are deprecated.
_DTYPE = re.compile(r'[<>|=]?[?biufcmMOSUV]\d{0,9}(\[\w{1,8}\])?')
# Length of the last record of an archive, which the comment follows.
_END_BYTES = 22
_MAGIC = b'\x93NUMPY'
# Version of a header to the number of bytes of its length.
_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4}

# Errors that zipfile raises for damaged files.
_ZIP_ERRORS = (
  EOFError,
  IndexError,
  KeyError,
  NotImplementedError,
  OSError,
  OverflowError,
  RuntimeError,
  UnicodeError,
  ValueError,
  zipfile.BadZipFile,
  zlib.error,
)


def read(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
  """Reads all arrays of an npz file.

  Args:
    path: path of the file.

  Returns:
    Name to array.

  Raises:
    UnreadableFileError: if the file cannot be read, for any reason.
  """
  with reading.open_file(path) as (file, size):
    try:
      with zipfile.ZipFile(file) as archive:
        _check_end(file, size, archive.comment)
        members = _check_members(archive, size)
        return {
          name: _read_member(archive, info, name)
          for name, info in members.items()
        }
    except reading.UnreadableFileError:
      raise
    except _ZIP_ERRORS as error:
      raise _damaged(error) from None


def read_npy(path: str | os.PathLike[str]) -> np.ndarray:
  """Reads the array of an npy file; raises as `read` does."""
  with reading.open_file(path) as (file, size):
    content = bytearray(size)
    try:
      _read_into(file, content, 'the file')
    except OSError as error:
      raise _damaged(error) from None
    return _to_array(content, 'the file')


def is_archive(path: str | os.PathLike[str]) -> bool:
  """Returns whether a file is a zip archive; raises as `read` does."""
  with reading.open_file(path) as (file, _):
    return zipfile.is_zipfile(file)


def read_comments(path: str | os.PathLike[str]) -> tuple[bytes, bytes]:
  """Reads the comments of a zip archive, which have at most 64 KiB.

  Args:
    path: path of the file.

  Returns:
    The comment of the archive and that of its first member; empty if there is
    none.

  Raises:
    UnreadableFileError: if the file cannot be read.
  """
  with reading.open_file(path) as (file, size):
    try:
      with zipfile.ZipFile(file) as archive:
        _check_end(file, size, archive.comment)
        infos = archive.infolist()
        return archive.comment, infos[0].comment if infos else b''
    except reading.UnreadableFileError:
      raise
    except _ZIP_ERRORS as error:
      raise _damaged(error) from None


def _damaged(error: Exception) -> reading.UnreadableFileError:
  """Makes the error for a file that zipfile cannot read."""
  # Wrong offsets in damaged files cause system errors, which explain nothing.
  why = '' if isinstance(error, OSError) else f' ({error})'[:120]
  return reading.UnreadableFileError(f'it is damaged or no npz file{why}')


def _check_end(file: IO[bytes], size: int, comment: bytes) -> None:
  """Checks that an archive ends with its comment, of the recorded length."""
  file.seek(max(0, size - len(comment) - _END_BYTES))
  end = file.read(_END_BYTES)
  if end[:4] != b'PK\5\6' or end[-2:] != len(comment).to_bytes(2, 'little'):
    raise reading.UnreadableFileError(
      'it is cut short, or has more data at its end'
    )


def _check_members(
  archive: zipfile.ZipFile, size: int
) -> dict[str, zipfile.ZipInfo]:
  """Checks the listed members and their sizes; returns them by name."""
  members: dict[str, zipfile.ZipInfo] = {}
  infos = archive.infolist()
  if len(infos) > _MAX_MEMBERS:
    raise reading.UnreadableFileError(
      f'it claims to hold {len(infos)} arrays, more than {_MAX_MEMBERS}'
    )
  for info in infos:
    name = info.filename.removesuffix('.npy')
    if name in members:
      raise reading.UnreadableFileError(f'it holds {name[:60]!r} twice')
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
      raise reading.UnreadableFileError(
        f'{name[:60]} is compressed in another way than npz files are'
      )
    is_stored = info.compress_type == zipfile.ZIP_STORED
    if info.flag_bits & 1 or (
      is_stored and info.file_size != info.compress_size
    ):
      raise reading.UnreadableFileError(f'{name[:60]} is damaged or encrypted')
    members[name] = info
  held = sum(info.compress_size for info in members.values())
  packed = [
    i for i in members.values() if i.compress_type != zipfile.ZIP_STORED
  ]
  claimed = sum(info.file_size for info in packed)
  if held > size or claimed > _MAX_UNPACKED:
    raise reading.UnreadableFileError(
      f'it claims to hold {max(held, claimed)} bytes, but has {size}'
    )
  return members


def _read_member(
  archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str
) -> np.ndarray:
  """Reads one array; its checksum is verified before it is parsed."""
  content = bytearray(info.file_size)
  with archive.open(info) as member:
    _read_into(member, content, name)
  return _to_array(content, name)


def _to_array(content: bytearray, name: str) -> np.ndarray:
  """Makes an array of the bytes of an npy file."""
  offset, dtype, shape, order = _parse_header(content, name)
  needed = math.prod(shape) * dtype.itemsize
  if offset + needed != len(content):
    raise reading.UnreadableFileError(
      f'{name[:60]} claims to have {needed} bytes, but has '
      f'{len(content) - offset}'
    )
  if not needed:
    return np.zeros(shape, dtype)
  # Not copied, and writable.
  array = np.frombuffer(content, dtype, offset=offset)
  return array.reshape(shape, order=order)


def _read_into(member: IO[bytes], content: bytearray, name: str) -> None:
  """Reads a member to its end, where zipfile verifies its checksum."""
  done = 0
  while chunk := member.read(_CHUNK):
    if done + len(chunk) > len(content):
      break
    content[done : done + len(chunk)] = chunk
    done += len(chunk)
  if done != len(content) or chunk:
    raise reading.UnreadableFileError(
      f'{name[:60]} is not as long as it claims'
    )


def _parse_header(
  content: bytearray, name: str
) -> tuple[int, np.dtype, tuple[int, ...], Any]:
  """Returns the offset of the data, the dtype, the shape and the order."""
  refusal = reading.UnreadableFileError(f'{name[:60]} is not an array')
  version = tuple(content[6:8])
  if content[:6] != _MAGIC or version not in _LENGTH_BYTES:
    raise refusal
  start = 8 + _LENGTH_BYTES[version]
  end = start + int.from_bytes(content[8:start], 'little')
  if end - start > _MAX_HEADER or end > len(content):
    raise refusal
  try:
    header = ast.literal_eval(content[start:end].decode('latin1').strip())
    shape, is_fortran = header['shape'], header['fortran_order']
    descr = header['descr']
    if set(header) != {'shape', 'fortran_order', 'descr'}:
      raise refusal
    dtype = _parse_dtype(descr)
  except reading.UnreadableFileError:
    raise
  except (
    LookupError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
  ):
    raise refusal from None
  if dtype.hasobject:
    raise reading.UnreadableFileError(
      f'{name[:60]} holds Python objects, which are never read: they could '
      'execute code'
    )
  is_shape = isinstance(shape, tuple) and all(
    type(n) is int and n >= 0 for n in shape
  )
  if not is_shape or len(shape) > 32 or not isinstance(is_fortran, bool):
    raise refusal
  return end, dtype, shape, 'F' if is_fortran else 'C'


def _parse_dtype(descr: Any) -> np.dtype:
  if isinstance(descr, str) and _DTYPE.fullmatch(descr):
    return np.dtype(descr)
  if isinstance(descr, list):
    return np.lib.format.descr_to_dtype(descr)
  raise TypeError('not the description of a dtype')
