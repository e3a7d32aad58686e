"""Optimal and scripted policies score in every family what theory says."""

import itertools

import numpy as np
import pytest

from tests.support import tasks

SEEDS = (0, 1, 2)


def _check(env, solve, margin, seeds=SEEDS):
  """Compares scores with theory.

  Args:
    env: the environment.
    solve: from parameters, horizon and number of actions to the expected return
      of a policy, and that policy.
    margin: by how much its return is better than a random one's, on average
      over seeds.
    seeds: seeds of tasks.
  """
  gains = []
  for seed in seeds:
    params, task = tasks.task_of(env, seed)
    num_actions = 1 + int(task.meanings.max())
    wanted, policy = solve(params, int(task.horizon), num_actions)
    best, other = tasks.play(env, seed, policy), tasks.play(env, seed, None)
    assert abs(best.mean() - wanted) < 4 * best.error(), (seed, best, wanted)
    assert other.mean() < wanted + 4 * other.error(), (seed, other, wanted)
    gains.append(best.mean() - other.mean())
  assert np.mean(gains) > margin, gains
  assert env._step._cache_size() == env._reset._cache_size() == 1


@pytest.mark.parametrize('name', ['bandit', 'contextual_bandit'])
def test_bandits(name):
  def solve(params, horizon, num_actions):
    means = params.means[: params.num_contexts, :num_actions]
    best = means.argmax(axis=1)
    policy = lambda time, streams, seen: best[seen.argmax(axis=1)]
    return horizon * means.max(axis=1).mean(), policy

  _check(tasks.environment(name), solve, 0.2)


def test_mdps():
  def solve(params, horizon, num_actions):
    num_states = int(params.num_states)
    first_goal = num_states - int(params.num_goals)

    def outcomes(s, a):
      share = params.first[s, a]
      return [
        (p, None if n >= first_goal else n, params.rewards[s, a])
        for p, n in zip(
          (share, 1 - share), params.successors[s, a], strict=True
        )
      ]

    values, best = tasks.solve(outcomes, num_states, num_actions, horizon)
    policy = lambda time, streams, seen: best[time, seen.argmax(axis=1)]
    return values[:first_goal].mean(), policy

  _check(tasks.environment('mdp'), solve, 0.5)


def test_chains():
  def solve(params, horizon, num_actions):
    assert horizon == params.delay + 1
    values = params.values[:num_actions]
    return values.max(), lambda time, streams, seen: values.argmax()

  _check(tasks.environment('chain'), solve, 0.3)


def test_choices_in_chains_are_shown_in_some_tasks():
  env = tasks.environment('chain')
  seen = {}
  for seed in range(12):
    params, _ = tasks.task_of(env, seed)
    shown = []
    tasks.play(
      env, seed, lambda time, streams, x, own=shown: own.append(x[0, 11:]) or 0
    )
    seen[bool(params.is_visible)] = np.stack(shown)
  assert (seen[True][1:] == np.eye(6)[0]).all() and not seen[True][0].any()
  assert not seen[False].any()


def test_corridors():
  def solve(params, horizon, num_actions):
    length, slip, cost = int(params.length), params.slip, params.cost

    def outcomes(s, a):
      def arrive(n):
        if n == length - 1:
          return None, 1.0 - cost
        if n == 0 and params.decoy > 0:
          return None, params.decoy - cost
        return n, -cost

      moved = np.clip(s + 2 * a - 1, 0, length - 1)
      return [(slip, *arrive(s)), (1 - slip, *arrive(moved))]

    values, best = tasks.solve(outcomes, length, 2, horizon)
    policy = lambda time, streams, seen: best[time, seen.argmax(axis=1)]
    return values[params.first], policy

  _check(tasks.environment('corridor'), solve, 0.3, range(4))


def test_catch():
  def solve(params, horizon, num_actions):
    rows, columns = int(params.rows), int(params.columns)
    assert horizon == rows - 1
    shape = (rows, columns, columns)

    def outcomes(index, a):
      row, ball, paddle = np.unravel_index(index, shape)
      if row == rows - 1:
        return [(1.0, None, 0.0)]
      paddle = np.clip(paddle + a - 1, 0, columns - 1)

      def arrive(ball):
        ball = np.clip(ball, 0, columns - 1)
        if row + 1 == rows - 1:
          return None, params.sign if ball == paddle else -params.sign
        return np.ravel_multi_index((row + 1, ball, paddle), shape), 0.0

      return [
        (params.gust, *arrive(ball + params.wind)),
        (1 - params.gust, *arrive(ball)),
      ]

    values, best = tasks.solve(outcomes, np.prod(shape), 3, horizon)

    def policy(time, streams, seen):
      index = (streams.ball_row, streams.ball_column, streams.paddle)
      return best[time, np.ravel_multi_index(index, shape)]

    return values.reshape(shape)[0, :, columns // 2].mean(), policy

  _check(tasks.environment('catch'), solve, 0.5, range(5))


def test_the_image_of_catch():
  env = tasks.environment('catch')
  params, _ = tasks.task_of(env, 0)

  def policy(time, streams, seen):
    boards = seen.reshape(-1, 7, 7)
    rows = np.arange(len(boards))
    assert boards[rows, streams.ball_row, streams.ball_column].all()
    assert boards[rows, params.rows - 1, streams.paddle].all()
    assert (boards.sum(axis=(1, 2)) == 2).all()  # Before the last row.
    return 1

  tasks.play(env, 0, policy)


def test_grids():
  """With fixed places, and objects that never come again."""
  env = tasks.environment(
    'grid', max_size=3, max_respawn=0.0, share_of_fixed=1.0
  )
  masks = list(itertools.product((False, True), repeat=3))
  steps = [(-1, 0), (1, 0), (0, -1), (0, 1)]

  def solve(params, horizon, num_actions):
    places = np.floor(params.places * 9).astype(int)  # Sizes are 3 by 3.

    def outcomes(index, a):
      cell, mask = divmod(index, 8)
      mask, row, column = np.array(masks[mask]), *divmod(cell, 3)

      def arrive(move):
        new = np.clip(row + move[0], 0, 2) * 3 + np.clip(column + move[1], 0, 2)
        found = mask & (places == new)
        reward = np.clip(params.rewards[found].sum() - params.cost, -1, 1)
        if params.ends[found].any():
          return None, reward
        return new * 8 + masks.index(tuple((mask & ~found).tolist())), reward

      slips = [(params.slip / 4, *arrive(move)) for move in steps]
      return [*slips, (1 - params.slip, *arrive(steps[a]))]

    values, best = tasks.solve(outcomes, 9 * 8, 4, horizon)
    codes = np.array([4, 2, 1])

    def policy(time, streams, seen):
      return best[time, streams.cell * 8 + streams.is_there @ codes]

    return values.reshape(9, 8)[:, params.exists @ codes].mean(), policy

  _check(env, solve, 0.3, range(4))


def test_objects_in_grids_come_again_in_new_places():
  env = tasks.environment('grid', max_respawn=1.0, share_of_ends=0.0)
  moved = came = False
  for seed in range(8):
    params, _ = tasks.task_of(env, seed)
    before = []

    def look(time, streams, seen, params=params, before=before):
      nonlocal moved, came
      boards = seen.reshape(-1, 4, 25)
      there = streams.is_there
      assert (boards.sum(axis=2) == np.c_[np.ones(len(there)), there]).all()
      assert not (there & ~params.exists).any()
      if before:
        again = there & ~before[-1].is_there
        came |= again.any()
        assert not (again & (params.respawn == 0)).any()
        differs = (streams.places != before[-1].places) & again
        moved |= differs.any()
        assert not (differs.any() and params.is_fixed)
      before.append(streams)
      return time % 4

    tasks.play(env, seed, look)
  assert came and moved


def test_memories():
  def solve(params, horizon, num_actions):
    shown = []

    def policy(time, streams, seen):
      shown.append(seen.argmax(axis=1))
      return shown[time - params.back] if time >= params.back else 0

    return horizon - params.back, policy

  _check(tasks.environment('memory'), solve, 5.0)


def test_balances():
  """A proportional-derivative controller keeps the marble near the top."""
  env = tasks.environment('balance', max_shake=0.0)
  for seed in range(4):
    params, task = tasks.task_of(env, seed)

    def policy(time, streams, seen, params=params):
      wanted = -2 * params.slope * (seen[:, 0] + 0.5 * seen[:, 1])
      level = (wanted / params.push + 1) / 2 * (params.num_actions - 1)
      return np.clip(np.round(level), 0, params.num_actions - 1)

    best, other = tasks.play(env, seed, policy), tasks.play(env, seed, None)
    assert (best.lengths == task.horizon).all()
    perfect = task.horizon if params.ends else 0
    assert perfect - 0.1 * task.horizon < best.mean() <= perfect
    assert other.mean() < best.mean() - 0.1 * task.horizon
