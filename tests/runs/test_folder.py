"""The run folder: never overwritten, readable by itself, damage named, nothing executed."""

import json
from pathlib import Path

import pytest
import torch

from softmatch.data.preparations import plain_preparation
from softmatch.networks import build_network
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import Model, load_model, save_model
from softmatch.views import ImageViews
from tests.refusals import refused


def test_an_existing_folder_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    RunFolder.create(tmp_path / "run")  # empty: fine
    (tmp_path / "run" / "precious").write_text("data")
    refused("never overwritten", RunFolder.create, tmp_path / "run")
    (tmp_path / "file").write_text("data")
    refused("never overwritten", RunFolder.create, tmp_path / "file")
    assert (tmp_path / "run" / "precious").read_text() == "data"
    assert [RunFolder.create_new(tmp_path, "a").path.name for _ in range(3)] == ["a", "a-2", "a-3"]
    refused("cannot be created", RunFolder.create, tmp_path / "file" / "run")


def test_records_round_trip_and_damage_is_left_out_or_named(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.records() == []
    run.append_record({"step": 1, "quality": float("nan"), "loss": 1 / 3, "list": [float("inf"), 2]})
    run.append_record({"step": 2})
    assert run.records() == [{"step": 1, "quality": None, "loss": 0.333333, "list": [None, 2]}, {"step": 2}]
    (tmp_path / "metrics.jsonl").write_text('{"step": 2}\n{"step": 1}\n[]\n{"step": 2, "loss": 1}\n{"step": ')
    assert run.records() == [{"step": 1}, {"step": 2, "loss": 1}]
    (tmp_path / "result.json").write_text("{")
    refused(r"result\.json is damaged", run.read_json, "result.json")
    assert run.read_json("none.json") is None


def saved(folder: Path) -> tuple[RunFolder, torch.nn.Module, ImageViews]:
    network = build_network("small-conv", (1, 8, 8), 3).eval()
    views = ImageViews([0.3], [0.3], pad=1, flip=False)
    run = RunFolder(folder)
    classes, preparation = ("cat", "dog", "<bird>"), plain_preparation("image", (1, 8, 8))
    save_model(run, Model(network, views, classes, (1, 8, 8), preparation), "small-conv")
    return run, network, views


def test_a_model_predicts_the_same_after_loading(tmp_path: Path) -> None:
    run, network, views = saved(tmp_path)
    model = load_model(run.path)
    items = torch.randint(0, 256, (20, 1, 8, 8), dtype=torch.uint8)
    with torch.no_grad():
        expected = torch.softmax(network(views.plain(items)), -1)
    assert torch.equal(model.predict_proba(items), expected)
    assert model.classes == ("cat", "dog", "<bird>")
    assert model.predict(items) == [model.classes[i] for i in expected.argmax(-1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "has format 99"),
        ({"network": "os.system"}, "no network"),
        ({"shape": "8x8"}, "cannot be read|no network|images"),
        ({"classes": ["a", "b"]}, "cannot be read"),
        ({"views": {"kind": "pickle"}}, "unknown kind"),
        ({"views": None}, "cannot be read"),
        ({"network": "os:system"}, "network of your own"),
    ],
)
def test_a_changed_description_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    run, _, _ = saved(tmp_path)
    path = run.path / "model" / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(message, load_model, run.path)


def test_missing_or_damaged_weights_are_refused(tmp_path: Path) -> None:
    refused("has no model", load_model, tmp_path)
    run, _, _ = saved(tmp_path)
    weights = run.path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    refused("is damaged: it is cut short", load_model, run.path)
    weights.unlink()
    refused("cannot be read", load_model, run.path)
