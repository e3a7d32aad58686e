"""Rules by name: the order of look-ups, downloads, and their checksums."""

import contextlib
import hashlib
import http.server
import io
import json
import pathlib
import subprocess
import threading
import time

import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import store
from tests.support import golden

PARAMS = {'lstm/linear': {'w': jnp.arange(6.0).reshape(2, 3)}}


def _npz_bytes(**arrays) -> bytes:
  buffer = io.BytesIO()
  np.savez(buffer, **arrays)
  return buffer.getvalue()


def test_unknown_name(no_rule_folders):
  message = r"'nope'; known: .*disco_103"
  with pytest.raises(file_format.RuleFileError, match=message):
    file_format.load('nope')


def test_manifest_is_complete(no_rule_folders):
  for name, rule in store.known_rules().items():
    assert rule.name == name and rule.file.endswith('.npz')
    assert len(rule.sha256) == 64 and rule.license and rule.provenance
    if not rule.url:
      shipped = store.shipped_folder() / rule.file
      assert store.find(name) == shipped  # With the right checksum.
  published = store.known_rules()['disco_103']
  assert published.sha256.startswith('dac840a1')


class _Publisher(http.server.BaseHTTPRequestHandler):
  """Serves one file, correctly or not."""

  content = b''
  behaviour = 'good'
  requests = 0

  def do_GET(self):
    cls = type(self)
    cls.requests += 1
    if self.behaviour == 'missing':
      self.send_error(404)
      return
    self.send_response(200)
    self.send_header('Content-Length', str(len(self.content)))
    self.end_headers()
    if self.behaviour == 'stalls':
      time.sleep(2)
    if self.behaviour == 'trickles':
      with contextlib.suppress(OSError):  # The client gives up.
        for byte in self.content:
          self.wfile.write(bytes([byte]))
          time.sleep(0.1)
      return
    half = len(self.content) // 2
    short = self.behaviour in ('hangs up', 'stalls')
    self.wfile.write(self.content[:half] if short else self.content)

  def log_message(self, *args):
    pass


@pytest.fixture
def publisher(monkeypatch, tmp_path, no_rule_folders):
  """A server on loopback that publishes the rule `published`."""
  del no_rule_folders
  content = _npz_bytes(**{'lstm/linear/w': np.ones((2, 2), np.float32)})
  handler = type('Publisher', (_Publisher,), {'content': content})
  server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
  thread = threading.Thread(target=server.serve_forever, daemon=True)
  thread.start()
  shipped = tmp_path / 'shipped'
  shipped.mkdir()
  entry = dict(
    name='published',
    file='published.npz',
    url=f'http://127.0.0.1:{server.server_port}/published.npz',
    sha256=hashlib.sha256(content).hexdigest(),
    license='none',
    provenance='a test',
  )
  (shipped / 'manifest.json').write_text(json.dumps({'rules': [entry]}))
  monkeypatch.setattr(store, 'shipped_folder', lambda: shipped)
  handler.entry, handler.shipped = entry, shipped
  yield handler
  server.shutdown()
  server.server_close()
  thread.join()


def test_download_once_then_from_the_cache(publisher, no_rule_folders):
  for _ in range(2):
    params = file_format.load('published')
    assert params['lstm/linear']['w'].shape == (2, 2)
  assert publisher.requests == 1
  assert [p.name for p in no_rule_folders.iterdir()] == ['published.npz']


def test_damaged_cache_is_downloaded_again(publisher, no_rule_folders):
  file_format.load('published')
  (no_rule_folders / 'published.npz').write_bytes(b'damaged')
  file_format.load('published')
  assert publisher.requests == 2


@pytest.mark.parametrize(
  'behaviour', ['missing', 'hangs up', 'stalls', 'other']
)
def test_bad_downloads_leave_nothing(publisher, no_rule_folders, behaviour):
  publisher.behaviour = behaviour
  if behaviour == 'other':
    publisher.content = b'something else'
  info = store.known_rules()['published']
  with pytest.raises(store.RuleFileError, match='DISCO_RL_WEIGHTS'):
    store.download(info, no_rule_folders, timeout=0.5)
  assert not any(no_rule_folders.iterdir())


def test_downloads_are_bounded(publisher, no_rule_folders):
  info = store.known_rules()['published']
  with pytest.raises(store.RuleFileError, match='larger than 10 bytes'):
    store.download(info, no_rule_folders, max_bytes=10)
  publisher.behaviour = 'trickles'
  start = time.monotonic()
  with pytest.raises(store.RuleFileError, match='not finished after'):
    store.download(info, no_rule_folders, total_timeout=0.5)
  assert time.monotonic() - start < len(publisher.content) * 0.1


def test_unusable_cache_is_named(publisher, monkeypatch, tmp_path):
  (tmp_path / 'file').write_text('')
  monkeypatch.setenv('DISCO_RL_CACHE', str(tmp_path / 'file' / 'cache'))
  with pytest.raises(store.RuleFileError, match='DISCO_RL_CACHE'):
    file_format.load('published')


def test_no_network(publisher):
  entry = {**publisher.entry, 'url': 'http://127.0.0.1:9/published.npz'}
  manifest = publisher.shipped / 'manifest.json'
  manifest.write_text(json.dumps({'rules': [entry]}))
  with pytest.raises(
    store.RuleFileError, match=r'\(connection refused\)\. Is there a network'
  ):
    file_format.load('published')


def test_lookup_order(publisher, no_rule_folders, monkeypatch, tmp_path):
  """The named folder, those of the package, the cache, then the publisher."""
  named = tmp_path / 'named'
  beside = tmp_path / 'update_rules'
  monkeypatch.setattr(store, 'published_folder', lambda: beside)
  monkeypatch.setenv('DISCO_RL_WEIGHTS', str(named))
  with pytest.raises(store.RuleFileError, match='is not a folder'):
    store.find('published')
  named.mkdir()
  folders = [named, publisher.shipped, beside, no_rule_folders]
  assert store.find('published') is None
  assert store.fetch('published').parent == no_rule_folders
  for folder in reversed(folders):
    folder.mkdir(exist_ok=True)
    (folder / 'published.npz').write_bytes(publisher.content)
    assert store.fetch('published').parent == folder
  assert publisher.requests == 1


def test_weights_where_published_programs_have_them(
  publisher, no_rule_folders, monkeypatch, tmp_path
):
  """In `update_rules/weights`; verified, and ignored by git."""
  place = 'disco_rl/update_rules/weights'
  root = pathlib.Path(__file__).parents[2]
  assert store.published_folder() == root / place
  here = tmp_path / 'disco_rl' / 'rule_zoo' / 'store.py'
  monkeypatch.setattr(store, '__file__', str(here))
  (tmp_path / place).mkdir(parents=True)
  path = tmp_path / place / 'published.npz'
  path.write_bytes(publisher.content)
  assert store.find('published') == path
  path.write_bytes(b'something else')
  with pytest.raises(store.RuleFileError, match='not the published'):
    store.find('published')
  if not (root / '.git').exists():
    pytest.skip('whether git ignores the file can be seen in a checkout only')
  ignored = ['git', 'check-ignore', '-q', f'{place}/disco_103.npz']
  assert subprocess.run(ignored, cwd=root, check=False).returncode == 0


def test_own_rules_by_name(publisher, monkeypatch, tmp_path):
  named = tmp_path / 'named'
  monkeypatch.setenv('DISCO_RL_WEIGHTS', str(named))
  file_format.save(named / 'mine.npz', PARAMS)
  golden.check_trees_close(file_format.load('mine'), PARAMS, 0)


def test_files_with_a_wrong_checksum_are_refused(
  publisher, monkeypatch, tmp_path
):
  named = tmp_path / 'named'
  monkeypatch.setenv('DISCO_RL_WEIGHTS', str(named))
  file_format.save(named / 'published.npz', PARAMS)
  with pytest.raises(store.RuleFileError, match='not the published'):
    file_format.load('published')
  assert publisher.requests == 0
