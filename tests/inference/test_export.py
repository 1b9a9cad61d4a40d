"""Exported models compute what the original does, say what they need, and are removed where they do not."""

import json
import shutil
import sys
import warnings
from pathlib import Path
from typing import Literal

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from softmatch.data.preparations import plain_preparation, preparation_from
from softmatch.data.preparations.table import CategoryColumn, NumberColumn, TablePreparation
from softmatch.errors import InputError, SoftmatchError
from softmatch.inference.export import export
from softmatch.inference.graphs import about_inputs
from softmatch.networks import build_network
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import Model, load_model, save_model, set_temperature
from softmatch.views import ImageViews, VectorViews
from tests.inference.conftest import read_csv
from tests.refusals import refused

IMAGES = ImageViews([0.4, 0.5, 0.6], [0.2, 0.3, 0.25])


def saved(folder: Path, name: str, shape: tuple[int, ...], network: nn.Module | None = None, samples: int = 6) -> Path:
    """A run with nothing but a model of random weights."""
    folder.mkdir()
    run, views = RunFolder(folder), IMAGES if len(shape) == 3 else VectorViews([1.0] * shape[0], [2.0] * shape[0])
    built = build_network(name, shape, 4) if network is None else network
    items = torch.randint(256, (samples, *shape), dtype=torch.uint8) if len(shape) == 3 else torch.randn(samples, *shape)
    preparation = plain_preparation(views.kind, shape)
    classes = ("a", 'b "c"', "ü,\n", "😀")
    save_model(run, Model(built, views, classes, shape, preparation, samples=items if samples else None), name)
    set_temperature(run, 0.5)
    return folder


def load_script(path: Path, extra: dict[str, str] | None = None) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer versions of torch would rather load something else
        return torch.jit.load(path, _extra_files=extra)  # type: ignore[no-any-return,no-untyped-call]  # torch's own signature


@pytest.mark.parametrize("to", ["torchscript", "onnx"])
@pytest.mark.parametrize(("name", "shape"), [("mlp", (5,)), ("small-conv-4", (3, 9, 7)), ("wrn-10-1", (3, 16, 16))])
def test_the_graph_is_the_whole_model(
    tmp_path: Path, name: str, shape: tuple[int, ...], to: Literal["onnx", "torchscript"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    run, file = saved(tmp_path / "run", name, shape), "model.onnx" if to == "onnx" else "model.pt"
    found, model = export(run, to), load_model(run)
    assert found.path == run / "export" / file
    assert [path.name for path in found.files] == [file, f"{file}.json"]
    assert sorted(path.name for path in (run / "export").iterdir()) == [file, f"{file}.json"]
    assert (found.samples, found.difference) == (6, pytest.approx(0.0, abs=1e-5 if to == "onnx" else 1e-6))
    assert model.samples is not None
    again = torch.cat([model.samples] * 2)
    if to == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(found.path, providers=["CPUExecutionProvider"])
        assert [(put.name, put.shape) for put in session.get_inputs()] == [("items", ["batch", *shape])]
        assert [put.name for put in session.get_outputs()] == ["probabilities"]
        made = torch.from_numpy(session.run(None, {"items": again.numpy()})[0])
        inside = session.get_modelmeta().custom_metadata_map["softmatch"]
        assert not (tmp_path / "home").exists()  # nothing reports to anybody
    else:
        extra = {"softmatch.json": ""}
        made, inside = load_script(found.path, extra)(again), extra["softmatch.json"]
    assert torch.allclose(made, model.predict_proba(again), atol=1e-5 if to == "onnx" else 1e-6)
    assert torch.allclose(made.sum(-1), torch.ones(12))
    about = json.loads(found.files[1].read_text(encoding="utf-8"))
    assert about == json.loads(inside)
    assert about["classes"] == ["a", 'b "c"', "ü,\n", "😀"]
    kind = "float32" if name == "mlp" else "uint8"
    assert (about["input"]["type"], about["input"]["shape"]) == (kind, ["batch", *shape])
    assert about["output"] == {"name": "probabilities", "type": "float32", "shape": ["batch", 4]}
    assert about["temperature"] == 0.5
    assert preparation_from(about["preparation"], {}).describe() == model.preparation.describe()


def test_safetensors_are_a_model_without_the_data(digits_run: Path, tmp_path: Path) -> None:
    found = export(digits_run, "safetensors", tmp_path / "copy")
    assert found.files == (tmp_path / "copy",)
    original, copy = load_model(digits_run), load_model(tmp_path / "copy")
    assert original.samples is not None
    assert copy.samples is None
    assert copy.temperature == original.temperature != 1.0
    assert torch.equal(copy.predict_proba(original.samples), original.predict_proba(original.samples))
    assert "head.weight" in load_file(tmp_path / "copy" / "model" / "model.safetensors")
    refused("has no saved samples for the comparison", export, tmp_path / "copy", "safetensors")


def test_what_texts_need_besides_stands_beside(text_folder: Path, tmp_path: Path) -> None:
    found = export(text_folder / "run", "torchscript", tmp_path / "m.pt")
    assert "the output of the preparation for a text, not the text itself" in found.describe()
    about = json.loads((tmp_path / "m.pt.json").read_text())
    tensors = load_file(tmp_path / "m.pt.preparation.safetensors")
    assert "m.pt.preparation.safetensors" in about["how_to_use"][0]
    with safe_open(tmp_path / "m.pt.preparation.safetensors", "pt") as file:
        assert set(file.keys()) == set(load_model(text_folder / "run").preparation.tensors())
    items = preparation_from(about["preparation"], tensors)(["cat dog fur", "train ticket"])
    probs = load_script(tmp_path / "m.pt")(items)
    assert [about["classes"][k] for k in probs.argmax(-1)] == ["animals", "travel"]


def test_the_json_is_enough_to_make_the_input(table_folder: Path, image_folder: Path, tmp_path: Path) -> None:
    export(table_folder / "run", "torchscript", tmp_path / "t.pt")
    about = json.loads((tmp_path / "t.pt.json").read_text(encoding="utf-8"))
    columns = {column["name"]: column for column in about["preparation"]["columns"]}
    rows = read_csv(table_folder / "wine.csv")[:20]
    assert about["features"] == list(columns)  # of numbers alone, none of them missing

    def feature(name: str, cell: str) -> float:
        column = columns[name]
        return (min(max(float(cell), column["low"]), column["high"]) - column["fill"]) / column["scale"]  # as `how_to_use` says

    items = torch.tensor([[feature(name, row[name]) for name in about["features"]] for row in rows])
    preparation = load_model(table_folder / "run").preparation
    cells = {name: [row[name] for row in rows] for name in columns}
    assert torch.allclose(items, preparation(cells), atol=1e-5)
    export(image_folder / "run", "torchscript", tmp_path / "i.pt")
    about = json.loads((tmp_path / "i.pt.json").read_text(encoding="utf-8"))
    assert (about["image"]["channels"], about["image"]["layout"], about["image"]["type"]) == ("grey", "NCHW", "uint8")
    assert about["image"]["resampling"].endswith("squashed to width×height = 8×8")
    assert "softmax are inside the graph" in about["how_to_use"][-1]


def test_features_of_a_table_are_named_in_their_order() -> None:
    table = TablePreparation(
        [
            NumberColumn("age", "number", 3.0, 0.0, 9.0, 2.0, True),
            NumberColumn("same", "number", 1.0, 1.0, 1.0, 0.0, True),
            CategoryColumn("city", ("Bern", "Rome"), True, True),
        ]
    )
    about = about_inputs(table, "m.onnx")
    cities = ["city = Bern", "city = Rome", "city is another word", "city is missing"]
    assert about["features"] == ["age", "age is missing", "same is missing", *cities]
    assert table({"age": ["5"], "same": ["1"], "city": ["Oslo"]}).tolist() == [[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]]


def test_samples_of_the_users_own(table_folder: Path, image_folder: Path, tmp_path: Path) -> None:
    for folder, source in ((table_folder, "wine.csv"), (image_folder, "images")):
        run = shutil.copytree(folder / "run", tmp_path / folder.name)
        (run / "model" / "samples.safetensors").unlink()
        refused("Give some with --source", export, run, "torchscript")
        found = export(run, "torchscript", source=folder / source)
        assert found.samples == (178 if source == "wine.csv" else 80)
    refused("was trained on", export, run, "torchscript", source=table_folder / "wine.csv")


class Branching(nn.Module):
    """Does something else with a single item, which a trace of two does not see."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs) if len(inputs) > 1 else self.linear(-inputs)


class Refusing(nn.Module):
    """Cannot be traced."""

    def forward(self, inputs: Tensor) -> Tensor:
        if torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]  # missing in torch's stubs
            raise KeyError("not like this")
        return inputs[:, :4]


def test_an_export_that_computes_something_else_is_removed(tmp_path: Path) -> None:
    network = Branching()
    run = saved(tmp_path / "run", "tests:Branching", (5,), network)
    with pytest.raises(SoftmatchError, match="does not match the original: in a batch of 1"):
        export(run, "torchscript", network=network)
    assert list((run / "export").iterdir()) == []
    single = saved(tmp_path / "single", "tests:Branching", (5,), network, samples=1)
    with pytest.raises(SoftmatchError, match="does not match the original"):
        export(single, "torchscript", network=network)


def test_a_network_that_cannot_be_exported_says_why(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Linear(5, 5), Refusing())
    run = saved(tmp_path / "run", "tests:Refusing", (5,), network)
    refused("cannot be exported as TorchScript: 'not like this'", export, run, "torchscript", network=network)
    refused("a network of your own", export, run, "torchscript")
    assert list((run / "export").iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", "mlp", (5,))
    assert [export(run, "torchscript").path.name for _ in range(2)] == ["model.pt", "model-2.pt"]
    (tmp_path / "m.pt").write_text("precious")
    refused("never overwritten", export, run, "torchscript", tmp_path / "m.pt")
    (tmp_path / "n.pt.json").write_text("precious")
    refused(r"n\.pt\.json exists already", export, run, "torchscript", tmp_path / "n.pt")
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == {
        "m.pt": "precious",
        "n.pt.json": "precious",
    }
    refused("there is no folder", export, run, "torchscript", tmp_path / "no" / "m.pt")
    with pytest.raises(InputError, match="Did you mean 'onnx'"):
        export(run, "onxx")  # type: ignore[arg-type]  # the mistake


def test_large_weights_are_a_file_beside_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    run = saved(tmp_path / "run", "mlp", (5,))
    monkeypatch.setattr("softmatch.inference.export.LARGEST", 0)
    found = export(run, "onnx", tmp_path / "m.onnx")
    assert {path.name for path in found.files} == {"m.onnx", "m.onnx.data", "m.onnx.json"}
    (tmp_path / "elsewhere").mkdir()
    moved = [path.rename(tmp_path / "elsewhere" / path.name) for path in found.files]
    assert "m.onnx" in {path.name for path in moved}
    session = onnxruntime.InferenceSession(tmp_path / "elsewhere" / "m.onnx", providers=["CPUExecutionProvider"])
    model = load_model(run)
    assert model.samples is not None
    made = torch.from_numpy(session.run(None, {"items": model.samples.numpy()})[0])
    assert torch.allclose(made, model.predict_proba(model.samples), atol=1e-5)


def test_onnx_without_its_libraries_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    refused(r"pip install 'softmatch\[onnx\]'", export, saved(tmp_path / "run", "mlp", (5,)), "onnx")
