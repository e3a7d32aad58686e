"""Eight simulated devices and a compilation cache for all tests."""

import gc
import os
import signal

import jax
import pytest

from disco_rl.runs import compilation_cache
from tests.support import registrations

# Tests mostly compile small programs that run once. Optimisation is a third of
# that time, and the newer code generator of fusions, instead of the older one,
# three quarters of the rest.
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


# In the background, or under `nohup`, signals are ignored, which the processes
# that tests start would inherit.
for number, handler in (
  (signal.SIGINT, signal.default_int_handler),
  (signal.SIGHUP, signal.SIG_DFL),
):
  if signal.getsignal(number) == signal.SIG_IGN:
    signal.signal(number, handler)

# Tracing makes many long-lived objects. Repeated garbage collection among them
# takes a seventh of the time of all tests.
gc.freeze()
gc.set_threshold(200_000, 20, 100)


def pytest_configure(config):
  # Tests compile the same small programs repeatedly. Those that run at the
  # same time must not write to one folder, not even one that is configured.
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


_REGISTERED = {}  # Path of a file to the tables after its import.


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
  """Undoes what a file registers when it is imported, until its tests run."""
  if not isinstance(collector, pytest.Module):
    return (yield)
  before = registrations.registered()
  report = yield
  # For its doctests and its tests; it is imported only the first time.
  _REGISTERED.setdefault(collector.path, registrations.registered())
  registrations.restore(before)
  return report


@pytest.fixture(scope='module', autouse=True)
def registered_by_the_file(request):
  """Registers what a file registered when it was imported, for its tests."""
  before = registrations.registered()
  registrations.restore(_REGISTERED.get(request.path, before))
  yield
  registrations.restore(before)


@pytest.fixture(autouse=True)
def registered_by_the_test(registered_by_the_file):
  """Undoes what a test registers."""
  before = registrations.registered()
  yield
  registrations.restore(before)


@pytest.fixture
def no_rule_folders(monkeypatch, tmp_path):
  """Removes the user's folders of rules; returns the path of an empty cache."""
  monkeypatch.delenv('DISCO_RL_WEIGHTS', raising=False)
  monkeypatch.setenv('DISCO_RL_CACHE', str(tmp_path / 'cache'))
  return tmp_path / 'cache'
