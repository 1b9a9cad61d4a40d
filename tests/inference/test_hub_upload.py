"""Models on a real server that answers like the hub: what is uploaded, loaded and refused."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml
from huggingface_hub import ModelCard, constants
from PIL import Image

import softmatch
from softmatch.inference.export import export
from softmatch.inference.predict import predict
from softmatch.runs.model import load_model, save_model
from tests.hub_server import Hub, serving
from tests.inference.test_export import saved
from tests.refusals import refused
from tests.report.example import make_run

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload:DeprecationWarning")  # of the hub's library
TOKEN = "secret"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A measured run with files that show samples, and a model of random weights."""
    made, model = (
        make_run(tmp_path / "run", evaluation="holdout", settings={"source": "/home/someone/my photos"}),
        tmp_path / "model",
    )
    save_model(made, load_model(saved(model, "small-conv-4", (3, 9, 9))), "small-conv-4")
    shutil.copy(model / "model" / "samples.safetensors", made.path / "model")
    for name in ("held_out.csv", "pictures.json", "report.html"):
        (made.path / name).write_text('{"samples": []}')
    return made.path


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    (tmp_path / "repository").mkdir()
    made = Hub(tmp_path / "repository", "me/photos")
    made.token, made.private = TOKEN, None
    with serving(made):
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, made.address)
        monkeypatch.setattr(constants, "ENDPOINT", made.address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.chdir(tmp_path)
        yield made


MODEL = ["README.md", "model/model.json", "model/model.safetensors"]


def test_a_model_goes_to_the_hub_and_comes_back(run: Path, hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = softmatch.export(run, "hub", repo="me/photos", private=True, license="mit")
    assert found.url == f"{hub.address}/me/photos"
    assert hub.private is True
    assert sorted(hub.files()) == MODEL
    assert {path.relative_to(found.path).as_posix(): path.read_bytes() for path in found.files} == hub.files()
    card = ModelCard((tmp_path / "repository" / "README.md").read_text())
    assert card.data.license == "mit"
    assert card.data.pipeline_tag == "image-classification"
    assert card.data.eval_results[0].dataset_name == "my photos"
    assert "/home/someone" not in card.content
    assert 'load_model("hf://me/photos")' in card.content

    for name in ("evil.py", "pytorch_model.bin", "model/samples.safetensors", "result.json"):
        (tmp_path / "repository" / name).write_bytes(b"never fetched")
    items = torch.randint(256, (5, 3, 9, 9), dtype=torch.uint8)
    loaded = load_model("hf://me/photos")
    assert torch.equal(loaded.predict_proba(items), load_model(run).predict_proba(items))
    assert hub.fetched() == MODEL[1:]
    assert torch.equal(load_model("hf://me/photos@main").predict_proba(items), loaded.predict_proba(items))
    (tmp_path / "new").mkdir()
    for position in range(2):
        Image.fromarray(items[position].permute(1, 2, 0).numpy()).save(tmp_path / "new" / f"{position}.png")
    said = capsys.readouterr().err
    assert said.count("Downloading model me/photos") == 1
    predicted = predict(Path("hf://me/photos"), tmp_path / "new")
    assert (predicted.samples, predicted.file) == (2, Path("predictions/new.csv"))
    assert not (tmp_path / "hf:").exists()


def test_without_a_repository_nothing_is_sent(run: Path, hub: Hub) -> None:
    found = export(run, "hub")
    assert found.path == run / "export" / "hub"
    assert found.url is None
    assert sorted(path.relative_to(found.path).as_posix() for path in found.files) == MODEL
    assert hub.asked == []
    assert load_model(found.path).classes == load_model(run).classes


def test_samples_are_uploaded_only_if_they_are_named(run: Path, hub: Hub) -> None:
    export(run, "hub", repo="me/photos", include=["report.html", "result.json"])
    assert sorted(hub.files()) == sorted([*MODEL, "report.html", "result.json"])
    refused("it is not a file to share. Did you mean 'report.html'", export, run, "hub", include=["reports.html"])
    (run / "held_out.csv").unlink()
    (run / "held_out.csv").symlink_to("/etc/hostname")
    refused("has no such file", export, run, "hub", include=["held_out.csv"])
    refused("are for --to hub", export, run, "safetensors", repo="me/photos")
    refused("name the repository with --repo", export, run, "hub", private=True)
    refused("give a repository as owner/name", export, run, "hub", repo="photos")


def test_uploads_that_are_refused(run: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    refused("there is no owner 'you', or your token may not write there", export, run, "hub", repo="you/photos")
    refused("a repository is given as owner/name, in letters", export, run, "hub", repo="me/-photos")
    hub.private = False
    refused("it exists and is public", export, run, "hub", repo="me/photos", private=True)
    monkeypatch.setenv("HF_TOKEN", "another")
    refused("your token is not accepted", export, run, "hub", repo="me/photos")
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "nowhere")
    refused("you are not logged in. Please log in with", export, run, "hub", repo="me/photos")
    assert hub.files() == {}
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    refused("the hub cannot be reached", export, run, "hub", repo="me/photos")


def test_models_that_cannot_be_loaded(
    run: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused("is not an address", load_model, "hf://photos")
    refused("there is no model of this name", load_model, "hf://me/other")
    refused("it has no revision 'v2'", load_model, "hf://me/photos@v2")
    (hub.folder / "README.md").write_text("no model")
    refused("has no model/model.json", load_model, "hf://me/photos")
    export(run, "hub", repo="me/photos")
    hub.largest = 10**12
    refused("model/model.safetensors has 1,000,000 MB, more than any model has", load_model, "hf://me/photos")
    hub.largest = None
    before = load_model("hf://me/photos").temperature
    capsys.readouterr()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load_model("hf://me/photos").temperature == before
    assert "the copy of me/photos on this disk is used" in capsys.readouterr().err
    refused("HF_HUB_OFFLINE is set", load_model, "hf://me/unknown")


def test_nothing_of_a_repository_is_executed(run: Path, hub: Hub, tmp_path: Path) -> None:
    export(run, "hub", repo="me/photos")
    about, file = hub.folder / "model" / "model.json", hub.folder / "evil.py"
    file.write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\ndef network(): ...")
    about.write_text(json.dumps(json.loads(about.read_text()) | {"network": f"{file}:network"}))
    refused("has a network of your own", load_model, "hf://me/photos")
    assert not (tmp_path / "executed").exists()


def test_without_the_library(run: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call, words in [(export, (run, "hub")), (load_model, ("hf://me/photos",))]:
        options = {"repo": "me/photos"} if call is export else {}
        refused(r"pip install 'softmatch\[hub\]'", call, *words, **options)


def test_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes with markup, a kept baseline, no measurement: the card is valid YAML and Markdown, and says what is known."""

    def card(name: str, **options: object) -> tuple[dict[str, object], str]:
        made = make_run(tmp_path / name, **options)  # type: ignore[arg-type]  # each test gives its own
        save_model(made, load_model(saved(tmp_path / f"{name}-model", "mlp", (5,))), "mlp")
        text = (export(made.path, "hub").path / "README.md").read_text()
        _, front, body = text.split("---\n", 2)
        return yaml.safe_load(front), body

    front, body = card("markup", classes=("<b>", "a|b\n# c"), evaluation="crossfit")
    assert "license" not in front
    assert "| &lt;b&gt; |" in body
    assert r"| a\|b \# c |" in body
    front, body = card("kept", evaluation="test", result={"kept": "supervised", "test_error": 0.3, "supervised_test_error": 0.2})
    assert front["model-index"][0]["results"][0]["metrics"][0]["value"] == 0.8  # type: ignore[index]  # plain YAML
    assert "baseline, the same network on the labels only (this model) | 20.0 %" in body
    front, body = card("unmeasured", evaluation="none")
    assert "model-index" not in front
    assert "The error of this model was not measured." in body
