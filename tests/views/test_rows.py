"""Views of some rows of a batch: bit for bit those of the whole batch, whoever makes them."""

import pytest
import torch
from torch import Tensor

from softmatch.distributed.processes import World, share
from softmatch.views import ImageViews, TextViews, VectorViews, Views
from softmatch.views.text_statistics import word_statistics

NUMBER = 23


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _images(channels: int, height: int = 13, width: int = 11) -> Tensor:
    return torch.randint(0, 256, (NUMBER, channels, height, width), generator=_generator(1), dtype=torch.uint8)


def _texts() -> Tensor:
    return (
        torch.randint(1, 30, (NUMBER, 12), generator=_generator(2))
        .sort(dim=1, descending=True)
        .values.masked_fill_(torch.arange(12) > torch.randint(3, 12, (NUMBER, 1), generator=_generator(3)), 0)
    )


ROWS, THIRD = torch.arange(NUMBER), torch.arange(30) % 3 == 0
ALL_OF_TEXTS = {"replace": 0.3, "swap": 0.3, "drop": 0.2, "span": 0.3}

CASES: dict[str, tuple[Views, Tensor]] = {
    "images": (ImageViews([0.5] * 3, [0.25] * 3), _images(3)),
    "grey images": (ImageViews([0.5], [0.25], reflect=False), _images(1)),
    "images, cropped first": (ImageViews([0.5] * 3, [0.25] * 3, order="crop-first"), _images(3)),
    "images that are only turned": (
        ImageViews([0.5] * 3, [0.25] * 3, pad=0, flip=False, names=["rotate"], cutout=0.0),
        _images(3),
    ),
    "vectors": (VectorViews([0.1] * 5, [1.5] * 5), torch.randn(NUMBER, 5, generator=_generator(4))),
    "vectors with swap and drop": (
        VectorViews([0.1] * 5, [1.5] * 5, swap=0.5, drop=0.3),
        torch.randn(NUMBER, 5, generator=_generator(4)),
    ),
    "tokens": (TextViews(0, 29, (1,), weak=0.1, strong=0.4), _texts()),
    "tokens that are taken out": (TextViews(0, None, (1,), weak=0.0, strong=0.4), _texts()),
    "tokens with everything": (
        TextViews(0, 29, (1,), **ALL_OF_TEXTS, statistics=word_statistics(_texts(), ROWS, (0, 1))),
        _texts(),
    ),
    "words of several tokens": (
        TextViews(0, 29, (1,), **ALL_OF_TEXTS, continues=THIRD, statistics=word_statistics(_texts(), ROWS, (0, 1), THIRD)),
        _texts(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_shares_of_several_processes_are_the_rows_of_the_whole_view(name: str) -> None:
    views, items = CASES[name]
    for view in ("weak", "medium", "strong"):
        make = getattr(views, view)
        whole = make(items, _generator(7))
        for size in (2, 3, NUMBER):
            found = [make(items, _generator(7), share(NUMBER, World(rank, size))) for rank in range(size)]
            assert len({len(part) for part in found}) <= 2
            assert torch.equal(torch.cat(found), whole), (view, size)


@pytest.mark.parametrize("name", CASES)
def test_a_part_takes_as_many_random_numbers_as_the_whole(name: str) -> None:
    """What is drawn afterwards from the same generator is then the same for every process."""
    views, items = CASES[name]
    for view in ("weak", "medium", "strong"):
        whole, part = _generator(7), _generator(7)
        getattr(views, view)(items, whole)
        getattr(views, view)(items, part, slice(4, 9))
        assert torch.equal(whole.get_state(), part.get_state())


def test_exchanged_features_come_from_all_of_the_batch() -> None:
    items = torch.arange(200.0)[:, None].expand(200, 30)
    views = VectorViews([0.0] * 30, [1.0] * 30, 0.0, 0.0, swap=1.0)
    seen = views.strong(items, _generator(), slice(0, 20))
    assert seen.shape == (20, 30)
    assert float((seen >= 20).float().mean()) > 0.8
