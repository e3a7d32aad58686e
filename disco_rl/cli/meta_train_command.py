"""Discovers an update rule, or improves one, by training agents with it.

  disco-rl meta-train --init random --out runs/my_rule
  disco-rl meta-train --init disco_103 --steps 50 --set meta.learning_rate=1e-5
  disco-rl meta-train --num-agents 8 --set meta.num_inner_updates=20
  disco-rl meta-train --resume runs/my_rule
  disco-rl eval --rule runs/my_rule                 # fresh agents learn with it

The defaults are the small reference setting: two agents on Catch 5x5, windows
of two inner updates on 16 steps of 32 environments, 800 meta-updates. In the
output folder are the settings (config.json), the metrics (metrics.csv), two
pictures (rewards.png, training.png) and the rule as it is now (rule.npz). With
--eval-every there are also the returns that fresh agents reach with it
(trials_ENV.csv) and the best rule so far (best_rule.npz).
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

from disco_rl import checkpoint
from disco_rl import compilation_cache
from disco_rl import metrics_table
from disco_rl import plots
from disco_rl import progress
from disco_rl import rule_choice
from disco_rl import rule_params
from disco_rl import run_folder
from disco_rl.cli import errors
from disco_rl.cli import interrupts
from disco_rl.cli import meta_train_config
from disco_rl.cli import rule_trial
from disco_rl.cli import run_config
from disco_rl.environments import registry
from disco_rl.meta_training import pictures
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.meta_training import training

HELP = 'discover or improve a rule'


@dataclasses.dataclass
class _Plan:
  """A run that can begin."""

  folder: run_folder.RunFolder
  settings: config_dict.ConfigDict
  trainer: trainer_lib.Trainer
  state: trainer_lib.TrainState
  trial: rule_trial.RuleTrial | None
  rows: list[metrics_table.Row]
  bad_in_a_row: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Describes the command's options."""
  add = parser.add_argument
  add(
    '--init',
    help='where η begins: random, a name that `disco-rl rules` lists, or the '
    'path of a rule file or of the folder of a run (default: random)',
  )
  add(
    '--env',
    action='append',
    help='environment of a group of agents, one of '
    f'{", ".join(registry.known_names())} that runs on the device; may be '
    'repeated (default: catch, 5x5)',
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
    help='after every K meta-updates, train fresh agents with the rule and log '
    'their return (default: never)',
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
      if plan.trial is not None:
        plan.trial.close()


def _start(arguments: argparse.Namespace) -> _Plan | None:
  """Prepares a new run; None if it is not to be made."""
  asked = run_config.from_arguments(arguments, meta_train_config.DEFAULTS)
  if arguments.out and not (arguments.overwrite or arguments.dry_run):
    run_folder.check_free(arguments.out)
  choice = _choose_rule(asked['init'])
  rule_settings = {} if choice is None else dict(choice.agent_settings)
  settings = meta_train_config.resolve(asked, rule_settings)
  config = _describe(asked, settings, rule_settings)
  trainer = meta_train_config.make_trainer(settings)
  init_rng, eta_rng, _ = _keys(settings.seed)
  if choice is None:
    eta = trainer.init_params(eta_rng)
  else:
    eta = choice.params
    rule_params.check_like(
      eta, trainer.eta_spec, f'the parameters of {choice.name}'
    )
  trial = _make_trial(settings)
  if arguments.dry_run:
    if trial is not None:
      trial.close()
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
    f'{asked["init"]}: {out}',
    flush=True,
  )
  plan = _Plan(folder, settings, trainer, state, trial, [], 0)
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
  init_rng, eta_rng, _ = _keys(settings.seed)
  bad_in_a_row = 0
  if folder.state_path.exists():
    like = jax.eval_shape(
      lambda: trainer.init(init_rng, trainer.init_params(eta_rng))
    )
    saved = checkpoint.load(folder.state_path, (like, np.int32(0)))
    state, bad_in_a_row = trainer.place(saved[0]), int(saved[1])
  else:
    choice = _choose_rule(
      str(folder.path) if folder.rule_path.exists() else asked['init']
    )
    eta = choice.params if choice else trainer.init_params(eta_rng)
    state = trainer.init(init_rng, eta)
  done = int(state.step)
  if done > settings.steps:
    raise errors.UsageError(
      f'{folder.path} is at meta-update {done} already, after {settings.steps}'
    )
  folder.write_config(described)
  rows = folder.cut_metrics(done)
  for env in meta_train_config.trial_environments(settings):
    folder.cut_table(rule_trial.trial_path(folder.path, env), done)
  print(f'Going on from meta-update {done}: {folder.path}', flush=True)
  trial = _make_trial(settings)
  return _Plan(folder, settings, trainer, state, trial, rows, bad_in_a_row)


def _choose_rule(init: str) -> rule_choice.RuleChoice | None:
  """The rule to begin with; None for random η."""
  if init == 'random':
    return None
  choice = rule_choice.choose(init)
  if choice.params is None:
    raise errors.UsageError(
      f'{choice.name} is a rule made by hand: it has no parameters to train'
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


def _make_trial(
  settings: config_dict.ConfigDict,
) -> rule_trial.RuleTrial | None:
  return rule_trial.RuleTrial(settings) if settings.eval.every else None


def _train(plan: _Plan, show_progress: bool) -> int:
  """Trains to the end, or until it is stopped; returns the exit code."""
  settings, folder = plan.settings, plan.folder
  *_, step_rng = _keys(settings.seed)
  state = plan.state
  done = int(state.step)
  bar = progress.Progress(settings.steps, done, enabled=show_progress)
  code = 0
  with interrupts.Interrupts() as interrupt:
    for state, measured in training.train(
      plan.trainer, plan.state, step_rng, settings.steps
    ):
      compilation_cache.publish()
      done = int(measured['iteration'])
      row = dict(iteration=done, seed=settings.seed) | measured
      plan.rows.append(row)
      metrics_table.append_csv(folder.metrics_path, [row])
      bar.update(
        done,
        meta_loss=row['meta_loss'],
        reward=row['rewards'],
        gradient=row['meta_grad_norm'],
      )
      all_bad = row['num_bad_agents'] == plan.trainer.num_agents
      plan.bad_in_a_row = plan.bad_in_a_row + 1 if all_bad else 0
      if plan.trial is not None and done % settings.eval.every == 0:
        _try_rule(plan, plan.trial, state, done)
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


def _keys(seed: int) -> tuple[Any, Any, Any]:
  """Of the agents, of random η, and of the meta-updates."""
  keys = jax.random.split(jax.random.PRNGKey(seed), 3)
  return keys[0], keys[1], keys[2]


def _metadata(plan: _Plan, state: trainer_lib.TrainState) -> dict[str, Any]:
  return dict(
    step=int(state.step),
    seed=plan.settings.seed,
    version=plan.folder.config['version'],
    config=plan.folder.config,
  )


def _picture_paths(folder: run_folder.RunFolder) -> dict[str, pathlib.Path]:
  return {name: folder.path / f'{name}.png' for name in pictures.PICTURES}


def _save(plan: _Plan, state: trainer_lib.TrainState) -> None:
  checkpoint.save(plan.folder.state_path, (state, np.int32(plan.bad_in_a_row)))
  _save_rule(plan, state)
  if not plots.is_available() or not plan.rows:
    return
  for name, path in _picture_paths(plan.folder).items():
    plots.save(pictures.draw(name, plan.rows), path)


def _save_rule(plan: _Plan, state: trainer_lib.TrainState) -> None:
  rule_params.save(plan.folder.rule_path, state.eta, _metadata(plan, state))


def _try_rule(
  plan: _Plan,
  trial: rule_trial.RuleTrial,
  state: trainer_lib.TrainState,
  done: int,
) -> None:
  """Trains fresh agents, and keeps η if it was never better."""
  path = plan.folder.path
  envs = meta_train_config.trial_environments(plan.settings)
  best = rule_trial.best_score(path, list(envs))
  results = trial(state.eta)
  for env, rows in results.items():
    rows = [dict(iteration=done, **row) for row in rows]
    metrics_table.append_csv(rule_trial.trial_path(path, env), rows)
  score = rule_trial.mean_score(
    [row['final_return'] for rows in results.values() for row in rows]
  )
  if score > best:
    metadata = dict(**_metadata(plan, state), score=score)
    rule_params.save(path / 'best_rule.npz', state.eta, metadata)
  print(f'\nmeta-update {done}: fresh agents reach {score:.3f}', flush=True)


def _report(plan: _Plan) -> None:
  first, last = plan.rows[0], plan.rows[-1]
  for name in ('meta_loss', 'rewards', 'pos_rewards', 'neg_rewards'):
    print(f'{name}: {first[name]:.4g} at first, {last[name]:.4g} at last')
  print(f'rule: {plan.folder.rule_path}')
  if plots.is_available():
    names = map(str, _picture_paths(plan.folder).values())
    print(f'pictures: {", ".join(names)}')
  print(f'try it: disco-rl eval --rule {plan.folder.path}')
