"""Seen: detached float32 predictions, and the refusal of what is not finite. With two processes: tests/test_processes.py."""

import pytest
import torch

from softmatch.errors import InputError
from softmatch.step import Seen, gather, refuse_invalid


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
