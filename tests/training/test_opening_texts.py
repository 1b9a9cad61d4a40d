"""The paper's datasets of texts as sources: how they are prepared, what is drawn of them, and that a run finds them again."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from softmatch.config import Config, make_config, read_file
from softmatch.data.examples import Examples
from softmatch.data.preparations.text_preparations import fit_tfidf
from softmatch.errors import InputError
from softmatch.inference.unlabeled_pool import open_pool
from softmatch.training.job import train
from softmatch.training.opening import Job, open_again, open_job, texts_of
from tests.data.sources.text_copies import news, write_news
from tests.tiny_encoder import make_text_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_news(tmp_path_factory.mktemp("news"))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_text_encoder(tmp_path_factory.mktemp("encoder"))


def same(one: Examples, other: Examples) -> bool:
    """Whether two readings gave the same, in every part."""
    assert isinstance(one.items, torch.Tensor)
    assert isinstance(other.items, torch.Tensor)
    assert (one.classes, one.kind, list(one.names)) == (other.classes, other.kind, list(other.names))
    assert torch.equal(one.labels, other.labels)
    assert (one.augmented is None) == (other.augmented is None)
    equal = torch.equal(one.items, other.items)
    if one.augmented is not None and other.augmented is not None:
        equal = equal and torch.equal(one.augmented, other.augmented)
    if one.test is not None and other.test is not None:
        return equal and same(one.test, other.test)
    return equal and one.test is other.test


def again(job: Job) -> Examples:
    """Its source, read by the settings that are saved."""
    return open_again(job.source, make_config(job.config.model_dump(mode="json"))).examples


def test_without_an_encoder_texts_become_vectors(folder: Path) -> None:
    job = open_job("agnews", {"data": folder, "steps": 7})
    config, examples = job.config, job.examples
    assert (job.source, job.name, config.labels, config.steps, config.network) == ("agnews", "agnews", 40, 7, "mlp-64")
    assert examples.kind == "vector"
    assert examples.classes == ("World", "Sports", "Business", "Sci/Tech")
    assert (len(examples), examples.augmented is not None and examples.augmented.shape[1]) == (48, 2)
    assert examples.test is not None
    assert examples.test.labels.tolist() == [0, 1, 2, 3] * 3
    assert not any("every sample has a label" in finding.text for finding in job.findings)
    assert same(examples, again(job))


def test_an_encoder_makes_features_or_is_trained_on_tokens(folder: Path, encoder: Path) -> None:
    frozen = open_job("agnews", {"data": folder, "encoder": str(encoder), "augmented": "none"})
    assert (frozen.examples.kind, frozen.examples.items.shape[1], frozen.examples.augmented) == ("vector", 16, None)
    tuned = open_job("agnews", {"data": folder, "encoder": str(encoder), "tune": "all", "max_tokens": 5})
    assert (tuned.examples.kind, tuned.examples.items.shape[1]) == ("text", 5)
    assert tuned.config.network == f"encoder={encoder}"
    assert same(tuned.examples, again(tuned))


def test_what_is_drawn_is_drawn_before_anything_is_fitted_and_again_the_same(folder: Path) -> None:
    drawn: dict[str, Any] = {"data": folder, "train_per_class": 6, "validation_per_class": 4, "seed": 3, "labels": 8}
    job = open_job("agnews", drawn)
    assert job.examples.test is not None
    for part, number in ((job.examples, 6), (job.examples.test, 4)):
        assert Counter(part.labels.tolist()) == dict.fromkeys(range(4), number)
    assert not {*job.examples.names} & {*job.examples.test.names}
    assert same(job.examples, again(job))
    used = texts_of("agnews", job.config).train
    assert list(used.names) == list(job.examples.names)
    assert job.examples.preparation is not None
    fitted = fit_tfidf([str(text) for text in used.inputs], "text").tensors()
    assert torch.equal(job.examples.preparation.tensors()["terms"], fitted["terms"]), "no words of validation texts"
    other = open_job("agnews", {**drawn, "split_seed": 4})
    assert list(other.examples.names) != list(job.examples.names)


def test_paths_are_kept_from_the_root(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert open_job("agnews", {"data": folder.name}).config.data == folder


def test_the_recipe_trains_validates_and_is_found_again(folder: Path, encoder: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"data": folder, "recipe": "paper", "encoder": str(encoder), "max_tokens": 8}
    given |= {"steps": 3, "validation_per_class": 2, "labels": 8, "out": tmp_path / "run", "baseline": False}
    result = train("agnews", **given)
    assert result.test_error is not None
    assert 0.0 <= result.test_error <= 1.0
    assert result.evaluation["kind"] == "holdout", "validation texts are no test set"
    written = read_file(tmp_path / "run" / "config.yaml")
    assert written.pop("source") == "agnews"
    config: Config = make_config(written)
    assert (config.head, config.labeled_batch, config.lr, config.model_momentum) == ("gelu", 16, 1e-5, 0.0)
    assert config.head_rate == 1.0, "the default of one's own texts is no part of the recipe"
    assert config.views == {"weak": 0.0, "strong": 0.0}
    job = open_again("agnews", config)
    assert job.examples.test is not None
    assert (len(job.examples), len(job.examples.test)) == (40, 8)
    pool = open_pool(tmp_path / "run")
    assert isinstance(pool.task.examples.items, torch.Tensor)
    assert torch.equal(pool.task.examples.items, job.examples.items)
    names = [job.examples.names[3], job.examples.names[1]]
    found = dict(zip(texts_of("agnews", config).train.names, texts_of("agnews", config).train.inputs, strict=True))
    assert pool.texts(names) == [found[name] for name in names]


def test_the_recipe_without_back_translations_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    write_news(tmp_path / "plain", versions=False)
    given = {"data": tmp_path / "plain", "recipe": "paper", "validation_per_class": 2, "out": tmp_path / "run"}
    with pytest.raises(InputError, match=r"softmatch augment agnews --via de,ru"):
        open_job("agnews", given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("source", "option", "message"),
    [
        ("agnews", {"label_column": "x"}, "--label-column is for data of your own; 'agnews' is a named source"),
        ("agnews", {"evaluation": "crossfit"}, "--evaluation is for data of your own"),
        ("agnews", {"tune": "lora"}, "--tune lora trains a pretrained encoder: give one with --encoder"),
        ("agnews", {"max_tokens": 9}, "--max-tokens is for texts that a pretrained encoder reads"),
        ("agnews", {"augmented": "aug_7"}, "has no column 'aug_7'"),
        ("agnews", {"validation_per_class": 12}, "class 'World' has 12 texts; 12 per class to validate on"),
        ("agnews", {"recipe": "paper"}, "class 'World' has 12 texts; 2,500 per class .* lower --validation-per-class"),
        ("digits", {"max_tokens": 9}, "--max-tokens is for data of your own and for named sources of texts"),
        ("digits", {"validation_per_class": 2}, r"--validation-per-class is for named sources of texts \(agnews, dbpedia"),
        ("own", {"train_per_class": 2}, "--train-per-class is for named sources of texts .*; this is data of your own"),
    ],
)
def test_settings_of_other_sources_are_refused(folder: Path, source: str, option: dict[str, Any], message: str) -> None:
    where = {"data": folder} if source == "agnews" else {}
    with pytest.raises(InputError, match=message):
        open_job(str(folder / "train.jsonl") if source == "own" else source, where, option)


def test_what_is_there_already_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("x")
    with pytest.raises(InputError, match="never overwritten"):
        open_job("agnews", {"data": tmp_path / "not there", "out": tmp_path / "run"})


def test_a_long_tail_of_texts_is_no_supervised_run(tmp_path: Path) -> None:
    assert len(news(1)) == 4
    given = {"data": write_news(tmp_path), "imbalance": 4, "largest_class_labels": 4, "largest_class_unlabeled": 4}
    assert open_job("agnews", given).config.method == "softmatch"
