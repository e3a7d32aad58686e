"""Measures the pictures of a page in a headless browser."""

import json
import re

from tests.support import browser

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_SCRIPT = """<script>
addEventListener('load', () => {
  const found = [...document.images].map(
    (image) => [image.naturalWidth, image.getBoundingClientRect().width]
  );
  document.body.innerHTML = '<pre>' + JSON.stringify(found) + '</pre>';
});
</script></body>"""


def errors_of(page):
  """Opens a page, and returns what the browser's console complained of."""
  text, log = browser.open_page(page, '--dump-dom')
  assert '</html>' in text
  return [line for line in log.splitlines() if 'CONSOLE' in line]


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
  shown, _ = browser.open_page(measured, '--dump-dom')
  return json.loads(re.search('<pre>(.*?)</pre>', shown).group(1))
