"""Checks whether entries of JAX's compilation cache are complete.

JAX writes entries in place, so that an entry that is still being written, or
whose writer was killed or ran out of disk space, looks like any other. But
entries are compressed, and both formats mark their end.
"""

import os
import zlib

_ZSTD_MAGIC = b'\x28\xb5\x2f\xfd'
_RAW, _REPEATED, _COMPRESSED = 0, 1, 2  # Types of blocks.


def is_complete(path: str | os.PathLike[str]) -> bool:
  """Returns whether a file is a whole zlib stream or Zstandard frame.

  Args:
    path: path of the file.

  Returns:
    False if it is truncated, has another format, or cannot be read.
  """
  try:
    with open(path, 'rb') as file:
      data = file.read()
  except OSError:
    return False
  if data.startswith(_ZSTD_MAGIC):
    return _is_zstd_frame(data)
  decompressor = zlib.decompressobj()
  try:
    # In chunks, since the output is not needed.
    for start in range(0, len(data), 1 << 16):
      decompressor.decompress(data[start : start + (1 << 16)])
  except zlib.error:
    return False
  return decompressor.eof and not decompressor.unused_data


def _is_zstd_frame(data: bytes) -> bool:
  """Parses the blocks of a frame, see RFC 8878, section 3.1.1."""
  if len(data) < 5:
    return False
  descriptor = data[4]
  single_segment = bool(descriptor & 0x20)
  has_checksum = bool(descriptor & 0x04)
  dictionary_bytes = (0, 1, 2, 4)[descriptor & 0x03]
  content_size_bytes = (int(single_segment), 2, 4, 8)[descriptor >> 6]
  at = 5 + (not single_segment) + dictionary_bytes + content_size_bytes
  is_last = False
  while not is_last:
    if at + 3 > len(data):
      return False
    header = int.from_bytes(data[at : at + 3], 'little')
    is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
    if kind not in (_RAW, _REPEATED, _COMPRESSED):
      return False
    at += 3 + (1 if kind == _REPEATED else size)
  return at + 4 * has_checksum == len(data)
