"""Vector views: standardised features and noise of the stated size."""

from __future__ import annotations

import torch

from softmatch.views import VectorViews, views_from_settings


def test_plain_standardises() -> None:
    views = VectorViews([1.0, -2.0], [2.0, 0.5])
    assert torch.allclose(views.plain(torch.tensor([[3.0, -1.0]])), torch.tensor([[1.0, 2.0]]))


def test_noise_has_the_stated_size() -> None:
    views, items = VectorViews([0.0], [2.0], weak_noise=0.02, strong_noise=0.3), torch.zeros(20000, 1)
    assert abs(float(views.weak(items, torch.Generator().manual_seed(0)).std()) - 0.02) < 0.001
    assert abs(float(views.strong(items, torch.Generator().manual_seed(0)).std()) - 0.3) < 0.01


def test_a_constant_feature_does_not_divide_by_zero() -> None:
    views = VectorViews([5.0], [0.0])
    assert torch.isfinite(views.strong(torch.full((4, 1), 5.0), torch.Generator())).all()


def test_settings_make_the_same_views_again() -> None:
    views, items = VectorViews([1.0], [2.0], 0.1, 0.4), torch.randn(8, 1)
    again = views_from_settings(views.settings())
    first, second = (v.strong(items, torch.Generator().manual_seed(1)) for v in (views, again))
    assert torch.equal(first, second)
