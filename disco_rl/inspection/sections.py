"""Runs each analysis of an agent, and says how to read its pictures."""

from collections.abc import Callable
import dataclasses
from typing import Any

import jax
import numpy as np

from disco_rl.inspection import ablated_learning
from disco_rl.inspection import ageing
from disco_rl.inspection import bootstrapping
from disco_rl.inspection import comparison
from disco_rl.inspection import context as context_lib
from disco_rl.inspection import directions
from disco_rl.inspection import episodes
from disco_rl.inspection import figures
from disco_rl.inspection import influence
from disco_rl.inspection import inputs
from disco_rl.inspection import probes as probes_lib
from disco_rl.inspection import targets
from disco_rl.inspection import values
from disco_rl.runs import plots

Lines = list[dict[str, Any]]


@dataclasses.dataclass
class Section:
  """The findings of one analysis.

  Attributes:
    title: a question, or a name.
    text: paragraphs.
    pictures: name of the file to a matplotlib figure and how to read it.
    tables: name of the file to its lines.
  """

  title: str
  text: list[str] = dataclasses.field(default_factory=list)
  pictures: dict[str, tuple[Any, str]] = dataclasses.field(default_factory=dict)
  tables: dict[str, Lines] = dataclasses.field(default_factory=dict)


class NotApplicableError(ValueError):
  """Raised if an analysis makes no sense for a rule; the message says why."""


def probes(context: context_lib.Context) -> Section:
  """Asks what the predictions know of the future."""
  rollout, found = context.rollout, context.predictions
  observations = rollout.observations
  if not hasattr(observations, 'shape'):
    observations = None
  longest = min(context.subject.num_steps - 1, context.sizes.num_steps // 2)
  labels, mask = probes_lib.labels_of(
    rollout,
    found['entropy'],
    probes_lib.horizons_up_to(longest),
    values.discount_of(context.seen.view),
  )
  sources = probes_lib.sources_of(found, observations)
  whole = probes_lib.probe(sources, labels, mask)
  section = Section('What the predictions know')
  section.text.append(
    'Linear probes from each source to what happens later, fitted to some '
    'streams and scored on others. A curve that falls early knows only the '
    'near future.'
  )
  section.pictures['probes'] = (
    figures.probes(whole),
    'Score on held-out streams against the horizon. The grey line is what a '
    'source without information gets: 0 for R², 0.5 for AUC (how often an '
    'event is ranked above no event). "reward" is the discounted sum of the '
    'next rewards of the episode; events are whether one of them is not 0, '
    'and whether the episode ends; the entropy is that of the policy later. '
    'A label that never varies has no curve.',
  )
  compressed = []
  if 'y' in found:
    few = probes_lib.compressed_sources(found, context.untrained_predictions)
    compressed = probes_lib.probe(few, labels, mask)
    section.pictures['probes_compressed'] = (
      figures.probes(compressed),
      'The same for y and z reduced to the eight principal components along '
      'which they vary most (y₈, z₈): what they are about. All 600 numbers of '
      "an untrained network's y are a random function of the observation that "
      'may know nearly all of it, so that only what is above "untrained" was '
      'learned. Where "values + y₈" is above the values, y knows something '
      'that they do not.',
    )
  lines = {(x.source, x.label, x.horizon): x for x in whole + compressed}
  section.tables['probes'] = [score._asdict() for score in lines.values()]
  return section


def episode(context: context_lib.Context) -> Section:
  """Shows when the predictions change along one episode."""
  strip = episodes.first_episode(context.rollout, context.predictions)
  section = Section('When they speak')
  section.pictures['episode'] = (
    figures.episode(strip),
    'One episode of the trained agent. "change of y" is the divergence (KL) of '
    "a step's prediction from that of the step before: it is high where the "
    'prediction changes its mind. Rewards are those received after the step.',
  )
  if not strip.is_whole:
    section.text.append('No whole episode was short enough: these are steps.')
  columns = {'action': strip.actions, 'reward': strip.rewards, **strip.series}
  section.tables['episode'] = [
    dict(step=t, **{name: float(x[t]) for name, x in columns.items()})
    for t in range(len(strip.actions))
  ]
  return section


def bootstrap(context: context_lib.Context) -> Section:
  """Asks how far targets depend on later steps."""
  own = context.seen
  _check_has_targets(own)
  if context.subject.num_steps < bootstrapping.CUT + 3:
    raise NotApplicableError(
      f'trajectories of {context.subject.num_steps} steps are too short'
    )
  compared = [
    effect
    for seen in (own, *context.others)
    for effect in bootstrapping.effects(*seen)
  ]
  section = Section('How far it bootstraps')
  section.text.append(
    'The reward (by +1), the value (by +1) or a prediction (exchanged for that '
    'of another trajectory) is changed at one of the last eight steps, and the '
    'targets of the steps before are compared with those of unchanged '
    'experience.'
  )
  columns = _columns(compared)
  section.pictures['bootstrapping'] = (
    figures.bootstrapping_of(compared, columns),
    'Change of the target (KL of distributions, absolute difference of values) '
    'against the distance to the changed step, with all ends of episodes '
    'removed. A straight line is exponential forgetting, as in V-trace, whose '
    'effect of a reward falls by γλ per step; a line that stays high reaches '
    'far. All rules see the same trajectories; the life-long states of '
    'those other than that of the agent have seen nothing else. Effects below '
    '2e-7 are rounding, and not drawn.',
  )
  by_end = [
    effect
    for ends in bootstrapping.ENDS
    for effect in bootstrapping.effects(*own, ends=ends)
  ]
  section.pictures['bootstrapping_ends'] = (
    figures.bootstrapping_of(by_end, _columns(by_end)),
    'The same for the rule of the agent, with no ends of episodes, with those '
    'that the agent lived, and with one between the change and the targets: '
    'beyond an end there is no effect, so that line stops.',
  )
  kept = {(x.rule, x.ends, x.changed, x.target): x for x in compared + by_end}
  section.tables['bootstrapping'] = [
    dict(
      rule=x.rule,
      changed=x.changed,
      target=x.target,
      ends=x.ends,
      steps_before=k,
      effect=float(effect),
    )
    for x in kept.values()
    for k, effect in enumerate(x.effect)
  ]
  section.tables['bootstrapping_reach'] = [
    dict(
      rule=x.rule,
      changed=x.changed,
      target=x.target,
      steps_with_90_percent=x.reach(),
      total_effect=float(np.nansum(x.effect)),
    )
    for x in kept.values()
    if x.ends == 'none'
  ]
  return section


def look(context: context_lib.Context) -> Section:
  """Asks which inputs matter for the targets."""
  _check_has_targets(context.seen)
  found = influence.influences(context.seen.view, context.seen.scene)
  section = Section('What it looks at')
  section.tables['influence'] = [
    {**x._asdict(), 'source': x.source, 'input': inputs.label(x.source)}
    for x in found
  ]
  how = (
    'Inputs (rows) and targets (columns). Left: how fast the target changes '
    'while the input is scaled (gradient × input). Right: the change of the '
    'target if the input is replaced by its mean over the batch (KL of '
    'distributions, absolute difference of values). Colours compare within a '
    'column; 0 is exactly 0: the rule does not read that input for that '
    'target.'
  )
  section.pictures['influence'] = (
    figures.influences(found, context.subject.rule.name),
    how,
  )
  for seen in context.others:
    if seen.view.name == 'actor_critic':
      continue  # It reads two inputs.
    own = influence.influences(seen.view, seen.scene)
    section.tables['influence'] += [
      {**x._asdict(), 'input': inputs.label(x.source)} for x in own
    ]
    section.pictures[f'influence_{seen.view.name}'] = (
      figures.influences(own, seen.view.name),
      'The same for another rule on the same trajectories.',
    )
  return section


def known(context: context_lib.Context) -> Section:
  """Compares the policy's target with known algorithms."""
  seen = context.seen
  if seen.head is None or seen.head.name != 'q':
    raise NotApplicableError(
      'the rule has no target for the policy to compare: its loss is a known '
      'algorithm'
    )
  by_age, pulls = {}, []
  for iteration, learner in context.ages():
    found = directions.pulls(seen.view, context.scene(learner), seen.head)
    by_age[iteration] = directions.agreement(found)
    pulls.append((iteration, found))
  section = Section('Against known algorithms')
  section.text.append(
    "The agent's logits are pulled along π̂ − π. Policy gradient pulls them "
    'along the advantage times the score, the greedy step along 1 − π of the '
    'best action, and KL-regularised improvement along π·exp(Q/β) − π, with '
    'the temperature β that explains most.'
  )
  section.tables['directions'] = [
    dict(
      iteration=iteration,
      **x._asdict(),
      temperature=dict(pulls)[iteration].temperature,
    )
    for iteration, agreements in by_age.items()
    for x in agreements
  ]
  section.pictures['directions'] = (
    figures.agreements(by_age),
    'Left: the share of the squared pull that the algorithm explains with one '
    'step size for all steps; 1 would be the same update. Right: the cosine '
    'similarity, averaged over steps with equal weight, 0 for unrelated '
    'directions.',
  )
  together = directions.pool([found for _, found in pulls])
  section.pictures['effective_step'] = (
    figures.step_pictures(together),
    'The mean pull on the action taken, by its advantage and its probability, '
    'over all ages: blue raises the probability, red lowers it; grey has too '
    'few steps. Right: what policy gradient does at the same steps.',
  )
  return section


def age(context: context_lib.Context) -> Section:
  """Asks how the rule changes over an agent's life."""
  view, birth = context.seen.view, context.birth_state()
  life = context.subject.life
  if life is None:
    raise NotApplicableError(
      'the run has no record of its life, which disco-rl inspect writes when '
      'it trains the agent itself (--env)'
    )
  names = targets.DISTRIBUTIONS
  found = [
    ageing.age(view, context.scene(learner), iteration, birth)
    for iteration, learner in context.ages()
  ]
  if not found[0].strength:
    raise NotApplicableError('the rule has no targets that are distributions')
  section = Section('Along a life')
  section.pictures['ages'] = (
    figures.ages(found),
    'Left: strength of the targets, the divergence of the agent from them, '
    'which is the loss that it learns from; dashed, with the life-long state '
    'of birth. Right: how much the targets would change with that state.',
  )
  section.tables['ages'] = [
    dict(
      iteration=x.iteration,
      **{f'strength_{n}': x.strength[n] for n in names if n in x.strength},
      **{
        f'strength_at_birth_{n}': x.strength_at_birth[n]
        for n in names
        if n in x.strength_at_birth
      },
      **{f'moved_{n}': x.moved[n] for n in names if n in x.moved},
    )
    for x in found
  ]
  states = life.states()
  if states is not None and len(states) > 3:
    later = life.iterations[1:]
    section.pictures['lifelong_state'] = (
      figures.life(states[1:], later),
      'The output of the life-long LSTM along the training, in its first two '
      'principal components. The state of birth, all zeros, is left out: it is '
      'far from all others.',
    )
    coordinates, _ = ageing.principal_components(states[1:])
    section.tables['lifelong_state'] = [
      dict(iteration=int(i), first=float(x), second=float(y))
      for i, (x, y) in zip(later, coordinates, strict=True)
    ]
  return section


def learning(context: context_lib.Context) -> Section:
  """Asks which inputs matter for learning."""
  steps = context.sizes.learning_steps
  if not steps:
    raise NotApplicableError(
      'fresh agents without some inputs were not trained (--learning-steps)'
    )
  try:
    rows = ablated_learning.curves(
      context.subject,
      num_iterations=steps,
      seeds=range(context.sizes.learning_seeds),
    )
  except ValueError as error:
    raise NotApplicableError(str(error)) from error
  section = Section('What it needs for learning')
  section.text.append(
    'Fresh agents learn with the rule, and with one group of its inputs '
    'replaced by its mean over the batch. The loss stays the same otherwise.'
  )
  section.pictures['learning'] = (
    plots.learning_curves(rows),
    'Average return while fresh agents learn without one group of inputs; '
    'curves far below the intact one need that group.',
  )
  last = max(1, steps // 5)
  section.tables['learning'] = [
    dict(left_out=name, seed=seed, **{'return': float(x)})
    for name, own in ablated_learning.final_returns(rows, last).items()
    for seed, x in enumerate(own)
  ]
  return section


def _check_has_targets(seen: comparison.Seen) -> None:
  """Raises an error for a rule that computes no targets."""
  if not jax.eval_shape(lambda x: targets.compute(seen.view, x), seen.scene):
    raise NotApplicableError(f'{seen.view.name} computes no targets')


def _columns(effects: list[bootstrapping.Effect]) -> list[str]:
  """Returns the names of the first rule's targets."""
  own = effects[0].rule
  names = targets.in_order(x.target for x in effects if x.rule == own)
  return [targets.label(name) for name in names]


# Analyses by name, in the order of the report.
ANALYSES: dict[str, Callable[[context_lib.Context], Section]] = {
  'probes': probes,
  'episode': episode,
  'bootstrapping': bootstrap,
  'influence': look,
  'known': known,
  'life': age,
  'learning': learning,
}
