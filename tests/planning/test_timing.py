"""Seconds from arithmetic, computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softmatch.planning.devices import DEVICES, LATENCY, NETWORK, Range
from softmatch.planning.timing import ARITHMETIC, Speed, Work, cpu_speed, gpu_speed, link_of, time_of
from softmatch.planning.traffic import Message, Traffic

ALONE = Traffic((), 1)
WORK = Work(
    step=100.0,
    twin_step=10.0,
    evaluation=30.0,
    survey=0.0,
    operations=4,
    twin_operations=2,
    steps=50,
    trainings=1,
    twins=0,
    evaluations=0,
    surveys=0,
    prepared=0.0,
    views=0.0,
    twin_views=0.0,
)
SLOW = Speed(Range(10.0, 20.0), Range(0.5, 1.0), True, "here")


def test_a_quick_device_waits_for_its_host() -> None:
    found = time_of(WORK, SLOW, ALONE, ALONE, None)
    assert found.step == Range(5.0, 10.0)
    assert found.parts["the host, in between"] == Range(0.0, 0.0)
    busy = time_of(replace(WORK, operations=16), SLOW, ALONE, ALONE, None)
    assert busy.step == Range(8.0, 16.0)
    assert busy.parts[ARITHMETIC] == Range(250.0, 500.0)
    assert busy.parts["the host, in between"] == Range(150.0, 300.0)
    assert busy.overhead.low == pytest.approx(3 / 8)


def test_a_cpu_does_one_after_the_other() -> None:
    found = time_of(replace(WORK, views=3.0), replace(SLOW, asynchronous=False), ALONE, ALONE, None)
    assert found.step == Range(5.0 + 2.0 + 3.0, 10.0 + 4.0 + 3.0)


def test_more_devices_share_the_arithmetic_and_pay_for_traffic() -> None:
    traffic = Traffic((Message("x", "sum", 100.0),), 2)
    found = time_of(WORK, SLOW, traffic, ALONE, 50.0)
    assert found.parts[ARITHMETIC] == Range(125.0, 250.0)
    assert found.parts["traffic"] == Range(50 * (LATENCY.low + 2.0), 50 * (LATENCY.high + 4.0))


def test_twins_folds_evaluations_and_surveys_are_added() -> None:
    work = replace(WORK, trainings=3, twins=2, evaluations=4, surveys=5, survey=1000.0, prepared=200.0)
    parts = time_of(work, SLOW, ALONE, ALONE, None).parts
    assert parts[ARITHMETIC] == Range(750.0, 1500.0)
    assert parts["the supervised twin"] == Range(100.0, 200.0)  # where the host is what takes longest
    assert parts["evaluations"] == Range(6.0, 12.0)
    assert parts["predictions of the unlabelled set"] == Range(750.0, 1500.0)
    assert parts["features, once"] == Range(10.0, 20.0)
    assert work.total == 50 * (300 + 20) + 4 * 30 + 15 * 1000 + 200


def test_measured_steps_take_the_place_of_estimates() -> None:
    measured = Speed(Range(1.0, 1.0), Range(0.0, 0.0), False, "here", step=2.0, twin_step=0.5, beside=0.25)
    found = time_of(replace(WORK, twins=1), measured, ALONE, ALONE, None)
    assert found.step == Range(2.0, 2.0)
    assert found.parts[ARITHMETIC] == Range(75.0, 75.0)
    assert found.parts["the supervised twin"] == Range(25.0, 25.0)
    assert found.overhead.low == found.overhead.high == pytest.approx(50 / 125)


def test_links_are_those_of_the_machine_and_then_of_the_network() -> None:
    a100, t4 = DEVICES["a100"], DEVICES["t4"]
    assert link_of(a100, 8) == 300e9
    assert link_of(a100, 9) == 25e9
    assert link_of(t4, 64) == NETWORK
    assert link_of(a100, 64, 7e9) == 7e9
    assert link_of(None, 4) is None


def test_speeds_say_where_they_come_from() -> None:
    assert "NVIDIA V100 data sheet" in gpu_speed(DEVICES["v100"], "images", "float32").where
    found = cpu_speed(50e9)
    assert "50 GFLOP/s" in found.where
    assert found.rate.high == pytest.approx(0.8 * 50e9)


def test_the_twin_pays_for_its_own_traffic() -> None:
    traffic, twin = Traffic((Message("x", "sum", 100.0),), 2), Traffic((Message("x", "sum", 20.0),), 2)
    parts = time_of(replace(WORK, twins=1, twin_operations=0), SLOW, traffic, twin, 50.0).parts
    assert parts["the supervised twin"].low == pytest.approx(50 * (5 / 20 + LATENCY.low + 20 / 50))
    assert parts["the supervised twin"].high == pytest.approx(50 * (5 / 10 + LATENCY.high + 2 * 20 / 50))


def test_features_are_computed_by_one_process() -> None:
    traffic = Traffic((Message("x", "sum", 100.0),), 2)
    assert time_of(replace(WORK, prepared=200.0), SLOW, traffic, ALONE, 50.0).parts["features, once"] == Range(10.0, 20.0)
