"""A small rule of the discovered kind, with random η.

The names of η are those of the published weights, and so is everything but the
sizes.
"""

from collections.abc import Mapping
import functools
from typing import Any

import haiku as hk
import jax
import numpy as np

from disco_rl.conformance import average_cases
from disco_rl.conformance import case as case_lib
from disco_rl.conformance import samples
from disco_rl.conformance import value_cases
from disco_rl.update_rules import disco

NET: dict[str, Any] = dict(
  prediction_size=samples.Y,
  hidden_size=samples.H,
  embedding_size=(5, 1),
  policy_channels=(4, 2),
  policy_target_channels=(6,),
  meta_rnn_kwargs=dict(
    policy_channels=(4, 2),
    embedding_size=(5,),
    pred_embedding_size=(5, 1),
    hidden_size=3,
  ),
)
HYPER_PARAMS = dict(
  pi_cost=1.0,
  y_cost=0.9,
  z_cost=0.8,
  aux_policy_cost=0.7,
  value_cost=0.2,
  target_params_coeff=0.9,
  value_fn_td_lambda=value_cases.LAMBDA,
)
SETTINGS: dict[str, Any] = dict(
  NET,
  **HYPER_PARAMS,
  value_discount=value_cases.DISCOUNT,
  num_bins=samples.BINS,
  max_abs_value=samples.MAX_ABS_VALUE,
  moving_average_decay=average_cases.DECAY,
  moving_average_eps=average_cases.EPS,
)

_LIFE_LONG = 'lstm/~/meta_lstm/~unroll'
# Modules of η to what they are.
ETA = {
  'eta/': 'weights η of the meta-network',
  'eta/lstm/mlp/': 'y_net of the meta-network, w [in, out] and b [out]',
  'eta/lstm/mlp_1/': 'z_net of the meta-network',
  'eta/lstm/sequential/': 'policy_net: 1×1 convolutions, w [1, in, out]',
  'eta/lstm/lstm/': 'the LSTM backward in time, w [in + H, 4H] and b [4H]',
  'eta/lstm/linear/': 'the gate, from the life-long hidden vector',
  'eta/lstm/linear_1/': 'output meta_input_emb',
  'eta/lstm/linear_2/': 'output y',
  'eta/lstm/linear_3/': 'output z',
  'eta/lstm/sequential_1/': 'block of 1×1 convolutions before pi',
  'eta/lstm/linear_4/': 'output pi',
  f'eta/{_LIFE_LONG}/mlp/': 'y_net of the life-long LSTM',
  f'eta/{_LIFE_LONG}/mlp_1/': 'z_net of the life-long LSTM',
  f'eta/{_LIFE_LONG}/sequential/': 'policy_net of the life-long LSTM',
  f'eta/{_LIFE_LONG}/mlp_2/': 'MLP before the life-long LSTM',
  f'eta/{_LIFE_LONG}/lstm/': 'the life-long LSTM, w [in + hidden, 4·hidden]',
}
LIFE_LONG = 'life_long/'
STATE_NAME = 'lstm/meta_rnn_state'


@functools.cache
def make_rule() -> disco.DiscoUpdateRule:
  """Makes the rule."""
  return disco.DiscoUpdateRule(
    net=dict(name='lstm', input_option=disco.get_input_option(), **NET),
    value_discount=value_cases.DISCOUNT,
    max_abs_value=samples.MAX_ABS_VALUE,
    num_bins=samples.BINS,
    moving_average_decay=average_cases.DECAY,
    moving_average_eps=average_cases.EPS,
  )


@functools.cache
def _shapes() -> dict[str, tuple[int, ...]]:
  eta, _ = jax.eval_shape(make_rule().init_params, jax.random.PRNGKey(0))
  return {
    f'{module}/{name}': tuple(x.shape)
    for module, arrays in eta.items()
    for name, x in arrays.items()
  }


def sample_eta(s: samples.Samples) -> dict[str, np.ndarray]:
  """Draws η, by names that begin with `eta/`."""
  eta = {}
  for name, shape in sorted(_shapes().items()):
    is_bias = name.endswith('/b')
    scale = 0.3 if is_bias else 1.2 / np.sqrt(shape[-2])
    eta[f'eta/{name}'] = s.normal(*shape, scale=scale)
  return eta


def to_modules(arrays: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
  """Nests arrays by module, as Haiku does: `lstm/linear/w` to two levels."""
  tree: dict[str, dict[str, Any]] = {}
  for name, x in arrays.items():
    module, _, leaf = name.rpartition('/')
    tree.setdefault(module, {})[leaf] = x
  return tree


def from_modules(tree: Mapping[str, Mapping[str, Any]]) -> case_lib.Arrays:
  """Undoes `to_modules`."""
  return {
    f'{module}/{name}': x
    for module, arrays in tree.items()
    for name, x in arrays.items()
  }


def to_rnn_state(x: Mapping[str, Any]) -> dict[str, Any]:
  """Makes the state of the meta-network from the arrays `life_long/...`."""
  state = hk.LSTMState(
    hidden=x[f'{LIFE_LONG}hidden'], cell=x[f'{LIFE_LONG}cell']
  )
  return to_modules({STATE_NAME: state})


def from_rnn_state(tree: Any) -> case_lib.Arrays:
  """Undoes `to_rnn_state`."""
  state = from_modules(tree)[STATE_NAME]
  return {f'{LIFE_LONG}hidden': state.hidden, f'{LIFE_LONG}cell': state.cell}


def sample_rnn_state(s: samples.Samples) -> case_lib.Arrays:
  """Draws a state of the life-long LSTM."""
  size = NET['meta_rnn_kwargs']['hidden_size']
  return {
    f'{LIFE_LONG}hidden': s.uniform(-0.8, 0.8, size),
    f'{LIFE_LONG}cell': s.normal(size),
  }
