"""Computes a rule's targets of fixed trajectories, for asking what they need.

A `Scene` has all that a rule reads. Analyses change it and compute the targets
again, by the same rule or by another. Nothing is learned here, and the moving
statistics of advantages do not move: otherwise every change of one reward would
change the targets of all steps through them.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import inspect
from typing import Any

import jax
import jax.numpy as jnp

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl.learning import rule_inputs
from disco_rl.update_rules import base
from disco_rl.update_rules import categorical
from disco_rl.update_rules import registry

# Targets that are distributions, by the entry of the rule's outputs.
DISTRIBUTIONS = {'pi': 'π̂', 'y': 'ŷ', 'z': 'ẑ'}
# Targets that are numbers, of hand-designed rules and of critics.
NUMBERS = {
  'q_target': 'value target',
  'value_target': 'value target',
  'raw_advs': 'advantage',
}
NAMES = DISTRIBUTIONS | NUMBERS


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Scene:
  """Trajectories as a rule sees them.

  Attributes:
    inputs: the trajectories, with the agent's outputs, leaves [T+1, B, ...].
    target_out: outputs of the rule's target network, leaves [T+1, B, ...];
      empty for a rule without one.
    meta_state: the rule's state.
    params: the agent's θ.
  """

  inputs: types.UpdateRuleInputs
  target_out: dict[str, Any]
  meta_state: dict[str, Any]
  params: types.AgentParams

  def change(self, **changes: Any) -> 'Scene':
    """Returns a copy with some fields changed."""
    return dataclasses.replace(self, **changes)

  def with_inputs(self, **changes: Any) -> 'Scene':
    """Returns a copy with some fields of `inputs` changed."""
    return self.change(inputs=self.inputs.replace(**changes))


@dataclasses.dataclass(frozen=True)
class View:
  """A rule that targets are computed with.

  Attributes:
    name: its name in pictures.
    rule: the rule.
    eta: its parameters η.
    hyper_params: its hyper-parameters.
  """

  name: str
  rule: base.UpdateRule
  eta: types.MetaParams
  hyper_params: Mapping[str, Any]


def view_of(
  an_agent: agent_lib.Agent, eta: types.MetaParams, name: str
) -> View:
  """Returns the rule of an agent, with statistics that do not move.

  Args:
    an_agent: the agent.
    eta: parameters of its rule, those it learned with or others.
    name: a name for pictures.
  """
  settings = an_agent.settings
  kind = settings.update_rule_name
  arguments = dict(settings.update_rule)
  accepted = inspect.signature(registry.UPDATE_RULES[kind]).parameters
  if 'moving_average_decay' in accepted:
    arguments['moving_average_decay'] = 1.0
  rule = registry.get_update_rule(kind, **arguments)
  return View(name, rule, eta, dict(settings.hyper_params))


def scene_of(
  an_agent: agent_lib.Agent,
  eta: types.MetaParams,
  learner: agent_lib.LearnerState,
  rollout: types.ActorRollout,
) -> Scene:
  """Prepares trajectories of an agent, without learning from them.

  Args:
    an_agent: the agent.
    eta: the rule's parameters η.
    learner: its learner.
    rollout: leaves [T+1, B, ...].

  Returns:
    The scene. The rule's statistics have seen these trajectories once, and its
    life-long state is that of the learner.
  """
  net_state = rollout.first_state(time_axis=0)
  agent_out, _ = an_agent.unroll_net(learner.params, net_state, rollout)
  meta_state = dict(learner.meta_state)
  target_out: dict[str, Any] = {}
  if 'target_params' in meta_state:
    unrolled, _ = an_agent.unroll_net(
      meta_state['target_params'], net_state, rollout
    )
    target_out = dict(unrolled)
  value_out = None
  if an_agent.critic is not None and learner.critic is not None:
    _, value_out, _ = an_agent.critic.update(
      learner.critic, rollout, agent_out['logits']
    )
  inputs = rule_inputs.inputs_from_rollout(
    rollout.replace(agent_outs={'logits': rollout.logits}), agent_out, value_out
  )
  scene = Scene(inputs, target_out, meta_state, learner.params)
  hyper_params = dict(an_agent.settings.hyper_params)
  moving = View('', an_agent.update_rule, eta, hyper_params)
  _, moved = _unroll(moving, scene)
  return scene.change(
    meta_state={
      name: moved[name] if name.endswith('ema_state') else state
      for name, state in meta_state.items()
    }
  )


def compute(view: View, scene: Scene) -> dict[str, jax.Array]:
  """Computes the targets of a scene.

  Args:
    view: the rule.
    scene: the trajectories.

  Returns:
    The entries of `NAMES` that the rule computes: logits [T, B, N] of
    distributions, and numbers [T, B]. For a rule with none of these names, all
    of its outputs that are numbers per step.
  """
  outs, _ = _unroll(view, scene)
  shape = jnp.shape(scene.inputs.rewards)
  names = [name for name in NAMES if name in outs]
  if not names:
    names = [name for name, x in outs.items() if jnp.shape(x) == shape]
  return {name: jnp.asarray(outs[name])[: shape[0]] for name in names}


def in_order(names: Iterable[str]) -> list[str]:
  """Returns names without repetition: those of `NAMES` first, in its order."""
  known = list(NAMES)
  place = lambda name: known.index(name) if name in known else len(known)
  return sorted(dict.fromkeys(names), key=place)


def label(name: str) -> str:
  """Returns the name of a target for readers."""
  return NAMES.get(name, name)


def aged(view: View, scene: Scene, num_updates: int) -> Scene:
  """Advances a rule's life-long state on the trajectories of a scene.

  Args:
    view: the rule.
    scene: the trajectories.
    num_updates: updates of the life-long state.

  Returns:
    The scene with the new `rnn_state`; all else is as before.
  """
  advance = jax.jit(lambda scene: _unroll(view, scene)[1]['rnn_state'])
  for _ in range(num_updates):
    meta_state = {**scene.meta_state, 'rnn_state': advance(scene)}
    scene = scene.change(meta_state=meta_state)
  return scene


def change(name: str, before: types.Array, after: types.Array) -> jax.Array:
  """Measures how much a target changed.

  Args:
    name: a key of `NAMES`.
    before: the target, [..., N] for distributions, else [...].
    after: the changed one, of the same shape.

  Returns:
    [...], the divergence KL(before‖after) of distributions, and the absolute
    difference of numbers.
  """
  if name in DISTRIBUTIONS:
    # Rounding makes divergences of equal distributions negative, too.
    return jnp.maximum(categorical.kl_divergence(before, after), 0.0)
  return jnp.abs(jnp.asarray(after) - jnp.asarray(before))


def outputs(scene: Scene, name: str) -> list[types.Array]:
  """Returns an output of the agent, and of the target network if it has it.

  Args:
    scene: the trajectories.
    name: name of the output.
  """
  return [
    outs[name]
    for outs in (scene.inputs.agent_out, scene.target_out)
    if name in outs
  ]


def map_output(scene: Scene, name: str, function: Any) -> Scene:
  """Changes an output of the agent and of its target network.

  Args:
    scene: the trajectories.
    name: name of the output.
    function: a function of arrays [T+1, B, ...].
  """

  def changed(outs: Mapping[str, Any]) -> dict[str, Any]:
    return {k: function(x) if k == name else x for k, x in outs.items()}

  return scene.change(
    inputs=scene.inputs.replace(agent_out=changed(scene.inputs.agent_out)),
    target_out=changed(scene.target_out),
  )


def _unroll(view: View, scene: Scene) -> tuple[Mapping[str, Any], Any]:
  def unroll(*_: Any) -> tuple[Any, None]:
    if not scene.target_out:
      raise ValueError(
        f'{type(view.rule).__name__} unrolls the network, but has no entry '
        'target_params in its state: such rules cannot be inspected'
      )
    return scene.target_out, None

  return view.rule.unroll_meta_net(
    view.eta,
    scene.params,
    None,
    dict(scene.meta_state),
    scene.inputs,
    view.hyper_params,
    unroll,
    jax.random.PRNGKey(0),
    None,
  )
