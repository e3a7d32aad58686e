"""What a rule looks at: the influence of each of its inputs on its targets.

Two measures, both relative to nothing but the rule itself:

- gradient × input: how fast a target changes while an input is scaled, the sum
  over the input's elements of its gradient times its value. It is computed as a
  central difference, since the rule's own gradients are stopped at some inputs.
- ablation: how much a target changes if the input is replaced by its mean over
  the batch, so that it carries no information.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types
from disco_rl.inspection import inputs as inputs_lib
from disco_rl.inspection import targets

# Relative change of an input in the central difference.
_STEP = 0.01


class Influence(NamedTuple):
  """The influence of one input on one target.

  Attributes:
    rule: name of the rule.
    source: path of the input.
    target: a key of `targets.NAMES`.
    gradient_times_input: root mean square over steps and elements of the
      target; for distributions, of centred logits.
    ablation: mean of `targets.change` between the intact targets and those
      without the input.
  """

  rule: str
  source: str
  target: str
  gradient_times_input: float
  ablation: float


def influences(view: targets.View, scene: targets.Scene) -> list[Influence]:
  """Measures the influence of every input on every target.

  Args:
    view: the rule.
    scene: the trajectories.

  Returns:
    One entry per input and target. An input that the rule does not read has
    exactly 0.
  """
  names = inputs_lib.names_of(view, scene)

  @jax.jit
  def compute(
    scene: targets.Scene, scales: types.Array, is_left_out: types.Array
  ) -> dict[str, jax.Array]:
    def change(i: int, name: str) -> inputs_lib.Change:
      def changed(x: types.Array) -> jax.Array:
        x = jnp.asarray(x, jnp.float32)
        without = inputs_lib.ablation_of(name)(x)
        return jnp.where(is_left_out[i], without, x * scales[i])

      return changed

    changes = {name: change(i, name) for i, name in enumerate(names)}
    return inputs_lib.compute_changed(view, scene, changes)

  # One program for all inputs, so that those that are not read change nothing.
  ones, none = np.ones(len(names), np.float32), np.zeros(len(names), bool)
  intact = compute(scene, ones, none)
  found = []
  for source, at in zip(names, np.eye(len(names), dtype=bool), strict=True):
    more, less = (
      compute(scene, np.where(at, 1 + sign * _STEP, ones), none)
      for sign in (np.float32(1), np.float32(-1))
    )
    without = compute(scene, ones, at)
    for name in intact:
      slope = (more[name] - less[name]) / (2 * _STEP)
      moved = targets.change(name, intact[name], without[name])
      found.append(
        Influence(
          *(view.name, source, name),
          float(_root_mean_square(name, slope)),
          float(jnp.mean(moved)),
        )
      )
  return found


def _root_mean_square(name: str, x: types.Array) -> jax.Array:
  x = jnp.asarray(x)
  if name in targets.DISTRIBUTIONS:
    x -= jnp.mean(x, axis=-1, keepdims=True)  # A constant changes nothing.
  return jnp.sqrt(jnp.mean(jnp.square(x)))


def table(
  found: list[Influence], measure: str
) -> tuple[list[str], list[str], np.ndarray]:
  """Arranges influences as a table.

  Args:
    found: influences of one rule.
    measure: `'gradient_times_input'` or `'ablation'`.

  Returns:
    The inputs, the targets, and numbers [inputs, targets].
  """
  sources = list(dict.fromkeys(x.source for x in found))
  names = targets.in_order(x.target for x in found)
  numbers = np.zeros((len(sources), len(names)))
  for x in found:
    place = sources.index(x.source), names.index(x.target)
    numbers[place] = getattr(x, measure)
  return sources, names, numbers
