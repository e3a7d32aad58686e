"""How far a rule bootstraps: changes now, and targets of earlier steps.

The reward, a prediction or the value is changed at one step, and the targets of
the steps before are compared with those of the unchanged experience. A rule
that looks only one step ahead changes the target of the step before; V-trace
passes a change of a reward back with (γλ)^k.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl.inspection import targets
from disco_rl.inspection import values

# Ends of episodes: none, as the agent lived them, or one between the change and
# the targets.
ENDS = ('none', 'lived', 'cut')
# Smaller effects are rounding: of divergences, and of numbers.
ROUNDING = 2e-7
ROUNDING_OF_NUMBERS = 1e-6
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
    total = np.cumsum(np.nan_to_num(self.visible()))
    if not total[-1] > 0:
      return -1
    return int(np.argmax(total >= share * total[-1]))

  def visible(self) -> np.ndarray:
    """Returns the effect, [K], with NaN where it is rounding or unknown."""
    is_divergence = self.target in targets.DISTRIBUTIONS
    least = ROUNDING if is_divergence else ROUNDING_OF_NUMBERS
    return np.where(self.effect > least, self.effect, np.nan)


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
  steps: Sequence[int] | None = None,
  reward: float = 1.0,
) -> list[Effect]:
  """Measures the effect of all changes on the targets of the steps before.

  Args:
    view: the rule.
    scene: the trajectories, at least `CUT` + 2 steps long.
    head: the agent's values; None without any.
    ends: one of `ENDS`: where episodes end. With `'lived'`, steps count whose
      episode lasts until the change.
    steps: the steps that are changed, one at a time, and averaged over; None
      for the last eight that have a target.
    reward: what is added to the reward, and to the value.

  Returns:
    One entry per change and target, each for all distances up to that of the
    last step from the first; NaN where there are no such steps.
  """
  is_terminal = jnp.asarray(scene.inputs.is_terminal)
  num_steps = is_terminal.shape[0]
  if steps is None:
    steps = range(max(CUT + 1, num_steps - 8), num_steps)
  if ends not in ENDS:
    raise ValueError(f'ends must be one of {ENDS}, got {ends!r}')
  for step in steps:
    if not CUT < step < num_steps:
      raise ValueError(
        f'the steps must be above {CUT} and below {num_steps}, got {step}'
      )
  compute = jax.jit(lambda scene: targets.compute(view, scene))
  longest = max(steps) + 1
  sums: dict[tuple[str, str], np.ndarray] = {}
  counts = np.zeros(longest)
  for step in steps:
    now = scene.with_inputs(is_terminal=_with_ends(is_terminal, ends, step))
    is_connected = np.ones((step + 1, is_terminal.shape[1]), bool)
    if ends == 'lived':
      is_connected = _connected(np.asarray(is_terminal, bool), step)
    counts[: step + 1] += is_connected.sum(axis=1)[::-1]
    intact = compute(now)
    for changed, function in changes(now, head, reward).items():
      after = compute(function(now, step))
      for target, unchanged in intact.items():
        moved = targets.change(target, unchanged, after[target])
        total = (np.asarray(moved)[: step + 1] * is_connected).sum(axis=1)
        own = sums.setdefault((changed, target), np.zeros(longest))
        own[: step + 1] += total[::-1]
  return [
    Effect(
      view.name,
      changed,
      target,
      ends,
      np.where(counts > 0, total / np.maximum(counts, 1), np.nan),
    )
    for (changed, target), total in sums.items()
  ]


def _with_ends(is_terminal: jax.Array, ends: str, step: int) -> jax.Array:
  """Moves the ends of episodes [T, B]; the step is the changed one."""
  if ends == 'lived':
    return is_terminal
  none = jnp.zeros_like(is_terminal)
  return none.at[step - CUT].set(True) if ends == 'cut' else none


def _connected(is_terminal: np.ndarray, step: int) -> np.ndarray:
  """Returns whether no episode ends from a step to the changed one.

  Args:
    is_terminal: [T, B].
    step: the changed step.

  Returns:
    [step + 1, B].
  """
  ended = is_terminal[:step]
  after = np.cumsum(ended[::-1], axis=0)[::-1] > 0
  return np.concatenate([~after, np.ones_like(is_terminal[:1])])
