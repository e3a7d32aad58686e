"""Registers the rule of docs/your_own_rule.md, for `--use` in processes."""

import pathlib
import re

_DOCUMENT = pathlib.Path(__file__).parents[2] / 'docs' / 'your_own_rule.md'
_BLOCKS = re.findall(
  r'```python\n(.*?)```', _DOCUMENT.read_text(encoding='utf-8'), re.DOTALL
)
for _block in _BLOCKS[:2]:
  exec(_block)
