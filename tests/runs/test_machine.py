"""What runs record of their machine."""

import json

import jax

from disco_rl.runs import machine


def test_the_machine_is_described():
  found = json.loads(json.dumps(machine.describe()))
  assert found['versions']['jax'] == jax.__version__ and found['cores'] >= 1
  lines = dict(machine.lines(found))
  assert lines['jax'] == jax.__version__ and 'cpu' in lines['devices']


def test_anything_else_in_a_file_is_no_machine():
  assert machine.lines(None) == machine.lines(['x']) == []
  assert machine.lines({'versions': 3, 'cores': 'x' * 999}) == [
    ('cores', 'x' * 200)
  ]
