"""Files of other implementations: their formats, and what is refused."""

import io
import json
import os
import pathlib

import numpy as np
import pytest

from disco_rl.conformance import outputs

NAMES = ('adv', 'params/torso/w')
ARRAYS = {'adv': np.arange(6.0).reshape(3, 2), 'params/torso/w': np.ones(2)}


def _check(found):
  assert found.keys() == ARRAYS.keys()
  for name, x in ARRAYS.items():
    np.testing.assert_array_equal(found[name], x)


def test_formats(tmp_path):
  assert outputs.read(tmp_path, NAMES) == {}
  np.savez(tmp_path / 'outputs.npz', **ARRAYS)
  _check(outputs.read(tmp_path, NAMES))
  (tmp_path / 'outputs.npz').unlink()

  np.savez_compressed(tmp_path / 'outputs.npz', **ARRAYS)
  _check(outputs.read(tmp_path, NAMES))
  (tmp_path / 'outputs.npz').unlink()

  lists = {name: x.tolist() for name, x in ARRAYS.items()}
  (tmp_path / 'outputs.json').write_text(json.dumps(lists))
  _check(outputs.read(tmp_path, NAMES))
  (tmp_path / 'outputs.json').unlink()

  (tmp_path / 'params' / 'torso').mkdir(parents=True)
  for name, x in ARRAYS.items():
    np.save(tmp_path / f'{name}.npy', np.asfortranarray(x))
  _check(outputs.read(tmp_path, NAMES))
  np.savez(tmp_path / 'outputs.npz', **ARRAYS)
  with pytest.raises(ValueError, match=r'both outputs\.npz and adv\.npy'):
    outputs.read(tmp_path, NAMES)


def test_scalars_and_bools_in_json(tmp_path):
  text = '{"loss": 1.5, "ends": [[true], [false]], "none": [], "nan": NaN}'
  (tmp_path / 'outputs.json').write_text(text)
  found = outputs.read(tmp_path, ())
  assert found['loss'].shape == () and found['loss'] == 1.5
  assert found['ends'].dtype == bool and found['ends'].shape == (2, 1)
  assert found['none'].shape == (0,) and np.isnan(found['nan'])


def _npz(**arrays):
  stream = io.BytesIO()
  np.savez(stream, **arrays)
  return stream.getvalue()


@pytest.mark.parametrize(
  ('name', 'content', 'words'),
  [
    ('outputs.npz', b'', 'damaged'),
    ('outputs.npz', _npz(adv=np.ones(9))[:-30], 'cannot be read'),
    ('outputs.npz', _npz(adv=np.array([{}])), 'Python objects'),
    ('outputs.npz', _npz(adv=np.array(['x'])), 'numbers or bools'),
    ('outputs.npz', _npz(adv=np.ones(2, complex)), 'numbers or bools'),
    ('outputs.json', b'[1]', 'not a JSON object'),
    ('outputs.json', b'{"adv": [[1], [1, 2]]}', 'equal lengths'),
    ('outputs.json', b'{"adv": [[1], 2]}', 'equal lengths'),
    ('outputs.json', b'{"adv": "x"}', 'not a number'),
    ('outputs.json', b'{"adv": null}', 'not a number'),
    ('outputs.json', b'{"adv": 1', 'not JSON'),
    ('outputs.json', b'{"adv": 1' + b'0' * 400 + b'}', 'not a number'),
    ('outputs.json', b'[' * 10**5, 'cannot be read'),
    ('adv.npy', b'\x93NUMPY', 'not an array'),
    ('adv.npy', b'', 'not an array'),
  ],
)
def test_bad_files_are_one_sentence(tmp_path, name, content, words):
  (tmp_path / name).write_bytes(content)
  with pytest.raises(ValueError, match=words) as caught:
    outputs.read(tmp_path, NAMES)
  assert name in str(caught.value) and '\n' not in str(caught.value)


@pytest.mark.parametrize('name', ['outputs.npz', 'outputs.json', 'adv.npy'])
def test_only_ordinary_files_are_read(tmp_path, name):
  path = tmp_path / name
  for make, words in (
    (lambda: path.symlink_to('/dev/zero'), 'a device'),
    (lambda: os.mkfifo(path), 'a pipe'),
    (lambda: path.symlink_to(tmp_path / 'gone'), 'no such file'),
  ):
    make()
    with pytest.raises(ValueError, match=words):
      outputs.read(tmp_path, NAMES)
    path.unlink()
  path.mkdir()
  with pytest.raises(ValueError, match='a folder'):
    outputs.read(tmp_path, NAMES)


def test_large_files_are_refused_before_they_are_read(tmp_path):
  for name in ('outputs.npz', 'adv.npy'):
    path = pathlib.Path(tmp_path / name)
    with path.open('wb') as file:
      file.truncate(1 << 40)  # Takes no space on the disk.
    with pytest.raises(ValueError, match='bytes, more than'):
      outputs.read(tmp_path, NAMES)
    path.unlink()
