"""Data sheets, and the range of speeds that follows from them."""

import pytest

from softmatch.errors import InputError
from softmatch.planning.gpus import DEVICES, PAPER_RATE, Range, find_device, rates


def test_ranges_add_and_scale() -> None:
    assert Range(1.0, 2.0) + Range(0.5, 4.0) == Range(1.5, 6.0)
    assert Range(1.0, 2.0) * 3 == Range(3.0, 6.0)
    assert Range(1.0, 2.0).at_least(Range(0.5, 4.0)) == Range(1.0, 4.0)


@pytest.mark.parametrize(
    ("given", "name"), [("V100", "v100"), ("RTX 4090", "rtx-4090"), ("rtx4090", "rtx-4090"), ("a100_40gb", "a100-40gb")]
)
def test_devices_are_found_as_people_write_them(given: str, name: str) -> None:
    assert find_device(given).name == name


def test_an_unknown_device_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"--device a10: there is no data sheet.*a100"):
        find_device("a10")


def test_a_v100_computes_between_the_papers_speed_and_nvidias() -> None:
    found = rates(DEVICES["v100"], "float32")
    assert found.low == PAPER_RATE
    assert found.high == pytest.approx(0.55 * 15.7e12)
    assert rates(DEVICES["v100"], "fp16").high == pytest.approx(0.225 * 125e12)


def test_the_low_end_grows_with_the_lesser_of_arithmetic_and_bandwidth() -> None:
    # An A100 has 1.24 times the arithmetic of a V100 and more than twice its bandwidth; a 4090 the other way round.
    assert rates(DEVICES["a100"], "float32").low == pytest.approx(PAPER_RATE * 19.5 / 15.7)
    assert rates(DEVICES["rtx-4090"], "float32").low == pytest.approx(PAPER_RATE * 1008 / 900)


def test_tf32_is_used_by_default() -> None:
    assert rates(DEVICES["a100"], "float32").high == pytest.approx(0.146 * 156e12)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("half", [False, True])
def test_every_device_has_a_range_below_its_peak(name: str, half: bool) -> None:
    device = DEVICES[name]
    found = rates(device, "fp16" if half else "float32")
    assert 0 < found.low < found.high < device.half
    assert device.sheet
    assert device.memory >= 16e9


@pytest.mark.parametrize("name", ["v100", "t4"])
def test_gpus_without_bfloat16_are_not_planned_with_it(name: str) -> None:
    with pytest.raises(InputError, match=r"has no tensor cores for bfloat16. Give fp16"):
        rates(DEVICES[name], "bf16")
    assert rates(DEVICES["a100"], "bf16") == rates(DEVICES["a100"], "fp16")
