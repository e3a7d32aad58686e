import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import types
from disco_rl.networks import prediction_embeddings
from disco_rl.update_rules import disco


def test_embeds_as_softmax_and_mlp():
  keys = jax.random.split(jax.random.PRNGKey(0), 6)
  logits = 30 * jax.random.normal(keys[0], (4, 3, 7))
  normal = jax.random.normal
  networks = [
    [
      (normal(keys[1], (7, 5)), normal(keys[2], (5,))),
      (normal(keys[3], (5, 2)), normal(keys[4], (2,))),
    ],
    [(normal(keys[5], (7, 3)), jnp.ones(3))],
  ]
  two, one = prediction_embeddings.embed(logits, networks)
  p = np.asarray(jax.nn.softmax(logits))
  (w0, b0), (w1, b1) = networks[0]
  wanted = np.maximum(p @ w0 + b0, 0) @ w1 + b1
  np.testing.assert_allclose(two, wanted, 1e-5, 1e-5)
  np.testing.assert_allclose(one, p @ networks[1][0][0] + 1, 1e-5, 1e-5)


def _changed(source, *transforms):
  option = disco.get_input_option()
  added = types.TransformConfig(source=source, transforms=transforms)
  return types.MetaNetInputOption(
    base=[*option.base, added], action_conditional=option.action_conditional
  )


@pytest.mark.parametrize(
  ('option', 'wanted'),
  [
    (disco.get_input_option(), True),
    (_changed('extra_from_rule/q', 'identity', 'td_pair'), True),
    (_changed('agent_out/z', 'softmax', 'z_net', 'select_a'), True),
    (_changed('agent_out/z', 'drop_last', 'softmax', 'z_net'), True),
    (_changed('agent_out/z', 'softmax', 'drop_last', 'z_net'), False),
    (_changed('agent_out/z', 'identity', 'max_a', 'td_pair'), False),
    (_changed('agent_out/y', 'softmax', 'td_pair'), False),
    (_changed('extra_from_rule/target_out/q', 'max_a', 'drop_last'), False),
  ],
)
def test_which_inputs_are_embeddings(option, wanted):
  assert prediction_embeddings.reads_only_embeddings(option) == wanted
