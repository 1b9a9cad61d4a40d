"""Recipes: the paper's tables of hyper-parameters, asserted number by number."""

from __future__ import annotations

from typing import Any

import pytest

from softmatch.config import Config, read_file, write_config
from softmatch.data import find_source
from softmatch.errors import InputError
from softmatch.methods import METHODS
from softmatch.recipes import EQUAL_BATCHES, complete


def make(source: str, **given: Any) -> Config:
    return complete(source, find_source(source).defaults, given)


@pytest.mark.parametrize(
    ("source", "model", "weight_decay", "labeled", "unlabeled"),
    [
        ("cifar10", "wrn-28-2", 5e-4, 64, 448),
        ("cifar100", "wrn-28-8", 1e-3, 64, 448),
        ("stl10", "wrn-37-2", 5e-4, 64, 448),
        ("svhn", "wrn-28-2", 5e-4, 64, 448),
        ("imagenet", "resnet-50", 3e-4, 128, 128),
    ],
)
def test_classic_image_classification(source: str, model: str, weight_decay: float, labeled: int, unlabeled: int) -> None:
    config = make(source, recipe="paper")
    assert (config.model, config.weight_decay) == (model, weight_decay)
    assert (config.labeled_batch, config.unlabeled_batch) == (labeled, unlabeled)
    assert (config.optimizer, config.lr, config.steps) == ("sgd", 0.03, 2**20)
    assert (config.averages, config.model_momentum, config.statistics_momentum) == ("paper", 0.999, 0.999)
    assert config.batch_statistics == "joint"
    assert config.views == {"pad": 4, "flip": True, "reflect": True, "operations": 3, "cutout": 0.5}


@pytest.mark.parametrize(("source", "labels", "unlabeled"), [("cifar10", 1500, 3000), ("cifar100", 150, 300)])
def test_long_tailed_image_classification(source: str, labels: int, unlabeled: int) -> None:
    config = make(source, recipe="paper", imbalance=100)
    assert (config.model, config.optimizer, config.lr) == ("wrn-28-2", "adam", 0.002)
    assert (config.weight_decay, config.decay) == (4e-5, "shrink")
    assert (config.labeled_batch, config.unlabeled_batch) == (64, 128)
    assert (config.head_labels, config.head_unlabeled, config.labels) == (labels, unlabeled, None)


@pytest.mark.parametrize("method", EQUAL_BATCHES)
def test_consistency_methods_have_equal_batches(method: str) -> None:
    assert method in METHODS
    assert make("cifar10", recipe="paper", method=method).unlabeled_batch == 64
    assert make("cifar10", recipe="paper", method=method, unlabeled_batch=96).unlabeled_batch == 96


def test_options_win_over_the_recipe() -> None:
    config = make("cifar10", recipe="paper", lr=0.1, views={"cutout": 0.2})
    assert config.lr == 0.1
    assert config.views["cutout"] == 0.2
    assert config.views["pad"] == 4


def test_a_short_run_of_a_recipe_has_averages_that_follow_it() -> None:
    short = make("cifar10", recipe="paper", steps=2000, model="wrn-10-2")
    assert (short.averages, short.model_momentum, short.batch_norm_momentum) == ("scaled", None, None)
    assert make("cifar10", recipe="paper", steps=40_000).averages == "paper"
    assert make("cifar10", recipe="paper", steps="2000").averages == "scaled", "a text, as a file may have it"
    assert make("cifar10", recipe="paper", steps=2000, averages="paper").averages == "paper"


@pytest.mark.parametrize(
    ("source", "given", "message"),
    [
        ("digits", {"recipe": "paper"}, "no experiment on 'digits'"),
        ("svhn", {"recipe": "paper", "imbalance": 10}, "no long-tailed experiment on 'svhn'"),
        ("cifar10", {"labels": 40, "imbalance": 10}, "exclude each other"),
        ("cifar10", {"recipe": "papper"}, "recipe = 'papper'"),
        ("cifar10", {"recipe": "paper", "steps": "2e3"}, "steps = '2e3'"),
        ("cifar10", {"head_labels": 100}, "head_labels is for long-tailed splits"),
        ("cifar10", {"unlabeled_imbalance": -10}, "unlabeled_imbalance is for long-tailed splits"),
        ("cifar10", {"recipe": "paper", "micro_batch": 32}, "micro_batch is for separate batch statistics"),
    ],
)
def test_impossible_settings(source: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(source, **given)


@pytest.mark.parametrize("given", [{"recipe": "paper", "imbalance": 100}, {"recipe": "paper", "steps": 2000}, {"labels": 250}])
def test_the_settings_file_of_a_run_gives_the_same_settings_again(tmp_path_factory: Any, given: dict[str, Any]) -> None:
    file = tmp_path_factory.mktemp("run") / "config.yaml"
    config = make("cifar10", **given)
    write_config(file, "cifar10", config)
    layer = read_file(file)
    assert complete(layer.pop("source"), find_source("cifar10").defaults, layer) == config
