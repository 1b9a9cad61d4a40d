"""Vector views: standardised features and noise of the stated size."""

import pytest
import torch

from softmatch.errors import InputError
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


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_without_swap_and_drop_the_views_are_only_noise() -> None:
    views, items = VectorViews([1.0, 2.0], [2.0, 3.0]), torch.randn(6, 2)
    for view, scale in (("weak", 0.02), ("medium", (0.02 * 0.15) ** 0.5), ("strong", 0.15)):
        expected = views.plain(items) + scale * torch.randn(6, 2, generator=_generator(3))
        assert torch.equal(getattr(views, view)(items, _generator(3)), expected)


@pytest.mark.parametrize(("view", "share"), [("weak", 0.0), ("medium", 0.2), ("strong", 0.4)])
def test_swapped_features_come_from_other_samples(view: str, share: float) -> None:
    items = torch.arange(2000.0)[:, None] + torch.tensor([[0.0, 0.25, 0.5]])  # the fraction tells the feature
    views = VectorViews([0.0] * 3, [1.0] * 3, 0.0, 0.0, swap=0.4)
    seen = getattr(views, view)(items, _generator())
    changed = seen != items
    assert torch.equal(seen % 1, items % 1), "the same feature of another sample"
    assert float(changed.float().mean()) == pytest.approx(share, abs=0.02)


def test_another_sample_is_never_the_same_one() -> None:
    items = torch.arange(2.0)[:, None].expand(2, 50)
    views = VectorViews([0.0] * 50, [1.0] * 50, 0.0, 0.0, swap=1.0)
    assert torch.equal(views.strong(items, _generator()), items.flip(0))
    alone = torch.randn(1, 50)
    assert torch.equal(views.strong(alone, _generator()), views.plain(alone))


def test_dropped_features_become_their_mean() -> None:
    items = torch.full((3000, 2), 9.0)
    views = VectorViews([1.0, 2.0], [2.0, 1.0], 0.0, 0.0, drop=0.3)
    seen = views.strong(items, _generator())
    assert set(seen.flatten().tolist()) == {0.0, 4.0, 7.0}
    assert float((seen == 0).float().mean()) == pytest.approx(0.3, abs=0.02)
    assert float((views.medium(items, _generator()) == 0).float().mean()) == pytest.approx(0.15, abs=0.02)
    assert not (views.weak(items, _generator()) == 0).any()


def test_settings_make_the_same_views_again() -> None:
    views, items = VectorViews([1.0] * 4, [2.0] * 4, 0.1, 0.4, swap=0.3, drop=0.2), torch.randn(8, 4)
    again = views_from_settings(views.settings())
    assert torch.equal(views.strong(items, _generator(5)), again.strong(items, _generator(5)))
    assert again.settings() == views.settings()


@pytest.mark.parametrize("options", [{"swap": 1.5}, {"drop": -0.1}, {"swap": "often"}])
def test_impossible_probabilities_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match="must be a probability"):
        VectorViews([0.0], [1.0], **options)
