"""How a rule changes along an agent's life: the life-long state.

The state takes one step per update. Here the targets of an agent at different
ages are compared with those that the same agent would get if the rule's state
were still the one of its birth.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import utils
from disco_rl.inspection import targets


class Age(NamedTuple):
  """The targets of an agent at one age.

  Attributes:
    iteration: iterations that the agent has learned for.
    strength: target to the mean divergence of the agent's output from it,
      which is the loss that it learns from.
    strength_at_birth: the same with the state of its birth.
    moved: target to its mean change if the state were that of birth.
  """

  iteration: int
  strength: dict[str, float]
  strength_at_birth: dict[str, float]
  moved: dict[str, float]


def age(
  view: targets.View,
  scene: targets.Scene,
  iteration: int,
  initial_state: dict | None,
) -> Age:
  """Measures the targets of one age.

  Args:
    view: the rule.
    scene: trajectories of the agent at this age.
    iteration: its age.
    initial_state: the rule's `rnn_state` at the agent's birth; None for a rule
      without one.

  Returns:
    The measures; those at birth are equal to the others, and nothing moves,
    for a rule without a life-long state.
  """

  @jax.jit
  def measure(scene: targets.Scene, young: targets.Scene) -> tuple:
    now, then = targets.compute(view, scene), targets.compute(view, young)
    moved = {
      name: jnp.mean(targets.change(name, now[name], then[name]))
      for name in now
    }
    return strengths(scene, now), strengths(young, then), moved

  young = scene
  if initial_state is not None and 'rnn_state' in scene.meta_state:
    young = scene.change(
      meta_state={**scene.meta_state, 'rnn_state': initial_state}
    )
  return Age(iteration, *jax.tree.map(float, measure(scene, young)))


def strengths(
  scene: targets.Scene, found: dict[str, jax.Array]
) -> dict[str, jax.Array]:
  """Measures how far the agent's outputs are from their targets.

  Args:
    scene: the trajectories.
    found: the targets.

  Returns:
    Target to the mean divergence KL(target‖output), of z for the actions taken.
    Only targets that are distributions.
  """
  outs = scene.inputs.agent_out
  taken = {'pi': lambda: outs['logits'], 'y': lambda: outs['y']}
  taken['z'] = lambda: utils.batch_lookup(outs['z'], scene.inputs.actions)
  return {
    name: jnp.mean(targets.change(name, found[name], taken[name]()[:-1]))
    for name in targets.DISTRIBUTIONS
    if name in found
  }


def principal_components(
  states: np.ndarray, number: int = 2
) -> tuple[np.ndarray, np.ndarray]:
  """Projects a trajectory of states onto its first principal components.

  Args:
    states: [N, H].
    number: number of components.

  Returns:
    Coordinates [N, number], and the shares of variance [number] along them;
    zeros where there are fewer components.
  """
  centred = states.astype(np.float64) - states.mean(axis=0)
  u, s, _ = np.linalg.svd(centred, full_matrices=False)
  variance = np.square(s)
  share = variance / max(float(variance.sum()), 1e-30)
  coordinates = np.zeros((len(states), number))
  kept = min(number, len(s))
  coordinates[:, :kept] = u[:, :kept] * s[:kept]
  shares = np.zeros(number)
  shares[:kept] = share[:kept]
  return coordinates, shares
