"""Trains fresh agents with a rule, and draws their learning curve.

  disco-rl eval --rule disco_103                    # Catch, 1000 iterations
  disco-rl eval --rule actor_critic --num-seeds 5 --out runs/baseline
  disco-rl eval --rule my_rule.npz --set agent.learning_rate=3e-4
  disco-rl eval --resume runs/baseline              # from its last checkpoint

The defaults are the published setting: Catch 8x8, rollouts of 29 steps, batches
of 64 from a replay of 1024 trajectories, each used 32 times. The output folder
contains the settings (config.json), the metrics (metrics.csv), the learning
curve (curve.png) and the agents' final parameters (params_SEED.npz).
"""

import argparse
import sys
from typing import Any

import numpy as np

from disco_rl import installation
from disco_rl.cli import options
from disco_rl.cli import run_options
from disco_rl.cli import tables
from disco_rl.config import measured
from disco_rl.config import presets
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.evaluation import plan as eval_plan
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import console
from disco_rl.runs import loop
from disco_rl.runs import metrics
from disco_rl.runs import plots
from disco_rl.runs import run as run_lib
from disco_rl.update_rules import registry as rule_registry


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the command's options."""
  add = parser.add_argument
  add(
    '--rule',
    help='disco_103 (the published rule, downloaded once), another name that '
    '`disco-rl rules` lists, the path of a rule file, the folder of a run (its '
    'best rule, or else its last), or the hand-designed '
    f'{" or ".join(rule_registry.known_names())} (default: '
    f'{rule_lib.DEFAULT}, a small rule that is shipped with the library)',
  )
  add(
    '--env',
    help=f'environment: {", ".join(registry.known_names())} (default: that '
    'of the preset, or else catch)',
  )
  add(
    '--steps',
    type=options.whole_number,
    help='total number of iterations; each acts for one rollout and takes one '
    'learner step (default: 1000). It can be raised with --resume, unless the '
    'schedule of the learning rate ends with it',
  )
  add(
    '--num-seeds',
    type=options.whole_number,
    help='number of independent agents, which are trained together, with seeds '
    'SEED, SEED+1, ... (default: 1)',
  )
  add(
    '--devices',
    type=options.whole_number,
    help='number of devices over which each batch is sharded (default: as many '
    'as the environments can be sharded over)',
  )
  add(
    '--preset',
    help='settings behind the numbers in docs/results.md, with an environment '
    f'unless --env is given: {", ".join(measured.MEASURED)}; or of a published '
    f'evaluation, for large machines: {", ".join(presets.PRESETS)}',
  )
  run_options.add_run_arguments(
    parser,
    'agent.learning_rate=3e-4, env.rows=5, batching.num_envs=8',
    'the one suggested for the environment',
  )


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  command = run_options.RunCommand(
    defaults=resolve.EVALUATION,
    make_plan=eval_plan.Plan,
    plan_of_folder=eval_plan.plan_of_folder,
    name_run=lambda plan: f'{plan.request["env"]}-{plan.rule.name}',
    describe_start=_describe_start,
    finish=_finish,
  )
  return run_options.run(arguments, command)


def _describe_start(plan: eval_plan.Plan, a_run: run_lib.Run) -> str:
  """Describes rule, environment, seeds and devices, before compiling."""
  trainable: Any = a_run.trainable
  devices = trainable.population.placement.devices
  return (
    f'rule {plan.rule.name} ({plan.rule.provenance}) on {plan.request["env"]}, '
    f'seeds {", ".join(map(str, plan.settings.seeds))}, {len(devices)} '
    f'{devices[0].platform} device{"s" * (len(devices) > 1)}'
  )


def _finish(a_run: run_lib.Run, outcome: loop.Outcome) -> None:
  """Saves the final parameters, and prints a table."""
  eval_plan.save_final_params(a_run, outcome.state)
  _report(a_run)


def _report(a_run: run_lib.Run) -> None:
  """Prints a table of returns, and the paths of picture and metrics."""
  assert a_run.folder is not None
  if not a_run.rows:
    print(f'no rows of metrics to report: {a_run.folder.metrics_path}')
    return
  at, values = metrics.curves(a_run.rows, 'average_return')
  finals = metrics.average_returns(a_run.rows, metrics.LAST)
  last = at[-1] if len(at) else 0
  rows = []
  is_shown = console.can_show(sys.stdout, plots.SPARKS)
  sparks = plots.SPARKS if is_shown else plots.ASCII_SPARKS
  for (seed, final), curve in zip(finals.items(), values, strict=True):
    marks = plots.sparkline(curve[:: max(1, len(curve) // 40)], sparks)
    # If rows were removed, seeds may have no point in common.
    first = f'{curve[0]:.3f}' if len(curve) else ''
    rows.append((str(seed), first, f'{final:.3f}', marks))
  print(
    tables.format_table(
      ('seed', 'first', 'last 100', f'average return, iteration 0-{last}'),
      rows,
    )
  )
  if len(finals) > 1:
    mean, band = metrics.mean_and_band(np.asarray(list(finals.values())))
    print(f'mean of the last 100 iterations: {tables.with_band(mean, band)}')
  if plots.is_available():
    print(f'picture: {a_run.folder.curve_path}')
  else:
    print(f'no picture; to draw one: {installation.install_hint("plots")}')
  print(f'metrics: {a_run.folder.metrics_path}')
