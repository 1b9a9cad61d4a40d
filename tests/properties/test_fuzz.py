"""A few hundred of the inputs that benchmarks/fuzz.py makes by the hundred thousand; and the program itself."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from softmatch.errors import InputError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def fuzz() -> Iterator[Any]:
    """The program as a module."""
    with pytest.MonkeyPatch.context() as changed:
        changed.syspath_prepend(str(BENCHMARKS))
        import fuzz

        yield fuzz
    for name in ("fuzz", "fuzz_readers", "fuzz_mutations", "tiny_data"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def readers(fuzz: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return fuzz.make_readers(tmp_path_factory.mktemp("fuzz"))


def test_damaged_inputs_are_read_or_refused(fuzz: Any, readers: Any, tmp_path: Path) -> None:
    found = fuzz.fuzz(readers, inputs=200, seed=12, failures=tmp_path, limit=60.0)
    assert [path.read_text() for path in tmp_path.glob("*.txt")] == []
    count = sum(found.values(), Counter())
    assert count.keys() == {"accepted", "refused"}
    assert count.total() >= 200
    assert count["refused"] > 60  # they are damaged, after all
    assert count["accepted"] > 30


def test_every_sound_input_is_accepted(fuzz: Any, readers: Any) -> None:
    for name, reader in readers.items():
        outcomes = {fuzz.attempt(reader, content, 60.0) for content in reader.corpus[:3]}
        assert outcomes == {"accepted"}, name


def test_inputs_follow_from_the_seed(readers: Any) -> None:
    for name, reader in readers.items():
        first, second = ([reader.make(Random(f"{seed}/{name}/7")) for seed in (1, 2)] for _ in range(2))
        assert first == second


def test_failures_are_kept_and_can_be_replayed(fuzz: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz_mutations.mutate_bytes", lambda random, content, others: content)

    def read(path: Path) -> None:
        content = path.read_bytes()
        if b"x" in content:
            raise InputError("no x here")
        if b"y" in content:
            raise ZeroDivisionError("y")
        while b"z" in content:
            pass

    sound, failures = tmp_path / "sound", tmp_path / "failures"
    sound.mkdir()
    for letter in "axyz":
        (sound / letter).write_text(letter)
    letters = {"some letters": fuzz.Reader(1, sound, "*", read)}
    (count,) = fuzz.fuzz(letters, inputs=40, seed=0, failures=failures, limit=0.1).values()
    assert count.total() == 40
    assert set(count) == set(fuzz.OUTCOMES)
    kept = sorted(path for path in failures.iterdir() if path.suffix != ".txt")
    assert len(kept) == count["traceback"] + count["hang"]
    for path in kept:
        outcome = fuzz.replay(letters, path, 0.1)
        assert outcome == path.with_suffix(".txt").read_text()
        assert "ZeroDivisionError: y" in outcome if path.read_bytes() == b"y\ny" else outcome == "hang"
    assert f"| {count['traceback']} | {count['hang']} |" in fuzz.table({"some letters": count})
