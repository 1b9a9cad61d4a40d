"""Checkpoints: whole or not at all, the newest kept, damage named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from softmatch.errors import InputError
from softmatch.training.checkpoint import (
    flatten_optimizer,
    list_checkpoints,
    load_checkpoint,
    save_checkpoint,
    unflatten_optimizer,
    write_atomically,
)


def test_round_trip_and_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        save_checkpoint(tmp_path, step, {"a": torch.full((2,), float(step)), "n": torch.tensor(step)})
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-000000020.safetensors", "step-000000030.safetensors"]
    step, tensors = load_checkpoint(list_checkpoints(tmp_path)[-1])
    assert step == 30
    assert tensors["a"].tolist() == [30.0, 30.0]
    assert tensors["n"].dtype == torch.int64


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    write_atomically(target, b"old")

    def broken(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="No space"):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_files_have_ordinary_permissions(tmp_path: Path) -> None:
    write_atomically(tmp_path / "ours", b"")
    (tmp_path / "plain").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("content", [b"", b"\x00" * 7, b"\xff" * 64, b"not a tensor file at all"])
def test_damaged_files_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "step-000000001.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"step-000000001\.safetensors cannot be read"):
        load_checkpoint(path)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_optimizer_state_round_trip(kind: type[torch.optim.Optimizer]) -> None:
    def made() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        network = nn.Linear(3, 2)
        extra = {"momentum": 0.9} if kind is torch.optim.SGD else {}
        return network, kind(network.parameters(), lr=0.1, **extra)  # type: ignore[call-arg]  # either optimiser

    def step(network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        network(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()

    network, optimizer = made()
    step(network, optimizer)
    other, other_optimizer = made()
    other.load_state_dict(network.state_dict())
    unflatten_optimizer(other_optimizer, {k: v.clone() for k, v in flatten_optimizer(optimizer).items()})
    for pair in ((network, optimizer), (other, other_optimizer)):
        step(*pair)
    for mine, theirs in zip(network.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)
