"""Reading text and JSON with limits, and the wording of system errors."""

import errno
import os
import urllib.error

import pytest

from disco_rl.runs import os_errors
from disco_rl.runs import reading


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    (b'\xff{}', 'it is not a text in UTF-8'),
    (b'{"a": 1', 'it is not JSON'),
    (b'', 'it is not JSON'),
    (b'[1]', 'it is not a JSON object'),
    (b'{"a": ' * 100_000, 'its JSON is too deep'),
    (b'{"a":' + b'[' * 70 + b']' * 70 + b'}', 'its JSON is too deep'),
    (b'{"a": 1, "a": 2}', "its JSON has 'a' twice"),
    (b'{"a": ' + b'9' * 5000 + b'}', 'it is not JSON'),
  ],
)
def test_invalid_json_is_refused(tmp_path, content, message):
  (tmp_path / 'x').write_bytes(content)
  with pytest.raises(reading.UnreadableFileError, match=message):
    reading.read_json(tmp_path / 'x')


def test_a_text_that_is_too_long(tmp_path):
  with (tmp_path / 'x').open('wb') as file:
    file.truncate(1 << 27)  # A sparse file.
  with pytest.raises(reading.UnreadableFileError, match='it has 134217728 byt'):
    reading.read_text(tmp_path / 'x')


def test_json_is_read(tmp_path):
  (tmp_path / 'x').write_text('{"a": [1, {"b": null}]}')
  assert reading.read_json(tmp_path / 'x') == {'a': [1, {'b': None}]}


@pytest.mark.parametrize(
  ('error', 'words'),
  [
    (
      PermissionError(errno.EACCES, os.strerror(errno.EACCES), 'runs/x'),
      'runs/x: permission denied',
    ),
    (
      OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
      'no space left on device',
    ),
    (OSError('larger than 5 bytes'), 'larger than 5 bytes'),
    (OSError(), 'OSError'),
    (
      urllib.error.URLError(OSError(errno.EHOSTUNREACH, 'No route to host')),
      'no route to host',
    ),
    (urllib.error.URLError('no host given'), '<urlopen error no host given>'),
    (OSError(errno.EIO, 'IO', b'\xff'), '\ufffd: IO'),
  ],
)
def test_errors_of_the_system_have_no_numbers(error, words):
  assert os_errors.describe(error) == words


def test_reasons_are_words():
  number = errno.ENOTTY
  assert os_errors.why_not_written(OSError(number, os.strerror(number))) == (
    os.strerror(number).lower()
  )
  assert os_errors.why_not_written(OSError('anything')) == 'anything'
