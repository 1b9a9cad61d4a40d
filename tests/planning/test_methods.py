"""What methods remember: built without memory, it is what it really is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

from softmatch.errors import InputError
from softmatch.methods import METHODS
from softmatch.networks import build_network
from softmatch.planning.methods import planned_method, planned_task, state_of
from softmatch.planning.networks import make_network
from softmatch.planning.setting import Own, Setting, own_setting
from softmatch.training.setup import build_method

UNLABELED = 15_000
"""Enough for every registry to be made without memory."""


@cache
def setting(method: str) -> Setting:
    own = Own("image", UNLABELED, (1, 8, 8), 10, 5)
    return own_setting(own, ({"method": method, "labels": 40, "steps": 3000, "model": "small-conv-8"},), "cuda", "settings")


def adam(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(module.parameters())


@pytest.mark.parametrize("name", METHODS)
def test_the_planned_state_is_the_real_one(name: str) -> None:
    network = build_network("small-conv-8", (1, 8, 8), 10)
    features: Any = network.head.in_features  # type: ignore[union-attr]  # of our networks
    real = build_method(planned_task(setting(name), features), name)
    real.begin(network, adam)
    planned = state_of(planned_method(setting(name), name, features), make_network("small-conv-8", (1, 8, 8), 10))
    assert planned.saved == sum(value.nbytes for value in real.state_dict().values())
    assert planned.trained == sum(value.nbytes for value in real.parameters())
    assert planned.held >= planned.saved


def test_a_billion_samples_take_no_memory_to_plan() -> None:
    large = replace(setting("flexmatch"), data=replace(setting("flexmatch").data, unlabeled=10**9))
    assert state_of(planned_method(large, "flexmatch", 8)).saved == 4 * (10**9 + 1) + 128


def test_what_is_kept_beside_the_state_is_counted() -> None:
    found = state_of(planned_method(setting("crest+flexmatch"), "crest+flexmatch", 8))
    assert found.held - found.saved == 4 * (UNLABELED + 1) + 128  # the state that a generation begins with


def test_batches_without_a_row_for_each_process_are_refused() -> None:
    with pytest.raises(InputError, match="--labeled-batch 40 has no row for each of 64 processes"):
        planned_method(setting("softmatch"), "softmatch", 8, processes=64)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(InputError, match=r"there is no method 'softmach'. Did you mean 'softmatch'"):
        planned_method(setting("softmatch"), "softmach", 8)
