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
  def measure(scene: targets.Scene) -> dict[str, dict[str, tuple]]:
    intact = targets.compute(view, scene)
    return {name: _of_input(view, scene, name, intact) for name in names}

  found = jax.tree.map(float, measure(scene))
  return [
    Influence(view.name, source, target, *numbers)
    for source, by_target in found.items()
    for target, numbers in by_target.items()
  ]


def _of_input(
  view: targets.View,
  scene: targets.Scene,
  source: str,
  intact: dict[str, jax.Array],
) -> dict[str, tuple[jax.Array, jax.Array]]:
  """Returns both measures of one input, by target."""

  def compute(change: inputs_lib.Change) -> dict[str, jax.Array]:
    return inputs_lib.compute_changed(view, scene, {source: change})

  def scaled(sign: float) -> inputs_lib.Change:
    return lambda x: jnp.asarray(x, jnp.float32) * (1 + sign * _STEP)

  more, less = compute(scaled(1.0)), compute(scaled(-1.0))
  without = compute(inputs_lib.ablation_of(source))
  return {
    name: (
      _root_mean_square(name, (more[name] - less[name]) / (2 * _STEP)),
      jnp.mean(targets.change(name, intact[name], without[name])),
    )
    for name in intact
  }


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
  names = list(dict.fromkeys(x.target for x in found))
  numbers = np.zeros((len(sources), len(names)))
  for x in found:
    place = sources.index(x.source), names.index(x.target)
    numbers[place] = getattr(x, measure)
  return sources, names, numbers
