"""Settings and sizes of data that are not here."""

import re
from typing import Any

import pytest

from softmatch.data.sources import SOURCES
from softmatch.data.sources.image_datasets import PUBLISHED
from softmatch.errors import InputError
from softmatch.planning.costs import NAMED, Data, Setting, named_setting, own_setting
from softmatch.planning.plans import Counted, count
from softmatch.recipes import complete


def named(source: str, **options: Any) -> Setting:
    return named_setting(source, "cuda", options)


def own(number: int = 5000, side: int = 32, tested: int = 0, device: str = "cuda", **options: Any) -> Setting:
    return own_setting(Data("image", (3, side, side), 10, number, number, tested), device, options)


@pytest.mark.parametrize("source", sorted({*NAMED} - {"two-moons"}))  # whose description has no number
def test_sizes_are_those_that_a_source_tells(source: str) -> None:
    """A number in its one-line description is the training set, the test set, or both together."""
    train, test = NAMED[source].train, NAMED[source].tested
    text = SOURCES[source].summary.replace("1.3 million", "1,300,000")
    numbers = {int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*\d\d", text)}
    extra = {13_000} if source == "stl10" else {1_300_000} if source == "imagenet" else set()
    assert numbers & ({train, test, train + test} | extra), text


def test_all_sources_but_texts_can_be_planned() -> None:
    assert set(NAMED) == {name for name, source in SOURCES.items() if not source.texts}


@pytest.mark.parametrize("source", PUBLISHED)
def test_shapes_and_classes_are_those_of_the_readers(source: str) -> None:
    assert NAMED[source].shape == PUBLISHED[source].shape
    assert NAMED[source].classes == (len(PUBLISHED[source].classes) or 1000)


def test_a_recipe_is_that_of_training() -> None:
    setting = named("cifar10", recipe="paper", labels=40)
    trained = complete("cifar10", {}, {"recipe": "paper", "labels": 40, "precision": "float32"})
    assert setting.config.model_dump(exclude={"device"}) == trained.model_dump(exclude={"device"})
    assert sizes(count(setting)) == (40, 50_000, 10_000)
    assert setting.data.held == 50_000 * 3072


def sizes(found: Counted) -> tuple[int, int, int]:
    return found.labeled, found.unlabeled, found.tested


def test_splits_are_those_of_training() -> None:
    assert sizes(count(named("digits"))) == (40, 1258, 539)
    tail = count(named("cifar10", recipe="paper", imbalance=100))
    assert tail.labeled == 1500 + 899 + 539 + 323 + 193 + 116 + 69 + 41 + 25 + 15
    assert tail.unlabeled == tail.labeled + 3000 + 1798 + 1078 + 646 + 387 + 232 + 139 + 83 + 50 + 30


def test_imagenet_stays_in_files() -> None:
    data = named("imagenet", recipe="paper").data
    assert (data.held, data.files) == (0, 144_300_000_000)


@pytest.mark.parametrize(
    "make",
    [
        lambda: named("agnews"),
        lambda: named("imdb", recipe="paper"),
        lambda: named("cifar10", encoder="x"),
        lambda: own(encoder="google/vit"),
    ],
)
def test_texts_and_encoders_are_refused_with_what_to_do(make: Any) -> None:
    with pytest.raises(InputError, match=r"A plan of texts.* is not offered. `softmatch train .* --dry-run` times a run"):
        make()


def test_few_labels_of_your_own_are_cross_fitted_and_many_held_out() -> None:
    few = count(own(labels=100))
    assert (few.folds, *sizes(few)) == (5, 100, 5000, 20)
    many = count(own(labels=2000))
    assert (many.folds, *sizes(many)) == (0, 1600, 4600, 400)
    given = count(own(labels=2000, tested=300))
    assert (given.folds, *sizes(given)) == (0, 2000, 5000, 300)
    none = count(own(labels=10))
    assert (none.predicted, none.baselines) == (0, 0)


def test_many_images_of_your_own_stay_in_files() -> None:
    assert own(number=10_000, side=224).data.files is None
    assert own(number=100_000, side=224).data.files == 0


def test_defaults_of_your_own_data_follow_the_device() -> None:
    assert own(labels=100).config.steps == 20_000
    on_cpu = own(device="cpu")
    assert (on_cpu.config.recipe, on_cpu.config.network, on_cpu.config.minutes) == ("sprint", "shallow", 20.0)
    assert on_cpu.config.steps == 100 * 5000 // 256, "a hundred times each image"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: named("cifar11"), "there is no source 'cifar11'"),
        (lambda: own(number=20), "--labels 40: give a number from 10 .one per class. to 20"),
        (lambda: own(labels=9), "--labels 9: give a number from 10"),
        (lambda: own(labels=9999), "--labels 9999: give a number from 10 .one per class. to 5,000"),
        (lambda: own(number=10**9, labels=10**8), "--labels 100000000: give a number from 10"),
        (lambda: named("cifar10", labels=60_000), "class '0' has 5000 samples to draw labels from, 6000 are asked for"),
        (lambda: named("stl10", labels=6000), "class '0' has 500 samples to draw labels from"),
        (lambda: named("digits", labels=3), "--labels 3 cannot be shared evenly by 10 classes"),
        (lambda: named("cifar10", imbalance=2, head_labels=4000, head_unlabeled=4000), "class '0' has 5000 samples"),
        (lambda: named("cifar10", imbalance=100, head_labels=10, head_unlabeled=40), "no labelled sample"),
        (lambda: own(recipe="paper"), "--recipe, --data and --imbalance are for sources"),
        (lambda: named("digits", recipe="paper"), "the paper has no experiment on 'digits'"),
        (lambda: named("fashion-mnist", imbalance=10.0), "needs --largest-class-labels and --largest-class-unlabeled"),
        (
            lambda: named("cifar10", unlabeled_batch=200_000_000),
            "--unlabeled-batch 200000000: a plan is made for batches of up to 16,384",
        ),
        (lambda: named("cifar10", network="wrn-10-1024", labeled_batch=1000), "--labeled-batch 1000: a plan is made for batches"),
        (lambda: named("cifar10", views={"cutuot": 1}), "has no option 'cutuot'. Did you mean 'cutout'"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        count(make())
