"""Embeds predictions y and z as the meta-network does, outside of it.

The meta-network reads a prediction only through softmax and a small MLP, and so
does its life-long LSTM with an MLP of its own. Computed from the logits by

```text
softmax(x)·W = (exp(x - max x)·W) / Σ exp(x - max x),
```

with the first layers W of both and a column of ones as one matrix, this takes
one pass over the logits, and no probabilities are stored.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from disco_rl import types

# An MLP with ReLU between its layers: weights [in, out] and biases [out].
Layers = list[tuple[jax.Array, jax.Array]]

# Entry of `UpdateRuleInputs.extra_from_rule` with embeddings that are computed
# already: source, e.g. `'agent_out/z'`, to what `embed` returns.
EMBEDDINGS = 'embeddings'

# Haiku names of the MLPs in η: the meta-network's, and its life-long LSTM's.
_NAMES = {
  'y': ('lstm/mlp', 'lstm/~/meta_lstm/~unroll/mlp'),
  'z': ('lstm/mlp_1', 'lstm/~/meta_lstm/~unroll/mlp_1'),
}
# Sources of the meta-network's inputs that are outputs of agent networks.
ONLINE, TARGET = 'agent_out', 'extra_from_rule/target_out'
# The transforms that are computed here, by prediction.
TRANSFORMS = {'y': ('softmax', 'y_net'), 'z': ('softmax', 'z_net')}


def get_networks(eta: types.MetaParams) -> dict[str, list[Layers]]:
  """Gets the networks that embed predictions.

  Args:
    eta: the parameters of a `meta_nets.LSTM`.

  Returns:
    `y` and `z` to the networks of the meta-network and of its life-long LSTM;
    without layers for a prediction that is not read.
  """
  return {
    prediction: [_get_layers(eta, name) for name in names]
    for prediction, names in _NAMES.items()
  }


def embed(logits: types.Array, networks: Sequence[Layers]) -> list[jax.Array]:
  """Applies networks to the softmax of logits.

  Args:
    logits: [..., Y].
    networks: networks with inputs of size Y.

  Returns:
    The output of each network, [..., size of its last layer].
  """
  x = jnp.asarray(logits)
  x = jnp.exp(x - jax.lax.stop_gradient(x.max(axis=-1, keepdims=True)))
  ones = jnp.ones((x.shape[-1], 1), x.dtype)
  columns = [network[0][0] for network in networks]
  # Precise, since it is also the sum of the probabilities.
  sums = jnp.matmul(
    x,
    jnp.concatenate([*columns, ones], axis=1),
    precision=jax.lax.Precision.HIGHEST,
  )
  outs, start = [], 0
  for (w, b), *rest in networks:
    out = sums[..., start : start + w.shape[1]] / sums[..., -1:] + b
    for w_next, b_next in rest:
      out = jax.nn.relu(out) @ w_next + b_next
    outs.append(out)
    start += w.shape[1]
  return outs


def precomputed(
  inputs: types.UpdateRuleInputs, index: int
) -> dict[tuple[str, ...], jax.Array]:
  """Gets the embeddings that the inputs of a meta-network contain.

  Args:
    inputs: the inputs.
    index: 0 for the meta-network, 1 for its life-long LSTM.

  Returns:
    Source and transforms, in one tuple, to [T+1, B, ...].
  """
  given = (inputs.extra_from_rule or {}).get(EMBEDDINGS, {})
  return {
    (source, *TRANSFORMS[source.rpartition('/')[2]]): outs[index]
    for source, outs in given.items()
  }


def reads_only_embeddings(option: types.MetaNetInputOption) -> bool:
  """Returns whether a meta-network reads predictions only as embedded here.

  Args:
    option: its inputs.

  Returns:
    Whether its inputs from the online and the target network are logits of the
    policy, and predictions whose transforms begin with `TRANSFORMS` (perhaps
    after dropping the last step).
  """
  for config in (*option.base, *option.action_conditional):
    network, _, name = str(config.source).rpartition('/')
    if network not in (ONLINE, TARGET) or name == 'logits':
      continue
    transforms = tuple(config.transforms)
    if transforms[:1] == ('drop_last',):
      transforms = transforms[1:]  # The meta-network drops it later.
    if name not in TRANSFORMS or transforms[:2] != TRANSFORMS[name]:
      return False
  return True


def _get_layers(eta: Mapping[str, Any], name: str) -> Layers:
  layers: Layers = []
  while (path := f'{name}/~/linear_{len(layers)}') in eta:
    layers.append((eta[path]['w'], eta[path]['b']))
  return layers
