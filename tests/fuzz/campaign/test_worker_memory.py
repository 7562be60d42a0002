"""What arrays give back in a worker is used again, instead of coming anew from the system."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
import numpy as np
from fuzz.campaign import pool
pool._keep_memory()
def use():
    arrays = [np.ones(300_000, np.uint8) for _ in range(4)]
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 50 * 4 * 300_000 // 4096
"""As many faults as there would be otherwise: without the call, 13,073 (2026-11-21)."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")
def test_pages_of_freed_arrays_stay() -> None:
    command = [sys.executable, "-c", FAULTS]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(ended.stdout) < PAGES // 20
