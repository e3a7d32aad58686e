"""Eight simulated devices, for every test; set before JAX starts."""

import jax
import pytest

jax.config.update('jax_num_cpu_devices', 8)


@pytest.fixture
def no_rule_folders(monkeypatch, tmp_path):
  """Makes sure that rules are looked up nowhere but in an empty cache."""
  monkeypatch.delenv('DISCO_RL_WEIGHTS', raising=False)
  monkeypatch.setenv('DISCO_RL_CACHE', str(tmp_path / 'cache'))
  return tmp_path / 'cache'
