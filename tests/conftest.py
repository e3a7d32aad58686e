"""Eight simulated devices for every test, and no program compiled twice."""

import gc
import os
import signal

import jax
import pytest

from disco_rl.runs import compilation_cache

# Most of the time goes into compiling small programs that run once. Optimising
# them is a third of it, and the newer code generator of fusions, instead of the
# older one, three quarters of the rest.
os.environ['XLA_FLAGS'] = ' '.join(
  [
    os.environ.get('XLA_FLAGS', ''),
    '--xla_backend_optimization_level=0',
    '--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters',
    '--xla_cpu_parallel_codegen_split_count=2',
  ]
)

# Before any operation: afterwards the number of devices is fixed.
jax.config.update('jax_num_cpu_devices', 8)


# In the background, or under `nohup`, signals are ignored, and the processes
# that tests start would inherit that.
for number, handler in (
  (signal.SIGINT, signal.default_int_handler),
  (signal.SIGHUP, signal.SIG_DFL),
):
  if signal.getsignal(number) == signal.SIG_IGN:
    signal.signal(number, handler)

# Tracing makes many objects that live as long as their program. Looking for
# garbage among them again and again is a seventh of the time of all tests.
gc.freeze()
gc.set_threshold(200_000, 20, 100)


def pytest_configure(config):
  # Tests build the same small programs over and over. Those that run at the
  # same time must not write to one folder, not even one that somebody named.
  jax.config.update('jax_compilation_cache_dir', None)
  compilation_cache.enable(config.cache.mkdir('compiled'))


# With two workers, files that take long must not come last.
_FIRST = ('cli', 'project', 'test_agent.py', 'meta_training', 'contracts')


def pytest_collection_modifyitems(items):
  def place(item):
    parts = item.path.parts
    found = [i for i, name in enumerate(_FIRST) if name in parts]
    return found[0] if found else len(_FIRST)

  items.sort(key=place)


def pytest_runtest_teardown(item, nextitem):
  if nextitem is None or nextitem.path != item.path:
    compilation_cache.publish()
    gc.collect()


@pytest.fixture
def no_rule_folders(monkeypatch, tmp_path):
  """Rules are looked up nowhere but in an empty cache, which is returned."""
  monkeypatch.delenv('DISCO_RL_WEIGHTS', raising=False)
  monkeypatch.setenv('DISCO_RL_CACHE', str(tmp_path / 'cache'))
  return tmp_path / 'cache'
