"""Compiled programs are reused by later and by concurrent processes."""

import json
import os
import pathlib
import subprocess
import sys
import time
import zlib

import jax
import pytest

from disco_rl.runs import cache_entries
from disco_rl.runs import compilation_cache

needs_cache = pytest.mark.skipif(
  not compilation_cache.is_supported(),
  reason='what JAX before 0.10 reads from a cache may crash',
)

# Compiles some small programs; ends with how many were found in the cache and
# how many were not. A warning, e.g. of an entry that cannot be read, is fatal.
PROGRAM = """
import json, os, sys, time, warnings
warnings.simplefilter('error')
import jax
from disco_rl.runs import compilation_cache

options = json.loads(sys.argv[1])
if options.get('max_file_bytes'):
  import resource
  limit = options['max_file_bytes']
  resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
counts = dict(cache_hits=0, cache_misses=0)

def count(event, **kwargs):
  name = event.rpartition('/')[2]
  if name in counts:
    counts[name] += 1

jax.monitoring.register_event_listener(count)
compilation_cache.enable(options['folder'])
print('ready', flush=True)
if options.get('wait'):
  sys.stdin.readline()
for _ in range(options.get('rounds', 1)):
  for i in range(options['programs']):
    assert jax.jit(lambda x: x * i + 1)(2.0) == 2 * i + 1
    compilation_cache.publish()
  jax.clear_caches()
print(json.dumps(counts), flush=True)
if options.get('hang'):
  sys.stdin.readline()
"""


def _start(folder, programs=3, **options):
  options |= dict(folder=str(folder), programs=programs)
  environment = {
    key: value
    for key, value in os.environ.items()
    if key != compilation_cache.VARIABLE
  }
  process = subprocess.Popen(
    [sys.executable, '-c', PROGRAM, json.dumps(options)],
    env=environment,
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )
  assert process.stdout.readline() == 'ready\n', process.communicate()
  return process


def _end(process, lines='\n'):
  out, errors = process.communicate(lines, timeout=120)
  assert process.returncode == 0, errors
  assert 'Error' not in errors
  return json.loads(out)


def _machine_folder(folder):
  (machine,) = folder.iterdir()
  return machine


def _names(folder, pattern):
  return sorted(path.name for path in _machine_folder(folder).glob(pattern))


@needs_cache
def test_many_processes_at_once_and_again(tmp_path):
  started = [_start(tmp_path, 24, rounds=2, wait=True) for _ in range(3)]
  for process in started:  # All wait for this line.
    process.stdin.write('\n')
    process.stdin.flush()
  for process in started:
    _end(process, '')
  entries = _names(tmp_path, '*-cache')
  assert len(entries) >= 24
  assert all(map(cache_entries.is_complete, tmp_path.glob('*/*-cache')))
  assert len(list(_machine_folder(tmp_path).iterdir())) == len(entries)

  counts = _end(_start(tmp_path, 24))
  assert counts['cache_hits'] >= 24 and counts['cache_misses'] == 0
  assert _names(tmp_path, '*') == entries


@needs_cache
def test_a_killed_process_leaves_what_is_complete(tmp_path):
  killed = _start(tmp_path, 3, hang=True)
  killed.stdout.readline()
  (private,) = _machine_folder(tmp_path).glob('process-*')
  whole, *_ = sorted(private.glob('*-cache'))
  # As if it had not published one, and had been writing another.
  (_machine_folder(tmp_path) / whole.name).unlink()
  (private / 'jit_cut-0-cache').write_bytes(whole.read_bytes()[:-1])
  alive = _start(tmp_path, 3, wait=True)
  assert private.is_dir() and len(_names(tmp_path, 'process-*')) == 2
  _end(alive)
  killed.kill()
  killed.communicate()

  counts = _end(_start(tmp_path, 3))
  assert counts['cache_misses'] == 0
  assert whole.name in _names(tmp_path, '*-cache')
  assert 'jit_cut-0-cache' not in _names(tmp_path, '*')
  assert not private.exists() and not _names(tmp_path, 'process-*')


@needs_cache
def test_a_full_disk_is_no_reason_to_stop_or_to_warn(tmp_path):
  _end(_start(tmp_path, 3, max_file_bytes=100))
  assert not _names(tmp_path, '*')


@pytest.fixture
def without_cache(monkeypatch):
  """As at the start of a program."""
  kept = jax.config.jax_compilation_cache_dir
  monkeypatch.delenv(compilation_cache.VARIABLE, raising=False)
  monkeypatch.setattr(compilation_cache, '_cache', None)
  jax.config.update('jax_compilation_cache_dir', None)
  yield
  assert compilation_cache._cache is None
  jax.config.update('jax_compilation_cache_dir', kept)


def test_a_folder_that_cannot_be_written_to_is_harmless(
  without_cache, tmp_path
):
  (tmp_path / 'file').touch()
  for folder in (tmp_path / 'file', tmp_path / 'file' / 'inside', '/proc/no'):
    compilation_cache.enable(folder)
    assert jax.config.jax_compilation_cache_dir is None
    compilation_cache.publish()


def test_a_disk_without_space_is_not_used(without_cache, tmp_path, monkeypatch):
  monkeypatch.setattr(compilation_cache, '_MIN_FREE_BYTES', 1 << 80)
  compilation_cache.enable(tmp_path)
  assert jax.config.jax_compilation_cache_dir is None


def test_an_old_jax_has_none(without_cache, tmp_path, monkeypatch):
  monkeypatch.setattr(jax, '__version_info__', (0, 5, 3))
  compilation_cache.enable(tmp_path)
  assert jax.config.jax_compilation_cache_dir is None
  assert not list(tmp_path.iterdir())


def test_it_can_be_switched_off(without_cache, tmp_path, monkeypatch):
  monkeypatch.setenv(compilation_cache.VARIABLE, 'off')
  compilation_cache.enable(tmp_path)
  assert jax.config.jax_compilation_cache_dir is None
  assert not list(tmp_path.iterdir())


def test_a_cache_that_the_user_configured_is_kept(without_cache, tmp_path):
  jax.config.update('jax_compilation_cache_dir', str(tmp_path / 'own'))
  compilation_cache.enable(tmp_path / 'ours')
  assert jax.config.jax_compilation_cache_dir == str(tmp_path / 'own')
  assert not (tmp_path / 'ours').exists()


@needs_cache
def test_the_commands_have_it_in_the_users_cache_folder(tmp_path):
  # Nothing is compiled: it is in use before the command reads its settings.
  program = (
    'import jax; from disco_rl.cli import main; '
    'code = main.main(["eval", "--resume=no-such-run"]); '
    'print(code, jax.config.jax_compilation_cache_dir)'
  )
  environment = {
    key: value
    for key, value in os.environ.items()
    if key != compilation_cache.VARIABLE
  }
  environment['DISCO_RL_CACHE'] = str(tmp_path)
  result = subprocess.run(
    [sys.executable, '-c', program],
    env=environment,
    capture_output=True,
    text=True,
    check=True,
  )
  code, folder = result.stdout.split()
  assert code == '2'
  assert pathlib.Path(folder).is_relative_to(tmp_path / 'compiled')


def test_the_folder_stays_small(tmp_path):
  sizes = dict(old=3, empty=0, older=3, new=3)
  for name, size in sizes.items():
    (tmp_path / f'{name}-cache').write_bytes(b'x' * size)
  now = time.time()
  for name, age in dict(old=200, older=300).items():
    os.utime(tmp_path / f'{name}-cache', (now - age, now - age))
  compilation_cache._trim(tmp_path, 6)
  assert {p.name for p in tmp_path.iterdir()} == {'old-cache', 'new-cache'}
  # Reading an entry makes it the newest.
  os.utime(tmp_path / 'old-cache', (now + 1, now - 200))
  compilation_cache._trim(tmp_path, 3)
  assert {p.name for p in tmp_path.iterdir()} == {'old-cache'}


def test_copies_where_there_are_no_hard_links(tmp_path, monkeypatch):
  def fail(source, target):
    raise PermissionError('no links here')

  monkeypatch.setattr(os, 'link', fail)
  (tmp_path / 'a-cache').write_bytes(zlib.compress(b'a'))
  (tmp_path / 'private').mkdir()
  compilation_cache._link_entries(tmp_path, tmp_path / 'private')
  (copy,) = (tmp_path / 'private').iterdir()
  assert copy.read_bytes() == (tmp_path / 'a-cache').read_bytes()
  compilation_cache._link(tmp_path / 'no-such-cache', tmp_path / 'b-cache')
  assert {p.name for p in tmp_path.iterdir()} == {'a-cache', 'private'}


# From the command line tool: with a checksum, without, and of 300,000 zeros.
ZSTD = {
  'checksum': (
    '28b52ffd04580d0100c8612070726f6772616d2c206f66206d616e792c20627974'
    '6573020029933b2e5ef618ec52'
  ),
  'plain': (
    '28b52ffd00580d0100c8612070726f6772616d2c206f66206d616e792c20627974'
    '6573020029933b2e5e'
  ),
  'zeros': '28b52ffd04585400001000000100fbff39c00202001000039f04002d28de26',
}


@pytest.mark.parametrize('kind', ['zlib', *ZSTD])
def test_entries_that_were_cut_are_found(kind, tmp_path):
  whole = (
    zlib.compress(bytes(range(256)) * 2)
    if kind == 'zlib'
    else bytes.fromhex(ZSTD[kind])
  )
  path = tmp_path / 'entry'
  path.write_bytes(whole)
  assert cache_entries.is_complete(path)
  for cut in range(len(whole)):
    path.write_bytes(whole[:cut])
    assert not cache_entries.is_complete(path), cut
  path.write_bytes(whole + b'x')
  assert not cache_entries.is_complete(path)


def test_other_files_are_no_entries(tmp_path):
  assert not cache_entries.is_complete(tmp_path / 'missing')
  (tmp_path / 'text').write_text('something else')
  assert not cache_entries.is_complete(tmp_path / 'text')
