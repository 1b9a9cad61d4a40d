"""The C library's memory: the setting is taken where glibc is, and changes no result."""

import subprocess
import sys

PROGRAM = """
import platform, torch
from softmatch.training.memory import keep_freed_memory
expected = platform.libc_ver()[0] == "glibc"
assert keep_freed_memory() is expected
a = torch.ones(4096, 4096)
assert float((a + a).sum()) == 2 * 4096**2
"""


def test_large_tensors_work_afterwards() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
