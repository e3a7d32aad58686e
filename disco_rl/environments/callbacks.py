"""Converts errors of Python callbacks in compiled programs to one sentence.

Environments in JAX may call Python, e.g. by `jax.pure_callback`. JAX reports an
error there only when the program has run, as an error of its own whose message
contains the traceback.
"""

from collections.abc import Iterator
import contextlib
import re

import jax

from disco_rl.environments import foreign

# A program that is run at once raises a ValueError instead of JAX's own error.
_KINDS = (jax.errors.JaxRuntimeError, ValueError)
_BEGINNING = re.compile(r'INTERNAL: .*?Callback error(?: calling callback)?: ')
_FRAME = re.compile(r'^ *File "(.+)", line (\d+).*$', re.MULTILINE)


@contextlib.contextmanager
def boundary(environment: str) -> Iterator[None]:
  """Converts errors of callbacks within a block to a `ForeignCodeError`.

  The block must also wait for the results of the programs that it calls.

  Args:
    environment: name of the environment in the program.
  """
  try:
    yield
  except _KINDS as error:
    message = str(error)
    beginning = _BEGINNING.match(message)
    if beginning is None:
      raise
    raise foreign.ForeignCodeError(
      f'a callback in the program of {environment} failed: '
      f'{_describe(message[beginning.end() :])}'
    ) from error


def _describe(text: str) -> str:
  """Returns type, message, file and line of the error in a traceback."""
  frames = list(_FRAME.finditer(text))
  last_words = text[frames[-1].end() :] if frames else text
  return foreign.with_place(
    foreign.one_line(last_words),
    [(frame.group(1), int(frame.group(2))) for frame in frames],
  )
