"""Puts runs on one page of HTML."""

from collections.abc import Callable, Mapping, Sequence
import functools
import json
from typing import Any

import numpy as np

from disco_rl import installation
from disco_rl.cli import command_lines
from disco_rl.cli import compare_command
from disco_rl.cli import run_names
from disco_rl.meta_training import evaluation_tables
from disco_rl.meta_training import pictures
from disco_rl.runs import machine
from disco_rl.runs import metrics
from disco_rl.runs import page as page_lib
from disco_rl.runs import plots
from disco_rl.runs import run as run_lib

# Columns that are drawn besides returns, if runs have them, to captions.
_MORE_COLUMNS = {
  'average_length': 'Average length of the episodes that ended.',
  'total_loss': 'The loss of the rule, averaged over learner steps.',
  'entropy': 'Entropy of the policy: how undecided the agent is.',
  'global_gradient_norm': 'Norm of the gradient in the agent’s parameters.',
}
# Inches; pages show pictures in any size, and text must not become too small.
_WIDTH = 6.0
_UNKNOWN = 'unknown'
_DEFAULT = 'default'
_LONGEST_VALUE = 200


def page_of(runs: Sequence[run_names.Run]) -> page_lib.Page:
  """Makes the page of runs of one command.

  Args:
    runs: at least one run, all of `eval` or all of `meta-train`.

  Returns:
    The page, not written yet.
  """
  command = run_names.check_alike(runs)
  of_agents = command == 'eval'
  if of_agents:
    names = run_names.of_evaluations(runs)
  else:
    names = run_names.of_folders(runs)
  named = dict(zip(names, runs, strict=True))
  page = page_lib.Page(_title(named), _lead(named))
  (_add_evaluations if of_agents else _add_discoveries)(page, named)
  page.section('Settings')
  _add_settings(page, named)
  page.section('Machine and versions')
  _add_machines(page, named)
  page.section('Repeat')
  _add_commands(page, named)
  return page


def _title(named: Mapping[str, run_names.Run]) -> str:
  (name, run), *others = named.items()
  if others:
    what = 'runs' if run.command == 'eval' else 'discoveries of rules'
    return f'Comparison of {len(named)} {what}'
  if run.command == 'eval':
    return f'{name} on {run.env}'
  return f'Discovery of a rule: {name}'


def _lead(named: Mapping[str, run_names.Run]) -> str:
  run = next(iter(named.values()))
  unit = 'iterations' if run.command == 'eval' else 'meta-updates'
  if len(named) > 1:
    return ', '.join(named)
  total = _settings(run).get('steps')
  done = int(run.rows[-1]['iteration'])
  seeds = len({row['seed'] for row in run.rows})
  parts = [f'{done} of {total} {unit}']
  if run.command == 'eval':
    parts.append(f'{seeds} {"seed" if seeds == 1 else "seeds"}')
  if 'env_steps' in run.rows[-1]:
    steps = int(run.rows[-1]['env_steps'])
    parts.append(f'{steps:,} environment steps of each agent')
  is_done = total == done
  return f'{", ".join(parts)}: {"finished" if is_done else "not finished"}.'


def _add_evaluations(
  page: page_lib.Page, named: Mapping[str, run_names.Run]
) -> None:
  """Adds curves and tables of runs of `eval`."""
  runs = list(named.values())
  page.section('Returns')
  _draw(
    page,
    lambda: compare_command.draw_agents(runs),
    'Average return of the episodes that ended, while agents learn. Intervals '
    'are clipped to the returns that are possible, or that were observed.',
    'normal' if len({run.env for run in runs}) == 1 else 'panels',
  )
  page.table(
    (
      *('run', 'final return', '95% interval', 'seeds', 'environment'),
      *('rule', 'iterations', 'environment steps'),
    ),
    [_final_row(name, run) for name, run in named.items()],
    f'Final return: average over the episodes of the last {metrics.LAST} '
    'iterations, mean of seeds with an interval of Student’s t.',
  )
  for name, run in named.items():
    finals = metrics.average_returns(run.rows, metrics.LAST)
    whole = metrics.average_returns(run.rows)
    page.table(
      ('seed', 'final return', 'whole run'),
      [
        (str(seed), _number(final), _number(whole[seed]))
        for seed, final in finals.items()
      ],
      folded=f'Seeds of {name}',
    )
  page.section('Learning')
  for column, caption in _MORE_COLUMNS.items():
    tables = {
      name: run.rows for name, run in named.items() if column in run.rows[0]
    }
    if tables:
      _draw(
        page,
        functools.partial(
          plots.learning_curves, tables, column, has_legend=len(named) > 1
        ),
        caption,
        'small',
      )


def _final_row(name: str, run: run_names.Run) -> tuple[str, ...]:
  """Returns the line of a run in the table of final returns."""
  finals = np.asarray(
    list(metrics.average_returns(run.rows, metrics.LAST).values())
  )
  mean, band = map(float, metrics.mean_and_band(finals))
  limits = run_names.return_limits([run.env]) or (-np.inf, np.inf)
  low, high = np.clip((mean - band, mean + band), *limits)
  interval = 'needs two seeds'
  if np.isfinite(band):
    interval = f'{_number(low)} to {_number(high)}'
  last = run.rows[-1]
  return (
    *(name, _number(mean), interval, str(len(finals)), run.env),
    *(run.config['rule'], f'{int(last["iteration"]):,}'),
    f'{int(last["env_steps"]):,}' if 'env_steps' in last else _UNKNOWN,
  )


def _add_discoveries(
  page: page_lib.Page, named: Mapping[str, run_names.Run]
) -> None:
  """Adds curves and tables of runs of `meta-train`."""
  runs = list(named.values())
  page.section('Returns')
  header, lines = compare_command.rule_table(runs)
  by_path = {str(run.path): name for name, run in named.items()}
  lines = [(by_path[path], *rest) for path, *rest in lines]
  _draw(
    page,
    lambda: compare_command.draw_rules(runs),
    'Average return of agents in training, and of fresh agents that are '
    'trained with the rule of a meta-update.',
    'panels',
  )
  page.table(
    header,
    lines,
    'Averages of agents in training over the first and last 10% of '
    'meta-updates, and of fresh agents with the initial rule, with the best '
    'one, and with the baseline.',
  )
  for name, run in named.items():
    page.section('Training' if len(named) == 1 else f'Training: {name}')
    for picture in pictures.PICTURES:
      if picture != pictures.RETURNS:
        _draw(
          page,
          functools.partial(pictures.draw, picture, run.rows),
          f'Metrics of the meta-training of {name}.',
          'panels',
        )
    for env in evaluation_tables.environments(run.config):
      rows, _ = evaluation_tables.read(run.path, env)
      by_update = evaluation_tables.returns_by_update(rows)
      if by_update:
        page.table(
          ('meta-update', 'return of fresh agents'),
          [(str(done), _number(value)) for done, value in by_update.items()],
          folded=f'Evaluations in {env}',
        )


def _add_settings(
  page: page_lib.Page, named: Mapping[str, run_names.Run]
) -> None:
  """Adds all settings with their origins, those that differ first."""
  flat = {name: run_lib.flatten(_settings(run)) for name, run in named.items()}
  paths = list(dict.fromkeys(path for own in flat.values() for path in own))

  def cells(path: str) -> list[str]:
    return [
      _value(flat[name].get(path, '–'))
      + ('' if len(named) == 1 else f' ({_origin(run, path)})')
      for name, run in named.items()
    ]

  header = ('setting', *(named if len(named) > 1 else ('value',)))
  if len(named) > 1:
    differing = [
      path
      for path in paths
      if len({_value(own.get(path, '–')) for own in flat.values()}) > 1
    ]
    if differing:
      page.table(
        header,
        [(path, *cells(path)) for path in differing],
        'Settings that differ, with their origins.',
      )
    else:
      page.paragraph('The runs have the same settings.')
    page.table(
      header, [(path, *cells(path)) for path in paths], folded='All settings'
    )
    return
  (run,) = named.values()
  rows = [(path, *cells(path), _origin(run, path)) for path in paths]
  changed = [row for row in rows if row[-1] != _DEFAULT]
  if changed:
    page.table(
      (*header, 'origin'), changed, 'Settings that are not the defaults.'
    )
  else:
    page.paragraph('All settings are the defaults.')
  page.table((*header, 'origin'), rows, folded=f'All {len(rows)} settings')


def _settings(run: run_names.Run) -> Mapping[str, Any]:
  """Returns the settings of a run; none if its config is damaged."""
  settings = run.config.get('settings')
  return settings if isinstance(settings, Mapping) else {}


def _origin(run: run_names.Run, path: str) -> str:
  """Returns where the value of a setting came from."""
  origins = run.config.get('origins')
  if not isinstance(origins, Mapping):
    return _UNKNOWN
  while path:
    if path in origins:
      return str(origins[path])
    path = path.rpartition('.')[0]
  return _DEFAULT


def _add_machines(
  page: page_lib.Page, named: Mapping[str, run_names.Run]
) -> None:
  """Adds what runs have recorded of their machines."""
  facts = {}
  for name, run in named.items():
    own = dict(machine.lines(run.config.get('machine')))
    facts[name] = {'disco_rl': str(run.config.get('version', _UNKNOWN)), **own}
    if not own:
      page.paragraph(
        f'Machine and versions of {name} are unknown: the run did not record '
        'them.'
      )
  keys = dict.fromkeys(key for own in facts.values() for key in own)
  page.table(
    ('', *(named if len(named) > 1 else ('recorded in the run',))),
    [
      (key, *(own.get(key, _UNKNOWN) for own in facts.values())) for key in keys
    ],
    'When the run was started or last resumed.',
  )


def _add_commands(
  page: page_lib.Page, named: Mapping[str, run_names.Run]
) -> None:
  """Adds the commands that repeat the runs."""
  commands = {
    name: command_lines.of_run(run.config) for name, run in named.items()
  }
  known = [line for line in commands.values() if line]
  if known:
    page.paragraph(
      'The same seed gives the same run on the same machine and versions.'
    )
    page.code('\n'.join(known))
  for name, line in commands.items():
    if line is None:
      page.paragraph(
        f'{name} was made in Python from objects that have no name, so no '
        'command repeats it.'
      )


def _draw(
  page: page_lib.Page,
  draw: Callable[[], Any],
  caption: str,
  size: str = 'normal',
) -> None:
  """Adds a figure, or why there is none."""
  if not plots.is_available():
    page.paragraph(
      f'No picture; to draw one: {installation.install_hint("plots")}'
    )
    return
  figure = draw()
  if size != 'panels':
    width, height = figure.get_size_inches()
    figure.set_size_inches(_WIDTH, height * _WIDTH / width)
  page.figure(figure, caption, size=size)


def _number(value: float) -> str:
  return f'{value:.3f}' if np.isfinite(value) else 'none'


def _value(value: Any) -> str:
  """Returns the value of a setting as text."""
  text = value if isinstance(value, str) else json.dumps(value)
  if len(text) > _LONGEST_VALUE:
    return f'{text[:_LONGEST_VALUE]}…'
  return text
