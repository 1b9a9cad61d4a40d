"""Attacks by files of others, each against the reader that meets it: no code runs, nothing is overwritten, no traceback."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import resource
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from softmatch import report
from softmatch.classifier_folder import read_folder
from softmatch.cli import main
from softmatch.config import read_file
from softmatch.data import Split, npz_files
from softmatch.data.own import lines, open_source
from softmatch.data.preparations import plain_preparation, preparation_from
from softmatch.data.preparations.feature_cache import load_features, store_features
from softmatch.data.sources import hub, npz
from softmatch.errors import InputError
from softmatch.networks import build_network
from softmatch.networks.encoder_folder import find_encoder, read_image_settings, read_text_settings
from softmatch.runs import RunFolder, load_model, save_model
from softmatch.training.checked_files import read_checked, write_checked
from softmatch.training.checkpoint import newest_good
from softmatch.views import ImageViews, VectorViews, views_from_settings
from softmatch.views.pillow import UnreadableImage, read_image
from tests.report.example import make_run

SHAPE = (1, 8, 8)
DEEP = "[" * 100_000


class Payload:
    """A pickle of this runs code when an ordinary unpickler reads it."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.canary,))


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "code has run"


@pytest.fixture
def live(canary: Path) -> bytes:
    """A pickle that makes the canary: it is a real one."""
    content = pickle.dumps(Payload(canary))
    pickle.loads(content)
    assert canary.exists()
    canary.unlink()
    return content


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with a model of small images, as training saves it."""
    folder = RunFolder.create(tmp_path / "run")
    network = build_network("small-conv-4", SHAPE, 10)
    classes = tuple("0123456789")
    samples = torch.zeros(2, *SHAPE, dtype=torch.uint8)
    views = ImageViews([0.3], [0.3], pad=1, flip=False)
    save_model(folder, network, "small-conv-4", SHAPE, views, classes, plain_preparation("image", SHAPE), samples)
    (folder.path / "config.yaml").write_text(yaml.safe_dump({"source": "digits", "method": "softmatch", "steps": 2}))
    return folder.path


def change(path: Path, **changes: Any) -> None:
    """Replace some of what stands in a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# ---- pickles under every name that is read


def place(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


def archive(content: bytes, member: str = "x.npy") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr(member, content)
    return made.getvalue()


def object_array(content: bytes) -> bytes:
    """An .npy of objects, which are a pickle after its header."""
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    return made.getvalue() + content


def torch_file(content: bytes) -> bytes:
    """What `torch.save` writes: a zip archive with a pickle in it."""
    return archive(content, "archive/data.pkl")


def in_run(name: str) -> Callable[[Path, bytes], Any]:
    return lambda folder, content: load_model(place(folder / "run", name, content).parents[1])


def as_source(name: str) -> Callable[[Path, bytes], Any]:
    def opened(folder: Path, content: bytes) -> None:
        records = open_source(place(folder, name, content)).read()
        plain_preparation("image", SHAPE)(records.inputs)  # only of images is the content read later

    return opened


def as_checkpoint(folder: Path, content: bytes) -> None:
    found, wrong = newest_good(place(folder, "step-000000001.safetensors", content).parent)
    assert found is None
    raise InputError(wrong[0])


def as_encoder(folder: Path, content: bytes) -> Path:
    place(folder, "encoder/config.json", b"{}")
    return find_encoder(str(place(folder, "encoder/pytorch_model.bin", content).parent))


READERS: dict[str, Callable[[Path, bytes], Any]] = {
    "model.safetensors": in_run("model/model.safetensors"),
    "preparation.safetensors": in_run("model/preparation.safetensors"),
    "samples.safetensors": in_run("model/samples.safetensors"),
    "model.json": in_run("model/model.json"),
    "classifier.json": lambda folder, content: read_folder(place(folder, "classifier.json", content).parent),
    "result.json": lambda folder, content: report.write_report(RunFolder(place(folder / "run", "result.json", content).parent)),
    "config.yaml": lambda folder, content: read_file(place(folder, "config.yaml", content)),
    "checkpoint": as_checkpoint,
    "checked file": lambda folder, content: read_checked(place(folder, "f", content)),
    "encoder": as_encoder,
    "published npz": lambda folder, content: npz.read(place(folder, "a.npz", content), SHAPE),
    **{suffix: as_source(f"a{suffix}") for suffix in (".npz", ".npy", ".csv", ".jsonl", ".json", ".parquet", ".png", ".txt")},
}


@pytest.mark.parametrize("wrapped", [bytes, object_array, torch_file, lambda content: archive(object_array(content))])
@pytest.mark.parametrize("name", READERS)
@pytest.mark.usefixtures("run")
def test_pickles_are_not_read_whatever_they_are_called(
    tmp_path: Path, canary: Path, live: bytes, name: str, wrapped: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(InputError):
        READERS[name](tmp_path, wrapped(live))
    assert not canary.exists()


def test_a_pickle_in_the_cache_of_features_is_not_read(tmp_path: Path, canary: Path, live: bytes, monkeypatch: Any) -> None:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    store_features("key", torch.ones(2))
    (tmp_path / "cache" / "features" / "key.safetensors").write_bytes(live)
    assert load_features("key") is None
    assert not canary.exists()


# ---- YAML

LAUGHS = "a0: &a0 [ha]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
SETTINGS = {
    "object": "method: !!python/object/apply:pathlib.Path.touch [CANARY]\n",
    "name": "method: !!python/name:os.system ''\n",
    "module": "method: !!python/module:antigravity ''\n",
    "long tag": "method: !<tag:yaml.org,2002:python/object/new:pathlib.PosixPath> [CANARY]\n",
    "own tag": "method: !run CANARY\n",
    "billion laughs": LAUGHS,
    "within itself": "views: &v {a: *v}\n",
    "deep lists": f"views: {DEEP[:400]}\n",
    "deep mappings": "views: " + "{a: " * 400,
    "deep blocks": "- " * 400,
    "deep enough to be read": f"views: {{a: {'[' * 80}{']' * 80}}}\n",
    "no date": "method: 2001-99-99\n",
    "no truth": "twin: !!bool perhaps\n",
    "no time": "method: !!timestamp then\n",
    "no number": "steps: !!int ''\n",
    "endless number": f"steps: {'9' * 10_000}\n",
    "binary": "method: !!binary aGE=\n",
    "set": "method: !!set {a, b}\n",
    "list": "- method\n",
    "NUL": "method: a\0b\n",
    "too long": "# " + "x" * 2**18,
}


@pytest.mark.parametrize("text", SETTINGS.values(), ids=SETTINGS)
def test_yaml_is_plain_values_of_limited_size(tmp_path: Path, canary: Path, run: Path, text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text.replace("CANARY", str(canary)))
    with pytest.raises(InputError, match=r"settings\.yaml"):
        read_file(file)
    file.replace(run / "config.yaml")
    assert main(["report", str(run)]) in (0, 2)  # of what is only shown, more is allowed: a list has no settings to show
    assert not canary.exists()


# ---- model.json

IMAGE = {"kind": "image", "mean": [0.3], "std": [0.3]}
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


# ---- the other files of a run

RECORD = {"step": 1, "quantity": 0.5, "quality": 0.5, "loss": 1.0, "histogram": {"all": [1, 2], "wrong": [0, 1], "right": [1, 1]}}
FILES: dict[str, tuple[str, str]] = {
    "endless nesting": ("metrics.jsonl", DEEP),
    "nesting that can be read": ("metrics.jsonl", '{"step": 1, "a": ' + "[" * 500 + "]" * 500 + "}"),
    "lines of any kind": (
        "metrics.jsonl",
        "\n".join(['"step"', "[1]", "3", "null", "NaN", '{"step": "1"}', '{"step": true}', ""]),
    ),
    "endless step": ("metrics.jsonl", '{"step": ' + "9" * 9_000 + "}"),
    "endless figures": ("metrics.jsonl", json.dumps(RECORD | {"loss": 10**300, "quantity": 1e308, "quality": float("nan")})),
    "histogram of a text": ("metrics.jsonl", json.dumps(RECORD | {"histogram": "all"})),
    "histogram of texts": ("metrics.jsonl", json.dumps(RECORD | {"histogram": {"all": ["a"], "wrong": 3, "right": [None]}})),
    "endless histogram": ("metrics.jsonl", json.dumps(RECORD | {"histogram": {"all": [1e308, 1e308]}})),
    "classes of a list": ("metrics.jsonl", json.dumps(RECORD | {"classes": [1], "curve": {"weight": [1]}})),
    "errors of a mapping": ("metrics.jsonl", json.dumps(RECORD | {"test_class_errors": {"a": 1}})),
    "statistics of lists of lists": ("metrics.jsonl", json.dumps(RECORD | {"statistics": {"mean": [[1]], "x": {"y": 1}}})),
    "half a character": ("metrics.jsonl", json.dumps(RECORD | {"statistics": {"\ud800": 1}})),
    "result of a list": ("result.json", "[]"),
    "result of texts": (
        "result.json",
        json.dumps(
            dict.fromkeys(("labels", "steps", "seed", "test_error", "classes", "calibration", "versions", "class_errors"), "x")
        ),
    ),
    "result of lists": (
        "result.json",
        json.dumps({key: [1] for key in ("labels", "steps", "test_error", "classes", "calibration", "versions", "evaluation")}),
    ),
    "endless result": ("result.json", '{"test_error": 1e999, "labels": ' + "9" * 300 + "}"),
    "bins of anything": ("result.json", json.dumps({"calibration": {"bins": [1, {}, {"count": 1e300}], "temperature": "x"}})),
    "split of texts": ("split.json", '{"labeled": "abc", "unlabeled": "abc"}'),
    "split of a number": ("split.json", '{"labeled": 3, "unlabeled": 0}'),
    "endless split": (
        "split.json",
        '{"seed": 0, "labeled": [0], "unlabeled": {"start": 0, "stop": 1000000000000000}, "test": []}',
    ),
    "split far away": ("split.json", '{"seed": 0, "labeled": [9000000000000000000], "unlabeled": [1], "test": []}'),
    "boundary of texts": ("boundary.json", '{"x": "ab", "y": [0, 1], "probs": [["a"]], "points": [1], "labeled": [[]]}'),
    "endless boundary": ("boundary.json", '{"x": [0, 1], "y": [0, 1], "probs": [[1e300, 2]], "points": [[0]], "truth": 1}'),
    "boundary without a grid": ("boundary.json", '{"x": [null], "y": [0], "probs": [[]]}'),
}


@pytest.mark.parametrize(("name", "text"), FILES.values(), ids=FILES)
def test_other_files_of_a_run_are_not_believed(tmp_path: Path, name: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path / "shown").path
    (folder / name).write_text(text)
    code = main(["report", str(folder)])
    said = capsys.readouterr().err
    assert code in (0, 2), said
    assert bool(said) == (code == 2)
    assert "Traceback" not in said
    if name == "split.json":
        with pytest.raises(InputError, match="split"):
            Split.from_dict(json.loads(text), most=100)


def test_a_split_that_goes_backwards_is_empty() -> None:
    found = {"seed": 0, "labeled": [0], "unlabeled": {"start": 9, "stop": 1}, "test": []}
    assert len(Split.from_dict(found, most=100).unlabeled) == 0


def test_links_and_pipes_in_a_run_lead_nowhere(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "secret"
    secret.write_text("precious")
    (run / "report.html").symlink_to(secret)
    assert main(["report", str(run)]) == 0
    assert secret.read_text() == "precious"  # the link was replaced, not what it leads to
    (run / "model" / "more.json").symlink_to(secret)
    assert main(["export", str(run), "--to", "safetensors", "--out", str(tmp_path / "copy")]) == 0
    assert {path.name for path in (tmp_path / "copy" / "model").iterdir()} == {"model.json", "model.safetensors"}
    (run / "model" / "preparation.safetensors").symlink_to(secret)
    assert main(["export", str(run), "--to", "safetensors", "--out", str(tmp_path / "other")]) == 2
    capsys.readouterr()
    for name in ("metrics.jsonl", "model/model.json", "config.yaml", "model/model.safetensors"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to("/dev/zero")
        with pytest.raises(InputError, match="not a file"):
            report.write_report(RunFolder(run)) if "model.s" not in name else load_model(run)
        (run / name).unlink()
        os.mkfifo(run / name)
        with pytest.raises(InputError, match="not a file"):
            report.write_report(RunFolder(run)) if "model.s" not in name else load_model(run)
        (run / name).unlink()
        if name == "model/model.json":
            change_back(run)


def change_back(run: Path) -> None:
    """A description that fits to the weights."""
    about = {"format": 1, "network": "small-conv-4", "shape": list(SHAPE), "classes": list("0123456789"), "views": IMAGE}
    (run / "model" / "model.json").write_text(json.dumps(about))


# ---- archives and compressed files


def test_members_with_paths_are_not_written_anywhere(tmp_path: Path) -> None:
    made = io.BytesIO()
    np.lib.format.write_array(made, np.ones((4, 2), np.float32))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        for name in ("x.npy", "../../escaped.npy", "/escaped.npy"):
            file.writestr(name, made.getvalue())
    assert len(open_source(tmp_path / "a.npz").read().names) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"a.npz"}
    assert not (tmp_path.parents[1] / "escaped.npy").exists()


def test_archives_that_unpack_to_more_than_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((1000, 1000), np.uint8), y=np.zeros(1000))
    monkeypatch.setattr(npz_files, "_memory", lambda: 10**5)
    for read in (lambda: open_source(tmp_path / "a.npz"), lambda: npz.read(tmp_path / "a.npz", SHAPE)):
        with pytest.raises(InputError, match=r"a\.npz unpacks to 0\.0 GB"):
            read()


def test_an_array_that_claims_terabytes_is_refused(tmp_path: Path) -> None:
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
    for path in (place(tmp_path, "a.npz", archive(made.getvalue())), place(tmp_path, "a.npy", made.getvalue())):
        with pytest.raises(InputError, match="cannot be read"):
            open_source(path)


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 2**20)
    path = place(tmp_path, "a.csv.gz", gzip.compress(b"text,label\n" + b"a" * 2**23))
    with pytest.raises(InputError, match="has a line of more than 1 MB"):
        open_source(path).read()


# ---- images


def test_images_start_no_programs(tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow gives EPS files to Ghostscript, whatever their name."""
    program = place(tmp_path, "bin/gs", f"#!/bin/sh\ntouch '{canary}'\n".encode())
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    content = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    with pytest.raises(UnreadableImage):
        read_image(place(tmp_path, "a.png", content), 8)
    with pytest.raises(InputError, match="the image is cut off or damaged"):
        hub._decode({"bytes": content}, (3, 8, 8), "row 1")
    assert not canary.exists()


# ---- encoders

ENCODERS: dict[str, tuple[str, Any]] = {
    "no list of modules": ("modules.json", 3),
    "modules of anything": ("modules.json", [1, None, {"type": 3}]),
    "size of a list": ("preprocessor_config.json", {"size": [[8]]}),
    "size of a text": ("preprocessor_config.json", {"size": "large"}),
    "endless size": ("preprocessor_config.json", {"size": 10**9}),
    "factor of a text": ("preprocessor_config.json", {"rescale_factor": "x"}),
    "mean of a number": ("preprocessor_config.json", {"image_mean": 1}),
}


@pytest.mark.parametrize(("name", "content"), ENCODERS.values(), ids=ENCODERS)
def test_settings_of_an_encoder_are_not_believed(tmp_path: Path, name: str, content: Any) -> None:
    (tmp_path / name).write_text(json.dumps(content))
    if name == "modules.json":
        assert not read_text_settings(tmp_path).normalize
    else:
        with pytest.raises(InputError, match=r"preprocessor_config\.json cannot be used"):
            read_image_settings(tmp_path)
    (tmp_path / name).write_text(DEEP)
    with pytest.raises(InputError, match="is damaged"):
        read_text_settings(tmp_path) if name == "modules.json" else read_image_settings(tmp_path)


# ---- pages

HOSTILE = "</script></title></td><script>alert(1)</script><img src=x onerror=alert(1)>\"'`&lt;\u2028\u2029\u202e{{7*7}}{%x%}<!--"


class Elements(HTMLParser):
    """Every element of a page with the names of its attributes, and the content of its block of data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.data = ""
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))
        self.inside = tag == "script" and ("id", "data") in attrs

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        self.data += data if self.inside else ""


def page(folder: Path, word: str) -> Elements:
    """A report in which everything that can be a text is this word."""
    own = {
        "warnings": [word],
        "versions": {word: word},
        "classes": [{"name": word, "labels": 3, "error": 0.5}, {"name": word + word, "error": 0.1, "labels": 1}],
        "seed": word,
    }
    settings = {"source": word, "label": word, "views": {word: [word]}, word: word}
    run = make_run(folder, method=word, classes=(word, word + word), evaluation="crossfit", result=own, settings=settings)
    about = RunFolder(folder).read_json("result.json")
    calibration = {**about["calibration"], "temperature": 1.0, "reason": word}
    run.write_json("result.json", about | {"evaluation": about["evaluation"] | {"reason": word}, "calibration": calibration})
    record = RunFolder(folder).records()[-1]
    run.append_record(record | {"statistics": {word: 0.5, "mean": [0.1, 0.2]}})
    return Elements(report.write_report(run).read_text(encoding="utf-8"))


def test_texts_in_a_report_are_texts_wherever_they_stand(tmp_path: Path) -> None:
    plain, hostile = page(tmp_path / "plain", "word"), page(tmp_path / "hostile", HOSTILE)
    assert hostile.found == plain.found
    assert "<" not in hostile.data
    assert json.loads(hostile.data)["classes"] == [HOSTILE, HOSTILE + HOSTILE]
    assert (
        "49" not in (tmp_path / "hostile" / "report.html").read_text(encoding="utf-8").split("<script", 1)[0].split("</title>")[0]
    )
