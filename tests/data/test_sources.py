"""The embedded sources: their sizes, their classes, their seeds."""

import pytest
import torch

from softmatch.config import make_config
from softmatch.data import SOURCES, find_source
from softmatch.errors import InputError


def test_digits_are_scikit_learns_images_as_bytes() -> None:
    from sklearn.datasets import load_digits

    examples = find_source("digits").load(0)
    data = load_digits()
    assert examples.items.shape == (1797, 1, 8, 8)
    assert examples.items.dtype == torch.uint8
    assert torch.equal((examples.items[:, 0].double() * 16 / 255).round(), torch.from_numpy(data.images))
    assert examples.labels.tolist() == data.target.tolist()
    assert examples.describe() == "1,797 grey images of 8×8, 10 classes"


def test_two_moons_are_new_for_each_seed_and_have_a_test_set() -> None:
    first, again, other = (find_source("two-moons").load(seed) for seed in (1, 1, 2))
    assert torch.equal(first.items, again.items)
    assert not torch.equal(first.items, other.items)
    assert first.test is not None
    assert len(first) == len(first.test) == 1000
    assert not torch.equal(first.items, first.test.items)
    assert first.describe() == "1,000 vectors of 2 features, 2 classes"


@pytest.mark.parametrize("name", SOURCES)
def test_defaults_are_valid_settings(name: str) -> None:
    make_config(SOURCES[name].defaults)


def test_unknown_source_names_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean 'digits'"):
        find_source("digit")
