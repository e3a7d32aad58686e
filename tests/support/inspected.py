"""A small rule of the Disco form, and an agent with experience of it."""

import functools
from typing import Any, NamedTuple

import jax

from disco_rl import agent
from disco_rl.inspection import targets
from disco_rl.inspection import values
from tests.support import small


class Small(NamedTuple):
  """An agent, a rollout, and what its rule sees."""

  agent: agent.Agent
  eta: Any
  learner: agent.LearnerState
  rollout: Any
  view: targets.View
  scene: targets.Scene
  head: values.Head


@functools.cache
def make(rule: str = 'disco', num_steps: int = 13, seed: int = 0) -> Small:
  """Makes an untrained agent of a random rule, on Catch.

  Args:
    rule: kind of the rule.
    num_steps: T+1.
    seed: seed of η, θ and the experience.
  """
  an_agent = small.make_agent(rule)
  keys = jax.random.split(jax.random.PRNGKey(seed), 3)
  eta, _ = an_agent.update_rule.init_params(keys[0])
  # Of a usual size, so that effects are not rounding.
  eta = jax.tree.map(lambda x: 4 * x, eta)
  learner = an_agent.initial_learner_state(keys[1])
  params = jax.tree.map(lambda x: 2 * x, learner.params)
  learner = learner.replace(params=params)
  rollout = small.act(an_agent, params, keys[2], num_steps, batch_size=4)
  see = jax.jit(functools.partial(targets.scene_of, an_agent, eta))
  scene = see(learner, rollout)
  view = targets.view_of(an_agent, eta, rule)
  if 'rnn_state' in scene.meta_state:
    # At birth, nothing of later steps would be let through.
    scene = targets.aged(view, scene, 3)
  return Small(
    an_agent, eta, learner, rollout, view, scene, values.head_of(an_agent)
  )
