"""Rule files: round trips, and every way to fail."""

import io
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.rule_zoo import file_format
from tests.support import golden
from tests.support import weights

PARAMS = {
  'lstm/linear': {'w': jnp.arange(6.0).reshape(2, 3), 'b': jnp.zeros(3)},
  'lstm/~/meta_lstm/~unroll/mlp': {'w': jnp.ones((1, 2))},
}


@pytest.fixture
def saved(tmp_path):
  path = tmp_path / 'rule.npz'
  file_format.save(path, PARAMS, {'step': 3, 'config': {'lr': 0.1}})
  return path


def _npz_bytes(**arrays) -> bytes:
  buffer = io.BytesIO()
  np.savez(buffer, **arrays)
  return buffer.getvalue()


def test_round_trip(saved):
  golden.check_trees_close(file_format.load(saved), PARAMS, 0)
  golden.check_trees_close(file_format.load(str(saved), like=PARAMS), PARAMS, 0)
  metadata = file_format.load_metadata(saved)
  assert metadata == {'step': 3, 'config': {'lr': 0.1}}


def test_format_is_a_plain_flat_npz(saved):
  with np.load(saved) as archive:
    assert sorted(archive.files) == [
      'lstm/linear/b',
      'lstm/linear/w',
      'lstm/~/meta_lstm/~unroll/mlp/w',
    ]
    assert archive['lstm/linear/w'].dtype == np.float32


def test_saving_replaces_the_whole_file_or_nothing(saved, monkeypatch):
  before = saved.read_bytes()

  def broken(file, **arrays):
    file.write(b'half a file')
    raise OSError('disk full')

  monkeypatch.setattr(np, 'savez', broken)
  with pytest.raises(OSError, match='disk full'):
    file_format.save(saved, PARAMS)
  assert saved.read_bytes() == before
  assert [p.name for p in saved.parent.iterdir()] == ['rule.npz']


@pytest.mark.parametrize(
  ('params', 'metadata', 'message'),
  [
    ({'a': {'w': jnp.array([1.0, jnp.nan])}}, None, 'a/w contains NaN'),
    ({'a': {'w': jnp.array([1])}}, None, 'a/w is of dtype int32'),
    (PARAMS, {'when': object()}, 'metadata: .*not JSON serializable'),
    (PARAMS, {'text': 'x' * 70_000}, 'metadata takes 70012 bytes'),
    ({'m' * 70_000: {'w': jnp.ones(1)}}, None, 'names have up to 65531 bytes'),
    ({'a\0': {'w': jnp.ones(1)}}, None, 'no null character'),
    ({'a\ud800': {'w': jnp.ones(1)}}, None, 'cannot be the name'),
  ],
)
def test_bad_parameters_are_not_saved(tmp_path, params, metadata, message):
  with pytest.raises(file_format.RuleFileError, match=message):
    file_format.save(tmp_path / 'x.npz', params, metadata)
  assert not any(tmp_path.iterdir())


def test_only_npz_is_saved(tmp_path):
  with pytest.raises(file_format.RuleFileError, match=r'saved as \.npz'):
    file_format.save(tmp_path / 'x.pkl', PARAMS)


def test_missing_file(tmp_path):
  with pytest.raises(file_format.RuleFileError, match='no rule file at'):
    file_format.load(tmp_path / 'nothing.npz')


def test_truncated_file(saved):
  saved.write_bytes(saved.read_bytes()[:-40])
  with pytest.raises(file_format.RuleFileError, match='cut short'):
    file_format.load(saved)


def test_tampered_file(saved):
  data = bytearray(saved.read_bytes())
  with zipfile.ZipFile(saved) as archive:
    place = archive.getinfo('lstm/linear/w.npy').header_offset + 200
  data[place] ^= 0xFF
  saved.write_bytes(data)
  with pytest.raises(file_format.RuleFileError, match='damaged'):
    file_format.load(saved)


def test_no_single_wrong_byte_gives_anything_but_a_clear_error(saved):
  good = saved.read_bytes()
  refused = 0
  for place in range(len(good)):
    saved.write_bytes(
      good[:place] + bytes([good[place] ^ 0x21]) + good[place + 1 :]
    )
    try:
      file_format.load(saved)
    except file_format.RuleFileError:
      refused += 1
  assert (
    refused > len(good) // 2
  )  # Some bytes, such as those of dates, have no effect.


def test_low_precision_is_widened(tmp_path):
  params = {'a': {'w': jnp.ones(2, jnp.bfloat16)}}
  file_format.save(tmp_path / 'x.npz', params)
  loaded = file_format.load(tmp_path / 'x.npz')
  assert loaded['a']['w'].dtype == jnp.float32


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    (b'not a zip', 'not an npz'),
    (
      _npz_bytes(**{'/w': np.zeros(2)}),
      "'/w' is not of the form module/name",
    ),
    (_npz_bytes(**{'a/w': np.array([np.inf])}), 'a/w contains NaN or inf'),
    (_npz_bytes(**{'a/w': np.array([1e300])}), 'a/w contains NaN or inf'),
    (_npz_bytes(**{'a/w': np.array([1])}), 'a/w is of dtype int64'),
    (_npz_bytes(**{'a/w': np.array([{}])}), 'not a readable rule file'),
    (_npz_bytes(), 'holds no parameters'),
  ],
)
def test_bad_content(tmp_path, content, message):
  path = tmp_path / 'x.npz'
  path.write_bytes(content)
  with pytest.raises(file_format.RuleFileError, match=message):
    file_format.load(path)


def test_wrong_shapes_and_names_are_all_named(saved):
  like = {
    'lstm/linear': {'w': jnp.zeros((2, 4)), 'b': jnp.zeros(3)},
    'lstm/other': {'w': jnp.zeros(1)},
  }
  with pytest.raises(file_format.RuleFileError) as error:
    file_format.load(saved, like=like)
  message = str(error.value)
  assert 'lstm/linear/w has shape (2, 3) instead of (2, 4)' in message
  assert 'lstm/other/w is missing' in message
  assert 'lstm/~/meta_lstm/~unroll/mlp/w is not expected' in message


def test_published_file_loads_by_name(monkeypatch):
  weights.need_disco_103(monkeypatch)
  params = file_format.load('disco_103')
  assert sum(x.size for m in params.values() for x in m.values()) == 754_778
