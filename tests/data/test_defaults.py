"""What is chosen by the size of the data can be trained, from a few samples to many and from 2 classes to 1,000."""

import pytest
import torch

from softmatch.config import make_config
from softmatch.data.defaults import suitable
from softmatch.data.examples import Examples
from softmatch.networks import build_network
from softmatch.recipes import complete

CPU = torch.device("cpu")


def _vectors(number: int, size: int, classes: int, labeled: int) -> Examples:
    labels = torch.full((number,), -1)
    labels[:labeled] = torch.arange(labeled) % classes
    return Examples(torch.zeros(number, size), labels, tuple(map(str, range(classes))), "vector")


def _images(side: int, classes: int = 3) -> Examples:
    labels = torch.full((40,), -1)
    labels[:12] = torch.arange(12) % classes
    items = torch.zeros(40, 3, side, side, dtype=torch.uint8)
    return Examples(items, labels, tuple(map(str, range(classes))), "image")


@pytest.mark.parametrize(("size", "classes", "labeled"), [(1, 2, 2), (30, 2, 40), (384, 150, 1500), (5000, 1000, 1000)])
def test_vectors(size: int, classes: int, labeled: int) -> None:
    examples = _vectors(2000, size, classes, labeled)
    config = make_config(suitable(examples, labeled, CPU))
    network = build_network(config.network, (size,), classes)
    assert network(torch.zeros(2, size)).shape == (2, classes)
    assert config.method == "softmatch"
    assert 16 <= config.labeled_batch <= 64


@pytest.mark.parametrize("side", [8, 32, 64, 128, 224])
def test_images_on_a_cpu_get_a_network_that_a_cpu_can_train(side: int) -> None:
    config = complete("photos", suitable(_images(side), 12, CPU))
    assert (config.recipe, config.minutes, config.steps, config.unlabeled_batch) == ("sprint", 20.0, 300, 40)
    assert config.threads == (1 if side == 8 else None)
    network = build_network(config.network, (3, side, side), 3).eval()
    assert network(torch.zeros(2, 3, side, side)).shape == (2, 3)
    assert sum(p.numel() for p in network.parameters()) < 900_000
    assert config.views["pad"] == side // 8


def test_images_on_an_accelerator_get_the_network_of_their_size() -> None:
    found = suitable(_images(32), 12, torch.device("cuda"))
    assert "network" not in found
    assert "minutes" not in found
    assert found["steps"] > suitable(_images(32), 12, CPU)["steps"]


def test_series_are_aligned_to_counted_classes_unless_another_method_is_chosen() -> None:
    labels = torch.full((40,), -1)
    labels[:12] = torch.arange(12) % 3
    series = Examples(torch.zeros(40, 1, 32), labels, ("a", "b", "c"), "series")
    defaults = suitable(series, 12, CPU)
    assert complete("ecg", defaults).method_options == {"align": "estimated"}
    assert complete("ecg", defaults, {"method_options": {"k": 3}}).method_options == {"align": "estimated", "k": 3}
    assert complete("ecg", defaults, {"method_options": {"align": "uniform"}}).method_options == {"align": "uniform"}
    assert complete("ecg", defaults, {"method": "fixmatch"}).method_options == {}
    assert "method_options" not in suitable(Examples(series.items[:12], labels[:12], series.classes, "series"), 12, CPU)


def test_all_labelled_is_supervised() -> None:
    assert suitable(_vectors(40, 2, 2, 40), 40, CPU)["method"] == "supervised"
    assert "method" not in suitable(_vectors(40, 2, 2, 40), 10, CPU)  # of which ten are to be used


def test_an_encoder_to_be_trained() -> None:
    found = suitable(_images(32), 12, CPU, "/some/where", "all")
    assert found["network"] == "encoder=/some/where"
    assert found["optimizer"] == "adamw"
