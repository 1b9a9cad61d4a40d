"""The C library's memory: the setting is taken where glibc is, and changes no result."""

from pathlib import Path

from tests import forked

PROGRAM = """
import platform, torch
from softmatch.training.arithmetic import keep_freed_memory
expected = platform.libc_ver()[0] == "glibc"
assert keep_freed_memory() is expected
a = torch.ones(4096, 4096)
assert float((a + a).sum()) == 2 * 4096**2
"""


def test_large_tensors_work_afterwards(tmp_path: Path) -> None:
    done = forked.run(["-c", PROGRAM], tmp_path)
    assert done.returncode == 0, done.stderr
