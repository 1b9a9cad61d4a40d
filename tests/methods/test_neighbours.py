"""Predictions smoothed by those on similar samples."""

import pytest
import torch

from softmatch.errors import InputError
from softmatch.methods.neighbours import LENGTH, TEMPERATURE, Neighbours
from tests.prepared import small_task, trainer_of


def test_the_first_step_is_not_smoothed_and_the_next_follows_the_formula() -> None:
    torch.manual_seed(0)
    smoothing = Neighbours(4, 3, share=0.4)
    first, logits = torch.randn(5, 4), torch.randn(5, 3)
    assert torch.allclose(smoothing(first, logits).exp(), torch.softmax(logits, -1), atol=1e-6)
    then, others = torch.randn(2, 4), torch.randn(2, 3)
    found = smoothing(then, others).exp()
    for row in range(2):
        cosines = torch.stack([torch.cosine_similarity(then[row], other, dim=0) for other in first])
        around = torch.softmax(cosines / TEMPERATURE, 0) @ torch.softmax(logits, -1)
        assert torch.allclose(found[row], 0.6 * torch.softmax(others[row], -1) + 0.4 * around, atol=1e-6)


def test_the_oldest_samples_are_forgotten() -> None:
    smoothing = Neighbours(2, 2, share=1.0)
    wrong, right = torch.tensor([[9.0, 0.0]]), torch.tensor([[0.0, 9.0]])
    smoothing(torch.tensor([[1.0, 0.0]]), wrong)
    smoothing(torch.tensor([[1.0, 0.0]]).expand(LENGTH, 2), right.expand(LENGTH, 2))
    assert smoothing(torch.tensor([[1.0, 0.0]]), wrong).argmax() == 1


def test_a_resumed_trainer_remembers_them() -> None:
    settings = {"network": "shallow-4", "teacher": "average", "neighbours": 0.5, "batch_statistics": "separate"}
    task = small_task("digits", **settings)
    whole, first, second = (trainer_of(task) for _ in range(3))
    for _ in range(8):
        whole.advance()
    for _ in range(5):
        first.advance()
    second.load_state(5, {name: tensor.clone() for name, tensor in first.state().items()})
    for _ in range(3):
        second.advance()
    ours, theirs = whole.state(), second.state()
    assert int(ours["neighbours.probs.count"]) == 8 * 24
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    plain = trainer_of(small_task("digits", **{**settings, "neighbours": 0.0}))
    for _ in range(8):
        plain.advance()
    assert any(not torch.equal(value, ours[name]) for name, value in plain.state().items()), "they change what is learnt"


def test_they_need_an_averaged_teacher_and_features() -> None:
    with pytest.raises(InputError, match="--teacher average"):
        trainer_of(small_task("digits", neighbours=0.5))
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    with pytest.raises(InputError, match="uses the features of the network"):
        trainer_of(small_task("digits", network, neighbours=0.5, teacher="average"))
