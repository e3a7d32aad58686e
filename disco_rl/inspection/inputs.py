"""Finds what a rule reads, by name, and replaces it.

For rules of the Disco form, the inputs are those of the meta-network: what is
measured here is whether *it* uses an input, and the values that are computed
before it, such as advantages, are inputs of their own. For other rules, the
inputs are the entries of `types.UpdateRuleInputs`.
"""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl.inspection import targets
from disco_rl.update_rules import disco

# A function of one array, [T or T+1, B, ...].
Change = Callable[[Any], Any]

_LABELS = {
  'agent_out/logits': 'π',
  'agent_out/y': 'y',
  'agent_out/z': 'z',
  'behaviour_agent_out/logits': 'μ',
  'extra_from_rule/adv': 'advantage',
  'extra_from_rule/normalized_adv': 'normalised advantage',
  'extra_from_rule/normalized_qv_adv': 'normalised Q − V',
  'extra_from_rule/q': 'Q',
  'extra_from_rule/qv_adv': 'Q − V',
  'extra_from_rule/target_out/logits': 'target π',
  'extra_from_rule/target_out/y': 'target y',
  'extra_from_rule/target_out/z': 'target z',
  'extra_from_rule/v_scalar': 'V',
  'agent_out/v': 'V',
  'is_terminal': 'episode end',
  'rewards': 'reward',
}

# Groups of inputs that are left out together when an agent learns.
GROUPS: Mapping[str, tuple[str, ...]] = {
  'rewards': ('rewards',),
  'value': (
    'extra_from_rule/v_scalar',
    'extra_from_rule/adv',
    'extra_from_rule/normalized_adv',
    'extra_from_rule/q',
    'extra_from_rule/qv_adv',
    'extra_from_rule/normalized_qv_adv',
  ),
  'y': ('agent_out/y', 'extra_from_rule/target_out/y'),
  'z': ('agent_out/z', 'extra_from_rule/target_out/z'),
  'target network': (
    'extra_from_rule/target_out/logits',
    'extra_from_rule/target_out/y',
    'extra_from_rule/target_out/z',
  ),
}


def label(source: str) -> str:
  """Returns a short name of an input for pictures."""
  return _LABELS.get(source, source)


@types.chex_dataclass
class _Inputs(types.UpdateRuleInputs):
  """Inputs whose ends of episodes are read as given, but reset as they were."""

  resets: Any = None  # [T, B], where episodes end.

  @property
  def should_reset_mask_bwd(self) -> types.Array:
    """[T+1, B]: True where a backward recursion must be reset."""
    resets = jnp.asarray(self.resets)
    return jnp.concatenate([resets, jnp.zeros_like(resets[:1])])


def names_of(view: targets.View, scene: targets.Scene) -> list[str]:
  """Lists the inputs of a rule.

  Args:
    view: the rule.
    scene: trajectories.

  Returns:
    Paths into the inputs of the meta-network, or of the rule.
  """
  if isinstance(view.rule, disco.DiscoUpdateRule):
    option = view.rule.input_option
    configs = (*option.base, *option.action_conditional)
    return list(dict.fromkeys(str(config.source) for config in configs))
  found = ['rewards', 'is_terminal']
  for field in ('agent_out', 'behaviour_agent_out', 'value_out'):
    value = scene.inputs[field]
    if value is not None:
      found += [
        f'{field}/{name}'
        for name in value
        if hasattr(value[name], 'shape') and value[name].ndim > 1
      ]
  return found


def compute_changed(
  view: targets.View, scene: targets.Scene, changes: Mapping[str, Change]
) -> dict[str, jax.Array]:
  """Computes targets with some inputs changed.

  Args:
    view: the rule.
    scene: the trajectories.
    changes: input to a function of it.

  Returns:
    The targets, see `targets.compute`.
  """
  if isinstance(view.rule, disco.DiscoUpdateRule):
    rule = with_changes(view.rule, changes)
    return targets.compute(dataclasses.replace(view, rule=rule), scene)
  inputs = scene.inputs
  for path, function in changes.items():
    inputs = _changed(inputs, path.split('/'), function)
  return targets.compute(view, scene.change(inputs=inputs))


def with_changes(
  rule: disco.DiscoUpdateRule, changes: Mapping[str, Change]
) -> disco.DiscoUpdateRule:
  """Returns a rule whose meta-network reads changed inputs.

  Args:
    rule: the rule.
    changes: input to a function of it.

  Returns:
    The rule. Its backward LSTM is reset where episodes end, whatever the input
    `is_terminal` is changed to.
  """

  def changed(inputs: types.UpdateRuleInputs) -> types.UpdateRuleInputs:
    new = _Inputs(
      **{name: inputs[name] for name in inputs}, resets=inputs.is_terminal
    )
    for path, function in changes.items():
      new = _changed(new, path.split('/'), function)
    return new

  return rule.with_inputs(changed)


def mean_over_batch(x: types.Array) -> jax.Array:
  """Replaces an input by its mean over steps and trajectories."""
  x = jnp.asarray(x, jnp.float32)
  mean = jnp.mean(x, axis=(0, 1), keepdims=True)
  return jnp.broadcast_to(mean, x.shape)


def mean_distribution(x: types.Array) -> jax.Array:
  """Replaces logits by those of the mean distribution."""
  probabilities = mean_over_batch(jax.nn.softmax(x))
  return jnp.log(jnp.maximum(probabilities, 1e-30))


def ablation_of(source: str) -> Change:
  """Returns the function that removes the information of an input.

  Args:
    source: path of the input.

  Returns:
    A function to its mean over the batch; of predictions, which are logits, to
    the mean distribution. A mean policy would have no actions to prefer, but
    it would keep the average preference.
  """
  last = source.rpartition('/')[2]
  return mean_distribution if last in ('logits', 'y', 'z') else mean_over_batch


def _changed(node: Any, path: list[str], function: Change) -> Any:
  """Returns a tree with one array replaced by a function of it."""
  name, *rest = path
  old = node[name]
  new = _changed(old, rest, function) if rest else function(old)
  if hasattr(node, 'replace'):  # A record, which is a mapping, too.
    return node.replace(**{name: new})
  return {**node, name: new}
