"""The meta-loss that η is trained to minimise: named terms with weights.

The rule names the terms. After N inner updates, on a trajectory the agent has
not learned from (`UpdateRule.validation_terms`), every rule has

  policy_gradient  −log π(a)·Â, averaged; Â is the critic's normalised advantage
  entropy          of π; weighted negatively, so that agents go on exploring

and the discovered rule also

  y_entropy        of the predictions y, and
  z_entropy        of z of the action taken: predictions should stay open too

The targets of the inner updates give others, averaged over the updates
(`UpdateRule.target_terms`); those of the discovered rule are

  y_mean, z_mean, pi_mean   (mean target)²: softmax ignores a common offset,
                            which might drift otherwise
  target_kl                 KL(target network's policy ‖ π̂)

A rule of one's own adds terms by overriding those two methods; a term for any
rule is the `regularizer` of `trainer.Trainer`.
"""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any

import jax

from disco_rl import types
from disco_rl.config import meta_training as config_lib

# (η, the rule's targets, the agent's outputs before the update) -> scalar; see
# `trainer.Trainer`.
Regularizer = Callable[
  [types.MetaParams, types.UpdateRuleOuts, types.AgentOuts], jax.Array
]


# The term that a `Regularizer` computes; its weight is 1.
REGULARIZER = 'regularizer'


def weigh(
  terms: Mapping[str, Any],
  weights: config_lib.MetaLossWeights | Mapping[str, float],
) -> dict[str, Any]:
  """Multiplies terms by their weights; the meta-loss is the sum.

  Args:
    terms: those of a rule, and perhaps a regularizer's, name to scalar.
    weights: those of `MetaLossWeights` that the rule has no term for do not
      count, unless they were changed; in a mapping, all must be terms, and a
      term that is not named has weight 0.

  Returns:
    Name to weighted term.
  """
  given: dict[str, float]
  if isinstance(weights, config_lib.MetaLossWeights):
    given = dataclasses.asdict(weights)
    defaults = dataclasses.asdict(config_lib.MetaLossWeights())
    wrong = [k for k in given if k not in terms and given[k] != defaults[k]]
  else:
    given = dict(weights)
    wrong = [name for name in given if name not in terms]
  if wrong:
    raise ValueError(
      f'weights of the meta-loss for {sorted(wrong)}, which are no terms of '
      f'this rule; its terms are {sorted({*terms} - {REGULARIZER})}'
    )
  given[REGULARIZER] = 1.0
  return {name: given.get(name, 0.0) * term for name, term in terms.items()}
