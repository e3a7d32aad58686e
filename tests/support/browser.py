"""Opens pages in a headless browser, if there is one."""

import os
import shutil
import subprocess
import tempfile

import pytest

_NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'chrome')
_OPTIONS = (
  *('--headless', '--no-sandbox', '--disable-gpu', '--disable-quic'),
  *('--no-first-run', '--disable-background-networking'),
  *('--disable-component-update', '--disable-sync', '--hide-scrollbars'),
)


def find():
  """Returns the path of a browser; skips the test if there is none."""
  for name in _NAMES:
    path = shutil.which(name)
    if path:
      return path
  return pytest.skip(f'no headless browser on PATH ({", ".join(_NAMES)})')


def open_page(path, *options):
  """Opens a file in a new profile; returns its output and its log.

  Args:
    path: path of a page.
    *options: further options, such as `--dump-dom`.
  """
  browser = find()
  with tempfile.TemporaryDirectory() as profile:
    result = subprocess.run(
      [
        *(browser, *_OPTIONS, f'--user-data-dir={profile}', *options),
        *('--enable-logging=stderr', '--v=0', path.resolve().as_uri()),
      ],
      # Nothing in the profile of the user is touched.
      env={**os.environ, 'HOME': profile},
      capture_output=True,
      text=True,
      timeout=120,
    )
  assert result.returncode == 0, result.stderr
  return result.stdout, result.stderr
