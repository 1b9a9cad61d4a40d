"""The views of a run: statistics of what is trained on, and options that the kind of data has."""

from __future__ import annotations

import pytest
import torch

from softmatch.data import Examples, Split
from softmatch.errors import InputError
from softmatch.training.viewing import make_views
from softmatch.views import ImageViews, VectorViews

LABELS = torch.tensor([0, 1, 0, 1, 0, 1])
SPLIT = Split(labeled=torch.tensor([0, 1]), unlabeled=torch.arange(4), test=torch.tensor([4, 5]), seed=0)


def test_vectors_are_standardised_by_what_is_trained_on() -> None:
    items = torch.tensor([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0], [6.0, 5.0], [90.0, 70.0], [-70.0, 80.0]])
    views = make_views(Examples(items, LABELS, ("a", "b"), "vector"), SPLIT, {"swap": 0.2})
    assert isinstance(views, VectorViews)
    assert views.swap == 0.2
    assert views.mean.tolist() == [3.0, 5.0]
    assert views.std.tolist() == pytest.approx([float(items[:4, 0].std()), 1.0]), "what never varied has no scale"


def test_images_are_normalised_by_what_is_trained_on_unless_it_is_known() -> None:
    items = torch.tensor([0, 0, 255, 255, 9, 9], dtype=torch.uint8)[:, None, None, None].expand(6, 1, 2, 2)
    views = make_views(Examples(items, LABELS, ("a", "b"), "image"), SPLIT, {})
    assert isinstance(views, ImageViews)
    assert views.mean == pytest.approx((0.5,))
    known = make_views(Examples(items, LABELS, ("a", "b"), "image", statistics=((0.3,), (0.2,))), SPLIT, {"pad": 1})
    assert isinstance(known, ImageViews)
    assert (known.mean, known.std, known.pad) == ((0.3,), (0.2,), 1)


@pytest.mark.parametrize("option", ["cutout", "mean"])
def test_an_option_of_other_data_is_refused(option: str) -> None:
    with pytest.raises(InputError, match=f"views: this kind of data has no option '{option}'"):
        make_views(Examples(torch.randn(6, 2), LABELS, ("a", "b"), "vector"), SPLIT, {option: 0.1})
