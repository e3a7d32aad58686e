"""How far a rule bootstraps: changes now, and targets of earlier steps.

The reward, a prediction or the value is changed at one step, and the targets of
the steps before are compared with those of the unchanged experience. A rule
that looks only one step ahead changes the target of the step before; V-trace
passes a change of a reward back with (γλ)^k.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl.inspection import targets
from disco_rl.inspection import values

# Ends of episodes: none, as the agent lived them, or one between the change and
# the targets.
ENDS = ('none', 'lived', 'cut')
# Steps before the change at which the episode ends in `'cut'`.
CUT = 3


class Effect(NamedTuple):
  """The effect of one change on one target.

  Attributes:
    rule: name of the rule.
    changed: `'reward'`, `'value'`, or the name of a prediction.
    target: a key of `targets.NAMES`.
    ends: one of `ENDS`.
    effect: [K], mean change of the target k steps before, k = 0, 1, ...
  """

  rule: str
  changed: str
  target: str
  ends: str
  effect: np.ndarray

  def reach(self, share: float = 0.9) -> int:
    """Returns the least k within which a share of all effects lies, or -1."""
    total = np.cumsum(self.effect)
    if not total[-1] > 0:
      return -1
    return int(np.argmax(total >= share * total[-1]))


def changes(
  scene: targets.Scene, head: values.Head | None, reward: float = 1.0
) -> dict[str, Callable[[targets.Scene, int], targets.Scene]]:
  """Returns the changes that a scene allows.

  Args:
    scene: the trajectories.
    head: the agent's values; None without any.
    reward: what is added to a reward, and to a value.

  Returns:
    Name to a function from a scene and a step to the changed scene. A reward is
    that received after the step. A prediction is replaced by that of another
    trajectory at the same step, so that it is a usual one.
  """
  found: dict[str, Callable[[targets.Scene, int], targets.Scene]] = {}

  def change_reward(scene: targets.Scene, step: int) -> targets.Scene:
    rewards = jnp.asarray(scene.inputs.rewards, jnp.float32)
    return scene.with_inputs(rewards=rewards.at[step].add(reward))

  found['reward'] = change_reward
  if head is not None:

    def change_value(scene: targets.Scene, step: int) -> targets.Scene:
      num_steps = jnp.shape(scene.inputs.actions)[0]
      amount = jnp.zeros((num_steps, 1)).at[step].set(reward)
      return values.shift(scene, head, amount)

    found['value'] = change_value

  def exchange(name: str) -> Callable[[targets.Scene, int], targets.Scene]:
    def change(scene: targets.Scene, step: int) -> targets.Scene:
      def exchanged(x: Any) -> jax.Array:
        x = jnp.asarray(x)
        return x.at[step].set(jnp.roll(x[step], 1, axis=0))

      return targets.map_output(scene, name, exchanged)

    return change

  for name in ('y', 'z'):
    if name in scene.inputs.agent_out:
      found[name] = exchange(name)
  return found


def effects(
  view: targets.View,
  scene: targets.Scene,
  head: values.Head | None,
  *,
  ends: str = 'none',
  step: int | None = None,
  reward: float = 1.0,
) -> list[Effect]:
  """Measures the effect of all changes at one step on the targets before it.

  Args:
    view: the rule.
    scene: the trajectories, at least `CUT` + 2 steps long.
    head: the agent's values; None without any.
    ends: one of `ENDS`: where episodes end. With `'lived'`, steps count whose
      episode lasts until the change.
    step: the step that is changed; None for the last one with a target.
    reward: what is added to the reward, and to the value.

  Returns:
    One entry per change and target.
  """
  is_terminal = jnp.asarray(scene.inputs.is_terminal)
  num_steps = is_terminal.shape[0]
  step = num_steps - 1 if step is None else step
  if ends not in ENDS:
    raise ValueError(f'ends must be one of {ENDS}, got {ends!r}')
  if not CUT < step < num_steps:
    raise ValueError(
      f'the step must be above {CUT} and below {num_steps}, got {step}'
    )
  if ends != 'lived':
    is_terminal = jnp.zeros_like(is_terminal)
  if ends == 'cut':
    is_terminal = is_terminal.at[step - CUT].set(True)
  scene = scene.with_inputs(is_terminal=is_terminal)
  # [T, B], whether no episode ends from a step to the change.
  is_connected = np.ones((step + 1, is_terminal.shape[1]), bool)
  if ends == 'lived':
    before = np.cumsum(np.asarray(is_terminal)[:step][::-1], axis=0)[::-1]
    is_connected[:step] = before == 0
  compute = jax.jit(lambda scene: targets.compute(view, scene))
  intact = compute(scene)
  found = []
  for changed, function in changes(scene, head, reward).items():
    after = compute(function(scene, step))
    for target, unchanged in intact.items():
      moved = targets.change(target, unchanged, after[target])
      moved = np.asarray(moved)[: step + 1]
      counts = is_connected.sum(axis=1)
      mean = (moved * is_connected).sum(axis=1) / np.maximum(counts, 1)
      mean = np.where(counts > 0, mean, np.nan)[::-1]
      found.append(Effect(view.name, changed, target, ends, mean))
  return found
