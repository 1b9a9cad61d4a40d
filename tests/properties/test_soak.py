"""What benchmarks/soak.py calls growth: a leak is seen, noise is not."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FLAT = {"memory, MB": 500.0, "open files": 9.0, "threads": 4.0, "child processes": 0.0, "left in /dev/shm": 0.0}
TIMES = [20.0 * number for number in range(180)]


@pytest.fixture(scope="module")
def soak() -> Iterator[Any]:
    """The program as a module."""
    with pytest.MonkeyPatch.context() as changed:
        changed.syspath_prepend(str(BENCHMARKS))
        import soak

        yield soak
    sys.modules.pop("soak", None)


def samples(**changes: Any) -> list[dict[str, float]]:
    rest = {"temporary files": 1.0, "Python objects": 4e5}
    return [{**FLAT, **rest, **{name: change(number) for name, change in changes.items()}} for number in range(len(TIMES))]


def test_noise_and_a_warm_up_are_no_growth(soak: Any) -> None:
    memory = {"memory, MB": lambda number: 500.0 + min(number, 60) + 7 * (number * 37 % 11) / 11}
    found = samples(**memory, threads=lambda number: 2.0 + 2 * (number % 3 > 0))
    assert soak.judge(TIMES, found, 16.0) == []
    assert "| open files | 9 | 9 | 9 |  |" in soak.table(TIMES, found)


def test_a_leak_is_seen(soak: Any) -> None:
    slow = samples(**{"memory, MB": lambda number: 500.0 + number / 5})
    (said,) = soak.judge(TIMES, slow, 16.0)
    assert "memory grew by 17.8 MB" in said
    assert "+36.0" in soak.table(TIMES, slow)
    (said,) = soak.judge(TIMES, samples(**{"open files": lambda number: 9.0 + number // 130}), 16.0)
    assert said == "open files: at most 9 in the second third, 10 in the last"
    (said,) = soak.judge(TIMES, samples(**{"child processes": lambda number: float(number == 179)}), 16.0)
    assert said == "child processes: at most 0 in the second third, 1 in the last"


def test_what_is_measured_is_this_process(soak: Any, tmp_path: Path) -> None:
    if not Path("/proc/self/task").is_dir():
        pytest.skip("the numbers are those of Linux")
    before = soak.sample(tmp_path, set())
    with (tmp_path / "open").open("w"):
        after = soak.sample(tmp_path, set())
    assert after["open files"] == before["open files"] + 1
    assert after["temporary files"] == 1
    assert after["memory, MB"] > 10
