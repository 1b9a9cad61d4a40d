"""`softmatch train` meets runs that are there already: asked for, found by itself, finished, of other settings."""

import os
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from softmatch.cli.app import main
from softmatch.config import former_names
from softmatch.errors import STOPPED
from softmatch.training.checkpoint import list_checkpoints
from softmatch.training.loop import Trainer
from tests.cli.conftest import Said

QUICK = ["two-moons", "--steps", "12", "--evaluate-every", "4", "--checkpoint-every", "4", "--no-baseline"]


def stop_after(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM after that step, once."""
    advance = Trainer.advance

    def stopping(trainer: Trainer) -> None:
        advance(trainer)
        if trainer.step == step:
            os.kill(os.getpid(), signal.SIGTERM)
            monkeypatch.setattr(Trainer, "advance", advance)

    monkeypatch.setattr(Trainer, "advance", stopping)


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_stopped_run_goes_on_as_the_message_says(folder: Path, monkeypatch: pytest.MonkeyPatch, said: Said) -> None:
    said("train", *QUICK, "--out", "whole")
    stop_after(7, monkeypatch)
    assert STOPPED == 75
    stopped = said("train", *QUICK, "--out", "run", code=STOPPED)
    assert "stopped by SIGTERM at step 7 of 12" in stopped
    assert stopped.rstrip().endswith("softmatch train --resume run")
    assert list_checkpoints(folder / "run" / "checkpoints")[-1].name == "step-000000007.safetensors"
    assert "resuming after step 7 of 12" in said("train", "--resume", "run")
    for name in ("metrics.jsonl", "model/model.safetensors"):
        assert (folder / "run" / name).read_bytes() == (folder / "whole" / name).read_bytes()
    assert "run is finished" in said("train", "--resume", "run")


def test_a_run_of_version_01_resumes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, said: Said, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its config.yaml has former names of settings."""
    stop_after(7, monkeypatch)
    said("train", *QUICK, "--out", "run", code=STOPPED)
    settings = yaml.safe_load((folder / "run" / "config.yaml").read_text())
    (folder / "run" / "config.yaml").write_text(yaml.safe_dump(former_names(settings)))
    assert "twin" in (folder / "run" / "config.yaml").read_text()
    assert main(["train", "--resume", "run"]) == 0
    assert "is now called" not in capsys.readouterr().err


def test_auto_goes_on_begins_and_ends(folder: Path, monkeypatch: pytest.MonkeyPatch, said: Said) -> None:
    """The same command for every start of a job."""
    command = ["train", *QUICK, "--out", "run", "--resume", "auto"]
    stop_after(5, monkeypatch)
    said(*command, code=75)
    assert "resuming after step 5" in said(*command)
    assert "run is finished" in said(*command)
    assert "never overwritten" in said(*command, "--seed", "1", code=2)


def test_without_a_terminal_an_unfinished_run_is_named_and_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    stop_after(6, monkeypatch)
    said("train", *QUICK, code=75)
    (begun,) = (folder / "runs").iterdir()
    before = files(begun)
    shown = " ".join(said("train", *QUICK).split())
    assert f"runs/{begun.name} is an unfinished run of this command" in shown
    assert "--resume auto" in shown
    assert files(begun) == before
    said("train", *QUICK, "--resume", "auto")
    assert (begun / "result.json").is_file()
    assert len(list((folder / "runs").iterdir())) == 2


@pytest.mark.parametrize("answer", ["", "n"])
def test_on_a_terminal_the_user_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    stop_after(6, monkeypatch)
    assert main(["train", *QUICK]) == 75
    (begun,) = (folder / "runs").iterdir()
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or answer)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["train", *QUICK]) == 0
    assert len(asked) == 1
    assert "saved up to step 6" in asked[0]
    assert (begun / "result.json").is_file() == (answer == "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resume", "nowhere"], "nowhere is not a run folder"),
        (["digits", "--resume", "run"], "run was trained on two-moons, not on digits"),
        (["--resume", ""], "--resume takes a run folder"),
        (["--resume", "run", "--out", "other"], "leave out --out"),
        ([*QUICK, "--seed", "1", "--out", "run", "--resume", "auto"], "seed is 0 there, not 1"),
        ([*QUICK, "--dry-run", "--processes", "2"], "leave out --processes"),
        (["--resume", "run", "--dry-run"], "leave out --resume"),
        (["--resume", "run", "--steps", "13"], "steps is 12 in run, not 13"),
        (["--processes", "0"], "--processes 0"),
        (["--resume", "damaged"], "damaged/config.yaml"),
    ],
)
def test_mistakes(folder: Path, monkeypatch: pytest.MonkeyPatch, said: Said, arguments: list[str], message: str) -> None:
    stop_after(5, monkeypatch)
    said("train", *QUICK, "--out", "run", code=75)
    shutil.copytree("run", "damaged")
    Path("damaged/config.yaml").write_text("steps: [12")
    before = files(folder)
    assert message in said("train", *arguments, code=2)
    assert files(folder) == before
