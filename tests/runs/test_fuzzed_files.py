"""Damaged files: never a traceback, never much memory, never wrong numbers."""

import json
import resource

import numpy as np
import pytest

from disco_rl import types
from disco_rl.evaluation import plan as eval_plan
from disco_rl.rule_zoo import file_format
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import checkpoint
from disco_rl.runs import run_folder

ETA = {
  'm/linear': {'w': np.arange(60.0, dtype=np.float32).reshape(6, 10)},
  'm': {'b': np.ones(3, np.float32)},
}
STATE = {
  'params': np.arange(40.0, dtype=np.float32),
  'count': np.int32(12),
  'name': np.asarray('text'),
}
LIKE = {
  'params': types.ArraySpec((40,), np.float32),
  'count': np.int32(0),
  'name': np.asarray('text'),
}


def _damage(content, rng):
  """Flips bits, cuts, repeats, swaps or overwrites parts of a file."""
  content = bytearray(content)
  place = int(rng.integers(len(content)))
  size = int(rng.integers(1, 40))
  kind = rng.integers(6)
  if kind == 0:
    content[place] ^= 1 << int(rng.integers(8))
  elif kind == 1:
    del content[place:]
  elif kind == 2:
    del content[place : place + size]
  elif kind == 3:
    content[place:place] = content[:size]
  elif kind == 4:
    content[place : place + size] = rng.bytes(size)
  else:
    other = int(rng.integers(len(content)))
    a, b = content[place : place + size], content[other : other + size]
    content[place : place + size], content[other : other + size] = b, a
  return bytes(content)


def _same(one, other):
  assert one.keys() == other.keys()
  for name, value in one.items():
    if isinstance(value, dict):
      _same(value, other[name])
    else:
      np.testing.assert_array_equal(value, other[name])


def _check_rules(path, rng, number):
  settings = dict(
    update_rule_name='actor_critic',
    update_rule=dict(num_bins=31, max_abs_value=25.0),
    hyper_params=dict(value_cost=0.25, entropy_cost=0.125),
  )
  rule_lib.save_rule(path, ETA, settings=settings, metadata=dict(step=3))
  good, loaded = path.read_bytes(), 0
  for _ in range(number):
    path.write_bytes(_damage(good, rng))
    try:
      rule = rule_lib.load_rule(path)
    except file_format.RuleFileError as error:
      assert 'pickle' not in str(error) and 'Errno' not in str(error)
      continue
    loaded += 1  # Bytes of dates and the like have no effect.
    _same(rule.eta, ETA)
    assert rule.settings['update_rule'] == settings['update_rule']
    assert rule.settings['hyper_params'] == settings['hyper_params']
  return loaded


def _check_states(path, rng, number):
  checkpoint.save(path, STATE)
  good, loaded = path.read_bytes(), 0
  for _ in range(number):
    path.write_bytes(_damage(good, rng))
    try:
      state = checkpoint.load(path, LIKE)
    except checkpoint.CheckpointError as error:
      assert 'pickle' not in str(error) and 'Errno' not in str(error)
      continue
    loaded += 1
    _same(state, STATE)
  return loaded


def _swap_fields(config, rng):
  """Changes the value or the place of one entry of a tree."""
  node, parents = config, []
  while isinstance(node, dict) and node and rng.integers(4):
    name = str(rng.choice(sorted(node)))
    parents.append((node, name))
    node = node[name]
  if parents:
    above, name = parents[-1]
    others = [None, 5, -1, 'x', [], {}, [1, 'a'], True, 1e300]
    if rng.integers(3):
      above[name] = others[int(rng.integers(len(others)))]
    else:
      del above[name]
  return config


def _check_configs(folder, rng, number):
  plan = eval_plan.Plan(dict(rule='actor_critic', set=['env.rows=5']))
  good = json.dumps(plan.config)
  path = folder / 'config.json'
  loaded = 0
  for i in range(number):
    if i % 2:
      path.write_bytes(_damage(good.encode(), rng))
    else:
      path.write_text(json.dumps(_swap_fields(json.loads(good), rng)))
    try:
      again = eval_plan.plan_of_folder(run_folder.RunFolder.view(folder))
      again.check_resumable(run_folder.RunFolder.view(folder))
    except ValueError as error:
      assert 'Errno' not in str(error)
      continue
    loaded += 1
    changed = [
      name
      for name, value in again.config['settings'].items()
      if value != plan.config['settings'][name]
    ]
    assert changed in ([], ['steps']), changed
  return loaded


def _check_all(tmp_path, number, seed):
  rng = np.random.default_rng(seed)
  before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  loaded = _check_rules(tmp_path / 'rule.npz', rng, number)
  loaded += _check_states(tmp_path / 'state.npz', rng, number)
  loaded += _check_configs(tmp_path, rng, number)
  assert loaded < 2 * number  # Most are refused.
  after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  assert after - before < 1 << 20  # In KiB.


def test_damaged_files_are_refused_or_read_as_they_were(tmp_path):
  _check_all(tmp_path, 20, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(1, 5))
def test_many_damaged_files(tmp_path, seed):
  _check_all(tmp_path, 150, seed)
