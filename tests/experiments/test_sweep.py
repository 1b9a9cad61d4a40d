"""Sweeps with real processes: everything is made, once; failures are tried again and reported, and end nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from softmatch.experiments import sweep as sweeping
from softmatch.experiments.here import Here
from softmatch.experiments.places import Ended, Handle
from softmatch.experiments.sheet import Run
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import Outcome, sweep
from softmatch.runs.folder import RunFolder
from tests.experiments.tiny import METHODS, Heard, times, tiny


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweeping, "LOOK", 0.05)
    return Store(Path("store"))


def test_failures_are_tried_again_and_reported_and_nothing_is_made_twice(store: Store, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(METHODS)
    good, flaky = tiny(), tiny(method="own.py:Flaky")
    broken, wrong = tiny(method="own.py:Broken"), tiny(method_options={"sigma": 3})
    heard = Heard()
    outcomes = sweep([broken, wrong, flaky, good, good], store, Here(2), retries=1, listener=heard)
    assert [(outcome.run, outcome.state, outcome.attempts) for outcome in outcomes] == [
        (broken, "failed", 2),
        (wrong, "failed", 1),
        (flaky, "done", 2),
        (good, "done", 1),
        (good, "done", 1),
    ]
    assert outcomes[0].message.startswith("ended with code 1.\n")
    assert outcomes[0].message.endswith("RuntimeError: no such luck")
    assert outcomes[1].message.startswith(
        "ended with code 2.\nsoftmatch: method 'softmatch' has no option 'sigma'. Known: align, class_prior, estimation, k, "
    )
    assert outcomes[2].message == outcomes[3].message == ""
    assert re.search(r"resuming after step [23] of 6", store.log(flaky).read_text())
    assert heard.events[0] == ("begins", 4)
    tried = {(key, attempt) for what, key, attempt, *_ in heard.events[1:] if what == "retried"}
    assert tried == {(broken.key, 1), (flaky.key, 1)}
    before = times(store.runs)
    again = sweep([good, flaky], store, _Nowhere())
    assert [(outcome.state, outcome.attempts) for outcome in again] == [("done", 0)] * 2
    assert times(store.runs) == before


class _Nowhere:
    """A place that nothing may be started at."""

    slots, options = 1, ()

    def __enter__(self) -> _Nowhere:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(self, arguments: Sequence[str], log: Path) -> Handle:
        raise AssertionError(arguments)


class _Here(Here):
    """Remembers what was started."""

    def __init__(self) -> None:
        super().__init__(1, threads=1)
        self.started: list[list[str]] = []

    def start(self, arguments: Sequence[str], log: Path) -> Handle:
        self.started.append(list(arguments))
        return super().start(arguments, log)


def test_what_another_process_makes_is_waited_for_and_taken_over(store: Store) -> None:
    mine, theirs, finished_by_them = tiny(0), tiny(1), tiny(2)
    place, other = _Here(), ExitStack()

    class Listener(Heard):
        def ended(self, outcome: Outcome) -> None:
            super().ended(outcome)
            if outcome.run is mine:  # the others are still at theirs; another sweep makes the third
                sweep([finished_by_them], store, _Here())
                other.close()

    heard = Listener()
    folder = RunFolder(store.folder(theirs))
    folder.path.mkdir(parents=True)
    with other:
        other.enter_context(folder.locked())
        outcomes = sweep([theirs, mine, finished_by_them], store, place, listener=heard)
    assert [(outcome.state, outcome.attempts) for outcome in outcomes] == [("done", 1), ("done", 1), ("done", 0)]
    assert heard.events[1] == ("elsewhere", theirs.key)
    assert [store.folder(run).name for run in (mine, theirs)] == [Path(arguments[4]).name for arguments in place.started]


class _Scripted:
    """A place where attempts end as they are told to, at once."""

    slots, options = 1, ("--threads", "3")

    def __init__(self, *ends: Ended | OSError) -> None:
        self.ends, self.arguments = list(ends), list[list[str]]()

    def __enter__(self) -> _Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(self, arguments: Sequence[str], log: Path) -> Handle:
        self.arguments.append(list(arguments))
        end = self.ends.pop(0)
        if isinstance(end, OSError):
            raise end
        if end.code == 2:
            with log.open("a") as file:
                file.write("=== a machine\nsoftmatch: it is being trained by another process at this moment.\n")
        return _Over(end)


class _Over:
    def __init__(self, end: Ended) -> None:
        self._end = end

    def poll(self) -> Ended:
        return self._end

    def stop(self) -> None:
        raise AssertionError("it is over")

    def kill(self) -> None:
        raise AssertionError("it is over")


@pytest.mark.parametrize(
    ("ends", "state", "attempts", "message"),
    [
        ([Ended(-9)] * 3, "failed", 3, "was ended by signal 9 (killed)."),
        ([Ended(1), Ended(0), Ended(1, "its worker was lost")], "failed", 3, "its worker was lost."),
        ([Ended(75)] * 3, "stopped", 3, "ended with code 75."),
        ([OSError(12, "Cannot allocate memory")] * 3, "failed", 3, "could not be started: Cannot allocate memory."),
        ([Ended(2), Ended(1), Ended(1), Ended(130)], "stopped", 3, "ended with code 130."),
    ],
    ids=["killed", "lost", "stopped", "not-started", "collision-does-not-count"],
)
def test_how_attempts_end(store: Store, ends: list[Ended | OSError], state: str, attempts: int, message: str) -> None:
    place, run = _Scripted(*ends), tiny()
    (outcome,) = sweep([run], store, place, also=["--precision", "bf16"], data={"two-moons": Path("here")})
    assert (outcome.state, outcome.attempts, outcome.message) == (state, attempts, message)
    assert place.ends == []
    own = Store(store.root.resolve())
    assert place.arguments[0] == own.arguments(
        run, ["--data", str(Path("here").resolve()), "--threads", "3", "--precision", "bf16"]
    )


def test_runs_of_other_sources_get_no_data(store: Store) -> None:
    place = _Scripted(Ended(1))
    sweep([Run("digits", {})], store, place, retries=0, data={"two-moons": Path("here")})
    assert "--data" not in place.arguments[0]
