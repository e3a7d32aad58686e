"""Compares the target of the policy with what known algorithms would do.

The agent moves its policy π towards the target π̂, so that its logits are pulled
along π̂ − π. Known algorithms pull them, too:

- policy gradient: along A·(1ₐ − π), the advantage times the score;
- greedy: along 1_argmax Q − π;
- KL-regularised improvement: along π·exp(Q/β)/Z − π, with the temperature β
  that agrees best with the rule.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types
from disco_rl.inspection import targets
from disco_rl.inspection import values

_TEMPERATURES = np.geomspace(1e-3, 1e3, 49)


class Pulls(NamedTuple):
  """Pulls on the logits of the policy, one row per step that is learned from.

  Attributes:
    rule: [N, A], π̂ − π.
    known: name of an algorithm to [N, A].
    advantage: [N], of the action taken.
    probability: [N], π(a) of the action taken.
    actions: [N], the actions taken.
    temperature: β of the KL-regularised improvement.
  """

  rule: np.ndarray
  known: dict[str, np.ndarray]
  advantage: np.ndarray
  probability: np.ndarray
  actions: np.ndarray
  temperature: float

  def of_taken(self, pull: np.ndarray) -> np.ndarray:
    """Returns the pull on the action taken, [N, A] to [N]."""
    return np.take_along_axis(pull, self.actions[:, None], axis=1)[:, 0]


class Agreement(NamedTuple):
  """How well an algorithm explains the pull of a rule.

  Attributes:
    algorithm: its name.
    cosine: mean cosine similarity over steps.
    share: explained share of the squared pull, with one step size (at least 0)
      for all steps.
  """

  algorithm: str
  cosine: float
  share: float


def pulls(view: targets.View, scene: targets.Scene, head: values.Head) -> Pulls:
  """Computes the pulls of a rule and of known algorithms.

  Args:
    view: a rule with targets for the policy (`pi`) and for action values
      (`q_target`).
    scene: the trajectories.
    head: the agent's action values.

  Returns:
    The pulls.

  Raises:
    ValueError: if the rule has no such targets.
  """
  computed = jax.jit(lambda scene: _compute(view, scene, head))(scene)
  policy, target, action_values, advantage, actions, mask = (
    np.asarray(x) for x in computed
  )
  keep = lambda x: x[mask].astype(np.float64)
  policy, target = keep(policy), keep(target)
  action_values, advantage = keep(action_values), keep(advantage)
  actions = actions[mask]
  taken = np.eye(policy.shape[-1])[actions]
  rule = target - policy
  greedy = np.eye(policy.shape[-1])[np.argmax(action_values, axis=-1)]
  best, temperature = _regularised(rule, policy, action_values)
  return Pulls(
    rule=rule,
    known={
      'policy gradient': advantage[:, None] * (taken - policy),
      'greedy': greedy - policy,
      'KL-regularised': best,
    },
    advantage=advantage,
    probability=(policy * taken).sum(axis=-1),
    actions=actions,
    temperature=temperature,
  )


def agreement(found: Pulls) -> list[Agreement]:
  """Compares the pulls; one entry per algorithm."""
  return [
    Agreement(name, _cosine(found.rule, pull), _share(found.rule, pull))
    for name, pull in found.known.items()
  ]


def pool(many: Sequence[Pulls]) -> Pulls:
  """Joins pulls of several batches; the temperature is that of the last."""
  join = lambda get: np.concatenate([get(found) for found in many])
  return Pulls(
    rule=join(lambda x: x.rule),
    known={
      name: join(lambda x, name=name: x.known[name]) for name in many[0].known
    },
    advantage=join(lambda x: x.advantage),
    probability=join(lambda x: x.probability),
    actions=join(lambda x: x.actions),
    temperature=many[-1].temperature,
  )


def step_picture(
  found: Pulls, num_bins: int = 12, pull: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Averages the pull on the action taken by advantage and probability.

  Args:
    found: the pulls.
    num_bins: bins of each axis.
    pull: [N, A], another pull than that of the rule.

  Returns:
    Edges of the advantage [num_bins + 1], in standard deviations; edges of the
    probability [num_bins + 1]; and means [num_bins, num_bins] by probability
    and advantage, NaN where there are fewer than 3 steps.
  """
  scale = found.advantage.std() or 1.0
  advantage = np.clip(found.advantage / scale, -3, 3)
  edges = np.linspace(-3, 3, num_bins + 1), np.linspace(0, 1, num_bins + 1)
  step = found.of_taken(found.rule if pull is None else pull)
  at = (found.probability, advantage)
  by = (edges[1], edges[0])
  count, _, _ = np.histogram2d(*at, bins=by)
  total, _, _ = np.histogram2d(*at, bins=by, weights=step)
  mean = np.where(count >= 3, total / np.maximum(count, 1), np.nan)
  return edges[0], edges[1], mean


def _compute(
  view: targets.View, scene: targets.Scene, head: values.Head
) -> tuple[types.Array, ...]:
  """Returns π, π̂, Q, A, the actions and the steps that count, [T, B, ...]."""
  found = targets.compute(view, scene)
  if 'pi' not in found or 'q_target' not in found:
    raise ValueError(
      f'{type(view.rule).__name__} has no targets for the policy and the '
      'action values that could be compared with known algorithms'
    )
  outs = scene.target_out or scene.inputs.agent_out
  policy = jax.nn.softmax(scene.inputs.agent_out['logits'][:-1])
  action_values = head.decode(outs['q'])[:-1]
  # As in Retrace: the values of the target network under the current policy.
  state_value = jnp.sum(policy * action_values, axis=-1)
  advantage = found['q_target'] - state_value
  starts = jnp.asarray(scene.inputs.should_reset_mask_fwd)[:-1]
  return (
    policy,
    jax.nn.softmax(found['pi']),
    action_values,
    advantage,
    scene.inputs.actions[:-1],
    jnp.logical_not(starts),
  )


def _regularised(
  rule: np.ndarray, policy: np.ndarray, action_values: np.ndarray
) -> tuple[np.ndarray, float]:
  """Returns the KL-regularised pull that explains most, and its β."""
  scale = action_values.std() or 1.0
  best: tuple[float, np.ndarray, float] | None = None
  for temperature in _TEMPERATURES * scale:
    logits = np.log(policy + 1e-30) + action_values / temperature
    improved = np.exp(logits - logits.max(axis=-1, keepdims=True))
    improved /= improved.sum(axis=-1, keepdims=True)
    share = _share(rule, improved - policy)
    if best is None or share > best[0]:
      best = share, improved - policy, float(temperature)
  assert best is not None
  return best[1], best[2]


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
  norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
  is_some = norms > 1e-12
  if not is_some.any():
    return float('nan')
  return float(np.mean(np.sum(a * b, axis=-1)[is_some] / norms[is_some]))


def _share(a: np.ndarray, b: np.ndarray) -> float:
  norms = np.sum(a * a) * np.sum(b * b)
  if norms < 1e-24:
    return float('nan')
  return float(max(np.sum(a * b), 0.0) ** 2 / norms)
