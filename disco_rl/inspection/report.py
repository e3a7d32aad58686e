"""Writes the report of an inspection: a page, pictures and numbers.

```text
report.html    all findings in one file, with how to read each picture
NAME.png       the pictures
NAME.csv       the numbers behind them
```
"""

from collections.abc import Callable, Sequence
import csv
import io
import os
import pathlib

from disco_rl import utils
from disco_rl.inspection import context as context_lib
from disco_rl.inspection import sections as sections_lib
from disco_rl.inspection import subject as subject_lib
from disco_rl.runs import files
from disco_rl.runs import page as page_lib
from disco_rl.runs import plots

FILE = 'report.html'
# Longer tables are only in their files.
_MAX_LINES = 80


def check_analyses(names: Sequence[str]) -> None:
  """Raises a `ValueError` for the name of an unknown analysis."""
  for name in names:
    utils.lookup(sections_lib.ANALYSES, name, 'analysis')


def inspect(
  subject: subject_lib.Subject,
  out: str | os.PathLike[str],
  *,
  analyses: Sequence[str] = tuple(sections_lib.ANALYSES),
  sizes: context_lib.Sizes | None = None,
  say: Callable[[str], None] = lambda line: None,
) -> dict[str, sections_lib.Section]:
  """Analyses an agent and its rule, and writes the report.

  Args:
    subject: the agent and its rule, from `subject.of_run` or `subject.train`.
    out: folder of the report, made if it does not exist.
    analyses: names of the analyses, see `sections.ANALYSES`.
    sizes: how much experience is analysed.
    say: called with a line of progress before each analysis.

  Returns:
    The findings, by name of the analysis; without those that make no sense for
    this rule, which the report names with the reason.
  """
  check_analyses(analyses)
  out = pathlib.Path(out)
  found: dict[str, sections_lib.Section] = {}
  left_out: dict[str, str] = {}
  with context_lib.Context(subject, sizes) as context:
    for name in analyses:
      say(f'analysis: {name}')
      try:
        found[name] = sections_lib.ANALYSES[name](context)
      except sections_lib.NotApplicableError as error:
        left_out[name] = str(error)
        continue
      for file, (figure, _) in found[name].pictures.items():
        plots.save(figure, out / f'{file}.png')
      for file, lines in found[name].tables.items():
        with files.atomic_writer(out / f'{file}.csv', make_folder=True) as f:
          f.write(to_csv(lines).encode())
  page_of(subject, found, left_out).save(out / FILE)
  return found


def page_of(
  subject: subject_lib.Subject,
  found: dict[str, sections_lib.Section],
  left_out: dict[str, str],
) -> page_lib.Page:
  """Makes the page of the findings.

  Args:
    subject: the agent and its rule.
    found: the findings, by name of the analysis.
    left_out: analysis to the reason for which there is none.

  Returns:
    The page.
  """
  rule = subject.rule
  total = int(subject.settings.steps)
  age = total if subject.age is None else subject.age
  page = page_lib.Page(
    f'Inside {rule.name}, on {subject.env_name}',
    f'Rule {rule.name} ({rule.kind}, {rule.provenance}); the agent with seed '
    f'{subject.seed} after {age} of {total} iterations.',
  )
  for section in found.values():
    page.section(section.title)
    for text in section.text:
      page.paragraph(text)
    for figure, caption in section.pictures.values():
      page.figure(figure, caption)
    for name, lines in section.tables.items():
      if lines and len(lines) <= _MAX_LINES:
        header = list(lines[0])
        rows = [[_cell(line.get(key)) for key in header] for line in lines]
        page.table(header, rows, folded=f'the numbers: {name}.csv')
      else:
        page.paragraph(f'The numbers are in {name}.csv.')
  if left_out:
    page.section('Left out')
    for name, reason in left_out.items():
      page.paragraph(f'{name}: {reason}.')
  return page


def to_csv(lines: sections_lib.Lines) -> str:
  """Returns lines as CSV; the first line has all columns."""
  text = io.StringIO()
  if lines:
    writer = csv.DictWriter(text, list(lines[0]), lineterminator='\n')
    writer.writeheader()
    writer.writerows(lines)
  return text.getvalue()


def _cell(value: object) -> str:
  return f'{value:.4g}' if isinstance(value, float) else str(value)
