"""Numbers as they are shown."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from softmatch.planning.devices import DEVICES, Range
from softmatch.planning.plans import count, make_plan
from softmatch.planning.pool import method_growth, other_growth
from softmatch.planning.setting import Own, named_setting, own_setting
from softmatch.planning.shown import between, flops, number, print_plan, print_plans, print_pool, size, span
from softmatch.planning.sums import sum_up
from softmatch.planning.timing import cpu_speed, gpu_speed


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (512, "512 bytes"),
        (999.6, "1 kB"),
        (1500, "1.5 kB"),
        (123_456_789, "123 MB"),
        (4e12, "4 TB"),
        (2e21, "2e+03 EB"),
    ],
)
def test_sizes_are_by_thousands(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(("value", "text"), [(0.02314, "0.0231"), (9.4, "9.4"), (99.96, "100"), (12_345.6, "12,346")])
def test_numbers_have_three_digits_or_more(value: float, text: str) -> None:
    assert number(value) == text


def test_arithmetic_has_its_unit() -> None:
    assert flops(1.234e12) == "1.23 TFLOP"
    assert flops(1.76e21) == "1,760 EFLOP"
    assert flops(5e5) == "0.5 MFLOP"


def test_a_range_of_one_number_is_a_number() -> None:
    assert between(Range(5.1, 8.7)) == "5.1 – 8.7"
    assert between(Range(5.1, 5.1)) == "5.1"
    assert span(Range(60.0, 7200.0)) == "60 s – 2.0 h"


def shown(draw: Callable[[Console], None], width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO())
    draw(console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def planned(source: str, device: str = "v100", **options: Any) -> str:
    setting = named_setting(source, (options,), "cuda", "settings")
    counted = count(setting)
    found = make_plan(counted, 1, DEVICES[device], gpu_speed(DEVICES[device], counted.cost.work, setting.config.precision))
    return shown(lambda console: print_plan(found, sum_up([found], 1, None), console), 160)


def test_a_precision_is_advised_that_the_device_has() -> None:
    assert "it does not fit. Give smaller batches or more --gpus, or --precision fp16" in planned("imagenet", recipe="paper")
    assert "or more --gpus, or --precision bf16" in planned("imagenet", "rtx-4090", recipe="paper")
    assert "precision bf16." not in planned("imagenet", "t4", recipe="paper", precision="fp16", unlabeled_batch=512)


def test_only_large_images_are_said_to_take_five_milliseconds() -> None:
    assert "Reading files" in planned("imagenet", recipe="paper")
    small = own_setting(Own("image", 10**9, (3, 32, 32), 10), ({},), "cuda", "settings")
    counted = count(small)
    found = make_plan(counted, 1, DEVICES["v100"], gpu_speed(DEVICES["v100"], "images", "float32"))
    assert small.data.files is not None
    assert "Reading files" not in shown(lambda console: print_plan(found, sum_up([found], 1, None), console))


def test_what_is_left_out_is_said() -> None:
    assert "darp solves a problem of all 50,000 samples" in planned("cifar10", method="darp")


def test_hours_without_a_gpu_are_of_this_machine() -> None:
    counted = count(named_setting("two-moons", ({},), "cpu", "settings"))
    found = make_plan(counted, 1, None, cpu_speed(1e11))
    text = shown(lambda console: print_plan(found, sum_up([found], 1, None), console), 160)
    assert "hours of this machine" in text
    assert "GPU" not in text
    assert "GPU" not in shown(lambda console: print_plans([found, found], sum_up([found, found], 1, None), console), 160)


def test_a_pool_is_readable_on_a_narrow_terminal() -> None:
    setting = own_setting(Own("image", 1000, (3, 32, 32), 10), ({},), "cuda", "settings")
    sizes = (10**4, 10**6, 10**9)
    names = ("temporal_ensembling", "darp", "softmatch", "meta_pseudo_labels", "comatch")
    methods, others = method_growth(setting, names, sizes), other_growth(setting, sizes)
    text = shown(lambda console: print_pool(methods, others, DEVICES["a100"], ["vat"], console))
    assert "…" not in text
    for name in (*names[:2], "shard over 3", *(growth.name for growth in others)):
        assert any(name in line for line in text.splitlines())
    assert "comatch (724 kB)" in text.replace("\n", " ")
    assert text.count("\ntogether ") == 2
    assert "they cannot train on this: vat" in text
