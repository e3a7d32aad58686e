"""Evaluation in one call: trains fresh agents with a fixed rule.

```python
rule = disco_rl.load_rule('disco_103')
result = disco_rl.evaluate('catch', rule, num_seeds=5)
print(result.final_returns())
result.plot('curve.png')
```

The defaults are the published setting on Catch: 1000 iterations with rollouts
of 29 steps, learning rate 1e-2. The same seed gives the same run here and in
`disco-rl eval`, bit-exact on the same machine; floating-point sums depend on
the number of threads and the version of XLA.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import os
from typing import Any, NamedTuple

import jax
from ml_collections import config_dict

from disco_rl import device_choice
from disco_rl import fields
from disco_rl import schema
from disco_rl import types
from disco_rl.config import arguments
from disco_rl.config import batching as batching_lib
from disco_rl.config import presets
from disco_rl.config import requests
from disco_rl.environments import registry
from disco_rl.evaluation import agent_loop
from disco_rl.evaluation import plan as plan_lib
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import metrics
from disco_rl.runs import plots
from disco_rl.runs import trackers


class Evaluation(NamedTuple):
  """The result of an evaluation."""

  state: agent_loop.LoopState  # Leaves [K, ...] for K seeds.
  rows: list[metrics.Row]
  name: str = ''  # The rule's name.

  def final_returns(
    self, num_iterations: int = metrics.LAST
  ) -> dict[int, float]:
    """Averages the returns of the episodes of the last iterations.

    Args:
      num_iterations: how many of the last iterations count.

    Returns:
      Seed to average return.
    """
    last = schema.check_as('num_iterations', 'steps', num_iterations)
    return metrics.average_returns(self.rows, last)

  def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
    """Draws the learning curves.

    Args:
      path: path of a picture to write (.png, .pdf, .svg, ...), or None.

    Returns:
      A matplotlib figure.
    """
    figure = plots.learning_curves({self.name: self.rows})
    if path is not None:
      plots.save(figure, path)
    return figure


def evaluate(
  env: str | registry.EnvironmentFn | None = None,
  rule: rule_lib.Rule | str | os.PathLike[str] | types.MetaParams | None = None,
  agent_settings: config_dict.ConfigDict | None = None,
  *,
  seeds: Sequence[int] | None = None,
  num_seeds: int = arguments.Default(1),
  num_iterations: int = arguments.Default(presets.STEPS),
  num_env_steps: int | None = None,
  batching: batching_lib.Batching | None = None,
  env_settings: Mapping[str, Any] | None = None,
  settings: Mapping[str, Any] | None = None,
  net: str | None = None,
  core: str | None = None,
  preset: str | None = None,
  devices: Sequence[jax.Device] | None = None,
  chunk_size: int | None = None,
  out: str | os.PathLike[str] | None = None,
  resume: bool = False,
  track: Sequence[str | trackers.Make] = (),
  show_progress: bool = False,
) -> Evaluation:
  """Trains one fresh agent per seed with a fixed rule, and logs its returns.

  Args:
    env: a name (see `environments.registry`), or a function that makes an
      environment from a batch size and a seed; None for the environment of the
      preset, or else Catch.
    rule: a rule from `load_rule`, or an argument of it (a name, a file, the
      folder of a run); or η of the rule that `agent_settings` name, `disco` by
      default. None for the rule without parameters that `agent_settings` name,
      or, without settings, for the rule that is shipped with the package.
    agent_settings: settings of the agents; by default those that the rule was
      trained with (for η alone, the published ones), with the network that is
      suggested for the environment.
    seeds: K different seeds; by default 0, 1, ... `num_seeds` - 1.
    num_seeds: number of seeds, 1 by default. Not together with `seeds`.
    num_iterations: number of iterations, 1000 by default; each acts for one
      rollout and takes one learner step.
    num_env_steps: the same budget in environment steps of one agent, rounded up
      to whole iterations. Not together with `num_iterations`.
    batching: sizes of batch, rollout and replay.
    env_settings: changes to the default settings of a named environment.
    settings: changes to other settings, by their path as in `disco-rl eval
      --dry-run`, e.g. `{'agent.learning_rate': 3e-4}`. A setting that another
      argument gives, too, is an error.
    net: name of the network, see `config.networks.choose`; None for the one
      that suits the environment. Not together with `agent_settings`.
    core: name of the network's memory, e.g. `'lstm'`; None for none.
    preset: name of an evaluation's settings, as published or as measured here,
      see `config.presets`.
    devices: devices over which the batch is sharded; by default as many as fit,
      or all devices of all processes after `jax.distributed.initialize`, which
      then make the run together.
    chunk_size: iterations per compiled program, and per row of metrics.
    out: folder for config, metrics, checkpoints and pictures, as in `disco-rl
      eval`; None to write nothing.
    resume: whether to resume the run in `out` from its last checkpoint; the
      other arguments must be those of the first call.
    track: trackers of the rows, which need `out`: names such as
      `'tensorboard'`, or functions that make them, see `runs.trackers`.
    show_progress: whether to show a progress bar.

  Returns:
    The final state, and the table of metrics.
  """
  arguments.check_agent_settings(agent_settings)
  device_choice.check_devices_of_run(devices)
  arguments.check_flag('resume', resume)
  arguments.check_flag('show_progress', show_progress)
  if out is not None:
    fields.check_path('out', out)
  chosen = trackers.find(track, has_folder=out is not None)
  if rule is None and agent_settings is None:
    rule = rule_lib.DEFAULT
  if not isinstance(rule, rule_lib.Rule | Mapping | list | tuple | None):
    rule = rule_lib.load_rule(rule)
  elif not isinstance(rule, rule_lib.Rule):
    kind = agent_settings.update_rule_name if agent_settings else 'disco'
    rule = rule_lib.Rule(kind, kind, rule)
  schema.check_as('num_iterations', 'steps', num_iterations)
  if num_env_steps is not None:
    schema.check_as('num_env_steps', 'env_steps', num_env_steps)
  count = schema.check('num_seeds', num_seeds)
  if seeds is not None and arguments.is_given(num_seeds):
    raise ValueError('give seeds or num_seeds, not both')
  changes: dict[str, Any] = {}
  # Arguments to the settings that they give.
  given: dict[str, Any] = dict(
    chunk_size=[] if chunk_size is None else ['chunk_size'],
    settings=settings or {},
  )
  if batching is not None:
    if not isinstance(batching, batching_lib.Batching):
      raise ValueError(
        'batching must be a config.batching.Batching, got '
        f'{fields.shorten(batching)}'
      )
    sizes = dataclasses.asdict(batching)
    given['batching'] = [f'batching.{name}' for name in sizes]
    changes |= {f'batching.{name}': value for name, value in sizes.items()}
  if chunk_size is not None:
    changes['chunk_size'] = chunk_size
  for name, group in dict(env_settings=env_settings, settings=settings).items():
    schema.check_mapping(name, group)
  given['env_settings'] = [f'env.{name}' for name in env_settings or {}]
  changes |= {f'env.{k}': v for k, v in (env_settings or {}).items()}
  changes |= settings or {}
  env_fn = None
  if env is not None and not isinstance(env, str):
    env_fn = registry.as_environment_fn(env, env_settings)
  request = dict(
    rule=rule.name,
    env=env if env_fn is None else _name_of(env),
    steps=num_iterations if arguments.is_given(num_iterations) else None,
    env_steps=num_env_steps,
    seeds=list(
      schema.check(
        'seeds', list(range(count)) if seeds is None else _as_list(seeds)
      )
    ),
    devices=0 if devices is None else len(devices),
    settings=changes,
    net=net,
    core=core,
    preset=preset,
  )
  requests.check_arguments(
    dict(
      steps=num_iterations,
      env_steps=num_env_steps,
      seeds=seeds,
      num_seeds=num_seeds,
      devices=devices,
      net=net,
      core=core,
    ),
    given,
    steps='num_iterations',
    env_steps='num_env_steps',
  )
  objects = plan_lib.Objects(
    env_fn=env_fn, agent_settings=agent_settings, devices=devices
  )
  plan = plan_lib.Plan(request, rule, objects)
  with plan.open(out, resume=resume, show_progress=show_progress) as run:
    run.trackers = chosen
    outcome = run.execute()
    if outcome.error is not None:
      raise outcome.error
    if run.folder is not None:
      plan_lib.save_final_params(run, outcome.state)
  return Evaluation(outcome.state, run.rows, rule.name)


def _as_list(seeds: Any) -> Any:
  """Returns any sequence of seeds, also an array of them, as a list."""
  return list(seeds) if hasattr(seeds, '__iter__') else seeds


def _name_of(env: Any) -> str:
  return getattr(env, '__name__', type(env).__name__)
