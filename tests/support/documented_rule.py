"""A module with the rule of docs/your_own_rule.md, which compiles quickly."""

import pathlib

_DOCUMENT = pathlib.Path(__file__).parents[2] / 'docs' / 'your_own_rule.md'
_MODULE = """
import pathlib, re
text = pathlib.Path({document!r}).read_text(encoding='utf-8')
blocks = re.findall(r'```python\\n(.*?)```', text, flags=re.DOTALL)
exec(blocks[0]); exec(blocks[1])  # The rule of the how-to, registered.
"""


def write(folder):
  """Writes the module to a folder.

  Args:
    folder: the folder, from which modules can be imported.

  Returns:
    The option of the commands that imports it.
  """
  name = f'module_of_{folder.name}'  # Imported once in this process.
  (folder / f'{name}.py').write_text(_MODULE.format(document=str(_DOCUMENT)))
  return f'--use={name}'
