"""ReMixMatch's rotation task: how far each image was turned, told by a head of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from softmatch.errors import InputError
from softmatch.methods import Forward
from softmatch.methods.forward import Encoded
from softmatch.methods.mixmatch import quarter_turns, remixmatch
from softmatch.networks.heads import Headed
from tests.methods.networks import batch

CLASSES = 3


def test_quarter_turns_are_of_each_image_alone() -> None:
    images, turns = torch.arange(8.0 * 2 * 9).reshape(8, 2, 3, 3), torch.tensor([0, 3, 1, 2, 2, 0, 1, 3])
    given = images.clone()
    turned = quarter_turns(images, turns)
    assert torch.equal(images, given)
    for image, result, number in zip(images, turned, turns.tolist(), strict=True):
        np.testing.assert_array_equal(result.numpy(), np.rot90(image.numpy(), number, axes=(1, 2)))


class Small(nn.Module):
    """Features and a head, for images of 4×4 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh())
        self.head = nn.Linear(5, CLASSES)

    def features(self, inputs: Tensor) -> Tensor:
        return self.body(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.features(inputs))


class WatchedForward(Forward):
    """Remembers what was encoded."""

    def encode(self, *views: Tensor, gradient: tuple[bool, ...] | None = None, tracking: bool = True) -> list[Encoded]:
        assert not tracking
        self.encoded = views
        return super().encode(*views, gradient=gradient, tracking=tracking)


def turns_of(turned: Tensor, images: Tensor) -> list[int]:
    """By how many quarters each image was turned."""
    pairs = zip(turned, images, strict=True)
    found = [[n for n in range(4) if torch.equal(result, torch.rot90(image, n, (1, 2)))] for result, image in pairs]
    assert all(len(numbers) == 1 for numbers in found)
    return [numbers[0] for numbers in found]


def test_turns_are_drawn_for_each_image_alone_and_are_the_labels() -> None:
    method = remixmatch(CLASSES, shape=(1, 4, 4))
    network = Headed(Small(), method.heads(5))
    forward, images = WatchedForward(network), torch.randn(64, 1, 4, 4)
    loss = method.rotation_loss(forward, images)
    turns = turns_of(forward.encoded[0], images)
    assert set(turns) == set(turns[:32]) == {0, 1, 2, 3}
    logits = network.heads["rotation"](network.features(forward.encoded[0]))
    torch.testing.assert_close(loss, nn.functional.cross_entropy(logits, torch.tensor(turns)))


def test_rotation_loss_is_not_ramped_and_trains_its_head_on_turned_strong_views() -> None:
    method = remixmatch(CLASSES, shape=(1, 4, 4))
    network = Headed(Small(), method.heads(5))
    rotation = network.heads["rotation"]
    assert (rotation.in_features, rotation.out_features) == (5, 4)
    nn.init.zeros_(rotation.weight)
    nn.init.zeros_(rotation.bias)
    forward, data = WatchedForward(network), batch("weak", "strong", "strong_2", size=3, inputs=(1, 4, 4))
    output = method.step(forward, data)
    (turned,) = forward.encoded
    turns_of(turned, data.unlabeled["strong"])
    assert float(output.unsupervised_loss) == pytest.approx(0.5 * math.log(4), rel=1e-6)  # a head of zeros, the ramp at 0
    assert float(output.loss.detach()) == pytest.approx(float(output.supervised_loss) + 0.5 * math.log(4), rel=1e-6)
    output.loss.backward()
    assert float(rotation.weight.grad.abs().sum()) > 0


def test_the_rotation_task_reaches_the_features() -> None:
    method = remixmatch(CLASSES, shape=(1, 4, 4))
    network = Headed(Small(), method.heads(5))
    method.rotation_loss(Forward(network), torch.randn(6, 1, 4, 4)).backward()
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in network.network.body.parameters())  # type: ignore[union-attr]  # a module
    assert network.network.head.weight.grad is None  # type: ignore[union-attr]  # a linear layer


SQUARE = {"shape": (3, 8, 8)}
OTHERS = ({**SQUARE, "rotation": False}, {"shape": (3, 8, 6)}, {"shape": (8,), "kind": "vector"}, {})


@pytest.mark.parametrize(("given", "rotates"), [(SQUARE, True), ({"rotation": True}, True), *((each, False) for each in OTHERS)])
def test_rotation_is_for_square_images(given: dict[str, Any], rotates: bool) -> None:
    method = remixmatch(CLASSES, **given)
    assert method.needs_features is rotates
    assert bool(method.heads(5)) is rotates


@pytest.mark.parametrize(
    ("given", "says"),
    [({"shape": (3, 8, 6)}, "not images of 8×6 pixels"), ({"kind": "vector", "shape": (8,)}, "not items of kind 'vector'")],
)
def test_rotation_of_what_cannot_be_turned_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        remixmatch(CLASSES, rotation=True, **given)
