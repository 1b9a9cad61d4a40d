"""Signals that ask a run to end: heard, saved at the very step, and given back to whoever had them."""

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fault_injection import Case, Strike, attempt, warm_up
from softmatch.errors import STOPPED
from softmatch.training.checkpoint import list_checkpoints
from softmatch.training.stop import SIGNALS, Stop, Stopping

TINY: dict[str, Any] = {"steps": 9, "evaluate_every": 5, "checkpoint_every": 4, "labeled_batch": 8, "unlabeled_batch": 8}


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_is_heard_and_handlers_are_put_back(name: str) -> None:
    number = getattr(signal, name)
    heard: list[int] = []
    before = signal.signal(number, lambda number, frame: heard.append(number))
    try:
        with Stop() as stop:
            stop.check()  # none has come
            signal.raise_signal(number)
            with pytest.raises(Stopping):
                stop.check()
            assert stop.signal == name
        assert heard == []
        signal.raise_signal(number)
        assert heard == [number]
    finally:
        signal.signal(number, before)


def test_a_second_interruption_ends_at_once() -> None:
    with Stop() as stop:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)  # schedulers repeat themselves: that is not impatience
        assert stop.signal
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_other_threads_leave_signals_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def enter() -> None:
        with Stop() as stop:
            assert signal.getsignal(signal.SIGTERM) is before
            stop.check()

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # its copies use one thread
def test_a_stopped_run_has_saved_the_very_step(tmp_path: Path) -> None:
    warm_up()
    case, out = Case("two-moons", "two-moons", {**TINY, "device": "cpu", "threads": 1, "baseline": False}), tmp_path / "run"
    stopped = attempt(case, out, Strike(signal.SIGTERM, count=6))
    assert stopped.code == STOPPED
    assert "stopped by SIGTERM at step 6 of 9 (softmatch)" in stopped.said
    assert f"Resume with: softmatch train --resume {out}" in stopped.said
    assert list_checkpoints(out / "checkpoints")[-1].name == "step-000000006.safetensors"
    done = attempt(case, out)
    assert (done.code, done.steps) == (0, 3)
    assert "resuming after step 6 of 9" in done.said
