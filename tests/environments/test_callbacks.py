"""Errors of callbacks in compiled programs: one sentence, file and line."""

import re

import jax
import jax.numpy as jnp
import pytest

from disco_rl.environments import callbacks
from disco_rl.environments import foreign


def _fail(x):
  raise OSError('two\n  lines, \x1b[31mred')


@jax.jit
def _pure(x):
  return jax.pure_callback(_fail, x, x)


@jax.jit
def _debug(x):
  jax.debug.callback(_fail, x)
  return x + 1


@pytest.mark.parametrize('program', [_pure, _debug])
def test_an_error_in_a_callback_is_one_sentence(program):
  with pytest.raises(foreign.ForeignCodeError) as caught:
    with callbacks.boundary('maze'):
      jax.block_until_ready(program(jnp.zeros(2)))
  line = _fail.__code__.co_firstlineno + 1
  assert str(caught.value) == (
    'a callback in the program of maze failed: OSError: two lines, ?[31mred '
    f'({__file__}, line {line})'
  )
  assert caught.value.__cause__ is not None


@pytest.mark.parametrize('kind', [jax.errors.JaxRuntimeError, ValueError])
@pytest.mark.parametrize(
  'beginning',
  [
    'INTERNAL: CpuCallback error calling callback: ',
    'INTERNAL: Generated function failed: CpuCallback error: ',
  ],
)
def test_messages_without_a_traceback(kind, beginning):
  wanted = 'ValueError: x At: a.py(3)'
  with pytest.raises(
    foreign.ForeignCodeError, match=f'failed: {re.escape(wanted)}$'
  ):
    with callbacks.boundary('maze'):
      raise kind(f'{beginning}{wanted}')


def test_other_errors_pass():
  for error in (
    jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory'),
    ValueError('callback error: mine'),
  ):
    with pytest.raises(type(error)) as caught, callbacks.boundary('maze'):
      raise error
    assert caught.value is error
