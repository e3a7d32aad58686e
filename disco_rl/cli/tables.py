"""Formats tables for the terminal."""

from collections.abc import Sequence


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
  """Formats a table with aligned columns.

  Args:
    header: names of the columns.
    rows: cells, one per column in each row.

  Returns:
    The table, as lines of text.
  """
  table = [list(header), *map(list, rows)]
  widths = [max(len(row[i]) for row in table) for i in range(len(header))]
  lines = [
    '  '.join(
      cell.ljust(width) for cell, width in zip(row, widths, strict=True)
    ).rstrip()
    for row in table
  ]
  rule = '  '.join('-' * width for width in widths)
  return '\n'.join([lines[0], rule, *lines[1:]])


def with_band(mean: float, band: float) -> str:
  """Formats a mean and its confidence band, which is left out if it is NaN."""
  return f'{mean:.3f}' if band != band else f'{mean:.3f} ± {band:.3f}'
