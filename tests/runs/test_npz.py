"""Files with wrong sizes are refused before anything is allocated."""

import io
import os
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest

from disco_rl.runs import npz
from disco_rl.runs import reading


def _member(header, data=b''):
  header = header.encode()
  return (
    b'\x93NUMPY\x01\x00' + len(header).to_bytes(2, 'little') + header + data
  )


def _archive(path, members, compression=zipfile.ZIP_STORED):
  with zipfile.ZipFile(path, 'w', compression) as archive:
    for name, content in members:
      archive.writestr(name, content)
  return path


def _header(shape='(2,)', descr="'<f4'", order='False'):
  return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}"


def test_all_that_numpy_writes_is_read_bit_exact(tmp_path):
  arrays = dict(
    a=np.arange(6.0, dtype=np.float32).reshape(2, 3),
    b=np.asfortranarray(np.arange(6).reshape(2, 3)),
    c=np.int32(7),
    d=np.zeros((0, 3), np.uint8),
    e=np.asarray('text'),
    f=np.asarray([True, False]),
    g=np.zeros(2, [('x', '<f4'), ('y', '<i8')]),
    h=np.asarray([1, 2], 'M8[ns]'),
  )
  for save in (np.savez, np.savez_compressed):
    save(tmp_path / 'x.npz', **arrays)
    found = npz.read(tmp_path / 'x.npz')
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
      np.testing.assert_array_equal(found[name], array)
      assert found[name].dtype == array.dtype
  found['a'][0] = 5  # Not read-only.


@pytest.mark.parametrize(
  ('members', 'message'),
  [
    ([('a.npy', _member(_header('(10**9, 10**9)')))], 'a is not an array'),
    (
      [('a.npy', _member(_header('(1000000000, 1000000000)')))],
      'a claims to have 4000000000000000000 bytes, but has 0',
    ),
    ([('a.npy', _member(_header('(2,)'), b'1234'))], 'claims to have 8 bytes'),
    ([('a.npy', _member(_header('(1,)'), b'12345'))], 'claims to have 4 byt'),
    ([('a.npy', _member(_header('(-1, -1)'), b'1234'))], 'a is not an array'),
    ([('a.npy', _member(_header('5')))], 'a is not an array'),
    ([('a.npy', _member(_header(descr="'|O'")))], 'holds Python objects'),
    ([('a.npy', _member(_header(descr="'<q9'")))], 'a is not an array'),
    ([('a.npy', _member('[' * 9000))], 'a is not an array'),
    ([('a.npy', _member('9' * 9000))], 'a is not an array'),
    ([('a.npy', _member('{}'))], 'a is not an array'),
    ([('a.npy', b'')], 'a is not an array'),
    ([('a.npy', pickle.dumps([1, 2, 3]))], 'a is not an array'),
    ([('a', _member(_header())), ('a.npy', b'')], "it holds 'a' twice"),
  ],
)
def test_invalid_members_are_refused(tmp_path, members, message):
  path = _archive(tmp_path / 'x.npz', members)
  with pytest.raises(reading.UnreadableFileError) as error:
    npz.read(path)
  assert message in str(error.value)
  assert 'allow_pickle' not in str(error.value)


def test_a_pickled_object_is_not_loaded(tmp_path):
  np.savez(tmp_path / 'x.npz', a=np.asarray([{}], object))
  with pytest.raises(reading.UnreadableFileError, match='never read'):
    npz.read(tmp_path / 'x.npz')


def test_a_zip_bomb_takes_no_memory(tmp_path, monkeypatch):
  monkeypatch.setattr(npz, '_MAX_UNPACKED', 1 << 24)
  path = _archive(
    tmp_path / 'x.npz',
    [(f'{i}.npy', bytes(1 << 23)) for i in range(3)],
    zipfile.ZIP_DEFLATED,
  )
  assert path.stat().st_size < 1 << 20
  tracemalloc.start()
  with pytest.raises(reading.UnreadableFileError, match='claims to hold 2516'):
    npz.read(path)
  _, peak = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert peak < 1 << 22


def test_members_that_claim_more_than_the_file_has(tmp_path):
  """Sizes in the directory of an archive are checked, too."""
  buffer = io.BytesIO()
  np.savez(buffer, a=np.zeros(4, np.float32))
  content = buffer.getvalue()
  start = content.index(b'PK\x01\x02')
  size = content[start + 20 : start + 24]
  assert size == content[start + 24 : start + 28]
  huge = (1 << 31).to_bytes(4, 'little')
  for change in (huge + huge, huge + size, size + huge):
    path = tmp_path / 'x.npz'
    path.write_bytes(content[: start + 20] + change + content[start + 28 :])
    with pytest.raises(reading.UnreadableFileError):
      npz.read(path)


def test_wrong_bits_in_an_array_are_detected_by_its_checksum(tmp_path):
  path = tmp_path / 'x.npz'
  np.savez(path, a=np.arange(100, dtype=np.float32))
  good = path.read_bytes()
  first = good.index(np.float32(1).tobytes())
  for place in range(first, first + 300, 7):
    path.write_bytes(
      good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
    )
    with pytest.raises(reading.UnreadableFileError, match='CRC'):
      npz.read(path)


def test_only_regular_files_are_read(tmp_path):
  os.mkfifo(tmp_path / 'pipe')
  (tmp_path / 'link').symlink_to('/dev/zero')
  for path, message in [
    (tmp_path, 'it is a folder, not a file'),
    (tmp_path / 'pipe', 'it is a pipe, not a file'),
    (tmp_path / 'link', 'it is a device, not a file'),
    (tmp_path / 'nothing', 'no such file or directory'),
    ('a\0b', 'its name is not valid'),
  ]:
    with pytest.raises(reading.UnreadableFileError, match=message):
      npz.read(path)
