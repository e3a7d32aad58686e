"""The meta-loss: terms by name, and their weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.config import meta_training as config_lib
from disco_rl.meta_training import meta_loss
from disco_rl.update_rules import registry
from tests.support import small_meta


def test_terms_are_weighed_by_name():
  terms = dict(policy_gradient=2.0, entropy=3.0, regularizer=5.0)
  weigh = lambda weights: meta_loss.weigh(terms, weights)
  default = config_lib.MetaLossWeights()
  wanted = dict(policy_gradient=2.0, entropy=-0.03, regularizer=5.0)
  assert weigh(default) == pytest.approx(wanted)
  # In a mapping, terms that are not named have weight 0.
  wanted = dict(policy_gradient=0.0, entropy=6.0, regularizer=5.0)
  assert weigh(dict(entropy=2.0)) == wanted
  with pytest.raises(ValueError, match=r"terms are \['entropy', 'policy_grad"):
    weigh(dict(entropi=2.0))


def test_weights_by_name(own_rule):
  bounded = own_rule['Bounded']()
  settings = own_rule['agent_settings'].copy_and_resolve_references()
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(registry.UPDATE_RULES, 'bounded', type(bounded))
    settings.update_rule_name = 'bounded'
    regularizer = lambda eta, meta_out, agent_out: (
      2 * eta['entropy_cost']['log'] + 0 * jnp.sum(agent_out['logits'])
    )
    make = lambda weights: small_meta.make_meta_agent(
      settings=settings,
      regularizer=regularizer,
      weights=weights,
      num_inner_updates=1,
    )
    an_agent = make(own_rule['weights'])
    rng = jax.random.PRNGKey(0)
    eta, _ = bounded.init_params(rng)

    def log_of(an_agent):
      return lambda: (
        an_agent.meta_gradient(eta, an_agent.init(rng), rng, rng).log
      )

    log = jax.jit(log_of(an_agent))()
    wanted = (
      log['policy_gradient']
      - 0.01 * log['entropy']
      + 1e-3 * np.log(2) ** 2
      + 2 * np.log(0.2)
    )
    np.testing.assert_allclose(log['meta_loss'], wanted, 1e-5)
    np.testing.assert_allclose(log['distance'], np.log(2) ** 2, 1e-5)
    np.testing.assert_allclose(log['regularizer'], 2 * np.log(0.2), 1e-5)
    # Default weights without a term are ignored; others are errors.
    jax.eval_shape(log_of(make(config_lib.MetaLossWeights(entropy=0.0))))
    for wrong in (
      config_lib.MetaLossWeights(y_mean=0.5),
      dict(policy_gradient=1.0, y_mean=0.5),
    ):
      with pytest.raises(
        ValueError, match=r"\['y_mean'\], which are not terms"
      ):
        jax.eval_shape(log_of(make(wrong)))
