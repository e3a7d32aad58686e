"""Writes the notebooks as pages of the documentation, with their outputs.

  python colabs/pages.py

Pages are written by this script, and not by a plugin of the site, so that any
builder of Markdown shows them.
"""

import base64
import json
import pathlib
from typing import Any

HERE = pathlib.Path(__file__).parent
PAGES = HERE.parent / 'docs' / 'notebooks'


def pages(notebook: pathlib.Path) -> dict[str, bytes]:
  """Converts a notebook to a page and its pictures.

  Args:
    notebook: path of the notebook.

  Returns:
    Name of a file to its contents. Progress on the standard error is left out.
  """
  name, blocks, files = notebook.stem, [], {}
  for i, cell in enumerate(json.loads(notebook.read_text('utf-8'))['cells']):
    source = ''.join(cell['source'])
    if cell['cell_type'] == 'markdown':
      # Without the badge, which is a picture of another server.
      lines = source.splitlines()
      kept = (line for line in lines if not line.startswith('[![Open in'))
      blocks.append('\n'.join(kept).strip())
      continue
    blocks.append(f'```python\n{source}\n```')
    for output in cell['outputs']:
      picture = output.get('data', {}).get('image/png')
      text = _text(output)
      if picture is not None:
        file_name = f'{name}_{i}.png'
        files[file_name] = base64.b64decode(''.join(picture))
        blocks.append(f'![Output of the cell above]({file_name})')
      elif text:
        blocks.append(f'```text\n{text}\n```')
  files[f'{name}.md'] = ('\n\n'.join(blocks) + '\n').encode()
  return files


def _text(output: dict[str, Any]) -> str:
  """Returns what a cell printed, or the value of its last line."""
  if output.get('name') == 'stderr':
    return ''
  text = output.get('text') or output.get('data', {}).get('text/plain', '')
  return ''.join(text).strip()


def main() -> None:
  """Writes the pages of all notebooks, and removes those of others."""
  PAGES.mkdir(exist_ok=True)
  for path in PAGES.iterdir():
    path.unlink()
  for notebook in sorted(HERE.glob('*.ipynb')):
    for name, content in pages(notebook).items():
      (PAGES / name).write_bytes(content)


if __name__ == '__main__':
  main()
