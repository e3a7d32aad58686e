"""What the README shows works as it stands there."""

import pathlib
import re

import jax
import numpy as np

ROOT = pathlib.Path(__file__).parents[2]


def test_python_examples_run_in_order():
  text = (ROOT / 'README.md').read_text(encoding='utf-8')
  blocks = re.findall(r'```python\n(.*?)```', text, flags=re.DOTALL)
  assert len(blocks) == 7
  names = {}
  for block in blocks:
    exec(compile(block, 'README.md', 'exec'), names)
  gradients = jax.tree.leaves(names['grads'])
  assert all(np.isfinite(g).all() for g in gradients)
  assert any(np.abs(g).max() > 0 for g in gradients)
  assert np.isfinite(names['metrics']['total_loss'][-1]).all()


def test_commands_are_make_targets():
  readme = (ROOT / 'README.md').read_text(encoding='utf-8')
  makefile = (ROOT / 'Makefile').read_text(encoding='utf-8')
  commands = re.findall(r'^make (\w+)', readme, flags=re.MULTILINE)
  assert commands == ['eval', 'test']
  for command in commands:
    assert re.search(rf'^{command}:', makefile, flags=re.MULTILINE)
  ci = (ROOT / '.ci' / 'run').read_text(encoding='utf-8')
  assert 'make test' in ci


def test_files_named_in_the_documents_exist():
  for document in ('README.md', 'ARCHITECTURE.md', 'weights/README.md'):
    text = (ROOT / document).read_text(encoding='utf-8')
    for path in re.findall(r'`((?:\w+/)+\w+\.\w+)`', text):
      places = (ROOT / path, ROOT / 'disco_rl' / path)
      environments = ROOT / 'disco_rl' / 'environments' / path
      assert any(p.exists() for p in (*places, environments)), path
    for path in re.findall(r'\]\(((?!http)[^)]+)\)', text):
      assert (ROOT / path).exists(), path
