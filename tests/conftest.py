"""Eight simulated devices for every test, and no program compiled twice."""

import os

import jax
import pytest

# Most of the time goes into compiling small programs that run once: a third of
# it is that of LLVM's optimisations, which they have no use for.
os.environ['XLA_FLAGS'] = ' '.join(
  [os.environ.get('XLA_FLAGS', ''), '--xla_backend_optimization_level=0']
)

# Before any operation: afterwards the number of devices is fixed.
jax.config.update('jax_num_cpu_devices', 8)


def pytest_configure(config):
  # Tests build the same small programs over and over.
  jax.config.update('jax_compilation_cache_dir', str(config.cache.mkdir('jax')))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)
  jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)


@pytest.fixture
def no_rule_folders(monkeypatch, tmp_path):
  """Rules are looked up nowhere but in an empty cache, which is returned."""
  monkeypatch.delenv('DISCO_RL_WEIGHTS', raising=False)
  monkeypatch.setenv('DISCO_RL_CACHE', str(tmp_path / 'cache'))
  return tmp_path / 'cache'
