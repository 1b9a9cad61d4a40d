"""Seen: detached float32 predictions of all processes, shown with two real ones; and the refusal of what is not finite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from softmatch.errors import InputError
from softmatch.seen import Seen, gather, refuse_invalid
from tests import two_processes

States = dict[str, dict[str, Tensor]]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[States]:
    """What two processes, each with half of every batch, end with."""
    directory = tmp_path_factory.mktemp("two")
    command = [sys.executable, two_processes.__file__ or ""]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # the same softmatch as here
    processes = [
        subprocess.Popen([*command, str(rank), str(directory)], stderr=subprocess.PIPE, text=True, env=environment)
        for rank in range(2)
    ]
    try:
        for process in processes:
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [torch.load(Path(directory) / f"rank{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("name", two_processes.METHODS)
def test_two_processes_learn_the_same_as_one(name: str, ranks: list[States]) -> None:
    alone = two_processes.run(name, rank=0, world=1)
    first, second = (rank[name] for rank in ranks)
    assert first.keys() == second.keys() == alone.keys()
    for key in alone.keys() - {"losses"}:
        assert torch.equal(first[key], second[key]), key
        torch.testing.assert_close(first[key], alone[key], atol=1e-6, rtol=0)
    # Losses stay local; as the shares are equal, their mean is the loss of the whole batch.
    torch.testing.assert_close((first["losses"] + second["losses"]) / 2, alone["losses"], atol=1e-5, rtol=0)
    assert not torch.equal(first["losses"], second["losses"])


@pytest.mark.parametrize("name", two_processes.METHODS)
def test_half_of_the_batch_alone_would_learn_something_else(name: str) -> None:
    """The test above can fail: a process that does not gather ends with another state."""
    whole = two_processes.run(name, rank=0, world=1)
    half = two_processes.run(name, rank=0, world=2)
    assert any(not torch.allclose(whole[key], half[key], atol=1e-3) for key in whole.keys() - {"losses"})


def test_one_process_gathers_its_own_tensor() -> None:
    value = torch.randn(3)
    assert gather(value) is value


def test_from_logits_is_detached_float32_softmax() -> None:
    logits = torch.randn(5, 3, dtype=torch.float16, requires_grad=True)
    labels, index = torch.tensor([0, 1]), torch.arange(5)
    seen = Seen.from_logits(logits, logits[:2], labels, index)
    assert seen.weak_probs.dtype == torch.float32
    assert not seen.weak_probs.requires_grad
    torch.testing.assert_close(seen.weak_probs, logits.detach().float().softmax(-1))
    assert seen.labeled_probs is not None
    assert not seen.labeled_probs.requires_grad
    assert seen.labeled_probs.shape == (2, 3)
    assert seen.labels is labels
    assert seen.index is index


def test_from_logits_without_labels_and_index() -> None:
    seen = Seen.from_logits(torch.randn(5, 3), None, None, None)
    assert seen.labeled_probs is seen.labels is seen.index is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_refusal_names_the_tensor_and_the_first_row(value: float, dtype: torch.dtype) -> None:
    logits = torch.zeros(4, 3, dtype=dtype)
    logits[2, 1] = logits[3, 0] = value
    with pytest.raises(InputError, match=r"^weak_logits contains NaN or infinity \(first in row 2\)\."):
        refuse_invalid("weak_logits", logits)


def test_finite_and_empty_tensors_pass() -> None:
    refuse_invalid("logits", torch.tensor([[1e30, -1e30]]))
    refuse_invalid("logits", torch.zeros(0, 3))
