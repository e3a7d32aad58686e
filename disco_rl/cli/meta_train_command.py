"""Discovers an update rule, or improves one, by training agents with it.

  disco-rl meta-train --init random --out runs/my_rule
  disco-rl meta-train --init disco_103 --steps 50
  disco-rl meta-train --num-agents 8 --set meta.num_inner_updates=20
  disco-rl meta-train --env catch --env gym:CartPole-v1
  disco-rl meta-train --preset disco57 --dry-run    # the published experiment
  disco-rl meta-train --preset disco57 --scale 1/64 --env atari:Pong
  disco-rl meta-train --resume runs/my_rule
  disco-rl eval --rule runs/my_rule                 # train fresh agents with it

The defaults are the small reference setting: two agents on Catch 5x5, 800
meta-updates, each with two inner updates on rollouts of 16 steps in 32
environments. The output folder contains the settings (config.json), the metrics
(metrics.csv, with the average return in each environment), pictures
(returns.png, rewards.png, training.png) and the current rule (rule.npz). With
--eval-every it also contains the returns of fresh agents with the initial and
the current rule (evaluations_ENV.csv, evaluations.png) and with the
hand-designed actor_critic (baseline_ENV.csv), and the best rule so far
(best_rule.npz): the one with the highest
(return - initial) / |baseline - initial|, averaged over environments.
"""

import argparse

from disco_rl.cli import options
from disco_rl.cli import run_options
from disco_rl.config import experiments
from disco_rl.config import meta_training as config_lib
from disco_rl.config import populations
from disco_rl.config import resolve
from disco_rl.meta_training import pictures
from disco_rl.meta_training import plan as meta_plan
from disco_rl.rule_zoo import file_format
from disco_rl.runs import plots
from disco_rl.runs import run as run_lib

_MANY = 8  # Environments; more are not listed.


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the command's options."""
  add = parser.add_argument
  add(
    '--rule',
    help='kind of rule to discover: disco, or a rule with parameters that a '
    'module of --use registers (default: that of --init, or disco)',
  )
  add(
    '--init',
    help='initial η: random, a name that `disco-rl rules` lists, or the path '
    'of a rule file or of the folder of a run (default: random). A trained '
    'rule is fine-tuned with a smaller meta.learning_rate, '
    f'{config_lib.FINE_TUNING_LEARNING_RATE:g} instead of '
    f'{config_lib.Config.learning_rate:g}, unless --set changes it',
  )
  add(
    '--env',
    action='append',
    help='environment of a group of agents, in JAX or on the host, such as '
    'catch, gymnax:<id>, gym:<id> and atari:<Game>. May be repeated, in any '
    'mixture (default: those of the preset, or else catch, 5x5)',
  )
  add(
    '--steps',
    type=options.whole_number,
    help='total number of meta-updates (default: 800). It can be raised with '
    '--resume',
  )
  add(
    '--num-agents',
    type=options.whole_number,
    help='agents in each environment (default: as many as the preset has, or '
    'else 2)',
  )
  add(
    '--preset',
    help='settings and environments of a published experiment: '
    f'{", ".join(experiments.EXPERIMENTS)}; other options override them. They '
    'need many accelerators, see --scale and --dry-run',
  )
  add(
    '--scale',
    metavar='1/N',
    help='make the agents, batches, replay and networks of the preset N times '
    'smaller, e.g. 1/64 for two cores',
  )
  add(
    '--eval-every',
    type=options.whole_number,
    metavar='K',
    help='train fresh agents with the rule and log their returns, before the '
    'first and after every K meta-updates (default: never)',
  )
  add(
    '--eval-env',
    action='append',
    metavar='ENV',
    help='environment for --eval-every, with settings such as '
    '--set eval.env.catch.rows=8. May be repeated (default: those of --env)',
  )
  add(
    '--devices',
    type=options.whole_number,
    help='number of devices over which agents, or else their batches, are '
    'sharded; on CPU, one per core is faster if agents are small (default: 1)',
  )
  add(
    '--flops',
    type=options.positive_number,
    metavar='FLOP/S',
    help='with --dry-run: arithmetic per second of one device, for the '
    'estimated time, e.g. 1e14 (default: measured here)',
  )
  run_options.add_run_arguments(
    parser,
    'meta.num_inner_updates=20, env.catch.rows=8, eval.steps=500',
    'the one suggested for each environment',
  )


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  command = run_options.RunCommand(
    defaults=resolve.META_TRAINING,
    make_plan=meta_plan.Plan,
    plan_of_folder=meta_plan.plan_of_folder,
    name_run=_name_run,
    describe_start=_describe_start,
    finish=lambda a_run, _: _report(a_run),
  )
  return run_options.run(arguments, command)


def _name_run(plan: meta_plan.Plan) -> str:
  """Returns the name of the run's folder."""
  words = plan.request['env']
  if len(words) > _MANY:
    words = [plan.request['preset'] or f'{len(words)}-environments']
  return f'meta-{"-".join(words)}'


def _describe_start(plan: meta_plan.Plan, a_run: run_lib.Run) -> str:
  """Describes agents, environments and the initial η, before compiling."""
  del a_run
  envs = plan.request['env']
  init = plan.rule.name if plan.rule else plan.request['init']
  num_agents = sum(populations.agents_by_env(plan.settings, envs).values())
  where = ', '.join(envs)
  if len(envs) > _MANY:
    where = f'{len(envs)} environments'
  return f'{num_agents} agents in {where}, η from {init}'


def _report(a_run: run_lib.Run) -> None:
  """Prints the first and last metrics, and the paths of the results."""
  folder, rows = a_run.folder, a_run.rows
  assert folder is not None
  if not rows:
    print(f'no rows of metrics to report: {folder.metrics_path}')
    return
  first, last = rows[0], rows[-1]
  returns = pictures.return_columns(rows).values()
  for name in (*returns, 'meta_loss', 'pos_rewards', 'neg_rewards'):
    print(
      f'{name}: {first[name]:.4g} at the start, {last[name]:.4g} at the end'
    )
  print(f'rule: {folder.rule_path}')
  if folder.best_rule_path.exists():
    facts = file_format.load_metadata(folder.best_rule_path)
    score, shown = facts.get('score'), ''
    if isinstance(score, float):
      shown = (
        f', of meta-update {facts.get("step")}, with a score of {score:.3f} '
        '(the initial rule has 0)'
      )
    print(f'best rule: {folder.best_rule_path}{shown}')
  if plots.is_available():
    names = list(pictures.PICTURES)
    if a_run.settings.eval.every:
      names.append(pictures.EVALUATIONS)
    paths = [str(folder.path / f'{name}.png') for name in names]
    print(f'pictures: {", ".join(paths)}')
  print(f'try it: disco-rl eval --rule {folder.path}')
