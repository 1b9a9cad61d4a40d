"""Random data in the place of real ones, to time real steps."""

from __future__ import annotations

import torch

from softmatch.planning.measured import random_task, sized_method
from softmatch.planning.setting import named_setting
from softmatch.training.setup import build_method, make_trainer


def test_random_data_have_the_sizes_of_the_real_ones() -> None:
    options = {
        "recipe": "paper",
        "imbalance": 100,
        "model": "small-conv-8",
        "labeled_batch": 4,
        "unlabeled_batch": 8,
        "threads": 1,
    }
    task = random_task(named_setting("cifar10", (options,), "cpu", "settings"), "cpu")
    assert task.shape == (3, 32, 32)
    assert len(task.examples.classes) == 10
    assert len(task.split.labeled) == 40
    assert task.config.optimizer == "adam"
    trainer = make_trainer(task, build_method(task, "softmatch"))
    trainer.advance()
    assert trainer.step == 1


def test_vectors_are_made_too() -> None:
    task = random_task(named_setting("two-moons", ({},), "cpu", "settings"), "cpu")
    assert isinstance(task.examples.items, torch.Tensor)
    assert task.examples.items.dtype == torch.float32


def test_a_method_is_measured_with_a_memory_of_the_real_size() -> None:
    setting = named_setting("two-moons", ({"method": "sla"},), "cpu", "settings")
    task = random_task(setting, "cpu")
    assert len(task.split.unlabeled) != 54_321
    found = sized_method(task, "sla", 54_321)
    assert sum(value.nbytes for value in found.state_dict().values()) > 54_321 * 2 * 4
