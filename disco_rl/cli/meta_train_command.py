"""Discovers an update rule, or improves one, by training agents with it.

  disco-rl meta-train --init random --out runs/my_rule
  disco-rl meta-train --init disco_103 --steps 50
  disco-rl meta-train --num-agents 8 --set meta.num_inner_updates=20
  disco-rl meta-train --resume runs/my_rule
  disco-rl eval --rule runs/my_rule                 # fresh agents learn with it

The defaults are the small reference setting: two agents on Catch 5x5, windows
of two inner updates on 16 steps of 32 environments, 800 meta-updates. In the
output folder are the settings (config.json), the metrics (metrics.csv, with the
episodes' returns by environment), pictures (returns.png, rewards.png,
training.png) and the rule as it is now (rule.npz). With --eval-every there are
also the returns that fresh agents reach with it (evaluations_ENV.csv,
evaluations.png), beside those with the initial rule and with the hand-designed
actor_critic (baseline_ENV.csv), and the best rule so far (best_rule.npz): the
one with the highest (return - initial) / |baseline - initial|, averaged over
environments.
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
from disco_rl.runs import metrics as metrics_table
from disco_rl.runs import plots
from disco_rl.runs import progress
from disco_rl.rule_zoo import rule as rule_choice
from disco_rl.rule_zoo import file_format as rule_params
from disco_rl.runs import run_folder
from disco_rl.cli import errors
from disco_rl.runs import interrupts
from disco_rl.config import meta_training_run as meta_train_config
from disco_rl.meta_training import rule_evaluation
from disco_rl.cli import run_config
from disco_rl.meta_training import config as config_lib
from disco_rl.meta_training import pictures
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.meta_training import meta_train as training

HELP = 'discover or improve a rule'


@dataclasses.dataclass
class _Plan:
  """A run that can begin."""

  folder: run_folder.RunFolder
  settings: config_dict.ConfigDict
  trainer: trainer_lib.Trainer
  state: trainer_lib.TrainState
  evaluate: rule_evaluation.RuleEvaluation | None
  rows: list[metrics_table.Row]
  bad_in_a_row: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Describes the command's options."""
  add = parser.add_argument
  add(
    '--rule',
    help='the kind of rule to discover: disco, or one of your own that a '
    'module of --use registers and that has parameters (default: disco, or '
    'that of --init)',
  )
  add(
    '--init',
    help='where η begins: random, a name that `disco-rl rules` lists, or the '
    'path of a rule file or of the folder of a run (default: random). A rule '
    'that was trained before goes on with a smaller meta.learning_rate, '
    f'{config_lib.FINE_TUNING_LEARNING_RATE:g} instead of '
    f'{config_lib.Config.learning_rate:g}, unless --set says otherwise',
  )
  add(
    '--env',
    action='append',
    help='environment of a group of agents; it must be written in JAX, as are '
    'catch and gymnax:<id>. May be repeated (default: catch, 5x5)',
  )
  add(
    '--steps',
    type=int,
    help='meta-updates in all (default: 800). With --resume it can be raised',
  )
  add('--num-agents', type=int, help='agents in each environment (default: 2)')
  add(
    '--eval-every',
    type=int,
    metavar='K',
    help='before the first and after every K meta-updates, train fresh agents '
    'with the rule and log their return (default: never)',
  )
  add(
    '--eval-env',
    action='append',
    metavar='ENV',
    help='environment for --eval-every; may be repeated, and set up by e.g. '
    '--set eval.env.catch.rows=8 (default: those of --env)',
  )
  add(
    '--devices',
    type=int,
    help='over how many devices to spread the work (default: 1)',
  )
  run_config.add_run_arguments(
    parser,
    'meta.num_inner_updates=20, env.catch.rows=8, eval.steps=500',
    'what suits each environment',
  )


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  plan: _Plan | None
  with errors.as_usage_errors():
    if arguments.resume:
      plan = run_config.resume(arguments, meta_train_config.DEFAULTS, _restore)
    else:
      plan = _start(arguments)
  if plan is None:
    return 0
  with plan.folder:
    try:
      return _train(plan, show_progress=not arguments.quiet)
    finally:
      if plan.evaluate is not None:
        plan.evaluate.close()


def _start(arguments: argparse.Namespace) -> _Plan | None:
  """Prepares a new run; None if it is not to be made."""
  asked = run_config.from_arguments(arguments, meta_train_config.DEFAULTS)
  if arguments.out and not (arguments.overwrite or arguments.dry_run):
    run_folder.check_free(arguments.out)
  meta_train_config.check_environments(asked['env'])
  choice = _choose_rule(asked['init'])
  rule_settings = {}
  if choice is not None:
    rule_settings = {'update_rule_name': choice.kind, **choice.settings}
  settings = meta_train_config.resolve(asked, rule_settings)
  config = _describe(asked, settings, rule_settings)
  trainer = meta_train_config.make_trainer(settings)
  init_rng, eta_rng, _ = training.keys(settings.seed)
  if choice is None:
    eta = trainer.init_params(eta_rng)
  else:
    eta = choice.eta
    rule_params.check_like(
      eta, trainer.eta_spec, f'the parameters of {choice.name}'
    )
  evaluate = _make_evaluation(settings)
  if arguments.dry_run:
    if evaluate is not None:
      evaluate.close()
    print(json.dumps(config, indent=2))
    return None
  state = trainer.init(init_rng, eta)
  out = arguments.out or run_folder.first_free(
    pathlib.Path('runs')
    / run_folder.as_file_name(f'meta-{"-".join(asked["env"])}')
  )
  folder = run_folder.RunFolder.create(out, config, arguments.overwrite)
  print(
    f'{trainer.num_agents} agents in {", ".join(asked["env"])}, η from '
    f'{choice.name if choice else asked["init"]}: {out}',
    flush=True,
  )
  plan = _Plan(folder, settings, trainer, state, evaluate, [], 0)
  # A resumed run needs no other file than its own.
  _save_rule(plan, state)
  return plan


def _restore(folder: run_folder.RunFolder, asked: dict[str, Any]) -> _Plan:
  """Prepares to go on with a run."""
  config = folder.config
  rule_settings = config.get('rule_settings', {})
  settings = meta_train_config.resolve(asked, rule_settings)
  described = _describe(asked, settings, rule_settings)
  run_config.check_same(config['settings'], described['settings'])
  trainer = meta_train_config.make_trainer(settings)
  init_rng, eta_rng, _ = training.keys(settings.seed)
  bad_in_a_row = 0
  if folder.state_path.exists():
    like = jax.eval_shape(
      lambda: trainer.init(init_rng, trainer.init_params(eta_rng))
    )
    saved = checkpoint.load(folder.state_path, (like, np.int32(0)))
    state, bad_in_a_row = trainer.place(saved[0]), int(saved[1])
  else:
    choice = _choose_rule(
      str(folder.rule_path) if folder.rule_path.exists() else asked['init']
    )
    eta = choice.eta if choice else trainer.init_params(eta_rng)
    state = trainer.init(init_rng, eta)
  done = int(state.step)
  if done > settings.steps:
    raise errors.UsageError(
      f'{folder.path} is at meta-update {done} already, after {settings.steps}'
    )
  folder.write_config(described)
  rows = folder.cut_metrics(done)
  for env in meta_train_config.evaluation_environments(settings):
    folder.cut_table(rule_evaluation.evaluations_path(folder.path, env), done)
  print(f'Going on from meta-update {done}: {folder.path}', flush=True)
  evaluate = _make_evaluation(settings)
  return _Plan(folder, settings, trainer, state, evaluate, rows, bad_in_a_row)


def _choose_rule(init: str) -> rule_choice.Rule | None:
  """The rule to begin with; None for random η."""
  if init == training.RANDOM:
    return None
  choice = rule_choice.load_rule(init)
  if choice.eta is None:
    raise errors.UsageError(
      f'{choice.name} is a hand-designed rule: it has no parameters to train'
    )
  return choice


def _describe(
  asked: dict[str, Any],
  settings: config_dict.ConfigDict,
  rule_settings: dict[str, Any],
) -> dict[str, Any]:
  return run_config.describe(
    'meta-train',
    asked,
    settings,
    rule=asked['init'],
    rule_settings=rule_settings,
  )


def _make_evaluation(
  settings: config_dict.ConfigDict,
) -> rule_evaluation.RuleEvaluation | None:
  if not settings.eval.every:
    return None
  return rule_evaluation.RuleEvaluation(settings)


def _train(plan: _Plan, show_progress: bool) -> int:
  """Trains to the end, or until it is stopped; returns the exit code."""
  settings, folder = plan.settings, plan.folder
  *_, step_rng = training.keys(settings.seed)
  state = plan.state
  done = int(state.step)
  code = 0
  with interrupts.Interrupts() as interrupt:
    if plan.evaluate is not None:
      _evaluate_baseline(plan, plan.evaluate)
      if done == 0:
        _evaluate_rule(plan, plan.evaluate, state)
    bar = progress.Progress(settings.steps, done, enabled=show_progress)
    updates = training.train(plan.trainer, plan.state, step_rng, settings.steps)
    for state, measured in () if interrupt.requested else updates:
      compilation_cache.publish()
      done = int(measured['iteration'])
      row = dict(iteration=done, seed=settings.seed) | measured
      plan.rows.append(row)
      metrics_table.append_csv(folder.metrics_path, [row])
      training.show_row(bar, row)
      all_bad = row['num_bad_agents'] == plan.trainer.num_agents
      plan.bad_in_a_row = plan.bad_in_a_row + 1 if all_bad else 0
      if plan.evaluate is not None and done % settings.eval.every == 0:
        bar.close()
        _evaluate_rule(plan, plan.evaluate, state)
      if done % settings.checkpoint_every == 0:
        _save(plan, state)
      if plan.bad_in_a_row >= settings.max_bad_in_a_row:
        bar.close()
        print(
          f'disco-rl meta-train: stopped: {plan.bad_in_a_row} meta-updates in '
          f'a row, the last being number {done}, had no finite meta-gradient '
          'and were skipped. Perhaps a learning rate is too high',
          file=sys.stderr,
        )
        code = 1
      if code or interrupt.requested:
        break
  bar.close()
  _save(plan, state)
  if code:
    return code
  if done < settings.steps:
    print(f'Saved. Go on with: disco-rl meta-train --resume {folder.path}')
    return 130
  _report(plan)
  return 0


def _metadata(plan: _Plan, state: trainer_lib.TrainState) -> dict[str, Any]:
  return dict(
    step=int(state.step),
    seed=plan.settings.seed,
    version=plan.folder.config['version'],
    config=plan.folder.config,
  )


def _picture_paths(plan: _Plan) -> dict[str, pathlib.Path]:
  names = list(pictures.PICTURES)
  if plan.evaluate is not None:
    names.append('evaluations')
  return {name: plan.folder.path / f'{name}.png' for name in names}


def _save(plan: _Plan, state: trainer_lib.TrainState) -> None:
  checkpoint.save(plan.folder.state_path, (state, np.int32(plan.bad_in_a_row)))
  _save_rule(plan, state)
  if not plots.is_available() or not plan.rows:
    return
  for name in pictures.PICTURES:
    figure = pictures.draw(name, plan.rows)
    plots.save(figure, plan.folder.path / f'{name}.png')


def _save_rule(plan: _Plan, state: trainer_lib.TrainState) -> None:
  rule_params.save(plan.folder.rule_path, state.eta, _metadata(plan, state))


def _evaluate_baseline(
  plan: _Plan, evaluate: rule_evaluation.RuleEvaluation
) -> None:
  """Trains agents with the hand-designed rule, if that was not done before."""
  name = plan.settings.eval.baseline
  for env in meta_train_config.evaluation_environments(plan.settings):
    path = rule_evaluation.baseline_path(plan.folder.path, env)
    if name is None or metrics_table.read_csv(path):
      continue
    rows = [dict(iteration=0, **row) for row in evaluate.baseline(env)]
    metrics_table.append_csv(path, rows)
    _print_return(f'baseline {name}', env, rows)


def _evaluate_rule(
  plan: _Plan,
  evaluate: rule_evaluation.RuleEvaluation,
  state: trainer_lib.TrainState,
) -> None:
  """Trains fresh agents with the rule, and keeps it if it is the best."""
  folder, done = plan.folder.path, int(state.step)
  envs = list(meta_train_config.evaluation_environments(plan.settings))
  for env in envs:
    path = rule_evaluation.evaluations_path(folder, env)
    if any(row['iteration'] == done for row in metrics_table.read_csv(path)):
      continue  # It was done before a kill.
    rows = [dict(iteration=done, **row) for row in evaluate(state.eta, env)]
    metrics_table.append_csv(path, rows)
    _print_return(f'meta-update {done}, fresh agents', env, rows)
  scores = rule_evaluation.scores(folder, envs)
  score = scores.pop(done, -float('inf'))
  if score > max(scores.values(), default=-float('inf')):
    metadata = dict(**_metadata(plan, state), score=score)
    rule_params.save(folder / rule_choice.BEST_RULE_FILE, state.eta, metadata)
  if plots.is_available():
    tables = {env: rule_evaluation.read(folder, env) for env in envs}
    figure = pictures.draw_evaluations(
      {env: rows for env, (rows, _) in tables.items()},
      {env: value for env, (_, value) in tables.items() if value == value},
      str(plan.settings.eval.baseline),
    )
    plots.save(figure, folder / 'evaluations.png')


def _print_return(who: str, env: str, rows: list[metrics_table.Row]) -> None:
  value = rule_evaluation.mean_return([row['final_return'] for row in rows])
  print(f'{who}: {value:.3f} in {env}', flush=True)


def _report(plan: _Plan) -> None:
  first, last = plan.rows[0], plan.rows[-1]
  returns = pictures.return_columns(plan.rows).values()
  for name in (*returns, 'meta_loss', 'pos_rewards', 'neg_rewards'):
    print(f'{name}: {first[name]:.4g} at first, {last[name]:.4g} at last')
  print(f'rule: {plan.folder.rule_path}')
  best = plan.folder.path / rule_choice.BEST_RULE_FILE
  if best.exists():
    metadata = rule_params.load_metadata(best)
    print(
      f'best rule: {best}, of meta-update {metadata["step"]}, with a score of '
      f'{metadata["score"]:.3f} (that of the initial rule is 0)'
    )
  if plots.is_available():
    names = map(str, _picture_paths(plan).values())
    print(f'pictures: {", ".join(names)}')
  print(f'try it: disco-rl eval --rule {plan.folder.path}')
