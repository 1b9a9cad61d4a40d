"""Settings and sizes of data that are not here."""

from __future__ import annotations

import re
from typing import Any

import pytest

from softmatch.data.sources import SOURCES
from softmatch.errors import InputError
from softmatch.planning.setting import SIZES, Own, Setting, named_setting, own_setting, split_is_listed
from softmatch.recipes import complete


def named(source: str, **options: Any) -> Setting:
    return named_setting(source, (options,), "cuda", "settings")


def own(
    kind: Any = "image", number: int = 5000, shape: tuple[int, ...] = (3, 32, 32), tested: int = 0, **options: Any
) -> Setting:
    return own_setting(Own(kind, number, shape, 10, tested), (options,), "cuda", "settings")


@pytest.mark.parametrize("source", SIZES)
def test_sizes_are_those_that_a_source_tells(source: str) -> None:
    """A number in its one-line description is the training set, the test set, or both together."""
    train, test = SIZES[source]
    known = {"1.3 million": "1,300,000", "3 million": "3,000,000"}
    text = SOURCES[source].summary
    for words, digits in known.items():
        text = text.replace(words, digits)
    numbers = {int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*\d\d", text)}
    extra = {13_000} if source == "stl10" else {1_300_000} if source == "imagenet" else set()
    if source == "two-moons":
        return  # its description has no number
    assert numbers & ({train, test, train + test} | extra), text


def test_all_sources_can_be_planned() -> None:
    assert set(SIZES) == set(SOURCES)


def test_a_recipe_is_that_of_training() -> None:
    setting = named("cifar10", recipe="paper", labels=40)
    assert setting.config.model_dump(exclude={"device"}) == complete("cifar10", {}, {"recipe": "paper", "labels": 40}).model_dump(
        exclude={"device"}
    )
    assert (setting.data.unlabeled, setting.data.labeled, setting.data.tested) == (50_000, 40, 10_000)
    assert setting.data.held == 50_000 * 3072
    assert split_is_listed(setting.data)


def test_digits_hold_out_their_test_samples() -> None:
    data = named("digits").data
    assert (data.unlabeled, data.tested, data.classes, data.whole) == (1258, 539, 10, False)


def test_long_tails_have_the_papers_sizes() -> None:
    data = named("cifar10", recipe="paper", imbalance=100).data
    assert data.counts[0] == 1500
    assert data.counts[-1] == 15
    assert data.unlabeled == sum(data.counts) + 3000 + 1798 + 1078 + 646 + 387 + 232 + 139 + 83 + 50 + 30
    assert not data.whole


def test_imagenet_stays_in_files() -> None:
    data = named("imagenet", recipe="paper").data
    assert data.held == 0
    assert data.files == 144_300_000_000
    assert not split_is_listed(data)


def test_texts_are_counted_as_the_recipe_draws_them() -> None:
    news, films = named("agnews", recipe="paper"), named("dbpedia", recipe="paper")
    assert (news.data.unlabeled, news.data.tested) == (110_000, 10_000)
    assert (films.data.unlabeled, films.data.tested) == (140_000, 14_000)
    assert (news.data.kind, news.data.shape, news.data.versions) == ("text", (512,), 2)
    assert news.data.lengths is not None
    assert news.data.lengths.known
    assert films.data.lengths is not None
    assert (films.data.lengths.padded, films.data.lengths.known) == (512, False)
    assert named_setting("dbpedia", ({"recipe": "paper"},), "cuda", "", 70).data.lengths.padded == 70  # type: ignore[union-attr]  # of texts


def test_texts_without_training_their_encoder_are_vectors() -> None:
    assert named("agnews").data.shape == (256,)
    frozen = named("agnews", encoder="sentence-transformers/all-MiniLM-L6-v2")
    assert (frozen.data.kind, frozen.data.shape, frozen.config.unlabeled_batch) == ("vector", (384,), 512)


def test_few_labels_of_your_own_are_cross_fitted_and_many_held_out() -> None:
    few = own(labels=100).data
    assert (few.folds, few.tested, few.unlabeled) == (5, 20, 5000)
    many = own(labels=2000).data
    assert (many.folds, many.tested, many.labeled, many.unlabeled) == (0, 400, 1600, 4600)
    given = own(labels=2000, tested=300).data
    assert (given.folds, given.tested, given.labeled) == (0, 300, 2000)
    none = own(labels=10).data
    assert not none.evaluated


def test_many_images_of_your_own_stay_in_files() -> None:
    assert own(number=10_000, shape=(3, 224, 224)).data.files is None
    assert own(number=100_000, shape=(3, 224, 224)).data.files == 0


def test_defaults_of_your_own_data_follow_the_device() -> None:
    assert own(labels=100).config.steps == 20_000
    on_cpu = own_setting(Own("image", 5000, (3, 32, 32), 10), ({},), "cpu", "settings")
    assert (on_cpu.config.steps, on_cpu.config.network) == (800, "small-conv-16")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: named("cifar11"), "there is no source 'cifar11'"),
        (lambda: own(number=0), "--images 0: give a number from 1"),
        (lambda: own(number=10**19), "--images 10000000000000000000: give a number from 1"),
        (lambda: own(shape=(3, 0, 0)), "--side 0: give a number from 1"),
        (lambda: own(shape=(3, 10**6, 10**6)), "--side 1000000: give a number from 1"),
        (lambda: own(kind="vector", shape=(3 * 10**9,)), "--width 3000000000: give a number from 1"),
        (lambda: own_setting(Own("image", 9**9, (3, 8, 8), 3 * 10**8), ({},), "cuda", ""), "--classes 300000000"),
        (lambda: own(tested=-1), "--test-samples -1"),
        (lambda: own(number=20), "--labels 40, four of each class unless you say otherwise: there are 20 samples"),
        (lambda: own(labels=9), "--labels 9: there are 10 classes"),
        (lambda: own(number=10**9, labels=10**8), "--labels 100000000: give a number from 1"),
        (lambda: named("cifar10", labels=60_000), "class '0' has 5000 samples to draw labels from, 6000 are asked for"),
        (lambda: named("stl10", labels=6000), "class '0' has 500 samples to draw labels from"),
        (lambda: named("digits", labels=3), "--labels 3 cannot be shared evenly by 10 classes"),
        (lambda: named("agnews", labels=10**6), "samples to draw labels from"),
        (lambda: named("cifar10", imbalance=2, head_labels=4000, head_unlabeled=4000), "a class has 5,000 samples, 8,000"),
        (lambda: named("cifar10", imbalance=100, head_labels=10, head_unlabeled=40), "a class would get no labelled sample"),
        (lambda: named_setting("agnews", ({"recipe": "paper"},), "cuda", "", -5), "--tokens -5: give a number from 1"),
        (lambda: named_setting("cifar10", ({},), "cuda", "", 5), "--tokens 5: cifar10 has no texts"),
        (lambda: own(labels=9999), "--labels 9999: there are 5,000 samples"),
        (lambda: own(recipe="paper"), "--recipe, --data and --imbalance are for the sources"),
        (lambda: own(encoder="google/vit"), "a pretrained encoder of images cannot be planned"),
        (lambda: named("digits", recipe="paper"), "the paper has no experiment on 'digits'"),
        (lambda: named("imdb", recipe="paper", validation_per_class=20_000), "leaves none of 25,000 texts"),
        (lambda: named("fashion-mnist", imbalance=10.0), "needs --head-labels and --head-unlabeled"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
