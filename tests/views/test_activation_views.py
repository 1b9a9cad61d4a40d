"""Views of cached activations."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from softmatch.errors import InputError
from softmatch.seeds import stream
from softmatch.views.activation_views import ActivationViews

LENGTHS = torch.tensor([3, 5, 1, 6])
STARTS = LENGTHS.cumsum(0) - LENGTHS
VALUES = np.arange(1, 31, dtype=np.float16).reshape(15, 2)
ROWS = torch.tensor([[1], [0], [3], [2], [1]])


def _texts(**options: Any) -> ActivationViews:
    return ActivationViews(VALUES, STARTS, LENGTHS, **options)


def _map(**options: Any) -> ActivationViews:
    """Two maps of features of 2×3 pixels."""
    return ActivationViews(VALUES[:12], torch.tensor([0, 6]), torch.tensor([6, 6]), (2, 3), removes=False, **options)


def _whole(row: int) -> Tensor:
    start, length = int(STARTS[row]), int(LENGTHS[row])
    return torch.from_numpy(VALUES[start : start + length].astype(np.float32))


def test_plain_and_weak_views_are_the_activations_with_their_places() -> None:
    views = _texts()
    found = views.plain(ROWS)
    assert found.shape == (5, 6, 3)
    for place, row in enumerate(ROWS[:, 0].tolist()):
        length = int(LENGTHS[row])
        assert torch.equal(found[place, :length, :-1], _whole(row))
        assert found[place, :, -1].tolist() == [1.0] * length + [0.0] * (6 - length)
        assert not found[place, length:].any()
    assert torch.equal(views.weak(ROWS, stream(0)), found)
    assert views.size == 18


def test_a_strong_view_of_a_text_loses_tokens_but_never_the_first() -> None:
    views, lost = _texts(drop=0.5), 0
    for seed in range(20):
        found = views.strong(ROWS, stream(seed))
        for place, row in enumerate(ROWS[:, 0].tolist()):
            number = int(found[place, :, -1].sum())
            kept, whole = found[place, :number, :-1], _whole(row)
            assert found[place, :number, -1].all(), "what is left moves to the left"
            assert torch.equal(kept[0], whole[0])
            at = [int((whole == one).all(1).nonzero()) for one in kept]
            assert at == sorted(set(at)), "in their order"
            lost += len(whole) - number
    assert 0.4 < lost / (20 * (5 + 3 + 6 + 1 + 5 - 5)) < 0.6


def test_a_share_of_a_batch_is_that_of_the_whole() -> None:
    views = _texts(drop=0.4, strong_noise=0.5, weak_noise=0.1)
    for name in ("weak", "medium", "strong"):
        whole = getattr(views, name)(ROWS, stream(3))
        part = getattr(views, name)(ROWS, stream(3), slice(1, 3))
        assert torch.equal(part, whole[1:3])
        assert torch.equal(whole, getattr(views, name)(ROWS, stream(3)))
    noisy = _texts(drop=0.0, strong_noise=0.5).strong(ROWS, stream(0))
    assert not noisy[..., :-1][noisy[..., -1] == 0].any(), "there is no noise where there is nothing"
    assert not torch.equal(noisy, views.plain(ROWS))


def test_maps_of_features_are_mirrored_and_lose_pixels() -> None:
    rows = torch.arange(40)[:, None] % 2
    views = _map(drop=0.3)
    plain, weak, strong = views.plain(rows), views.weak(rows, stream(1)), views.strong(rows, stream(1))
    mirrored = plain.unflatten(1, (2, 3)).flip(2).flatten(1, 2)
    same, other = (weak == plain).flatten(1).all(1), (weak == mirrored).flatten(1).all(1)
    assert bool((same ^ other).all())
    assert 8 < int(other.sum()) < 32
    assert bool((strong[..., -1] == 1).all())
    lost = (strong[..., :-1] == 0).all(-1)
    assert 0.2 < float(lost.float().mean()) < 0.4
    assert bool(lost[:, 0].any()), "no pixel stands for the whole"
    assert torch.equal(_map(flip=False).weak(rows, stream(1)), plain)


def test_settings_and_mistakes() -> None:
    assert _texts(drop=0.3).settings() == {"kind": "activations", "drop": 0.3, "weak_noise": 0.0, "strong_noise": 0.0}
    assert _map().settings()["flip"] is True
    with pytest.raises(InputError, match="drop must be a share of positions"):
        _texts(drop=1.5)
    with pytest.raises(InputError, match="strong_noise must be a number of 0 or more"):
        _texts(strong_noise=-1)
