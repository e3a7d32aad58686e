"""Draws the analyses of a rule."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from disco_rl.inspection import ageing
from disco_rl.inspection import bootstrapping
from disco_rl.inspection import directions
from disco_rl.inspection import episodes
from disco_rl.inspection import influence
from disco_rl.inspection import inputs
from disco_rl.inspection import probes as probes_lib
from disco_rl.inspection import targets
from disco_rl.runs import plot_style
from disco_rl.runs import plots

# Frames that are drawn beside each other.
_MAX_FRAMES = 12


def probes(scores: Sequence[probes_lib.Score]) -> Any:
  """Draws scores over horizons, one panel per label."""
  labels = list(dict.fromkeys(score.label for score in scores))
  sources = list(dict.fromkeys(score.source for score in scores))
  figure, grid = _grid(len(labels), width=10, height=3.6)
  for axes, label in zip(grid, labels, strict=True):
    own = [score for score in scores if score.label == label]
    for i, source in enumerate(sources):
      points = [(x.horizon, x.score) for x in own if x.source == source]
      axes.plot(
        *zip(*points, strict=True), marker='.', label=source, **_line(i)
      )
    axes.set_xscale('log')
    horizons = sorted({x.horizon for x in own})
    axes.set_xticks(horizons, [str(h) for h in horizons])
    axes.minorticks_off()
    measure = own[0].measure
    axes.axhline(0.0 if measure == 'R²' else 0.5, color='0.6', linewidth=0.8)
    finite = [x.score for x in own if np.isfinite(x.score)]
    if finite:
      floor = -0.1 if measure == 'R²' else 0.4
      axes.set_ylim(max(min(finite) - 0.03, floor), max(*finite, floor) + 0.05)
    _finish(axes, label, 'horizon (steps)', f'held-out {measure}')
  _legend(figure, grid[0])
  return figure


def episode(strip: episodes.Strip) -> Any:
  """Draws one episode: frames, and series below them."""
  images = episodes.frames(strip.observations)
  num_steps = len(strip.actions)
  stride = -(-num_steps // _MAX_FRAMES)
  shown = np.arange(0, num_steps, stride)
  rows = [('reward', strip.rewards), *strip.series.items()]
  figure = plots.blank(9, 1.05 * len(rows) + (1.2 if images else 0.4))
  ratios = ([1.1] if images else []) + [1.0] * len(rows)
  grid = figure.subplots(
    len(ratios), 1, sharex=True, gridspec_kw=dict(height_ratios=ratios)
  )
  grid = np.atleast_1d(grid)
  if images:
    axes = grid[0]
    half = 0.47 * stride
    for t in shown:
      axes.imshow(
        images[t],
        extent=(t - half, t + half, 0, 1),
        aspect='auto',
        interpolation='nearest',
      )
    axes.set_ylim(-0.02, 1.02)
    axes.set_yticks([])
    for side in axes.spines.values():
      side.set_visible(False)
    grid = grid[1:]
  for i, (axes, (name, values)) in enumerate(zip(grid, rows, strict=True)):
    color = plot_style.COLORS[i % len(plot_style.COLORS)]
    if name == 'reward':
      axes.bar(np.arange(num_steps), values, color=color)
    else:
      axes.plot(np.arange(num_steps), values, marker='.', color=color)
    axes.set_ylabel(name, fontsize='small')
    axes.grid(alpha=0.3)
    axes.locator_params(axis='y', nbins=3)
  grid[-1].set_xlabel('step of the episode')
  grid[-1].set_xlim(-0.6, num_steps - 0.4)
  figure.align_ylabels(grid)
  return figure


def bootstrapping_of(
  effects: Sequence[bootstrapping.Effect], columns: Sequence[str]
) -> Any:
  """Draws effects against distance: a row per change, a column per target.

  Args:
    effects: effects of one or more rules, or of one rule with different ends.
    columns: names of the targets that are drawn, see `targets.NAMES`.
  """
  changed = list(dict.fromkeys(x.changed for x in effects))
  lines = list(dict.fromkeys((x.rule, x.ends) for x in effects))
  has_rules = len({rule for rule, _ in lines}) > 1
  figure = plots.blank(3.1 * len(columns) + 0.6, 2.0 * len(changed) + 0.6)
  grid = figure.subplots(len(changed), len(columns), sharex=True, squeeze=False)
  for axes_row, change in zip(grid, changed, strict=True):
    for axes, target in zip(axes_row, columns, strict=True):
      for i, (rule, ends) in enumerate(lines):
        for x in effects:
          if (x.rule, x.ends, x.changed, targets.label(x.target)) == (
            *(rule, ends),
            *(change, target),
          ):
            positive = x.visible()
            if not np.isfinite(positive).any():
              continue
            name = rule if has_rules else _ENDS[ends]
            axes.plot(positive, marker='.', label=name, **_line(i))
      if axes.get_lines():
        axes.set_yscale('log')
      else:
        axes.text(0.5, 0.5, 'no effect', ha='center', transform=axes.transAxes)
        axes.set_yticks([])
      axes.grid(alpha=0.3)
      if change == changed[0]:
        axes.set_title(f'target: {target}', fontsize='medium')
      if change == changed[-1]:
        axes.set_xlabel('steps before the change')
    axes_row[0].set_ylabel(f'change of {change}', fontsize='small')
  _legend(figure, *grid.ravel())
  return figure


# Smaller effects are rounding.
_FLOOR = bootstrapping.ROUNDING
_ENDS = {
  'none': 'no episode ends',
  'lived': 'ends as lived',
  'cut': f'an episode ends {bootstrapping.CUT} steps before',
}


def influences(found: Sequence[influence.Influence], name: str) -> Any:
  """Draws both measures of influence as tables of colours.

  Args:
    found: influences of one rule.
    name: its name.
  """
  measures = {
    'gradient_times_input': 'gradient × input',
    'ablation': 'ablation',
  }
  sources, columns, _ = influence.table(list(found), 'ablation')
  figure = plots.blank(9.4, 0.32 * len(sources) + 1.5)
  grid = figure.subplots(1, 2, sharey=True)
  for axes, (measure, title) in zip(grid, measures.items(), strict=True):
    _, _, numbers = influence.table(list(found), measure)
    largest = numbers.max(axis=0)
    share = numbers / np.where(largest > 0, largest, 1.0)
    axes.imshow(share, cmap='Blues', vmin=0, vmax=1.4, aspect='auto')
    for (i, j), number in np.ndenumerate(numbers):
      axes.text(j, i, _short(number), ha='center', va='center', fontsize=7)
    axes.set_xticks(
      range(len(columns)), [targets.label(name) for name in columns]
    )
    axes.set_yticks(range(len(sources)), [inputs.label(x) for x in sources])
    axes.set_title(title, fontsize='medium')
    axes.tick_params(length=0)
  figure.suptitle(name, fontsize='medium')
  return figure


def agreements(
  by_age: Mapping[int, Sequence[directions.Agreement]],
) -> Any:
  """Draws shares and cosines over an agent's training.

  Args:
    by_age: iterations to agreements.
  """
  figure, grid = _grid(2, width=9, height=3.4)
  ages = list(by_age)
  names = [found.algorithm for found in next(iter(by_age.values()))]
  titles = dict(share='explained share of the pull', cosine='mean cosine')
  for axes, (field, title) in zip(grid, titles.items(), strict=True):
    for i, name in enumerate(names):
      numbers = [getattr(by_age[age][i], field) for age in ages]
      axes.plot(ages, numbers, marker='.', label=name, **_line(i))
    axes.axhline(0, color='0.6', linewidth=0.8)
    axes.set_ylim(top=1.02)
    _finish(axes, '', 'iterations of the agent', title)
  _legend(figure, grid[0])
  return figure


def step_pictures(found: directions.Pulls) -> Any:
  """Draws the pull on the action taken, of the rule and of policy gradient."""
  pictures = {
    'the rule: π̂(a) − π(a)': found.rule,
    'policy gradient: A·(1 − π(a)), scaled': found.known['policy gradient'],
  }
  figure = plots.blank(9, 3.8)
  grid = figure.subplots(1, 2, sharey=True)
  scale = np.sqrt(np.mean(found.rule**2))
  for axes, (title, pull) in zip(grid, pictures.items(), strict=True):
    size = np.sqrt(np.mean(pull**2)) or 1.0
    across, up, mean = directions.step_picture(found, pull=pull * scale / size)
    limit = np.nanmax(np.abs(mean)) if np.isfinite(mean).any() else 1.0
    drawn = axes.pcolormesh(
      across, up, mean, cmap='RdBu', vmin=-limit, vmax=limit
    )
    figure.colorbar(drawn, ax=axes)
    axes.set_facecolor('0.9')
    axes.set_title(title, fontsize='medium')
    axes.set_xlabel('advantage (standard deviations)')
  grid[0].set_ylabel('probability π(a)')
  return figure


def life(states: np.ndarray, iterations: np.ndarray) -> Any:
  """Draws the trajectory of the life-long state in two components."""
  coordinates, shares = ageing.principal_components(states)
  figure = plots.blank(5.6, 4.2)
  axes = figure.subplots()
  axes.plot(*coordinates.T, color='0.7', linewidth=1)
  drawn = axes.scatter(*coordinates.T, c=iterations, cmap='viridis', zorder=3)
  figure.colorbar(drawn, ax=axes, label='iterations of the agent')
  axes.set_xlabel(f'first component ({shares[0]:.0%} of the variance)')
  axes.set_ylabel(f'second component ({shares[1]:.0%})')
  axes.grid(alpha=0.3)
  return figure


def ages(found: Sequence[ageing.Age]) -> Any:
  """Draws strengths of targets over a life, and what the state changes."""
  figure, grid = _grid(2, width=9, height=3.4)
  at = [age.iteration for age in found]
  for i, name in enumerate(found[0].strength):
    label = targets.label(name)
    color = plot_style.COLORS[i]
    now = [age.strength[name] for age in found]
    then = [age.strength_at_birth[name] for age in found]
    grid[0].plot(at, now, marker='.', color=color, label=label)
    grid[0].plot(at, then, linestyle='--', color=color)
    moved = np.asarray([age.moved[name] for age in found])
    if (moved > _FLOOR).any():
      positive = np.where(moved > _FLOOR, moved, np.nan)
      grid[1].plot(at, positive, marker='.', color=color, label=label)
  _finish(
    grid[0],
    '',
    'iterations of the agent',
    'KL(target‖output); dashed: at birth',
  )
  _finish(
    grid[1], '', 'iterations of the agent', 'KL to targets with the birth state'
  )
  for axes in grid:
    if axes.get_lines():
      axes.set_yscale('log')
  _legend(figure, grid[0])
  return figure


def _grid(number: int, width: float, height: float) -> tuple[Any, list[Any]]:
  """Makes panels in up to two columns; the height is that of a row."""
  rows = -(-number // 2)
  figure = plots.blank(width, height * rows)
  grid = np.ravel(figure.subplots(rows, min(2, number)))
  for axes in grid[number:]:
    axes.remove()
  return figure, list(grid[:number])


def _line(number: int) -> dict[str, Any]:
  return dict(linewidth=1.5, **plot_style.line(number))


def _finish(axes: Any, title: str, x_label: str, y_label: str) -> None:
  axes.set_title(title, fontsize='medium')
  axes.set_xlabel(x_label)
  axes.set_ylabel(y_label, fontsize='small')
  axes.grid(alpha=0.3)


def _legend(figure: Any, *all_axes: Any) -> None:
  """Draws one legend below all panels."""
  handles: dict[str, Any] = {}
  for axes in all_axes:
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
      handles.setdefault(label, handle)
  if handles:
    figure.legend(
      handles.values(),
      handles.keys(),
      loc='outside lower center',
      ncols=min(5, len(handles)),
      frameon=False,
      fontsize='small',
    )


def _short(number: float) -> str:
  """Formats a number in few characters; 0 is exactly 0."""
  if number == 0:
    return '0'
  return f'{number:.2g}' if number >= 1e-3 else f'{number:.0e}'
