"""The stopwatch: parts add up, inner parts count once."""

from __future__ import annotations

import time

import torch
from softmatch.training.clock import Clock, Stopwatch


def test_inner_parts_are_not_counted_twice() -> None:
    watch = Stopwatch(torch.device("cpu"))
    started = time.perf_counter()
    with watch("outer"):
        time.sleep(0.02)
        for _ in range(2):
            with watch("inner"):
                time.sleep(0.02)
        with watch("other"), watch("inner"):
            time.sleep(0.01)
    total = time.perf_counter() - started
    assert set(watch.seconds) == {"outer", "inner", "other"}
    assert sum(watch.seconds.values()) <= total
    assert watch.seconds["inner"] >= 0.05
    assert watch.seconds["outer"] >= 0.02
    assert watch.seconds["other"] < watch.seconds["inner"]
    assert sum(watch.seconds.values()) > 0.07


def test_a_part_that_fails_is_closed() -> None:
    watch = Stopwatch(torch.device("cpu"))
    try:
        with watch("outer"), watch("inner"):
            raise KeyError
    except KeyError:
        pass
    with watch("outer"):
        pass
    assert set(watch.seconds) == {"outer", "inner"}


def test_the_silent_clock_is_a_context() -> None:
    with Clock()("anything"):
        pass
