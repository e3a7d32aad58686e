"""Other rules that see the same experience, to compare a rule with."""

from typing import NamedTuple

import jax

from disco_rl.evaluation import training
from disco_rl.inspection import subject as subject_lib
from disco_rl.inspection import targets
from disco_rl.inspection import values
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.rule_zoo import store

_PUBLISHED = 'disco_103'
# Updates of the life-long state of another rule. At birth, that of an untrained
# rule lets nothing of later steps through.
_AGE = 10


class Seen(NamedTuple):
  """A rule, and trajectories as it sees them.

  Attributes:
    view: the rule.
    scene: the trajectories.
    head: the values among the outputs of the scene; None without any.
  """

  view: targets.View
  scene: targets.Scene
  head: values.Head | None


def own(subject: subject_lib.Subject, scene: targets.Scene) -> Seen:
  """Returns the rule of the agent."""
  view = targets.view_of(subject.agent, subject.eta, subject.rule.name)
  return Seen(view, scene, values.head_of(subject.agent))


def others(subject: subject_lib.Subject, seen: Seen) -> list[Seen]:
  """Makes other rules see what the rule of an agent sees.

  Args:
    subject: the agent and its rule.
    seen: from `own`.

  Returns:
    Those that make sense: the published rule, if it is on this machine and of
    the same size; an untrained η, for a rule with parameters; and the
    actor-critic, for an agent with values. Their life-long states have seen
    these trajectories, and nothing else, for a few updates.
  """
  found = []
  if jax.tree.leaves(subject.eta):
    published = _published(subject)
    if published is not None:
      found.append(_with_eta(subject, seen, published, _PUBLISHED))
    # Compiled, since initialising is slow one operation at a time.
    rule = subject.agent.update_rule
    untrained, _ = jax.jit(rule.init_params)(jax.random.PRNGKey(0))
    found.append(_with_eta(subject, seen, untrained, 'untrained'))
  is_actor_critic = subject.rule.kind == 'actor_critic'
  if seen.head is not None and not is_actor_critic:
    found.append(
      Seen(*values.as_actor_critic(seen.view, seen.scene, seen.head))
    )
  return found


def _with_eta(
  subject: subject_lib.Subject, seen: Seen, eta: object, name: str
) -> Seen:
  """Makes a rule of the same class with other parameters."""
  view = targets.view_of(subject.agent, eta, name)
  scene = seen.scene
  if 'rnn_state' in scene.meta_state:
    fresh = view.rule.init_meta_state(jax.random.PRNGKey(0), {})
    meta_state = {**scene.meta_state, 'rnn_state': fresh['rnn_state']}
    scene = scene.change(meta_state=meta_state)
    scene = targets.aged(view, scene, _AGE)
  return Seen(view, scene, seen.head)


def _published(subject: subject_lib.Subject) -> object | None:
  """Returns η of the published rule, if it can be compared with."""
  if subject.rule.name == _PUBLISHED or store.find(_PUBLISHED) is None:
    return None
  rule = rule_lib.load_rule(_PUBLISHED)
  try:
    if rule.kind != subject.rule.kind:
      return None
    return training.check_rule_params(subject.agent.update_rule, rule.eta)
  except ValueError:  # Of another size.
    return None
