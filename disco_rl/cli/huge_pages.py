"""Large buffers in large pages, which on Linux is a choice at start-up.

XLA on CPU takes fresh memory for the temporaries of every call and gives it
back afterwards, so that the kernel must hand out (and clear) every page of it
again and again. With pages of 2 MB instead of 4 KB that costs a fraction: a
learner step with 18 actions takes a fifth less time. glibc asks for them only
if told so in the environment before the process starts.
"""

import os
import pathlib
import sys

_TUNABLE = 'glibc.malloc.hugetlb'
_VARIABLE = 'GLIBC_TUNABLES'
_SETTING = pathlib.Path('/sys/kernel/mm/transparent_hugepage/enabled')


def tuned_environment() -> dict[str, str] | None:
  """The environment this process should have been started with.

  Returns:
    A changed copy of the environment; None if nothing is to be changed: the
    system has no huge pages, uses them anyway or never, or was told already.
  """
  tunables = os.environ.get(_VARIABLE, '')
  if _TUNABLE in tunables or not _on_request():
    return None
  joined = ':'.join(filter(None, [tunables, f'{_TUNABLE}=1']))
  return {**os.environ, _VARIABLE: joined}


def restart() -> None:
  """Starts this process again with huge pages, unless it has them.

  For programs, as their first act: the process keeps its number, arguments and
  files, and nothing else. To do without, set `GLIBC_TUNABLES` to
  `glibc.malloc.hugetlb=0`.
  """
  environment = tuned_environment()
  if environment is not None:
    sys.stdout.flush()
    os.execve(sys.executable, sys.orig_argv, environment)


def _on_request() -> bool:
  """Whether the kernel gives huge pages to those who ask, and only to them."""
  try:
    return '[madvise]' in _SETTING.read_text(encoding='ascii')
  except OSError:
    return False
