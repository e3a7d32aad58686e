"""Trains fresh agents with a rule, and draws their learning curve.

  disco-rl eval --rule disco_103                    # Catch, 1000 iterations
  disco-rl eval --rule actor_critic --num-seeds 5 --out runs/baseline
  disco-rl eval --rule my_rule.npz --set agent.learning_rate=3e-4
  disco-rl eval --resume runs/baseline              # after a kill, or for more

The defaults are the published setting: Catch 8x8, rollouts of 29 steps, batches
of 64 from a replay of 1024 trajectories, each used 32 times. In the output
folder are the settings (config.json), the metrics (metrics.csv), the picture
(curve.png) and the agents' final parameters (params_SEED.npz).
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from typing import Any

import jax
from ml_collections import config_dict
import numpy as np

from disco_rl.runs import checkpoint
from disco_rl.runs import compilation_cache
from disco_rl.evaluation import evaluate as evaluation
from disco_rl.evaluation import agent_loop as experiment
from disco_rl import installation
from disco_rl.runs import metrics as metrics_table
from disco_rl.runs import plots
from disco_rl.evaluation import population as population_lib
from disco_rl.config import presets
from disco_rl.runs import progress
from disco_rl.rule_zoo import rule as rule_choice
from disco_rl.rule_zoo import file_format as rule_params
from disco_rl.runs import run_folder
from disco_rl.cli import errors
from disco_rl.config import evaluation as eval_config
from disco_rl.runs import interrupts
from disco_rl.cli import run_config
from disco_rl.cli import tables
from disco_rl.environments import registry
from disco_rl.environments.wrappers import worker_env

HELP = 'train fresh agents with a rule'


@dataclasses.dataclass
class _Plan:
  """A run that can begin."""

  folder: run_folder.RunFolder
  settings: config_dict.ConfigDict
  population: population_lib.Population
  eta: Any
  state: experiment.ExperimentState
  rows: list[metrics_table.Row]


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Describes the command's options."""
  add = parser.add_argument
  add(
    '--rule',
    help='disco_103 (the published rule, downloaded once), another name that '
    '`disco-rl rules` lists, the path of a rule file, the folder of a run that '
    'made one (its best), or the hand-designed '
    f'{" or ".join(rule_choice.hand_designed())} (default: '
    f'{rule_choice.DEFAULT}, a small rule that is shipped with the library)',
  )
  add(
    '--env',
    help=f'environment: {", ".join(registry.known_names())} (default: catch)',
  )
  add(
    '--steps',
    type=int,
    help='training iterations in all; each acts for one rollout and takes one '
    'learner step (default: 1000). With --resume it can be raised, unless a '
    'schedule of the learning rate ends with it',
  )
  add(
    '--num-seeds',
    type=int,
    help='independent agents, trained at once with seeds SEED, SEED+1, ... '
    '(default: 1)',
  )
  add(
    '--devices',
    type=int,
    help='over how many devices to spread each batch (default: as many as the '
    'environments can be spread over)',
  )
  add(
    '--preset',
    help='settings of a published evaluation: '
    f'{", ".join(presets.PRESETS)}. They are those of large machines',
  )
  run_config.add_run_arguments(
    parser,
    'agent.learning_rate=3e-4, env.rows=5, experiment.replay_ratio=8',
    'what suits the environment',
  )


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  plan: _Plan | None
  with errors.as_usage_errors():
    if arguments.resume:
      plan = run_config.resume(arguments, eval_config.DEFAULTS, _restore)
    else:
      plan = _start(arguments)
  if plan is None:
    return 0
  with plan.folder:
    try:
      return _train(plan, show_progress=not arguments.quiet)
    finally:
      plan.population.close()


def _start(arguments: argparse.Namespace) -> _Plan | None:
  """Prepares a new run; None if it is not to be made."""
  asked = run_config.from_arguments(arguments, eval_config.DEFAULTS)
  registry.default_settings(asked['env'])  # A wrong name is told first.
  if arguments.out and not (arguments.overwrite or arguments.dry_run):
    run_folder.check_free(arguments.out)  # Before anything is downloaded.
  rule = rule_choice.load_rule(asked['rule'])
  rule_settings = dict(rule.settings)
  settings = eval_config.resolve(asked, rule.kind, rule_settings)
  config = run_config.describe(
    'eval',
    asked,
    settings,
    rule=rule.name,
    update_rule=rule.kind,
    rule_settings=rule_settings,
  )
  population = _make_population(asked['env'], settings)
  eta = evaluation.check_rule_params(
    population.agent.update_rule, rule.eta, f'the parameters of {rule.name}'
  )
  if arguments.dry_run:
    population.close()
    print(json.dumps(config, indent=2))
    return None
  out = arguments.out or run_folder.first_free(
    pathlib.Path('runs')
    / run_folder.as_file_name(f'{asked["env"]}-{rule.name}')
  )
  state = population.init()  # Before an old run is removed.
  # Only what environments show of themselves could be unfit; the rest is large.
  checkpoint.check(population.to_save(state).actor)
  folder = run_folder.RunFolder.create(out, config, arguments.overwrite)
  if eta:
    # It stays a rule that other agents can be trained with.
    rule_choice.save_rule(
      folder.rule_path,
      eta,
      settings={**rule_settings, 'update_rule_name': rule.kind},
      metadata=dict(rule=rule.name),
    )
  devices = len(population.devices)
  print(
    f'rule {rule.name} ({rule.provenance}) on {asked["env"]}, seeds '
    f'{", ".join(map(str, population.seeds))}, {devices} '
    f'{population.devices[0].platform} device{"s" * (devices > 1)}: {out}',
    flush=True,
  )
  return _Plan(folder, settings, population, eta, state, [])


def _restore(folder: run_folder.RunFolder, asked: dict[str, Any]) -> _Plan:
  """Prepares to go on with a run."""
  config = folder.config
  rule_settings = config.get('rule_settings', {})
  settings = eval_config.resolve(asked, config['update_rule'], rule_settings)
  described = run_config.describe(
    'eval',
    asked,
    settings,
    rule=config['rule'],
    update_rule=config['update_rule'],
    rule_settings=rule_settings,
  )
  run_config.check_same(config['settings'], described['settings'])
  population = _make_population(asked['env'], settings)
  eta = None
  if folder.rule_path.exists():
    eta = rule_params.load(folder.rule_path)
  eta = evaluation.check_rule_params(
    population.agent.update_rule, eta, str(folder.rule_path)
  )
  state = population.init()
  if folder.state_path.exists():
    like = population.to_save(state)
    state = population.restored(checkpoint.load(folder.state_path, like))
  done = int(state.iteration)
  if done > settings.steps:
    raise errors.UsageError(
      f'{folder.path} is at iteration {done} already, after {settings.steps}'
    )
  folder.write_config(described)
  rows = folder.cut_metrics(done)
  print(f'Going on from iteration {done}: {folder.path}', flush=True)
  return _Plan(folder, settings, population, eta, state, rows)


def _make_population(
  env: str, settings: config_dict.ConfigDict
) -> population_lib.Population:
  return population_lib.Population(
    registry.environment_fn(env, **settings.env),
    settings.agent,
    experiment.Config(**settings.experiment),
    seeds=range(settings.seed, settings.seed + settings.num_seeds),
    devices=run_config.choose_devices(settings.devices),
  )


def _train(plan: _Plan, show_progress: bool) -> int:
  """Trains to the end, or until it is stopped; returns the exit code."""
  settings, folder = plan.settings, plan.folder
  state, saved = plan.state, int(plan.state.iteration)
  bar = progress.Progress(settings.steps, saved, enabled=show_progress)

  def save(state: experiment.ExperimentState) -> None:
    checkpoint.save(folder.state_path, plan.population.to_save(state))
    _draw(plan)

  chunks = evaluation.train(
    plan.population, plan.eta, state, settings.steps, settings.chunk_size
  )
  with interrupts.Interrupts() as interrupt:
    try:
      for state, rows in chunks:
        compilation_cache.publish()
        plan.rows += rows
        metrics_table.append_csv(folder.metrics_path, rows)
        done = int(rows[-1]['iteration'])
        evaluation.show_rows(bar, rows)
        if interrupt.requested:
          break
        if done - saved >= settings.checkpoint_every:
          save(state)
          saved = done
    except evaluation.DivergenceError as error:
      bar.close()
      plan.rows += error.rows
      metrics_table.append_csv(folder.metrics_path, error.rows)
      save(error.state)
      print(f'disco-rl eval: stopped: {error}', file=sys.stderr)
      print(f'The last good state is in {folder.state_path}', file=sys.stderr)
      return 1
    except worker_env.WorkerError as error:
      bar.close()
      print(f'disco-rl eval: stopped: {error}', file=sys.stderr)
      print(
        f'Go on from the last checkpoint with: disco-rl eval --resume '
        f'{folder.path}',
        file=sys.stderr,
      )
      return 1
  bar.close()
  save(state)
  if interrupt.requested and int(state.iteration) < settings.steps:
    print(f'Saved. Go on with: disco-rl eval --resume {folder.path}')
    return 130
  for k, seed in enumerate(plan.population.seeds):
    params = jax.tree.map(lambda x, k=k: x[k], state.learner.params)
    checkpoint.save(folder.params_path(seed), params)
  _report(plan)
  return 0


def _draw(plan: _Plan) -> None:
  if not plots.is_available() or not plan.rows:
    return
  config = plan.folder.config
  figure = plots.learning_curves(
    {config['rule']: plan.rows}, title=config['asked']['env']
  )
  plots.save(figure, plan.folder.curve_path)


def _report(plan: _Plan) -> None:
  """The table at the end, and where the picture is."""
  at, values = metrics_table.curves(plan.rows, 'average_return')
  finals = metrics_table.average_returns(plan.rows, 100)
  rows = []
  for (seed, final), curve in zip(finals.items(), values, strict=True):
    marks = plots.sparkline(curve[:: max(1, len(curve) // 40)])
    rows.append((str(seed), f'{curve[0]:.3f}', f'{final:.3f}', marks))
  print(
    tables.format_table(
      ('seed', 'first', 'last 100', f'average return, iteration 0-{at[-1]}'),
      rows,
    )
  )
  if len(finals) > 1:
    mean, band = metrics_table.mean_and_band(np.asarray(list(finals.values())))
    print(f'mean of the last 100 iterations: {tables.with_band(mean, band)}')
  if plots.is_available():
    print(f'picture: {plan.folder.curve_path}')
  else:
    print(f'no picture; for one: {installation.install_hint("plots")}')
  print(f'metrics: {plan.folder.metrics_path}')
