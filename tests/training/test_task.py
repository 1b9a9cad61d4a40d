"""What is decided before training: devices, data, momenta."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from softmatch.config import make_config
from softmatch.data import find_source
from softmatch.errors import InputError
from softmatch.training.devices import choose_device
from softmatch.training.task import build_method, effective, make_trainer, prepare


def test_devices() -> None:
    assert choose_device("cpu").type == "cpu"
    assert choose_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(InputError, match="cannot be used here"):
        choose_device("warp-drive")


def test_prepare_decides_without_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    task = prepare("digits", make_config(find_source("digits").defaults))
    assert (len(task.split.labeled), len(task.test[1])) == (40, 539)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "passes"),
    [
        ({"batch_statistics": "joint"}, 1),
        ({"batch_statistics": "separate", "micro_batch": 0}, 3),
        ({"batch_statistics": "separate", "micro_batch": 16}, 3 + 2 + 2),
        ({"batch_statistics": "separate", "micro_batch": 0, "method": "supervised"}, 1),
    ],
)
def test_running_statistics_move_as_far_in_a_step_of_many_passes(settings: dict[str, Any], passes: int) -> None:
    base = {"steps": 800, "unlabeled_batch": 24, "threads": 1}
    config = make_config(find_source("digits").defaults, base, settings)
    task = prepare("digits", config)
    trainer = make_trainer(task, build_method(task, config.method))
    norm = next(m for m in trainer.network.modules() if isinstance(m, torch.nn.BatchNorm2d))
    assert norm.momentum is not None
    assert (1 - norm.momentum) ** passes == pytest.approx(0.95)
    trainer.advance()
    assert int(norm.num_batches_tracked or 0) == passes


def test_effective_settings_leave_nothing_open() -> None:
    task = prepare("digits", make_config(find_source("digits").defaults, {"steps": 800}))
    found = effective(task)
    assert (found["model"], found["labels"], found["split_seed"]) == ("small-conv", 40, 0)
    assert found["statistics_momentum"] == found["model_momentum"] == pytest.approx(0.95)
    assert found["batch_norm_momentum"] == pytest.approx(0.05)
    assert (found["evaluate_every"], found["checkpoint_every"], found["micro_batch"]) == (20, 80, 0)
