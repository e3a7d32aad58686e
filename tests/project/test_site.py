"""The documentation site builds without warnings, and has every module."""

import os
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest

import disco_rl
from tests.support import browser

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope='module')
def site(tmp_path_factory):
  """The folder of the site, built as `make docs` does."""
  pytest.importorskip('mkdocs', reason='needs the extra [docs]')
  pytest.importorskip('mkdocstrings', reason='needs the extra [docs]')
  out = tmp_path_factory.mktemp('site')
  done = subprocess.run(
    [sys.executable, '-m', 'mkdocs', 'build', '--quiet', '--site-dir', out],
    cwd=ROOT,
    env={**os.environ, 'NO_MKDOCS_2_WARNING': '1'},
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  assert 'WARNING' not in done.stderr, done.stderr
  return out


def test_every_module_and_public_function_is_in_the_reference(site):
  text = ''.join(p.read_text('utf-8') for p in (site / 'api').glob('*.html'))
  found = set(re.findall(r'id="(disco_rl[\w.]*)"', text))
  modules = {
    module.name
    for module in pkgutil.walk_packages(disco_rl.__path__, 'disco_rl.')
  }
  assert not modules - found
  public = {f'disco_rl.{home}.{name}' for name, home in disco_rl._HOMES.items()}
  assert not public - found


def test_every_page_is_in_the_navigation(site):
  home = (site / 'index.html').read_text('utf-8')
  for page in (ROOT / 'docs').rglob('*.md'):
    name = page.relative_to(ROOT / 'docs').with_suffix('.html')
    assert f'href="{name}"' in home, name


def test_pages_need_no_other_server(site):
  for page in site.rglob('*.html'):
    for address in re.findall(
      r'<(?:script|img|link)[^>]+(?:src|href)="(http[^"]+)"',
      page.read_text('utf-8'),
    ):
      # The generator names its own address in a <link rel="canonical">, if any.
      raise AssertionError(f'{page.name} loads {address}')


@pytest.mark.slow
def test_pages_open_in_a_browser(site, tmp_path):
  for page in ('index.html', 'the_idea.html', 'api/learning.html'):
    for width in (400, 1300):
      picture = tmp_path / f'{width}.png'
      browser.open_page(
        site / page, f'--window-size={width},1000', f'--screenshot={picture}'
      )
      assert picture.stat().st_size > 10_000, page
