"""The examples run, and the one that should learn does."""

import jax
import numpy as np
import pytest

import disco_rl
from disco_rl.config import agents
from disco_rl.config import networks
from disco_rl.config import resolve
from disco_rl.rule_zoo import file_format
from disco_rl.update_rules import disco
from examples import flax_catch
from examples import flax_network
from examples import jax_environment
from examples import own_rule
from tests.support import weights


def test_flax_example_runs():
  rule = disco.DiscoUpdateRule(**agents.get_settings_disco().update_rule)
  eta, _ = rule.init_params(jax.random.PRNGKey(0))
  scores = flax_catch.train(eta, 2, jax.random.PRNGKey(0))
  assert scores.shape == (2,) and (np.abs(scores) <= 1).all()


def test_own_environment_rule_and_network_run():
  """All three together, learning something within seconds."""
  rule = disco_rl.load_rule('reinforce')
  agent_settings = resolve.agent_settings(rule)
  networks.choose(agent_settings, 'flax')
  agent_settings.net_settings.net_args.sizes = (16,)
  result = disco_rl.evaluate(
    'corridor',
    rule,
    agent_settings,
    num_iterations=60,
    batching=disco_rl.Batching(batch_size=16, num_envs=16, rollout_length=12),
    env_settings=dict(length=4),
    devices=jax.devices()[:1],
  )
  assert result.name == 'reinforce'
  assert result.rows[0]['average_return'] < 0.95
  assert result.final_returns(20)[0] > 0.97
  assert (
    result.rows[-1]['average_length'] < result.rows[0]['average_length'] - 0.5
  )
  for module in (jax_environment, own_rule, flax_network):
    assert 'disco-rl eval' in module.__doc__


@pytest.mark.slow
def test_flax_example_learns_catch(monkeypatch):
  weights.need_disco_103(monkeypatch)
  eta = file_format.load('disco_103')
  scores = flax_catch.train(eta, 240, jax.random.PRNGKey(1))
  assert scores[:40].mean() < 0 and scores[-20:].mean() > 0.9
