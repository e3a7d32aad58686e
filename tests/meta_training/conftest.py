"""The rule of docs/your_own_rule.md, whose programs compile quickly."""

import pathlib
import re

import pytest

DOCUMENT = pathlib.Path(__file__).parents[2] / 'docs' / 'your_own_rule.md'


def _run_blocks(is_wanted):
  """Runs blocks of the page in order; returns the names they define."""
  text = DOCUMENT.read_text(encoding='utf-8')
  names = {}
  for block in re.findall(r'```python\n(.*?)```', text, flags=re.DOTALL):
    if is_wanted(block):
      exec(compile(block, DOCUMENT.name, 'exec'), names)
  return names


@pytest.fixture(scope='module')
def documented():
  """The names that the page defines, after running all of it."""
  return _run_blocks(lambda block: True)


@pytest.fixture(scope='module')
def own_rule():
  """The names that the page defines, without the blocks that train."""
  trains = ('meta_train(', 'loop.run(')
  return _run_blocks(lambda block: not any(x in block for x in trains))
