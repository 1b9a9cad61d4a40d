"""Pickles are not read, whatever they are called: no code runs."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from softmatch import report
from softmatch.classifier import Classifier
from softmatch.config import read_file
from softmatch.data.preparations import plain_preparation
from softmatch.data.preparations.feature_cache import FeatureCache
from softmatch.data.readers.open_source import open_source
from softmatch.data.sources.originals import read_npz
from softmatch.encoders.encoder_folder import find_encoder
from softmatch.errors import InputError
from softmatch.files.tensors import read_checked
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model
from softmatch.training.checkpoint import newest_good
from tests.safe_files.hostile import SHAPE, archive, place


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
    "classifier.json": lambda folder, content: Classifier.load(place(folder, "classifier.json", content).parent),
    "result.json": lambda folder, content: report.write_report(RunFolder(place(folder / "run", "result.json", content).parent)),
    "config.yaml": lambda folder, content: read_file(place(folder, "config.yaml", content)),
    "checkpoint": as_checkpoint,
    "checked file": lambda folder, content: read_checked(place(folder, "f", content)),
    "encoder": as_encoder,
    "published npz": lambda folder, content: read_npz(place(folder, "a.npz", content), SHAPE),
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
    cache = FeatureCache("maker")
    cache.add([b"one"], torch.ones(1, 2))
    cache.path.write_bytes(live)
    assert cache.find([b"one"]) == {}
    assert not canary.exists()
