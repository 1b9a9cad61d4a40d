"""What grows with the unlabelled set."""

from __future__ import annotations

import pytest

from softmatch.errors import InputError
from softmatch.planning.devices import DEVICES
from softmatch.planning.pool import Growth, fitting_methods, method_growth, other_growth, pool_device, read_sizes, together
from softmatch.planning.setting import Own, Setting, named_setting, own_setting

SIZES = (10**4, 10**9)


def setting() -> Setting:
    return own_setting(Own("image", 1000, (3, 32, 32), 10), ({"labels": 40},), "cuda", "settings")


def test_sizes_are_read_in_order() -> None:
    assert read_sizes("1e9, 1e4,1e6") == (10**4, 10**6, 10**9)


@pytest.mark.parametrize("text", ["", "many", "0", "1e13", "inf", "1e4,-3"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--pool"):
        read_sizes(text)


def test_methods_remember_what_they_say() -> None:
    found = {growth.name: growth for growth in method_growth(setting(), ("softmatch", "flexmatch", "darp", "comatch"), SIZES)}
    assert (found["softmatch"].per_sample, found["softmatch"].constant) == (0, 184)
    assert found["flexmatch"].per_sample == 4
    assert found["flexmatch"].bytes == (4 * (10**4 + 1) + 128, 4 * (10**9 + 1) + 128)
    assert found["darp"].per_sample == 2 * 10 * 4
    assert found["comatch"].per_sample == 0
    assert found["comatch"].bytes[0] == found["comatch"].bytes[1] > 0
    assert found["flexmatch"].verdict(DEVICES["a100"]) == "fits"
    assert found["darp"].verdict(DEVICES["a100"]) == "shard over 3"


def test_everything_else_has_its_rows() -> None:
    found = {growth.name: growth for growth in other_growth(setting(), SIZES)}
    assert found["items, in memory"].bytes == (3072 * 10**4, 3072 * 10**9)
    assert found["shuffles of two epochs"].per_sample == 16
    assert found["read for the fingerprint"].bytes == (3072 * 10**4, 2**26)
    assert found["split.json, positions listed"].bytes[1] == pytest.approx(10**9 * (4 + 9), rel=0.02)


def test_a_host_has_memory_of_its_own() -> None:
    growth = Growth("x", "host", (1,), (65e9,), 0.0)
    assert growth.verdict(DEVICES["t4"]) == "shard over 2"
    assert pool_device(None).name == "a100"
    assert pool_device(DEVICES["t4"]).name == "t4"


def test_methods_that_do_not_fit_are_left_out() -> None:
    texts = named_setting("agnews", ({"recipe": "paper"},), "cuda", "settings")
    fit, unfit = fitting_methods(texts, ("softmatch", "vat", "flexmatch"))
    assert (fit, unfit) == (["softmatch", "flexmatch"], ["vat"])


def test_what_lies_in_one_place_is_summed() -> None:
    found = together(other_growth(setting(), SIZES), "host")
    assert found.per_sample == 16 + 8 + 8 + 350
    assert found.bytes == (382 * 10**4, 382 * 10**9)
    assert found.verdict(DEVICES["a100"]) == "shard over 6"
