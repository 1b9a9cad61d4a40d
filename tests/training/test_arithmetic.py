"""The number format that "auto" stands for, and denormal numbers: zero in every thread while training, as before afterwards."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import softmatch
from softmatch.config import Config
from softmatch.distributed import devices
from softmatch.distributed.devices import has_bf16_units
from softmatch.training import arithmetic
from softmatch.training.arithmetic import choose_precision, describe_machine, flushes, set_flushing, use_threads
from softmatch.training.setup import restored_state
from tests import forked

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {"steps": 3, "labeled_batch": 4, "unlabeled_batch": 8, "network": "small-conv-2", "threads": 1}
LARGE = 2**18
"""Elements of which each of two threads gets a part."""


def with_units(monkeypatch: pytest.MonkeyPatch, has: bool = True) -> None:
    monkeypatch.setattr(arithmetic, "has_bf16_units", lambda device: has)


@pytest.mark.parametrize("unit", devices.BF16_UNITS)
def test_units_are_those_that_torch_finds(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in devices.BF16_UNITS:
        monkeypatch.setattr(torch.cpu, name, lambda: False, raising=False)
    assert not has_bf16_units(CPU)
    monkeypatch.setattr(torch.cpu, unit, lambda: True)
    assert has_bf16_units(CPU)
    for name in devices.BF16_UNITS:  # as in a version of torch without these functions
        monkeypatch.delattr(torch.cpu, name)
    assert not has_bf16_units(CPU)
    assert not has_bf16_units(torch.device("mps"))


@pytest.mark.parametrize(
    ("settings", "network", "side", "expected"),
    [
        ({"recipe": "sprint"}, nn.Conv2d(3, 4, 3), 32, "bf16"),
        ({"recipe": "sprint"}, nn.Sequential(nn.Conv2d(3, 4, 3)), 16, "bf16"),
        ({"recipe": "sprint"}, nn.Conv2d(3, 4, 3), 8, "float32"),
        ({"recipe": "sprint"}, nn.Linear(3, 4), 32, "float32"),
        ({}, nn.Conv2d(3, 4, 3), 32, "float32"),
        ({"recipe": "sprint", "precision": "float32"}, nn.Conv2d(3, 4, 3), 32, "float32"),
        ({"precision": "fp16"}, nn.Linear(3, 4), 8, "fp16"),
    ],
)
def test_auto(settings: dict[str, Any], network: nn.Module, side: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_units(monkeypatch)
    assert choose_precision(Config(**settings), network, (3, side, side), CPU) == expected
    with_units(monkeypatch, has=False)
    without = expected if "precision" in settings else "float32"
    assert choose_precision(Config(**settings), network, (3, side, side), CPU) == without


def test_the_line_about_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with_units(monkeypatch, has=False)
    assert describe_machine(CPU, "float32") == "cpu, 1 thread, float32 (this CPU has no bf16 units)"
    assert describe_machine(CPU, "bf16") == "cpu, 1 thread, bf16 (slow: this CPU has no bf16 units)"
    assert describe_machine(torch.device("cuda", 1), "float32") == "cuda:1, float32 (this GPU has no bf16 units)"
    assert describe_machine(torch.device("mps"), "float32") == "mps, float32"
    with_units(monkeypatch)
    torch.set_num_threads(2)
    assert describe_machine(CPU, "bf16") == "cpu, 2 threads, bf16"


def denormals(elements: int = LARGE) -> int:
    """Number of products below 1e-38 that are not zero, over all threads."""
    return int((torch.full((elements,), 1e-30) * 1e-9).view(torch.int32).count_nonzero())


def test_every_thread_of_the_pool_follows() -> None:
    torch.set_num_threads(2)
    assert denormals() == LARGE, "the pool is started now, before the mode changes"
    assert set_flushing(True)
    try:
        assert (denormals(), flushes()) == (0, True)
    finally:
        assert not set_flushing(False)
    assert (denormals(), flushes()) == (LARGE, False)


def test_threads_that_are_used_later_follow() -> None:
    torch.set_num_threads(3)
    assert denormals() == LARGE
    torch.set_num_threads(1)
    with restored_state():
        use_threads(3)
        assert denormals() == 0
    assert torch.get_num_threads() == 1
    torch.set_num_threads(3)
    assert denormals() == LARGE, "none of the threads was left behind"


def test_a_mode_that_some_thread_does_not_take_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "flushes", lambda elements=1: False)
    assert not set_flushing(True)
    assert denormals() == LARGE


class Watching(nn.Module):
    """A network that remembers whether denormal numbers were zero in its passes."""

    seen: list[int] = []  # noqa: RUF012  # shared by copies on purpose

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(64, num_classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.seen.append(denormals(4))
        out: torch.Tensor = self.head(inputs.flatten(1))
        return out


@pytest.mark.parametrize("how", ["train", "classifier"])
def test_denormal_numbers_are_zero_while_training_and_only_then(how: str, tmp_path: Path) -> None:
    Watching.seen.clear()
    if how == "train":
        softmatch.train("digits", **{**SMALL, "network": Watching, "out": tmp_path / "run"})
    else:
        images, labels = torch.rand(40, 8, 8).mul(255).byte().numpy(), [0, 1] * 4 + [-1] * 32
        softmatch.Classifier(network=Watching, steps=3, unlabeled_batch=8).fit(images, labels)
        del Watching.seen[-1:]  # predictions after training
    assert set(Watching.seen) == {0}
    assert denormals() == LARGE


def test_python_and_the_command_line_give_the_same_bytes(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    denormals()  # a pool that was started before
    softmatch.train("digits", **{**SMALL, "threads": 2, "recipe": "sprint", "network": "shallow-2", "out": tmp_path / "python"})
    options = "--steps 3 --labeled-batch 4 --unlabeled-batch 8 --threads 2 --recipe sprint --network shallow-2 --quiet"
    done = forked.run(["-m", "softmatch", "train", "digits", *options.split(), "--out", "command"], tmp_path)
    assert done.returncode == 0, done.stderr
    models = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("python", "command")]
    assert models[0] == models[1]
