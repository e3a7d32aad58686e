"""The examples run; the one that should learn does."""

import jax
import numpy as np
import pytest

from disco_rl import rule_params
from disco_rl import settings
from disco_rl.update_rules import disco
from examples import flax_catch
from tests import weights


def test_flax_example_runs():
  rule = disco.DiscoUpdateRule(**settings.get_settings_disco().update_rule)
  eta, _ = rule.init_params(jax.random.PRNGKey(0))
  scores = flax_catch.train(eta, 2, jax.random.PRNGKey(0))
  assert scores.shape == (2,) and (np.abs(scores) <= 1).all()


@pytest.mark.slow
def test_flax_example_learns_catch(monkeypatch):
  weights.need_disco_103(monkeypatch)
  eta = rule_params.load('disco_103')
  scores = flax_catch.train(eta, 240, jax.random.PRNGKey(1))
  assert scores[:40].mean() < 0 and scores[-20:].mean() > 0.9
