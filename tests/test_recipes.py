"""Recipes: the paper's tables of hyper-parameters, asserted number by number."""

from typing import Any

import pytest

from softmatch.config import Config, read_file, write_config
from softmatch.data import find_source
from softmatch.errors import InputError
from softmatch.methods import METHODS, Problem, build
from softmatch.recipes import MOST_STEPS, complete, require_versions
from tests.refusals import refused


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
    assert (config.network, config.weight_decay) == (model, weight_decay)
    assert (config.labeled_batch, config.unlabeled_batch) == (labeled, unlabeled)
    assert (config.optimizer, config.lr, config.steps) == ("sgd", 0.03, 2**20)
    assert (config.averages, config.model_momentum, config.statistics_momentum) == ("paper", 0.999, 0.999)
    assert config.batch_statistics == "joint"
    assert config.views == {"pad": 4, "flip": True, "reflect": True, "operations": 3, "cutout": 0.5}


@pytest.mark.parametrize(("source", "labels", "unlabeled"), [("cifar10", 1500, 3000), ("cifar100", 150, 300)])
def test_long_tailed_image_classification(source: str, labels: int, unlabeled: int) -> None:
    config = make(source, recipe="paper", imbalance=100)
    assert (config.network, config.optimizer, config.lr) == ("wrn-28-2", "adam", 0.002)
    assert (config.weight_decay, config.decay) == (4e-5, "shrink")
    assert (config.labeled_batch, config.unlabeled_batch) == (64, 128)
    assert (config.largest_class_labels, config.largest_class_unlabeled, config.labels) == (labels, unlabeled, None)


@pytest.mark.parametrize(
    ("source", "labels", "train", "validation"),
    [
        ("agnews", 40, None, 2500),
        ("dbpedia", 70, 10_000, 1000),
        ("imdb", 100, None, 1000),
        ("amazon-5", 1000, 50_000, 5000),
        ("yelp-5", 1000, 50_000, 5000),
    ],
)
def test_text_classification(source: str, labels: int, train: int | None, validation: int) -> None:
    config = make(source, recipe="paper")
    assert (config.labels, config.train_per_class, config.validation_per_class) == (labels, train, validation)
    assert (config.encoder, config.tune, config.head) == ("google-bert/bert-base-uncased", "all", "gelu")
    assert (config.max_tokens, config.length_buckets) == (512, 1)
    assert (config.optimizer, config.lr, config.weight_decay, config.decay) == ("adamw", 1e-5, 1e-4, "gradient")
    assert (config.warmup, config.layer_decay, config.tuned_layers, config.lora) == (0, 1.0, None, None)
    assert (config.labeled_batch, config.unlabeled_batch, config.steps) == (16, 16, 2**18)
    assert (config.averages, config.statistics_momentum, config.model_momentum) == ("paper", 0.999, 0.0)
    assert config.views == {"weak": 0.0, "strong": 0.0}, "nothing of the views of images"
    assert config.batch_norm_momentum is None


def test_a_text_recipe_gives_way_to_options_and_replaces_the_views_of_the_defaults() -> None:
    given = {"encoder": "a/copy", "validation_per_class": 9, "labels": 200, "views": {"strong": 0.15}}
    config = complete("agnews", {"labels": 40, "views": {"weak": 0.1, "other": 1}}, {"recipe": "paper", **given})
    assert (config.encoder, config.validation_per_class, config.labels) == ("a/copy", 9, 200)
    assert config.views == {"weak": 0.0, "strong": 0.15}
    short = make("agnews", recipe="paper", steps=2000)
    assert (short.averages, short.statistics_momentum, short.model_momentum) == ("scaled", None, 0.0)


def test_the_strong_views_of_the_text_recipe_need_back_translations() -> None:
    with pytest.raises(InputError, match=r"softmatch augment agnews --via de,ru.* --data; or .*with --views\.strong 0\.15"):
        require_versions("agnews", make("agnews", recipe="paper"), augmented=False)
    require_versions("agnews", make("agnews", recipe="paper"), augmented=True)
    for views in ({"strong": 0.15}, {"swap": 0.1}):
        require_versions("agnews", make("agnews", recipe="paper", views=views), augmented=False)
    require_versions("agnews", make("agnews"), augmented=False)
    for method in (name for name, entry in METHODS.items() if not entry.strong):
        assert not any("strong" in view for view in build(method, Problem(4, 100, 40)).unlabeled_views)
        require_versions("agnews", make("agnews", recipe="paper", method=method), augmented=False)


@pytest.mark.parametrize("method", [name for name, entry in METHODS.items() if entry.equal_batches])
def test_consistency_methods_have_equal_batches(method: str) -> None:
    assert make("cifar10", recipe="paper", method=method).unlabeled_batch == 64
    assert make("cifar10", recipe="paper", method=method, unlabeled_batch=96).unlabeled_batch == 96


def test_options_win_over_the_recipe_and_averages_follow_a_short_run() -> None:
    config = make("cifar10", recipe="paper", lr=0.1, views={"cutout": 0.2})
    assert (config.lr, config.views["cutout"], config.views["pad"]) == (0.1, 0.2, 4)
    short = make("cifar10", recipe="paper", steps=2000, network="wrn-10-2")
    assert (short.averages, short.model_momentum, short.batch_norm_momentum) == ("scaled", None, None)
    assert make("cifar10", recipe="paper", steps=40_000).averages == "paper"
    assert make("cifar10", recipe="paper", steps="2000").averages == "scaled", "a text, as a file may have it"
    assert make("cifar10", recipe="paper", steps=2000, averages="paper").averages == "paper"


@pytest.mark.parametrize(
    ("source", "given", "message"),
    [
        ("digits", {"recipe": "paper"}, "no experiment on 'digits'"),
        ("digits", {"recipe": "paper"}, "stl10, imagenet, agnews, dbpedia, imdb, amazon-5, yelp-5"),
        ("agnews", {"recipe": "paper", "tune": "head"}, "trains the whole encoder. Leave out --tune"),
        ("agnews", {"recipe": "paper", "imbalance": 10}, "no long-tailed experiment on 'agnews'"),
        ("svhn", {"recipe": "paper", "imbalance": 10}, "no long-tailed experiment on 'svhn'"),
        ("cifar10", {"labels": 40, "imbalance": 10}, "exclude each other"),
        ("cifar10", {"recipe": "papper"}, "recipe = 'papper'"),
        ("cifar10", {"recipe": "paper", "steps": "2e3"}, "steps = '2e3'"),
        ("cifar10", {"largest_class_labels": 100}, "largest_class_labels is for long-tailed splits"),
        ("cifar10", {"unlabeled_imbalance": -10}, "unlabeled_imbalance is for long-tailed splits"),
        ("cifar10", {"recipe": "paper", "micro_batch": 32}, "micro_batch is for separate batch statistics"),
    ],
)
def test_impossible_settings(source: str, given: dict[str, Any], message: str) -> None:
    refused(message, make, source, **given)


@pytest.mark.parametrize(
    "given", [{"recipe": "paper", "imbalance": 100}, {"recipe": "paper", "steps": 2000}, {"labels": 250, "steps": 300}]
)
def test_the_settings_file_of_a_run_gives_the_same_settings_again(tmp_path_factory: Any, given: dict[str, Any]) -> None:
    file = tmp_path_factory.mktemp("run") / "config.yaml"
    config = make("cifar10", **given)
    write_config(file, "cifar10", config)
    layer = read_file(file)
    assert complete(layer.pop("source"), find_source("cifar10").defaults, layer) == config


def test_a_sprint_is_for_any_images_and_keeps_the_views_of_the_data() -> None:
    config = complete("photos", {"views": {"pad": 3}, "steps": 700}, {"recipe": "sprint", "lr": 0.2})
    assert (config.network, config.optimizer, config.schedule, config.teacher) == ("shallow", "muon", "triangular", "average")
    assert (config.views, config.steps, config.lr, config.averages) == ({"pad": 3, "mirror": True}, 700, 0.2, "scaled")


def test_a_sprint_begins_with_small_images_unless_the_network_may_need_one_size() -> None:
    assert complete("photos", {}, {"recipe": "sprint"}).small_images == 0.4
    assert complete("photos", {}, {"recipe": "sprint", "network": "wrn-10-1"}).small_images == 0.4
    assert complete("photos", {}, {"recipe": "sprint", "network": "mine.py:net"}).small_images == 0.0
    assert complete("photos", {}, {"recipe": "sprint", "network": "mine.py:net", "small_images": 0.2}).small_images == 0.2


def test_a_recipe_of_some_minutes_has_averages_of_a_short_run() -> None:
    assert make("cifar10", recipe="paper", minutes=10).averages == "scaled"


def test_images_sprint_by_default_unless_another_network_or_recipe_is_chosen() -> None:
    config = make("cifar10")
    assert (config.recipe, config.network, config.optimizer, config.minutes) == ("sprint", "shallow", "muon", 10.0)
    assert make("cifar10", network="shallow-64").optimizer == "muon"
    for given in ({"network": "wrn-10-2"}, {"optimizer": "sgd"}, {"recipe": "none"}, {"recipe": "paper"}):
        config = make("cifar10", **given)
        assert config.network != "shallow", given
        assert (config.recipe, config.optimizer, config.minutes) == (given.get("recipe"), "sgd", None), given


def test_a_default_length_gives_way_to_that_of_the_user() -> None:
    defaults = {"recipe": "sprint", "minutes": 20.0, "steps": 700}
    assert complete("photos", defaults).steps == 700, "at most"
    assert complete("photos", {**defaults, "views": {"pad": 3}}).views == {"mirror": True, "pad": 3}
    assert complete("photos", defaults, {"steps": 5}).minutes is None
    config = complete("photos", defaults, {"minutes": 3})
    assert (config.minutes, config.steps) == (3.0, MOST_STEPS)
