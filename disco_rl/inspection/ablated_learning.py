"""What a rule needs for learning: fresh agents without one group of inputs.

The inputs of the meta-network are replaced by their means over the batch, see
`influence.py`; the loss is unchanged otherwise, so that a rule without the
value still trains the value. The life-long LSTM is left out by keeping its
state as it is at an agent's birth. For environments in JAX.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl.config import batching as batching_lib
from disco_rl.evaluation import agent_loop
from disco_rl.inspection import inputs
from disco_rl.inspection import subject as subject_lib
from disco_rl.learning import actors
from disco_rl.learning import faults
from disco_rl.runs import metrics
from disco_rl.update_rules import disco

INTACT = 'intact'
LIFELONG = 'life-long LSTM'
# Names of what can be left out.
GROUPS = (*inputs.GROUPS, LIFELONG)


class _WithoutLife(disco.DiscoUpdateRule):
  """A rule whose life-long state stays as it is."""

  def __init__(self, rule: disco.DiscoUpdateRule):
    """Takes over the constructed parts of another rule."""
    self.__dict__.update(rule.__dict__)
    self._reads_only_embeddings = False

  def unroll_meta_net(
    self,
    meta_params: types.MetaParams,
    params: types.AgentParams,
    state: types.HaikuState,
    meta_state: types.MetaState,
    *args: Any,
    **kwargs: Any,
  ) -> tuple[types.UpdateRuleOuts, types.MetaState]:
    """Computes the targets, and keeps `rnn_state`."""
    outs, new_state = super().unroll_meta_net(
      meta_params, params, state, meta_state, *args, **kwargs
    )
    return outs, {**new_state, 'rnn_state': meta_state['rnn_state']}


def without(rule: disco.DiscoUpdateRule, group: str) -> disco.DiscoUpdateRule:
  """Returns a rule that does not use one group of its inputs.

  Args:
    rule: the rule.
    group: one of `GROUPS`.
  """
  if group == LIFELONG:
    return _WithoutLife(rule)
  if group not in inputs.GROUPS:
    raise ValueError(f'a group must be one of {GROUPS}, got {group!r}')
  option = rule.input_option
  read = {
    str(config.source) for config in (*option.base, *option.action_conditional)
  }
  return inputs.with_changes(
    rule,
    {
      source: inputs.ablation_of(source)
      for source in inputs.GROUPS[group]
      if source in read
    },
  )


def curves(
  subject: subject_lib.Subject,
  *,
  num_iterations: int,
  seeds: Sequence[int] = (0, 1),
  groups: Sequence[str] = GROUPS,
  chunk_size: int = 20,
) -> dict[str, list[metrics.Row]]:
  """Trains fresh agents with the intact rule, and without each group.

  Args:
    subject: the rule, environment and settings.
    num_iterations: iterations of each agent.
    seeds: seeds of the agents.
    groups: groups of inputs, see `GROUPS`.
    chunk_size: iterations per row of metrics.

  Returns:
    `INTACT` and every group to a table of metrics.

  Raises:
    ValueError: if the rule is not of the Disco form, or the environment is not
      in JAX.
  """
  rule = subject.agent.update_rule
  if not isinstance(rule, disco.DiscoUpdateRule):
    raise ValueError(
      f'only rules of the Disco form have inputs that can be left out, and '
      f'{subject.rule.name} is of the kind {subject.rule.kind}'
    )
  batching = batching_lib.from_settings(subject.settings.batching, 'batching')
  env = subject.env_fn(batching.num_envs, 0)
  try:
    if not env.is_jittable:
      raise ValueError(
        f'{subject.env_name} is not in JAX, so agents cannot be trained here '
        'with inputs left out'
      )
    found = {}
    rules = {INTACT: rule, **{name: without(rule, name) for name in groups}}
    for name, own_rule in rules.items():
      an_agent = subject.agent.with_rule(own_rule)
      found[name] = _train(
        an_agent, env, subject.eta, batching, num_iterations, seeds, chunk_size
      )
    return found
  finally:
    env.close()


def _train(
  an_agent: agent_lib.Agent,
  env: Any,
  eta: types.MetaParams,
  batching: batching_lib.Batching,
  num_iterations: int,
  seeds: Sequence[int],
  chunk_size: int,
) -> list[metrics.Row]:
  """Trains one agent per seed, one after the other; returns their metrics."""
  loop = agent_loop.AgentLoop(an_agent, actors.make(an_agent, env), batching)
  run = jax.jit(
    lambda eta, state: loop.run(eta, state, chunk_size), donate_argnums=1
  )
  init = jax.jit(loop.init)
  states = [init(jax.random.PRNGKey(seed)) for seed in seeds]
  rows: list[metrics.Row] = []
  for done in range(chunk_size, num_iterations + 1, chunk_size):
    found = []
    for k, state in enumerate(states):
      states[k], measured = run(eta, state)
      found.append(jax.tree.map(np.asarray, measured))
    together = jax.tree.map(lambda *xs: np.stack(xs, axis=1), *found)
    together = {k: v for k, v in together.items() if k != faults.METRIC}
    rows += metrics.summarize(
      together,
      last_iteration=done,
      seeds=list(seeds),
      env_steps_per_iteration=batching.env_steps,
    )
  return rows


def final_returns(
  found: dict[str, list[metrics.Row]], last: int
) -> dict[str, np.ndarray]:
  """Returns the average return of every seed over the last iterations."""
  return {
    name: np.asarray(list(metrics.average_returns(rows, last).values()))
    for name, rows in found.items()
  }
