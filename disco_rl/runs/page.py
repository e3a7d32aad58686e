"""Builds a page of HTML in one file, which needs no network.

```python
page = Page('Two rules on Catch')
page.section('Returns')
page.paragraph('Five seeds each.')
page.figure(figure, 'Average return per episode.')
page.table(('rule', 'return'), [('ppo', '0.98')])
page.save('page.html')
```

All texts are escaped. Pictures are part of the file, and its security policy
forbids the browser to load or run anything else.
"""

import base64
from collections.abc import Sequence
import html
import os
import pathlib
from typing import Any

from disco_rl import fields
from disco_rl.runs import files
from disco_rl.runs import plots

# First bytes of a picture, to its type and whether it is a drawing on white,
# whose lightness may be inverted.
_KINDS = {
  b'\x89PNG': ('image/png', True),
  b'GIF8': ('image/gif', False),
  b'\xff\xd8\xff': ('image/jpeg', False),
  b'<?xml': ('image/svg+xml', True),
  b'<svg': ('image/svg+xml', True),
}
# Larger drawings, of very long curves, are embedded as pixels.
_MAX_SVG_BYTES = 2_000_000
_SUFFIXES = ('.html', '.htm')
_SIZES = ('normal', 'small', 'panels')

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --text: #1c2024; --soft: #5b6570;
  --line: #d9dee3; --back: #fff; --card: #f5f7f9; --accent: #1d5a96; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7ea; --soft: #9aa4ae; --line: #343b43; --back: #14171a;
    --card: #1d2126; --accent: #8fc1ea; }
  figure img.drawing { filter: invert(0.91) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 0.6rem; padding-top: 0.8rem;
  border-top: 1px solid var(--line); }
h1, h2, p, figcaption, summary { overflow-wrap: anywhere; }
p { margin: 0.5rem 0; max-width: 46rem; }
p.lead { color: var(--soft); }
nav { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; margin-top: 0.8rem; }
a { color: var(--accent); }
figure { margin: 1rem 0; width: min(100%, 44rem); }
figure.small { display: inline-block; width: min(100%, 28.5rem);
  margin-right: 1rem; vertical-align: top; }
figure img { display: block; width: 100%; height: auto; }
figure.panels img { min-width: 32rem; }
figcaption { color: var(--soft); font-size: 0.9rem; margin-top: 0.3rem;
  max-width: 46rem; }
.scroll { overflow-x: auto; margin: 0.4rem 0; }
table { border-collapse: collapse; font-size: 0.9rem; }
p.caption { color: var(--soft); font-size: 0.9rem; margin: 1rem 0 0; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.9rem 0.3rem 0;
  border-bottom: 1px solid var(--line); }
td { max-width: 30rem; overflow-wrap: break-word;
  font-variant-numeric: tabular-nums; }
th { font-weight: 600; }
thead th { color: var(--soft); white-space: nowrap; }
details { margin: 0.8rem 0; }
summary { cursor: pointer; color: var(--accent); }
pre { background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; padding: 0.8rem; overflow-x: auto; font-size: 0.85rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 40rem) { h1 { font-size: 1.35rem; }
  tbody th { min-width: 6rem; max-width: 9.5rem; overflow-wrap: anywhere; } }
@media print { main { max-width: none; } }
""".strip()


class Page:
  """A page that is built from top to bottom."""

  def __init__(self, title: str, lead: str = ''):
    """Starts a page.

    Args:
      title: its title.
      lead: a sentence below the title; empty for none.
    """
    self._title = title
    self._lead = lead
    self._sections: list[str] = []
    self._body: list[str] = []

  def section(self, title: str) -> None:
    """Starts a section."""
    self._sections.append(title)
    self._body.append(
      f'<h2 id="section-{len(self._sections)}">{_text(title)}</h2>'
    )

  def paragraph(self, text: str) -> None:
    """Adds a paragraph."""
    self._body.append(f'<p>{_text(text)}</p>')

  def code(self, text: str) -> None:
    """Adds lines of code or commands, which are wrapped on narrow screens."""
    self._body.append(f'<pre><code>{_text(text)}</code></pre>')

  def table(
    self,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str = '',
    folded: str = '',
  ) -> None:
    """Adds a table, which scrolls if it is wider than the screen.

    Args:
      header: names of the columns.
      rows: cells, one per column in each row; the first one names the row.
      caption: a sentence above it; empty for none.
      folded: words to click on to see the table; empty to show it at once.
    """
    head = ''.join(f'<th scope="col">{_text(cell)}</th>' for cell in header)
    lines = [
      f'<tr><th scope="row">{_text(first)}</th>'
      + ''.join(f'<td>{_text(cell)}</td>' for cell in rest)
      + '</tr>'
      for first, *rest in rows
    ]
    # Not a `caption`, which would be as wide as the table and scroll with it.
    above = f'<p class="caption">{_text(caption)}</p>' if caption else ''
    table = (
      f'{above}<div class="scroll"><table><thead><tr>{head}</tr></thead>'
      f'<tbody>{"".join(lines)}</tbody></table></div>'
    )
    if folded:
      table = f'<details><summary>{_text(folded)}</summary>{table}</details>'
    self._body.append(table)

  def figure(
    self, picture: Any, caption: str, alt: str = '', *, size: str = 'normal'
  ) -> None:
    """Adds a picture with a sentence below it.

    Args:
      picture: a matplotlib figure, or the contents of a file: SVG, PNG, GIF or
        JPEG.
      caption: a sentence below it.
      alt: words for those who do not see it; empty for the caption.
      size: `'normal'`; `'small'` for two in a row on wide screens; `'panels'`
        for several panels, which scroll on narrow screens.

    Raises:
      ValueError: if it is of another kind.
    """
    if size not in _SIZES:
      raise ValueError(
        f'the size of a figure must be one of {", ".join(_SIZES)}, got '
        f'{fields.shorten(size)}'
      )
    if not isinstance(picture, bytes):
      drawn = plots.to_bytes(picture, 'svg')
      if len(drawn) > _MAX_SVG_BYTES:
        drawn = plots.to_bytes(picture, 'png')
      picture = drawn
    kind, is_drawing = next(
      (
        kind
        for start, kind in _KINDS.items()
        if picture.lstrip()[: len(start)] == start
      ),
      (None, False),
    )
    if kind is None:
      raise ValueError(
        'a picture must be a matplotlib figure, or bytes of SVG, PNG, GIF or '
        f'JPEG; got bytes that begin with {fields.shorten(picture[:8])}'
      )
    data = base64.b64encode(picture).decode()
    look = ' class="drawing"' if is_drawing else ''
    self._body.append(
      f'<figure class="{size}"><div class="scroll">'
      f'<img{look} src="data:{kind};base64,{data}" '
      f'alt="{_text(alt or caption)}"></div>'
      f'<figcaption>{_text(caption)}</figcaption></figure>'
    )

  def html(self) -> str:
    """Returns the text of the file."""
    lead = f'<p class="lead">{_text(self._lead)}</p>' if self._lead else ''
    links = ''.join(
      f'<a href="#section-{i}">{_text(title)}</a>'
      for i, title in enumerate(self._sections, 1)
    )
    nav = f'<nav>{links}</nav>' if len(self._sections) > 1 else ''
    return '\n'.join(
      [
        '<!DOCTYPE html>',
        '<html lang="en">',
        '<head>',
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="generator" content="disco_rl">',
        '<link rel="icon" href="data:,">',
        f'<title>{_text(self._title)}</title>',
        f'<style>{_STYLE}</style>',
        '</head>',
        '<body><main>',
        f'<h1>{_text(self._title)}</h1>{lead}{nav}',
        *self._body,
        '</main></body>',
        '</html>\n',
      ]
    )

  def save(self, path: str | os.PathLike[str]) -> None:
    """Writes the page, atomically.

    Args:
      path: path of the file, see `check_path`.
    """
    check_path(path)
    with files.atomic_writer(path, make_folder=True) as file:
      file.write(self.html().encode())


def check_path(path: str | os.PathLike[str]) -> None:
  """Raises a `ValueError` for a file that no page can be written to.

  Args:
    path: path of the file, which must end in `.html`.
  """
  shown = fields.shorten(str(path))
  if pathlib.Path(path).suffix.lower() not in _SUFFIXES:
    raise ValueError(
      f'a page cannot be written to {shown}: its name must end in .html'
    )
  if pathlib.Path(path).is_dir():
    raise ValueError(f'a page cannot be written to {shown}: it is a folder')


def _text(text: str) -> str:
  """Escapes a text; characters that HTML does not allow become `?`."""
  shown = ''.join(
    c if c in '\n\t' or (c >= ' ' and not '\ud800' <= c <= '\udfff') else '?'
    for c in str(text)
  )
  return html.escape(shown)
