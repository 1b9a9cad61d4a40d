"""softmatch.Classifier: scikit-learn's conventions, and every form of data that it takes."""

import csv
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from softmatch.classifier import Classifier
from softmatch.errors import InputError
from softmatch.methods import softmatch
from softmatch.networks import MLP
from softmatch.weightings import TruncatedGaussian
from tests.refusals import refused

EXAMPLES = Path(__file__).parents[1] / "examples"
QUICK = {"steps": 40, "unlabeled_batch": 32, "labeled_batch": 16}

EXPECTED_FAILED_CHECKS = {
    # Its last part has the classes −1 and 1. Here, −1 means that there is no label, as in scikit-learn's own semi-supervised
    # classifiers, which the check leaves out of this part by their names.
    "check_classifiers_classes": "−1 means unlabelled"
}


@parametrize_with_checks([Classifier(steps=40)], expected_failed_checks=lambda _: EXPECTED_FAILED_CHECKS)
def test_the_conventions_of_scikit_learn(estimator: Classifier, check: Any) -> None:
    check(estimator)


def few_labels(truth: npt.NDArray[Any], number: int) -> npt.NDArray[Any]:
    """y with `number` labels per class, −1 elsewhere."""
    y = np.full(len(truth), -1)
    for label in np.unique(truth):
        y[np.flatnonzero(truth == label)[:number]] = label
    return y


@cache
def blobs() -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """60 points in three clusters far apart, the true labels, and y with two labels of each cluster."""
    points, truth = make_blobs(60, 4, cluster_std=0.5, random_state=0)
    return points, truth, few_labels(truth, 2)


def quick(*arguments: Any, **options: Any) -> Classifier:
    return Classifier(*arguments, **(QUICK | options))


def test_digits_from_forty_labels() -> None:
    images, digits = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    views = {"pad": 1, "flip": False, "reflect": False, "operations": 2}
    classifier = Classifier(network="small-conv-8", steps=150, labeled_batch=40, unlabeled_batch=48, views=views)
    classifier.fit(images, few_labels(digits, 4))
    assert classifier.method_ == "softmatch"
    assert classifier.n_iter_ == classifier.history_[-1]["step"] == 150
    assert classifier.history_[-1]["loss"] < classifier.history_[0]["loss"]
    assert (classifier.transduction_ != digits).mean() < 0.25
    assert classifier.score(images, digits) > 0.75
    refused("items are 7×8, those of the training data were 8×8", classifier.predict, images[:, 1:])


def test_given_labels_are_kept_and_the_others_predicted() -> None:
    points, truth, y = blobs()
    y = y.copy()
    y[0] = wrong = (truth[0] + 1) % 3
    classifier = quick().fit(points, y)
    known = y != -1
    assert (classifier.transduction_[known] == y[known]).all()
    predicted, probs = classifier.predict(points), classifier.predict_proba(points)
    assert (classifier.transduction_[~known] == predicted[~known]).all()
    assert (classifier.transduction_confidence_ == probs[np.arange(len(probs)), classifier.transduction_]).all()
    assert classifier.transduction_confidence_[0] == probs[0, wrong]


@pytest.mark.parametrize(("names", "nothing"), [(["c", "a", "b"], None), ([7.0, 3.0, 5.0], np.nan), ([30, 10, 20], -1)])
def test_labels_of_any_type_come_back_as_they_were(names: list[Any], nothing: Any) -> None:
    points, truth, y = blobs()
    given = [nothing if label == -1 else names[label] for label in y]
    classifier = quick().fit(points, given)
    assert classifier.classes_.tolist() == sorted(names)
    assert classifier.classes_.dtype == np.array(names).dtype == classifier.predict(points).dtype
    assert (classifier.predict(points) == np.array(names)[truth]).mean() > 0.9


def test_where_all_have_labels_training_is_supervised() -> None:
    points, truth, _ = blobs()
    classifier = quick("fixmatch", settings={"method_options": {"threshold": 0.9}}).fit(points, truth)
    assert classifier.method_ == "supervised"
    assert "unsupervised_loss" not in classifier.history_[-1]
    assert classifier.score(points, truth) > 0.9


def test_fit_repeats_bit_for_bit_and_leaves_the_rest_of_the_world_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points, _, y = blobs()
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(2)
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index, union-attr]  # a tuple by default
    first = quick(settings={"threads": 1}).fit(points, y)
    assert torch.get_num_threads() == 2
    assert torch.equal(torch.get_rng_state(), state)
    assert (np.random.get_state()[1] == numbers).all()  # type: ignore[index]  # a tuple by default
    assert not list(tmp_path.iterdir())
    torch.manual_seed(5)
    second = quick(settings={"threads": 1}).fit(points.tolist(), y.tolist())
    other = quick(settings={"threads": 1}, random_state=1).fit(points, y)
    probs = first.predict_proba(points)
    assert (second.predict_proba(points) == probs).all()
    assert (other.predict_proba(points) != probs).any()


def test_random_states_that_are_generators_give_another_seed_each_time() -> None:
    points, _, y = blobs()
    classifier = quick(random_state=np.random.RandomState(3), steps=2)
    seeds = [classifier.fit(points, y).config_.seed for _ in range(2)]
    assert seeds[0] != seeds[1]
    assert classifier.set_params(random_state=np.random.RandomState(3)).fit(points, y).config_.seed == seeds[0]


def test_clone_search_and_pipeline() -> None:
    points, truth, y = blobs()
    made = clone(quick("uda", views={"weak_noise": 0.1}))
    assert made.get_params()["method"] == "uda"
    assert made.get_params()["views"] == {"weak_noise": 0.1}
    pipeline = make_pipeline(StandardScaler(), made).fit(points, y)
    assert pipeline.score(points, truth) > 0.9
    search = GridSearchCV(quick(), {"lr": [1e-9, 2e-3]}, cv=2).fit(points, truth)
    assert search.best_params_ == {"lr": 2e-3}


def test_methods_may_be_objects_which_are_copied() -> None:
    points, truth, y = blobs()
    method = softmatch(num_classes=3)
    before = {name: value.clone() for name, value in method.state_dict().items()}
    classifier = quick(method).fit(points, y)
    assert classifier.method_ == "Match"
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())
    assert classifier.score(points, truth) > 0.9


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (softmatch, "softmatch"),
        (TruncatedGaussian, "TruncatedGaussian"),
        ("saw+softmatch", "saw+softmatch"),
        (f"{EXAMPLES / 'my_weighting.py'}:Margin", f"{EXAMPLES / 'my_weighting.py'}:Margin"),
    ],
    ids=["function", "weighting", "wrapper", "file"],
)
def test_methods_may_be_made_in_any_way(method: Any, name: str) -> None:
    points, truth, y = blobs()
    classifier = quick(method).fit(points, y)
    assert classifier.method_ == name
    assert classifier.history_[-1]["quantity"] is not None
    assert classifier.score(points, truth) > 0.8


def test_networks_may_be_objects_or_functions() -> None:
    points, truth, y = blobs()
    module = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    before = module[0].weight.clone()
    classifier = quick(network=module, lr=0.03).fit(points, y)
    assert torch.equal(module[0].weight, before)
    assert classifier.network_ == "torch.nn.modules.container:Sequential"
    assert classifier.score(points, truth) > 0.9

    def make(num_classes: int, shape: tuple[int, ...]) -> nn.Module:
        return MLP(shape[0], num_classes, hidden=(8,))

    assert quick(network=make).fit(points, y).network_.endswith("make")
    refused("cannot process items of 4", quick(network=nn.Linear(5, 3)).fit, points, y)


def test_a_frame_with_words_numbers_and_missing_values() -> None:
    points, truth, y = blobs()
    frame = pd.DataFrame(points[:, :2], columns=["x", "y"])
    frame["kind"] = pd.Categorical(np.array(["low", "mid", "high"])[truth])
    frame.loc[3, "x"] = np.nan
    frame.loc[4, "kind"] = np.nan
    labels = pd.Series(np.where(y == -1, None, np.array(["p", "q", "r"], dtype=object)[y]))
    classifier = quick(steps=80).fit(frame, labels)
    assert classifier.feature_names_in_.tolist() == ["x", "y", "kind"]
    assert classifier.n_features_in_ == 3
    assert (classifier.predict(frame) == np.array(["p", "q", "r"])[truth]).mean() > 0.9
    alone, among = classifier.predict_proba(frame.iloc[[5]]), classifier.predict_proba(frame)[[5]]
    assert alone == pytest.approx(among, abs=1e-6), "a matrix product of one row is rounded in another way on some processors"
    with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
        classifier.predict(frame.rename(columns={"x": "z"}))


def test_a_frame_with_its_labels(tmp_path: Path) -> None:
    points, truth, y = blobs()
    frame = pd.DataFrame(points, columns=list("abcd"))
    frame["label"] = np.where(y == -1, None, np.array(["p", "q", "r"], dtype=object)[y])
    classifier = quick().fit(frame)
    assert classifier.classes_.tolist() == ["p", "q", "r"]
    assert classifier.sample_names_[:2] == ["1", "2"]
    assert (classifier.predict(frame[list("abcd")]) == np.array(["p", "q", "r"])[truth]).mean() > 0.9
    assert (classifier.predict(frame) == classifier.predict(frame[list("abcd")])).all()


def test_texts() -> None:
    words = {"food": ["apple", "bread", "pie", "soup", "cheese"], "metal": ["steel", "iron", "copper", "beam", "weld"]}
    truth = np.array(["food", "metal"] * 30)
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(words[label], 3)) for label in truth]
    y = [label if row < 10 else None for row, label in enumerate(truth)]
    classifier = quick(steps=100, lr=0.01).fit(texts, y)
    assert classifier.score(np.array(texts), truth) > 0.8
    assert classifier.predict(["an apple pie", "a beam of steel"]).tolist() == ["food", "metal"]


def write_table(path: Path) -> npt.NDArray[Any]:
    """The blobs as a CSV; returns the true labels."""
    points, truth, y = blobs()
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["a", "b", "c", "d", "label"])
        rows.writerows([*point, "" if label == -1 else f"class {label}"] for point, label in zip(points, y, strict=True))
    return np.array([f"class {label}" for label in truth])


def test_a_table_in_a_file(tmp_path: Path) -> None:
    truth = write_table(tmp_path / "table.csv")
    classifier = quick().fit(tmp_path / "table.csv")
    assert classifier.classes_.tolist() == ["class 0", "class 1", "class 2"]
    assert len(classifier.sample_names_) == len(classifier.transduction_) == 60
    predicted = classifier.predict(str(tmp_path / "table.csv"))
    assert (predicted == truth).mean() > 0.9
    assert (classifier.predict(blobs()[0]) == predicted).all()
    refused(r"contains its labels\. Leave out y", quick().fit, tmp_path / "table.csv", blobs()[2])


def test_a_table_and_a_file_of_labels(tmp_path: Path) -> None:
    truth = write_table(tmp_path / "table.csv")
    rows = [f"{position + 1},{label}" for position, label in enumerate(truth)]
    (tmp_path / "labels.csv").write_text("\n".join(["name,label", *rows]))
    classifier = quick().fit(tmp_path / "table.csv", labels_from=tmp_path / "labels.csv")
    assert classifier.transduction_.tolist() == list(truth)
    assert classifier.method_ == "supervised"  # every sample has a label now
    refused("add its labels to y", quick().fit, blobs()[0], blobs()[2], labels_from=tmp_path / "labels.csv")


def test_a_folder_of_images(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for label, level in {"dark": 40, "light": 200}.items():
        for place, number in ((label, 3), ("unlabeled", 6)):
            (tmp_path / "images" / place).mkdir(parents=True, exist_ok=True)
            for row in range(number):
                pixels = generator.integers(level - 30, level + 30, (12, 12, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(tmp_path / "images" / place / f"{label}-{row}.png")
    views = {"names": ["rotate", "translate_x"]}
    classifier = quick(network="small-conv-4", views=views).fit(tmp_path / "images")
    assert classifier.classes_.tolist() == ["dark", "light"]
    truth = np.array([Path(name).name.partition("-")[0] for name in classifier.sample_names_])
    assert (classifier.transduction_ == truth).mean() > 0.9
    paths = [tmp_path / "images" / name for name in classifier.sample_names_]
    assert (classifier.predict(paths) == truth).mean() > 0.9
    (tmp_path / "images" / "unlabeled" / "broken.png").write_bytes(b"no image")
    refused(r"broken\.png", classifier.predict, tmp_path / "images")


def test_what_is_noticed_in_a_source_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    rows = [f"{number},{'cat' if number % 2 else 'dog'}" for number in range(20)]
    path.write_text("\n".join(["size,label", *rows, "99,fox", "50,"]))
    with pytest.warns(UserWarning, match="1 of 3 classes has a single labelled sample: 'fox'") as caught:
        quick(steps=2).fit(path)
    assert caught[0].filename == __file__


def test_settings_reach_the_run_and_verbose_says_how_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    points, _, y = blobs()
    given = {"settings": {"weight_decay": 0.0, "clip": 1.0}, "lr": 0.01, "optimizer": "adamw"}
    config = quick(verbose=True, **given).fit(points, y).config_
    assert (config.weight_decay, config.clip, config.lr, config.optimizer, config.steps) == (0.0, 1.0, 0.01, "adamw", 40)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("60 vectors of 4 features, 3 classes, 6 with a label: softmatch, mlp")
    assert len(lines) == 11
    assert lines[-1].startswith("step 40 of 40: loss ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"settings": {"baseline": True}}, "'baseline' has no meaning"),
        ({"settings": {"network": "mlp"}}, r"a parameter of its own: Classifier\(network=…\)"),
        ({"settings": {"weight_decy": 1}}, "unknown setting 'weight_decy'. Did you mean 'weight_decay'"),
        ({"steps": 0}, "steps = 0"),
        ({"lr": "fast"}, "lr = 'fast'"),
        ({"method": "softmach"}, "there is no method 'softmach'. Did you mean 'softmatch'"),
        ({"network": "wrn-28-2"}, "is for images"),
        ({"device": "toaster"}, "device 'toaster' cannot be used"),
        ({"views": {"flip": True}}, "views: "),
        ({"encoder": "bert"}, "encoder is for texts, images and recordings"),
    ],
    ids=str,
)
def test_wrong_parameters_are_told_by_fit(options: dict[str, Any], words: str) -> None:
    points, _, y = blobs()
    classifier = quick(**options)
    refused(words, classifier.fit, points, y)
    with pytest.raises(NotFittedError):
        classifier.predict(points)


def test_labels_that_cannot_work_are_told_by_fit() -> None:
    points, _, y = blobs()
    refused("none of the 60 samples has a label", quick().fit, points, np.full(60, -1))
    refused("there is one class: every label is 1 or missing", quick().fit, points, np.where(y == 1, 1, -1))
    refused("the target y is None", quick().fit, points)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick().fit(points, y[:-1])
    refused("'digits' is a named source", quick().fit, "digits")


def test_fit_is_silent_and_one_that_fails_leaves_no_half_fitted_classifier(capsys: pytest.CaptureFixture[str]) -> None:
    points, _, y = blobs()
    classifier = quick(steps=2).fit(points, y)
    assert not capsys.readouterr().out
    with pytest.raises(InputError):
        classifier.set_params(method="nothing").fit(points, y)
    with pytest.raises(NotFittedError):
        classifier.predict(points)


def test_augmented_columns_of_a_frame_are_for_training_only() -> None:
    texts = ["my parcel is late", "the card was stolen"] * 6
    frame = pd.DataFrame({"text": texts, "aug_0": [text.upper()[::-1] for text in texts], "aug_1": texts})
    y = np.array([0, 1] * 2 + [-1] * 8)
    fitted = Classifier(steps=3, settings={"text_column": "text"}).fit(frame, y)
    plain = Classifier(steps=3, settings={"text_column": "text", "augmented": "none"}).fit(frame, y)
    assert fitted.predict_proba(frame[["text"]]).shape == (12, 2)
    assert np.array_equal(fitted.predict_proba(frame[["text"]]), fitted.predict_proba(frame))
    assert not np.array_equal(fitted.predict_proba(frame), plain.predict_proba(frame))
    refused("augmented names columns of a frame", Classifier(steps=3, settings={"augmented": "aug_0"}).fit, texts, y)
    refused("train_per_class", Classifier(settings={"train_per_class": 3}).fit, texts, y)
