"""What views cost a processor."""

from __future__ import annotations

from typing import Any

import pytest

from softmatch.errors import InputError
from softmatch.planning.setting import Setting, named_setting
from softmatch.planning.views import SECONDS_OF_A_VALUE, SECONDS_OF_A_VECTOR_VALUE, count_view_operations, view_seconds


def named(source: str, **options: Any) -> Setting:
    return named_setting(source, (options,), "cuda", "settings")


def test_strong_views_start_many_more_operations_than_weak_ones() -> None:
    weak, strong = (count_view_operations(named("cifar10"), (name,)) for name in ("weak", "strong"))
    assert 5 < weak < 40
    assert strong > 5 * weak
    assert count_view_operations(named("cifar10"), ("weak", "strong")) == pytest.approx(weak + strong, rel=0.1)


def test_workers_and_texts_start_none() -> None:
    assert count_view_operations(named("imagenet"), ("weak", "strong")) == 0
    assert count_view_operations(named("agnews", recipe="paper"), ("weak", "strong")) == 0
    assert view_seconds(named("imagenet"), [("weak", 10)]) == 0


def test_seconds_are_by_value() -> None:
    values = 3 * 32 * 32
    expected = values * (10 * SECONDS_OF_A_VALUE["weak"] + 20 * SECONDS_OF_A_VALUE["strong"])
    assert view_seconds(named("cifar10"), [("weak", 10), ("strong_2", 20)]) == pytest.approx(expected)
    assert view_seconds(named("two-moons"), [("weak", 10), ("strong", 20)]) == pytest.approx(60 * SECONDS_OF_A_VECTOR_VALUE)


def test_a_wrong_option_is_refused() -> None:
    with pytest.raises(InputError, match=r"has no option 'cutuot'. Did you mean 'cutout'"):
        count_view_operations(named("cifar10", views={"cutuot": 1}), ("weak",))
