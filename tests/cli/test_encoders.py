"""Named encoders on the command line: from a server like the hub, in real processes, and offline afterwards."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from softmatch.encoders.named import NAMED
from tests import forked
from tests.cli.conftest import Said
from tests.hub_server import Hub, serving
from tests.tiny_encoder import make_text_encoder

Softmatch = Callable[..., subprocess.CompletedProcess[str]]
NOWHERE = "http://127.0.0.1:9"
SETTINGS = ("--steps", "2", "--evaluation", "none", "--no-baseline", "--device", "cpu", "--threads", "1")


@pytest.fixture
def softmatch(tmp_path: Path) -> Softmatch:
    """Run the command line as a process of its own in a folder with texts.csv, with caches of its own."""
    rows = [f"{'the cat sat' if k % 2 else 'a dog ran'} {k},{'AB'[k % 2] if k < 12 else ''},{k * 11}" for k in range(40)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label,customer", *rows]))

    def run(*arguments: str, endpoint: str = NOWHERE, code: int = 0) -> subprocess.CompletedProcess[str]:
        given = {
            "HF_HUB_OFFLINE": "0",
            "HF_ENDPOINT": endpoint,
            "HF_HOME": str(tmp_path / "home"),
            "SOFTMATCH_CACHE": str(tmp_path / "cache"),
        }
        environment = {**{key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}, **given}
        done = forked.run(["-m", "softmatch", *arguments], tmp_path, environment)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


def test_a_named_encoder_is_downloaded_once_and_used_offline(tmp_path: Path, softmatch: Softmatch) -> None:
    entry = NAMED["texts-small"]
    make_text_encoder(tmp_path / "served")
    train = ("train", "texts.csv", "--encoder", "texts-small", *SETTINGS)
    with serving(Hub(tmp_path / "served", entry.hub, entry.revision)) as hub:
        done = softmatch(*train, "--out", "run", endpoint=hub.address)
        assert f"Downloading encoder {entry.hub} (" in done.stderr
        assert "pretrained encoder reads" not in done.stdout  # it was given
    saved = json.loads((tmp_path / "run" / "model" / "model.json").read_text())["preparation"]
    assert (saved["encoder"], saved["revision"]) == (entry.hub, entry.revision)
    new = softmatch("predict", "run", "a bird on the tree", "--json")  # its features are not in the cache
    assert (json.loads(new.stdout)["samples"], "Downloading" in new.stderr) == (1, False)
    shown = softmatch("encoders").stdout.splitlines()
    row = next(number for number, line in enumerate(shown) if line.startswith("texts-small"))
    assert shown[row].split()[-3:] == ["Apache-2.0", "allowed", "yes"]
    assert Path(shown[row + 2].strip()).name == entry.revision
    assert f"to {tmp_path / 'home' / 'hub'} (set HF_HOME" in shown[-1]
    there = {each["name"]: each["folder"] for each in json.loads(softmatch("encoders", "--json").stdout)}
    assert there == {**dict.fromkeys(NAMED), "texts-small": shown[row + 2].strip()}


def test_an_encoder_that_has_moved(tmp_path: Path, softmatch: Softmatch, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "empty"))  # no features of these texts
    make_text_encoder(tmp_path / "encoder")
    make_text_encoder(tmp_path / "other", seed=1)
    softmatch("train", "texts.csv", "--encoder", "encoder", *SETTINGS, "--out", "run")
    expected = said("predict", "run", "texts.csv", "--out", "-", "--keep", "customer,label")
    lines = expected.splitlines()
    assert lines[0] == "name,customer,source_label,label,confidence,p_A,p_B,problem"
    assert [line.split(",")[1] for line in lines[1:]] == [str(11 * k) for k in range(40)]
    assert [line.split(",")[2] for line in lines[1:14]] == [*"ABABABABABAB", ""]
    shutil.move(tmp_path / "encoder", tmp_path / "moved")
    assert "If you have moved it, give its folder with --encoder-path" in said("predict", "run", "texts.csv", code=2)
    for command in (
        ("predict", "run", "texts.csv"),
        ("pseudo-labels", "run"),
        ("suggest", "run"),
        ("export", "run", "--to", "torchscript"),
    ):
        assert "--encoder-path other: this is another encoder than" in said(*command, "--encoder-path", "other", code=2)
    moved = ("--encoder-path", "moved")
    assert said("predict", "run", "texts.csv", "--out", "-", "--keep", "customer,label", *moved) == expected
    assert "40 samples of the unlabelled pool" in said("pseudo-labels", "run", *moved)
    assert "fill in the column label" in said("suggest", "run", "-n", "2", *moved)
    assert "compared on 40 real samples" in said("export", "run", "--to", "torchscript", "--source", "texts.csv", *moved)
    assert "--encoder-path moved is not read here: texts.csv is not a run folder" in said("suggest", "texts.csv", *moved, code=2)


def test_the_last_layers_on_the_command_line(
    tmp_path: Path, softmatch: Softmatch, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    make_text_encoder(tmp_path / "encoder")
    tuned = ("texts.csv", "--encoder", "encoder", *SETTINGS, "--batch-statistics", "separate", "--tune")
    planned = said("train", *tuned, "last-1", "--dry-run")
    assert "activations" in planned
    assert "whole run" in planned
    checked = " ".join(said("check", *tuned, "last-1").split())
    assert "Activations of the encoder: about" in checked
    assert "Memory:" in checked
    facts = json.loads(said("check", *tuned, "last-1", "--json"))
    assert facts["activations"]["size"] > 0
    assert not (tmp_path / "cache").exists(), "nothing is written"
    begun = " ".join(said("train", *tuned, "last-1", "--out", "run").split())
    assert "Estimated: about" in begun
    assert "Activations of the encoder: about" in begun
    shutil.rmtree(tmp_path / "cache")
    assert "40 samples" in said("predict", "run", "texts.csv")
    assert "Estimated: about" in said("train", *tuned, "lora", "--out", "lora")
    for value, message in (
        ("last-0", "tune = 'last-0': it must be head, lora, all, or last-N with N from 1"),
        ("last-99", "--tune last-99: this encoder has 2 layers. Give fewer, or --tune all."),
    ):
        assert message in " ".join(said("train", *tuned, value, code=2).split())
    for value in ("lora", "last-1"):
        refused = f"--tune {value} trains a pretrained encoder: give one with --encoder, or leave it out."
        assert refused in " ".join(said("train", "texts.csv", "--tune", value, code=2).split())


def test_a_word_that_may_be_a_text_or_a_dataset(tmp_path: Path, softmatch: Softmatch, said: Said) -> None:
    softmatch("train", "texts.csv", *SETTINGS, "--out", "run")
    asked = said("predict", "run", "owner/name", code=2)
    assert "owner/name is not a file or folder here. Give hub:owner/name for a dataset of the Hugging Face hub" in asked
    assert "text:owner/name if this is the text to predict" in asked
    likely = said("predict", "run", "text:owner/name")
    assert {line.split()[1] for line in likely.splitlines()} == {"A", "B"}
    assert "the dataset owner/name cannot be loaded" in softmatch("predict", "run", "hub:owner/name", code=2).stderr
    assert said("predict", "run", "word").count("%") == 2
    assert "--keep names columns of a table, and the text has none" in said("predict", "run", "a cat", "--keep", "id", code=2)
    assert "texts.csv has no column 'costumer'. Did you mean 'customer'?" in said(
        "predict", "run", "texts.csv", "--keep", "costumer", code=2
    )
