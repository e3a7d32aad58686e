"""Names of runs in legends, and which curves share axes."""

import pathlib

import pytest

from disco_rl.cli import compare_command
from disco_rl.cli import run_names


def _run(path, rule='disco_103', env='catch', **more):
  rows = [
    dict(iteration=i, env_steps=8 * i, seed=0, average_return=0.5, episodes=1)
    for i in (1, 2, 3)
  ]
  config = dict(command='eval', rule=rule, request=dict(env=env), **more)
  return run_names.Run(pathlib.Path(path), config, rows)


def test_a_name_says_nothing_twice():
  names = lambda *runs: run_names.of_evaluations(runs)
  assert names(_run('/a/disco_103')) == ['disco_103']
  assert names(_run('/a/x'), _run('/a/y', 'ppo')) == ['disco_103', 'ppo']
  assert names(_run('/a/x'), _run('/a/y', env='gym:A-v1')) == [
    *('disco_103 on catch', 'disco_103 on gym:A-v1')
  ]
  # A folder that is named after the rule is enough.
  assert names(_run('/a/disco_103'), _run('/a/catch-disco_103-2')) == [
    *('disco_103', 'catch-disco_103-2')
  ]
  assert names(_run('/a/x'), _run('/a/y')) == [
    *('disco_103 (x)', 'disco_103 (y)')
  ]
  assert names(_run('/a/x'), _run('/b/x')) == [
    *('disco_103 (/a/x)', 'disco_103 (/b/x)')
  ]
  assert names(_run('/a/x'), _run('/a/x')) == ['disco_103', 'disco_103 #2']
  assert run_names.of_folders([_run('/a/x'), _run('/b/y')]) == ['x', 'y']


def test_ranges_of_returns_are_known_together_or_not_at_all():
  assert run_names.return_limits(['catch', 'catch_numpy']) == (-1.0, 1.0)
  assert run_names.return_limits(['catch', 'gym:CartPole-v1']) is None
  assert run_names.return_limits([]) is None


def test_environments_have_a_panel_each_and_one_legend():
  pytest.importorskip('matplotlib')
  runs = [_run('/a/x'), _run('/a/y', 'ppo'), _run('/a/z', env='gym:A-v1')]
  figure = compare_command.draw_agents(runs)
  assert [axes.get_title() for axes in figure.axes] == ['catch', 'gym:A-v1']
  (legend,) = figure.legends
  names = [text.get_text() for text in legend.get_texts()]
  assert names == ['disco_103', 'ppo']
  colors = [axes.get_lines()[0].get_color() for axes in figure.axes]
  assert colors[0] == colors[1]  # Of the same rule.
  figure = compare_command.draw_agents(runs[:1], x='env_steps')
  assert figure.get_suptitle() == 'Learning curves of disco_103 on catch'
  assert not figure.legends and figure.axes[0].get_legend() is None
