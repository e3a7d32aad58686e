"""Measures the pictures of a page in a headless browser."""

import json
import re
import shutil
import subprocess

import pytest

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_SCRIPT = """<script>
addEventListener('load', () => {
  const found = [...document.images].map(
    (image) => [image.naturalWidth, image.getBoundingClientRect().width]
  );
  document.body.innerHTML = '<pre>' + JSON.stringify(found) + '</pre>';
});
</script></body>"""


def find():
  """Returns the path of Chromium; skips the test without one."""
  browser = shutil.which('chromium') or shutil.which('google-chrome')
  if browser is None:
    pytest.skip('needs Chromium')
  return browser


def _run(folder, *options):
  return subprocess.run(
    [
      *(find(), '--headless', '--no-sandbox', '--disable-gpu'),
      *('--disable-quic', '--no-first-run', '--disable-sync'),
      *('--disable-background-networking', '--disable-component-update'),
      *('--enable-logging=stderr', f'--user-data-dir={folder}'),
      *options,
    ],
    check=True,
    capture_output=True,
    text=True,
    timeout=120,
  )


def errors_of(page, folder):
  """Opens a page, and returns what the browser's console complained of."""
  done = _run(folder / 'profile', '--dump-dom', f'file://{page}')
  assert '</html>' in done.stdout
  return [line for line in done.stderr.splitlines() if 'CONSOLE' in line]


def widths_of_pictures(page, folder):
  """Returns the width of every picture of a page, its own and as shown.

  The page allows no scripts, so the one that measures is in a copy without that
  rule.
  """
  text = page.read_text(encoding='utf-8')
  measured = folder / f'measured_{page.name}'
  measured.write_text(
    _POLICY.sub('', text).replace('</body>', _SCRIPT), encoding='utf-8'
  )
  done = _run(folder / 'profile', '--dump-dom', f'file://{measured}')
  return json.loads(re.search('<pre>(.*?)</pre>', done.stdout).group(1))
