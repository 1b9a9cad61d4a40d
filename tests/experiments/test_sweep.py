"""Sweeps with real processes: each run is trained once; failures are retried and reported, and do not end the sweep."""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from softmatch.experiments import sweep as sweeping
from softmatch.experiments.executors import Ended, Executor, Job, Where, open_executor
from softmatch.experiments.sheet import Run
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import Outcome, Sweep
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
    here = open_executor(Where(processes=2), store.root)
    outcomes = Sweep(store, here, retries=1, listener=heard).run([broken, wrong, flaky, good, good])
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
        "ended with code 2.\nsoftmatch: method 'softmatch' has no option 'sigma'. Known: align, alone, class_counts, "
    )
    assert outcomes[2].message == outcomes[3].message == ""
    assert re.search(r"resuming after step [23] of 6", store.log(flaky).read_text())
    assert heard.events[0] == ("begins", 4)
    tried = {(key, attempt) for what, key, attempt, *_ in heard.events[1:] if what == "retried"}
    assert tried == {(broken.key, 1), (flaky.key, 1)}
    before = times(store.runs)
    again = Sweep(store, open_executor(Where(on="ray", address="nowhere"), store.root)).run([good, flaky])  # it is not opened
    assert [(outcome.state, outcome.attempts) for outcome in again] == [("done", 0)] * 2
    assert times(store.runs) == before


@contextmanager
def remembering(started: list[list[str]]) -> Iterator[Executor]:
    with open_executor(Where(processes=1, threads=1), Path()) as here:

        def start(arguments: Sequence[str], log: Path) -> Job:
            started.append(list(arguments))
            return here.start(arguments, log)

        yield replace(here, start=start)


def test_what_another_process_makes_is_waited_for_and_taken_over(store: Store) -> None:
    mine, theirs, finished_by_them = tiny(0), tiny(1), tiny(2)
    started, other = list[list[str]](), ExitStack()

    class Listener(Heard):
        def ended(self, outcome: Outcome) -> None:
            if outcome.run is mine:  # the others are still at theirs; another sweep makes the third
                Sweep(store, remembering([])).run([finished_by_them])
                other.close()

    heard = Listener()
    folder = RunFolder(store.folder(theirs))
    folder.path.mkdir(parents=True)
    with other:
        other.enter_context(folder.locked())
        outcomes = Sweep(store, remembering(started), listener=heard).run([theirs, mine, finished_by_them])
    assert [(outcome.state, outcome.attempts) for outcome in outcomes] == [("done", 1), ("done", 1), ("done", 0)]
    assert heard.events[1] == ("elsewhere", theirs.key)
    assert [store.folder(run).name for run in (mine, theirs)] == [Path(arguments[4]).name for arguments in started]


def over() -> None:
    raise AssertionError("the job has ended")


def scripted(ends: list[Ended | OSError], given: list[list[str]]) -> AbstractContextManager[Executor]:
    """An executor whose jobs end at once, as they are told to."""

    def start(arguments: Sequence[str], log: Path) -> Job:
        given.append(list(arguments))
        end = ends.pop(0)
        if isinstance(end, OSError):
            raise end
        if end.code == 2:
            with log.open("a") as file:
                file.write("=== a machine\nsoftmatch: it is being trained by another process at this moment.\n")
        return Job(lambda: end, over, over)

    return nullcontext(Executor(1, ("--threads", "3"), start))


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
    given, run = list[list[str]](), tiny()
    place = scripted(ends, given)
    (outcome,) = Sweep(store, place, also=["--precision", "bf16"], data={"two-moons": Path("here")}).run([run])
    assert (outcome.state, outcome.attempts, outcome.message) == (state, attempts, message)
    assert ends == []
    own = Store(store.root.resolve())
    assert given[0] == own.arguments(run, ["--data", str(Path("here").resolve()), "--threads", "3", "--precision", "bf16"])


def test_runs_of_other_sources_get_no_data(store: Store) -> None:
    given: list[list[str]] = []
    Sweep(store, scripted([Ended(1)], given), retries=0, data={"two-moons": Path("here")}).run([Run("digits", {})])
    assert "--data" not in given[0]
