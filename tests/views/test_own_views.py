"""Views of the user's own: what they are given, what they must return, and the messages where they do not."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from softmatch.views import OwnViews, views_from_settings
from tests.refusals import refused

ITEMS = 5 + 2 * torch.randn(64, 3, 4, 2, generator=Generator().manual_seed(0))
SCALE: dict[str, Any] = {"mean": [5.0] * 3, "std": [2.0] * 3, "shape": (3, 4, 2)}


class Noise:
    def __init__(self, size: float = 0.5) -> None:
        self.size = size

    def weak(self, items: Tensor, generator: Generator) -> Tensor:
        return items

    def strong(self, items: Tensor, generator: Generator) -> Tensor:
        items += self.size * torch.randn(items.shape, generator=generator)  # in place, which must not reach the data
        return items


class Given(Noise):
    """Scales the items itself, by the statistics that it asks for; its network gets half of the channels' values."""

    def __init__(self, mean: Tensor, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.mean, self.shape = mean, shape

    def plain(self, items: Tensor) -> Tensor:
        return (items - self.mean)[..., 0]

    def weak(self, items: Tensor, generator: Generator) -> Tensor:
        return self.plain(items)

    medium = strong = weak


def _generator() -> Generator:
    return Generator().manual_seed(1)


def test_items_are_standardised_unless_the_code_has_a_plain_view_of_its_own() -> None:
    views, before = OwnViews(Noise, **SCALE, options={"size": 0.25}), ITEMS.clone()
    views.check(ITEMS)
    noise = 0.25 * torch.randn(ITEMS.shape, generator=_generator())
    assert torch.equal(views.strong(ITEMS, _generator()), (ITEMS - 5) / 2 + noise)
    assert torch.equal(views.weak(ITEMS, _generator()), views.plain(ITEMS))
    assert torch.equal(ITEMS, before)
    given = OwnViews(Given, **SCALE)
    given.check(ITEMS)
    assert given.made.shape == (3, 4, 2)
    assert torch.equal(given.medium(ITEMS, _generator()), (ITEMS - 5)[..., 0])
    assert given.describe().endswith("Given: plain, weak, medium, strong of items as given")


def test_a_part_has_the_rows_of_the_whole_view() -> None:
    views = OwnViews(Noise, **SCALE)
    whole = views.strong(ITEMS, _generator())
    assert torch.equal(views.strong(ITEMS, _generator(), slice(3, 9)), whole[3:9])


def test_settings_restore_the_views_only_with_the_users_own_code(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"from {__name__} import Noise as V\nimport os\nos.mkdir({str(tmp_path / 'ran')!r})\n")
    name = f"{tmp_path / 'mine.py'}:V"
    views = OwnViews(name, **SCALE, options={"size": 0.1})
    saved = views.settings()
    (tmp_path / "ran").rmdir()
    refused("views of your own, .*mine.py:V. Name them as `views`", views_from_settings, saved)
    assert not (tmp_path / "ran").exists()
    restored = views_from_settings(saved, name)
    assert restored.settings() == saved
    assert torch.equal(restored.strong(ITEMS, _generator()), views.strong(ITEMS, _generator()))
    (tmp_path / "ran").rmdir()
    refused("no views of your own", views_from_settings, {"kind": "vector", "mean": [0.0], "std": [1.0]}, name)
    refused("cannot be used", views_from_settings, {**saved, "std": [float("nan")]}, name)


class Unweak:
    def strong(self, items: Tensor, generator: Generator) -> Tensor:
        return items


def _with(strong: Any, plain: Any = None) -> type:
    body = {"strong": strong, **({} if plain is None else {"plain": plain})}
    return type("Mine", (Noise,), body)


WRONG: dict[str, tuple[Any, str]] = {
    "shape": (lambda self, x, g: x[:, :2], r"strong returns \(64, 2, 4, 2\) where the plain view is \(64, 3, 4, 2\)"),
    "rows": (lambda self, x, g: x[0], r"strong returns \(3, 4, 2\) for 64 items"),
    "dtype": (lambda self, x, g: x.double(), r"strong returns a torch.float64 tensor, not a tensor of float32"),
    "type": (lambda self, x, g: x.numpy(), "strong returns a ndarray"),
    "nan": (lambda self, x, g: x.log(), "strong returns NaN or infinity"),
    "random": (lambda self, x, g: x + torch.randn(x.shape), r"strong differs between two calls.*torch.rand\(n, generator"),
    "fails": (lambda self, x, g: x @ x, r"strong fails on items \(64, 3, 4, 2\). RuntimeError.*test_own_views.py, line"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_view_is_named(case: str) -> None:
    strong, message = WRONG[case]
    refused(message, OwnViews(_with(strong), **SCALE).check, ITEMS)


def test_a_random_plain_view_and_missing_methods_are_named() -> None:
    noisy = _with(Noise.strong, lambda self, items: items + torch.randn(items.shape))
    refused("plain differs between two calls.*use no random numbers", OwnViews(noisy, **SCALE).check, ITEMS)
    refused(r"Unweak has no method weak\(items, generator\)", OwnViews, Unweak, **SCALE)
    refused("has no option 'sise'. Did you mean 'size'", OwnViews, Noise, **SCALE, options={"sise": 1})
    refused("there is no file gone.py", OwnViews, "gone.py:V", **SCALE)
    refused("are an object, which takes no options", OwnViews, f"{__name__}:OBJECT", **SCALE, options={"size": 1})
    refused(r"needs a method medium\(items, generator\)", OwnViews(f"{__name__}:OBJECT", **SCALE).require, "medium")


OBJECT = Noise()
