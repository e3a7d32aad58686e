"""The page about the cases says what their files say."""

import pathlib
import re

from disco_rl.conformance import file_set

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / 'docs' / 'conformance.md').read_text('utf-8')


def test_the_page_lists_the_cases_in_order():
  rows = re.findall(r'^\| \[(\w+)\]\(#\1\) \| (.*) \| (.*) \|$', PAGE, re.M)
  assert [name for name, _, _ in rows] == file_set.names()
  assert re.findall(r'^### (.*)$', PAGE, re.M) == file_set.names()
  assert f'There are {len(rows)} cases' in PAGE
  for name, computes, builds_on in rows:
    description = file_set.load(name).description
    assert computes == description['computes']
    assert builds_on == ', '.join(description['builds_on'])


def test_the_page_has_equations_and_mistakes():
  sections = re.split(r'^### ', PAGE, flags=re.M)[1:]
  for section in sections:
    name = section.split()[0]
    description = file_set.load(name).description
    assert description['equation'] in section, name
    mistakes = re.findall(r'^- `(\w+)`: (.*)\.$', section, re.M)
    assert dict(mistakes) == description['mistakes'], name


def test_the_page_has_the_version():
  assert f'version of the file set, {file_set.VERSION}.' in PAGE
