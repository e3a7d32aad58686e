"""Counts the arithmetic that a learner step cannot avoid.

XLA's own count (`cost_analysis`) takes the body of a loop once, however often
it runs, so programs that work in blocks of rows seem to do almost nothing. Here
the matrix products are counted from the sizes of the layers instead: 2·m·n·k
operations for [m, k] x [k, n]. Exponentials, sums and the optimiser are not
counted; at the speed of products they would take a few percent.

For programs whose products no short formula gives, such as meta-gradients,
`products` counts those of the traced program, loops as often as they run.
"""

import math
from typing import Any

import jax

from disco_rl import arithmetic


def learner_step(
  agent_settings: Any,
  num_actions: int,
  num_steps: int,
  batch_size: int,
  observation_size: int,
) -> dict[str, float]:
  """Counts the products of one learner step with the Disco rule.

  The rule reads the outputs z and q of online and target network for all
  actions, but losses only those of the actions taken: the backward pass, twice
  the forward pass for each layer, is through those only, and the auxiliary
  policy is needed for those only. The action model multiplies its root state
  once for all actions.

  Args:
    agent_settings: see `disco_rl.agent.get_settings_disco`.
    num_actions: A.
    num_steps: T+1, the steps of a trajectory.
    batch_size: B.
    observation_size: numbers in an observation.

  Returns:
    GFLOP by part.
  """
  rows = num_steps * batch_size
  gflop = lambda products: 2e-9 * rows * products
  shared, per_action, policy_head = _network_layers(
    agent_settings, num_actions, observation_size
  )
  first_layer = observation_size * agent_settings.net_settings.net_args.dense[0]
  learned = shared + per_action + policy_head
  return dict(
    forward=gflop(2 * (shared + num_actions * per_action) + policy_head),
    # No gradient with respect to observations is needed.
    backward=gflop(2 * learned - first_layer),
    rule=gflop(_rule_layers(agent_settings.update_rule.net, num_actions)),
  )


def plain_learner_step(
  agent_settings: Any,
  num_actions: int,
  num_steps: int,
  batch_size: int,
  observation_size: int,
) -> dict[str, float]:
  """Counts the products of `naive.step`, which computes all for all actions.

  Args:
    agent_settings: see `learner_step`, like the following arguments.
    num_actions: A.
    num_steps: T+1.
    batch_size: B.
    observation_size: numbers in an observation.

  Returns:
    GFLOP by part.
  """
  gflop = lambda products: 2e-9 * num_steps * batch_size * products
  shared, per_action, policy_head = _network_layers(
    agent_settings, num_actions, observation_size
  )
  net_args = agent_settings.net_settings.net_args
  lstm_size = net_args.model_kwargs.lstm_size
  # [one-hot, hidden] of every action, instead of the root state once.
  shared -= 4 * lstm_size**2
  per_action += policy_head + 4 * lstm_size * (num_actions + lstm_size)
  network = shared + num_actions * per_action
  first_layer = observation_size * net_args.dense[0]
  return dict(
    forward=gflop(2 * network),
    backward=gflop(2 * network - first_layer),
    rule=gflop(_rule_layers(agent_settings.update_rule.net, num_actions)),
  )


def rule_lstm(
  agent_settings: Any, num_steps: int, batch_size: int
) -> dict[str, float]:
  """Counts the products of the rule's backward LSTM, which is a loop.

  Args:
    agent_settings: see `learner_step`.
    num_steps: T+1.
    batch_size: B.

  Returns:
    GFLOP of all T steps, and of one.
  """
  one_step = 2e-9 * batch_size * _lstm_layer(agent_settings.update_rule.net)
  return dict(all_steps=(num_steps - 1) * one_step, one_step=one_step)


def _network_layers(
  agent_settings: Any, num_actions: int, observation_size: int
) -> tuple[int, int, int]:
  """Counts the agent network's weights.

  Returns:
    Those that are applied once per row, those of z and q once per action, and
    those of the auxiliary policy.
  """
  net_args = agent_settings.net_settings.net_args
  rule = agent_settings.update_rule
  lstm_size = net_args.model_kwargs.lstm_size
  hiddens = net_args.model_kwargs.head_mlp_hiddens
  head = lambda size: _mlp((lstm_size, *hiddens, size))
  width = net_args.dense[-1]
  shared = (
    _mlp((observation_size, *net_args.dense))
    + width * (num_actions + rule.net.prediction_size)
    + width * lstm_size
    + 4 * lstm_size**2
  )
  per_action = head(rule.net.prediction_size) + head(rule.num_bins)
  return shared, per_action, head(num_actions)


def _rule_layers(net: Any, num_actions: int) -> int:
  """Counts the products of the meta-network per row; small layers are left out.

  Both embedders read y and z of both networks; ŷ is embedded once more.
  """
  size = net.prediction_size
  embedders = [net.embedding_size, net.meta_rnn_kwargs.pred_embedding_size]
  embeddings = sum(
    2 * (1 + num_actions) * _mlp((size, *sizes)) for sizes in embedders
  )
  targets = net.hidden_size * (2 * size + 1)
  return embeddings + _mlp((size, *embedders[1])) + _lstm_layer(net) + targets


def _lstm_layer(net: Any) -> int:
  """Counts the weights of the backward LSTM, with Disco's own inputs."""
  # Eight scalars, one of them twice (`td_pair`); y of two networks twice, z of
  # two networks five times; the embedding of actions twice.
  size = 9 + (2 * 2 + 2 * 5) * net.embedding_size[-1]
  size += 2 * net.policy_channels[-1]
  return 4 * net.hidden_size * (size + net.hidden_size)


def _mlp(sizes: tuple[int, ...]) -> int:
  return sum(a * b for a, b in zip(sizes[:-1], sizes[1:], strict=True))


def total(parts: dict[str, float]) -> float:
  """Adds up the GFLOP of all parts."""
  return math.fsum(parts.values())


def products(traced: jax.stages.Traced) -> float:
  """Counts the products of a traced program, see `arithmetic.of_program`.

  Convolutions are counted as products, with the zeros that images are padded
  with.

  Args:
    traced: from the method `trace` of a `jax.jit` function.

  Returns:
    GFLOP.
  """
  return 1e-9 * arithmetic.of_program(traced)
