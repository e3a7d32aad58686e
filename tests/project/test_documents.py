"""The code, commands and links in README, ARCHITECTURE and docs work."""

import pathlib
import re

import jax
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = sorted(
  [*ROOT.glob('*.md'), ROOT / 'weights/README.md', *ROOT.glob('docs/*.md')],
  key=str,
)
# Tested, with its numbers, in tests/meta_training/test_own_rule.py.
ELSEWHERE = ('your_own_rule.md',)
SLOW = ('discovering_a_rule.md', 'index.md', 'training_agents.md')


def _blocks(document: pathlib.Path) -> list[str]:
  text = document.read_text(encoding='utf-8')
  return re.findall(r'```python\n(.*?)```', text, flags=re.DOTALL)


def _name(path: pathlib.Path) -> str:
  return str(path.relative_to(ROOT))


@pytest.mark.parametrize(
  'document',
  [
    # Some take long to compile.
    pytest.param(d, marks=[pytest.mark.slow] * (d.name in SLOW))
    for d in DOCUMENTS
    if _blocks(d) and d.name not in ELSEWHERE
  ],
  ids=_name,
)
def test_python_examples_run_in_order(document):
  names = {}
  for block in _blocks(document):
    exec(compile(block, str(document), 'exec'), names)
  if document.name == 'your_network.md':
    gradients = jax.tree.leaves(names['grads'])
    assert all(np.isfinite(g).all() for g in gradients)
    assert any(np.abs(g).max() > 0 for g in gradients)
    assert np.isfinite(names['out'].log['total_loss'])
  if document.name == 'training_agents.md':
    assert np.isfinite(names['metrics']['total_loss'][-1]).all()


def test_the_readme_is_short_and_every_page_is_linked_from_it():
  readme = (ROOT / 'README.md').read_text(encoding='utf-8')
  assert len(readme) < 7000
  for page in (ROOT / 'docs').glob('*.md'):
    assert f'(docs/{page.name})' in readme, page.name


def test_commands_are_make_targets():
  readme = (ROOT / 'README.md').read_text(encoding='utf-8')
  makefile = (ROOT / 'Makefile').read_text(encoding='utf-8')
  commands = re.findall(r'^make (\w+)', readme, flags=re.MULTILINE)
  assert commands == ['eval', 'test']
  for command in commands:
    assert re.search(rf'^{command}:', makefile, flags=re.MULTILINE)
  ci = (ROOT / '.ci' / 'run').read_text(encoding='utf-8')
  assert 'make test' in ci


@pytest.mark.parametrize('document', DOCUMENTS, ids=_name)
def test_files_named_in_the_documents_exist(document):
  text = document.read_text(encoding='utf-8')
  for path in re.findall(r'`((?:\w+/)+\w+\.(?:py|json|md))`', text):
    assert any((ROOT / top / path).exists() for top in ('', 'disco_rl')), path
  for path in re.findall(r'\]\(((?!http)[^)#]+)(?:#[^)]*)?\)', text):
    assert (document.parent / path).exists(), path


@pytest.mark.parametrize('document', DOCUMENTS, ids=_name)
def test_headings_that_are_linked_exist(document):
  text = document.read_text(encoding='utf-8')
  for path, anchor in re.findall(r'\]\(([\w./]*)#([^)]+)\)', text):
    page = (document.parent / path) if path else document
    headings = re.findall(
      r'^#+ (.*)$', page.read_text(encoding='utf-8'), flags=re.MULTILINE
    )
    anchors = [
      re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
      for heading in headings
    ]
    assert anchor in anchors, (anchor, anchors)


def test_the_architecture_is_short():
  text = (ROOT / 'ARCHITECTURE.md').read_text(encoding='utf-8')
  assert len(text.splitlines()) <= 120
