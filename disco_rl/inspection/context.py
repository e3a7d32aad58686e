"""Prepares what several analyses of one agent share, each when it is needed."""

from collections.abc import Iterator
import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl.inspection import comparison
from disco_rl.inspection import experience
from disco_rl.inspection import predictions
from disco_rl.inspection import subject as subject_lib
from disco_rl.inspection import targets

_NUM_PARTS = 4


@dataclasses.dataclass(frozen=True)
class Sizes:
  """How much experience is analysed.

  Attributes:
    num_trajectories: trajectories that targets are computed of, successive
      parts of a quarter as many streams.
    num_streams: streams that probes are fitted to and scored on.
    num_steps: steps of each stream.
    learning_steps: iterations of fresh agents that learn without some inputs;
      0 for none.
    learning_seeds: seeds of those.
  """

  num_trajectories: int = 32
  num_streams: int = 64
  num_steps: int = 128
  learning_steps: int = 0
  learning_seeds: int = 2


class Context:
  """An agent, and experience of it."""

  def __init__(self, subject: subject_lib.Subject, sizes: Sizes | None = None):
    """Computes nothing yet.

    Args:
      subject: the agent and its rule.
      sizes: how much experience is collected.
    """
    self.subject = subject
    self.sizes = sizes or Sizes()
    self._collectors: list[experience.Collector] = []
    self._see = jax.jit(
      functools.partial(targets.scene_of, subject.agent, subject.eta)
    )

  def close(self) -> None:
    """Closes the environments."""
    for collector in self._collectors:
      collector.close()

  def __enter__(self) -> 'Context':
    return self

  def __exit__(self, *exception: object) -> None:
    self.close()

  @functools.cached_property
  def seen(self) -> comparison.Seen:
    """The agent's rule, and trajectories of the trained agent."""
    return comparison.own(self.subject, self.scene(self.subject.learner))

  @functools.cached_property
  def others(self) -> list[comparison.Seen]:
    """Other rules that see the same trajectories."""
    return comparison.others(self.subject, self.seen)

  @functools.cached_property
  def rollout(self) -> types.ActorRollout:
    """Long trajectories of the trained agent, on the host, [N, B, ...]."""
    long = self._collector(self.sizes.num_streams, self.sizes.num_steps)
    rollout = long.collect(self.subject.learner.params, seed=1)
    return jax.tree.map(np.asarray, rollout)

  @functools.cached_property
  def predictions(self) -> dict[str, np.ndarray]:
    """Predictions of the trained agent along `rollout`."""
    subject = self.subject
    return predictions.along(subject.agent, subject.learner, self.rollout)

  @functools.cached_property
  def untrained_predictions(self) -> dict[str, np.ndarray]:
    """Predictions of an untrained network along the same trajectories."""
    an_agent = self.subject.agent
    init = jax.jit(an_agent.initial_learner_state)
    learner = init(jax.random.PRNGKey(self.subject.seed))
    return predictions.along(an_agent, learner, self.rollout)

  def scene(self, learner: agent_lib.LearnerState) -> targets.Scene:
    """Collects trajectories of an agent, as its rule sees them."""
    steps = self.subject.num_steps
    rollout = experience.in_parts(self._short.collect(learner.params), steps)
    # The optimiser's state is not read.
    return self._see(learner.replace(opt_state=None), rollout)

  def ages(self) -> Iterator[tuple[int, agent_lib.LearnerState]]:
    """Yields iterations and learners along the agent's life.

    Without a record of its life, only the trained agent.
    """
    life = self.subject.life
    if life is None:
      yield int(self.subject.settings.steps), self.subject.learner
      return
    for i, iteration in enumerate(life.iterations):
      yield int(iteration), life.learner(i)

  def birth_state(self) -> Any | None:
    """Returns the rule's life-long state at birth; None without one."""
    rule = self.subject.agent.update_rule
    if 'rnn_state' not in self.subject.learner.meta_state:
      return None
    # It depends on nothing but the rule.
    return rule.init_meta_state(jax.random.PRNGKey(0), {})['rnn_state']

  @functools.cached_property
  def _short(self) -> experience.Collector:
    # Successive parts, so that they are not all from the starts of episodes.
    num_envs = max(2, self.sizes.num_trajectories // _NUM_PARTS)
    return self._collector(num_envs, self.subject.num_steps, _NUM_PARTS)

  def _collector(
    self, num_envs: int, num_steps: int, num_parts: int = 1
  ) -> experience.Collector:
    subject = self.subject
    collector = experience.Collector(
      subject.agent,
      subject.env_fn,
      num_envs=num_envs,
      num_steps=num_steps,
      num_parts=num_parts,
      task_rng=subject.task_rng,
    )
    self._collectors.append(collector)
    return collector
