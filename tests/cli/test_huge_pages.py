"""The restart with huge pages keeps the process and its arguments."""

import subprocess
import sys

import pytest

from disco_rl.cli import huge_pages

PROGRAM = """
import os, sys
from disco_rl.cli import huge_pages
huge_pages.restart()
print(os.getpid(), sys.argv[1:], os.environ.get('GLIBC_TUNABLES'))
"""


@pytest.fixture
def kernel_setting(tmp_path, monkeypatch):
  path = tmp_path / 'enabled'
  monkeypatch.setattr(huge_pages, '_SETTING', path)
  monkeypatch.delenv('GLIBC_TUNABLES', raising=False)
  return path


def test_huge_pages_are_requested_where_the_kernel_needs_it(
  kernel_setting, monkeypatch
):
  kernel_setting.write_text('always [madvise] never\n')
  environment = huge_pages.tuned_environment()
  assert environment['GLIBC_TUNABLES'] == 'glibc.malloc.hugetlb=1'
  monkeypatch.setenv('GLIBC_TUNABLES', 'glibc.malloc.tcache_count=1')
  environment = huge_pages.tuned_environment()
  assert environment['GLIBC_TUNABLES'] == (
    'glibc.malloc.tcache_count=1:glibc.malloc.hugetlb=1'
  )


def test_huge_pages_are_not_requested_otherwise(kernel_setting, monkeypatch):
  assert huge_pages.tuned_environment() is None  # No such setting.
  kernel_setting.write_text('[always] madvise never\n')
  assert huge_pages.tuned_environment() is None
  kernel_setting.write_text('always [madvise] never\n')
  monkeypatch.setenv('GLIBC_TUNABLES', 'glibc.malloc.hugetlb=0')
  assert huge_pages.tuned_environment() is None


def test_restart_keeps_process_and_arguments(monkeypatch):
  monkeypatch.delenv('GLIBC_TUNABLES', raising=False)
  process = subprocess.Popen(
    [sys.executable, '-c', PROGRAM, 'an argument', '--flag'],
    stdout=subprocess.PIPE,
    text=True,
  )
  out, _ = process.communicate(timeout=60)
  expected = huge_pages.tuned_environment()
  tunables = expected and expected['GLIBC_TUNABLES']
  assert out.strip() == f"{process.pid} ['an argument', '--flag'] {tunables}"
