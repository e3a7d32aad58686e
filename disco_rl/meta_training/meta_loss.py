"""The meta-loss, which η is trained to minimise: a weighted sum of terms.

Rules define the terms. `UpdateRule.validation_terms` are computed after N inner
updates, on a trajectory the agent has not learned from. Every rule has

```text
policy_gradient  −log π(a)·Â, averaged; Â is the critic's normalised advantage
entropy          entropy of π, with a negative weight, for exploration
```

and the discovered rule also

```text
y_entropy        entropy of the predictions y, and
z_entropy        entropy of z of the action taken, with negative weights, too
```

`UpdateRule.target_terms` are computed on the targets of the inner updates, and
averaged over the updates; those of the discovered rule are

```text
y_mean, z_mean, pi_mean   (mean target)²: a softmax is invariant to a common
                          offset, which might drift otherwise
target_kl                 KL(target network's policy ‖ π̂)
```

Custom rules add terms by overriding those two methods. The `regularizer` of
`trainer.Trainer` adds a term to any rule.
"""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any

import jax

from disco_rl import types
from disco_rl.config import meta_training as config_lib

# (η, the rule's targets, the agent's outputs before the update) -> scalar term;
# see `trainer.Trainer`.
Regularizer = Callable[
  [types.MetaParams, types.UpdateRuleOuts, types.AgentOuts], jax.Array
]


# Name of the term that a `Regularizer` computes, with weight 1.
REGULARIZER = 'regularizer'


def weigh(
  terms: Mapping[str, Any],
  weights: config_lib.MetaLossWeights | Mapping[str, float],
) -> dict[str, Any]:
  """Multiplies terms by their weights; the meta-loss is the sum.

  Args:
    terms: name to scalar, the terms of a rule and of a regularizer.
    weights: name to weight. `MetaLossWeights` may name terms that the rule does
      not have, if their weights are the defaults. In a mapping, all names must
      be terms, and terms that are not named have weight 0.

  Returns:
    Name to weighted term.

  Raises:
    ValueError: if there are weights of unknown terms.
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
      f'weights of the meta-loss for {sorted(wrong)}, which are not terms of '
      f'this rule; its terms are {sorted({*terms} - {REGULARIZER})}'
    )
  given[REGULARIZER] = 1.0
  return {name: given.get(name, 0.0) * term for name, term in terms.items()}
