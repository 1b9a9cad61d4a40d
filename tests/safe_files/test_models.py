"""Descriptions, weights and preparations of models are not believed."""

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from softmatch.cli.app import main
from softmatch.data.preparations import preparation_from
from softmatch.errors import InputError
from softmatch.files.tensors import read_checked, write_checked
from softmatch.runs.model import load_model
from softmatch.views import ImageViews, VectorViews, views_from_settings
from tests.safe_files.hostile import DEEP, IMAGE, change

DESCRIPTIONS: dict[str, dict[str, Any]] = {
    "code as network": {"network": "evil:run"},
    "file as network": {"network": "evil.py:run"},
    "path as network": {"network": "../evil"},
    "encoder without architecture": {"network": "encoder=somebody/something"},
    "encoder with nonsense": {"network": "encoder=x", "architecture": {"config": {"model_type": "bert"}, "of": "text"}},
    "wide network": {"network": "wrn-28-999"},
    "deep and wide network": {"network": "wrn-9994-9999"},
    "impossible depth": {"network": "wrn-11-2"},
    "large perceptron": {"network": "mlp-99999", "shape": [40_000], "views": {"kind": "vector", "mean": [0.0], "std": [1.0]}},
    "terabytes": {"shape": [1_000_000, 1_000_000, 1_000_000]},
    "many small sides": {"shape": [4096, 4096, 4096]},
    "no shape": {"shape": []},
    "negative shape": {"shape": [1, -8, 8]},
    "shape of halves": {"shape": [1, 8.5, 8]},
    "shape of texts": {"shape": ["1", "8", "8"]},
    "endless shape": {"shape": [10**30, 8, 8]},
    "many dimensions": {"shape": [1] * 100_000},
    "a number as classes": {"classes": 10},
    "a text as classes": {"classes": "0123456789"},
    "classes that are no texts": {"classes": list(range(10))},
    "no classes": {"classes": []},
    "other number of classes": {"classes": ["a", "b"]},
    "list as network": {"network": ["small-conv"]},
    "format of a list": {"format": [1]},
    "views of code": {"views": {"kind": "os", "system": "true"}},
    "views of a list": {"views": ["image"]},
    "views with a class": {"views": {**IMAGE, "__class__": "x"}},
    "mean of text": {"views": {**IMAGE, "mean": "a"}},
    "mean of lists": {"views": {**IMAGE, "mean": [[0.3]]}},
    "mean that is missing": {"views": {**IMAGE, "mean": [None]}},
    "means of other channels": {"views": {**IMAGE, "mean": [0.3] * 5, "std": [0.3] * 5}, "shape": [3, 8, 8]},
    "one deviation too few": {"views": {**IMAGE, "mean": [0.3, 0.3]}},
    "endless shift": {"views": {**IMAGE, "pad": 10**12}},
    "endless operations": {"views": {**IMAGE, "operations": 10**12}},
    "preparation of code": {"preparation": {"kind": "os.path"}},
    "preparation of a list": {"preparation": ["image"]},
    "preparation in a file": {"preparation": {"kind": "../../evil"}},
    "preparation of terabytes": {"preparation": {"kind": "image", "channels": 1, "height": 10**6, "width": 10**6}},
    "preparation of other images": {"preparation": {"kind": "image", "channels": 1, "height": 9, "width": 8}},
    "preparation of endless texts": {
        "preparation": {"kind": "tokens", "column": "t", "encoder": "e", "length": 10**12, "lower": True, "pad": 0, "mask": None}
    },
    "preparation of columns of code": {"preparation": {"kind": "table", "columns": [{"name": "a", "form": "os.system"}]}},
    "temperature of nothing": {"temperature": 0},
    "temperature below": {"temperature": -1.0},
    "temperature of text": {"temperature": "1"},
    "temperature of truth": {"temperature": True},
    "temperature without end": {"temperature": 1e300},
    "temperature that is no number": {"temperature": float("nan")},
}


@pytest.mark.parametrize("changes", DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_descriptions_of_models_are_not_believed(
    tmp_path: Path, canary: Path, run: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text(f"import pathlib\npathlib.Path({str(canary)!r}).touch()\nrun = None\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    change(run / "model" / "model.json", **changes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError):
        load_model(run)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes
    assert not canary.exists()


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "1", '"text"', DEEP, '{"format": ' + "9" * 9_000 + "}", '{"a":' * 50_000],
    ids=["empty", "null", "list", "number", "text", "deep lists", "endless number", "deep mappings"],
)
def test_a_description_that_is_none_is_refused(run: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "model" / "model.json").write_text(text)
    for command in (["predict", str(run), "a text"], ["pseudo-labels", str(run)], ["export", str(run), "--to", "torchscript"]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "softmatch: " in said
        assert "Traceback" not in said


WEIGHTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "of another shape": lambda weights: weights | {"head.weight": torch.zeros(10, 9)},
    "too large": lambda weights: weights | {"more": torch.zeros(3)},
    "lacking one": lambda weights: {name: value for name, value in weights.items() if name != "head.bias"},
    "of a tensor of none": lambda weights: weights | {"head.bias": torch.zeros(0)},
}


@pytest.mark.parametrize("other", WEIGHTS.values(), ids=WEIGHTS)
def test_weights_of_another_network_are_refused(run: Path, other: Callable[[dict[str, Any]], Any]) -> None:
    path = run / "model" / "model.safetensors"
    write_checked(path, other(read_checked(path)[0]), {})
    with pytest.raises(InputError, match="its weights are of another network"):
        load_model(run)


@pytest.mark.parametrize("samples", [torch.zeros(2, 1, 8, 9, dtype=torch.uint8), torch.zeros(2, 1, 8, 8), torch.tensor(1)])
def test_samples_of_another_model_are_refused(run: Path, samples: torch.Tensor) -> None:
    write_checked(run / "model" / "samples.safetensors", {"items": samples}, {})
    with pytest.raises(InputError, match="its samples are"):
        load_model(run)


TFIDF = {"kind": "tfidf", "column": "text"}
LETTERS = {"terms": torch.tensor(list(b"aa\nbb"), dtype=torch.uint8), "idf": torch.ones(2), "components": torch.ones(3, 2)}
VOCABULARIES: dict[str, dict[str, Any]] = {
    "terms of other numbers": {"terms": torch.ones(5)},
    "the same term twice": {"terms": torch.tensor(list(b"aa\naa"), dtype=torch.uint8)},
    "terms that are no text": {"terms": torch.tensor([255, 10, 254], dtype=torch.uint8)},
    "whole weights": {"idf": torch.ones(2, dtype=torch.int64)},
    "short weights": {"idf": torch.ones(2, dtype=torch.bfloat16)},
    "directions of another length": {"components": torch.ones(3, 5)},
    "directions of no dimension": {"components": torch.tensor(1.0)},
}


@pytest.mark.parametrize("tensors", VOCABULARIES.values(), ids=VOCABULARIES)
def test_tensors_of_a_preparation_are_not_believed(tensors: dict[str, Any]) -> None:
    assert preparation_from(TFIDF, LETTERS).columns == ("text",)
    with pytest.raises(InputError, match="the saved preparation of texts is damaged"):
        preparation_from(TFIDF, LETTERS | tensors)


def test_own_settings_are_read_as_they_are_written() -> None:
    for views in (ImageViews([0.1, 0.2, 0.3], [1.0] * 3), VectorViews([0.0, 1.0], [1.0, 0.0], swap=0.1)):
        assert views_from_settings(views.settings()).settings() == views.settings()
