"""Compares the outputs of another implementation with those of a case."""

from collections.abc import Mapping
import dataclasses
from typing import Any

import numpy as np

from disco_rl import utils
from disco_rl.conformance import file_set

OK, DEPARTS, MISSING = 'ok', 'departs', 'missing'


@dataclasses.dataclass(frozen=True)
class Result:
  """How the outputs of a case compare.

  Attributes:
    case: name of the case.
    status: `OK`, `DEPARTS` or `MISSING`.
    used: the largest error, in units of what is allowed; None if nothing could
      be compared.
    sentence: the first output that departs or is missing; empty if all is well.
    hint: what it looks like; empty if unknown.
  """

  case: str
  status: str
  used: float | None = None
  sentence: str = ''
  hint: str = ''


def compare(
  reference: file_set.Reference, found: Mapping[str, np.ndarray]
) -> Result:
  """Compares outputs, up to the first that departs.

  Args:
    reference: the case.
    found: name to array of numbers or bools, perhaps with others.

  Returns:
    The result.
  """
  case = reference.description['name']
  if not found:
    return Result(case, MISSING, None, 'no outputs')
  used = 0.0
  for name, expected in reference.expected.items():
    if name not in found:
      others = [other for other in found if other not in reference.expected]
      near = utils.did_you_mean(name, others)
      sentence = f'no {name} among the outputs{near}'
      return Result(case, MISSING, used or None, sentence)
    array = found[name]
    if array.shape != expected.shape:
      return Result(case, DEPARTS, None, *_wrong_shape(name, array, expected))
    errors = _errors(reference, name, array)
    worst = float(errors.max(initial=0.0))
    used = max(used, worst)
    if worst > 1:
      sentence = _describe(reference, name, array, errors)
      hint = _hint(reference, name, found)
      return Result(case, DEPARTS, used, sentence, hint)
  return Result(case, OK, used)


def _errors(
  reference: file_set.Reference,
  name: str,
  found: np.ndarray,
  expected: np.ndarray | None = None,
) -> np.ndarray:
  """Returns the errors of an output in units of what is allowed.

  Args:
    reference: the case.
    name: name of the output.
    found: the output.
    expected: what it is compared with; None for what the case expects.

  Returns:
    Like `found`; infinite where a number is not finite, or where numbers that
    must be equal are not.
  """
  right = reference.expected[name]
  expected = right if expected is None else expected
  tolerance = reference.description['outputs'][name]
  difference = np.abs(found.astype(np.float64) - expected.astype(np.float64))
  allowed = tolerance['atol'] + tolerance['rtol'] * np.abs(
    expected.astype(np.float64)
  )
  with np.errstate(divide='ignore', invalid='ignore'):
    errors = np.where(difference == 0, 0.0, difference / allowed)
  return np.where(np.isfinite(difference), errors, np.inf)


def _describe(
  reference: file_set.Reference,
  name: str,
  found: np.ndarray,
  errors: np.ndarray,
) -> str:
  """Describes the first element of an output that departs."""
  index = tuple(int(i) for i in np.argwhere(errors > 1)[0])
  expected = reference.expected[name]
  place = name + (f'[{", ".join(map(str, index))}]' if index else '')
  count = f'{np.sum(errors > 1)} of {errors.size} elements depart'
  text = f'{place}: expected {_number(expected[index])}'
  text += f', found {_number(found[index])}'
  tolerance = reference.description['outputs'][name]
  if expected.dtype.kind == 'f':
    allowed = tolerance['atol'] + tolerance['rtol'] * abs(expected[index])
    text += f' (± {allowed:.1e} is allowed)'
  return f'{text}; {count}' if errors.size > 1 else text


def _number(x: Any) -> str:
  if x.dtype.kind == 'f':
    return f'{float(x):.7g}'
  return str(x.item())


def _wrong_shape(
  name: str, found: np.ndarray, expected: np.ndarray
) -> tuple[str, str]:
  """Describes an output of the wrong shape; returns a sentence and a hint."""
  sentence = (
    f'{name} has the shape {list(found.shape)}, expected {list(expected.shape)}'
  )
  if sorted(found.shape) == sorted(expected.shape):
    return sentence, 'axes in another order; time is first, then batch'
  if found.ndim == expected.ndim and found.ndim:
    steps = found.shape[0] - expected.shape[0]
    if found.shape[1:] == expected.shape[1:] and abs(steps) == 1:
      words = 'one step more' if steps == 1 else 'one step less'
      return sentence, f'{words}: T transitions have T + 1 steps'
  return sentence, ''


def _hint(
  reference: file_set.Reference, name: str, found: Mapping[str, np.ndarray]
) -> str:
  """Says which known mistake gives what was found, or what else it is like."""
  sentences = reference.description['mistakes']
  for mistake, outputs in reference.mistakes.items():
    changed = [
      output
      for output, wrong in outputs.items()
      if output in found
      and found[output].shape == wrong.shape
      and _errors(reference, output, wrong).max(initial=0.0) > 1
    ]
    if name in changed and all(
      _errors(reference, output, found[output], outputs[output]).max() <= 1
      for output in changed
    ):
      return sentences[mistake]
  expected, array = reference.expected[name], found[name]
  if expected.dtype.kind == 'f' and _matches(
    reference, name, -array.astype(np.float64), expected
  ):
    return 'the opposite sign'
  if expected.ndim > 1 and len(expected) > 2:
    if _matches(reference, name, array[:-1], expected[1:]):
      return 'every step one early'
    if _matches(reference, name, array[1:], expected[:-1]):
      return 'every step one late'
  return ''


def _matches(
  reference: file_set.Reference,
  name: str,
  found: np.ndarray,
  expected: np.ndarray,
) -> bool:
  return bool(_errors(reference, name, found, expected).max(initial=0.0) <= 1)
