"""`softmatch train` meets runs that are there already: asked for, found by itself, finished, of other settings."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import yaml

from softmatch.cli.app import main
from softmatch.config import former_names
from softmatch.errors import STOPPED
from softmatch.training.checkpoint import list_checkpoints
from softmatch.training.loop import Trainer

QUICK = ["two-moons", "--steps", "12", "--evaluate-every", "4", "--checkpoint-every", "4", "--no-baseline"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stop_after(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM after that step, once."""
    advance = Trainer.advance

    def stopping(trainer: Trainer) -> None:
        advance(trainer)
        if trainer.step == step:
            os.kill(os.getpid(), signal.SIGTERM)
            monkeypatch.setattr(Trainer, "advance", advance)

    monkeypatch.setattr(Trainer, "advance", stopping)


def test_a_stopped_run_goes_on_as_the_message_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *QUICK, "--out", "whole"]) == 0
    stop_after(7, monkeypatch)
    assert main(["train", *QUICK, "--out", "run"]) == STOPPED == 75
    said = capsys.readouterr().err
    assert "stopped by SIGTERM at step 7 of 12" in said
    assert said.rstrip().endswith("softmatch train --resume run")
    assert list_checkpoints(folder / "run" / "checkpoints")[-1].name == "step-000000007.safetensors"
    assert main(["train", "--resume", "run"]) == 0
    assert "going on after step 7 of 12" in capsys.readouterr().out
    for name in ("metrics.jsonl", "model/model.safetensors"):
        assert (folder / "run" / name).read_bytes() == (folder / "whole" / name).read_bytes()
    assert main(["train", "--resume", "run"]) == 0
    assert "run is finished" in capsys.readouterr().out


def test_a_run_of_version_01_resumes(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its config.yaml has former names of settings."""
    stop_after(7, monkeypatch)
    assert main(["train", *QUICK, "--out", "run"]) == STOPPED
    settings = yaml.safe_load((folder / "run" / "config.yaml").read_text())
    (folder / "run" / "config.yaml").write_text(yaml.safe_dump(former_names(settings)))
    assert "twin" in (folder / "run" / "config.yaml").read_text()
    capsys.readouterr()
    assert main(["train", "--resume", "run"]) == 0
    assert "is now called" not in capsys.readouterr().err


def test_auto_goes_on_begins_and_ends(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The same command for every start of a job."""
    command = ["train", *QUICK, "--out", "run", "--resume", "auto"]
    stop_after(5, monkeypatch)
    assert [main(command) for _ in range(3)] == [75, 0, 0]
    said = capsys.readouterr().out
    assert "going on after step 5" in said
    assert "run is finished" in said
    assert main([*command, "--seed", "1"]) == 2
    assert "never overwritten" in capsys.readouterr().err


def test_without_a_terminal_an_unfinished_run_is_named_and_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_after(6, monkeypatch)
    assert main(["train", *QUICK]) == 75
    (begun,) = (folder / "runs").iterdir()
    before = {path: path.read_bytes() for path in begun.rglob("*") if path.is_file()}
    assert main(["train", *QUICK]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"runs/{begun.name} is an unfinished run of this command" in said
    assert "--resume auto" in said
    assert {path: path.read_bytes() for path in begun.rglob("*") if path.is_file()} == before
    assert main(["train", *QUICK, "--resume", "auto"]) == 0
    assert (begun / "result.json").is_file()
    assert len(list((folder / "runs").iterdir())) == 2


@pytest.mark.parametrize("answer", ["", "n"])
def test_on_a_terminal_the_user_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    stop_after(6, monkeypatch)
    assert main(["train", *QUICK]) == 75
    (begun,) = (folder / "runs").iterdir()
    asked = []

    def ask(text: str) -> str:
        asked.append(text)
        return answer

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["train", *QUICK]) == 0
    assert len(asked) == 1
    assert "saved up to step 6" in asked[0]
    assert (begun / "result.json").is_file() == (answer == "")


class _Terminal:
    def isatty(self) -> bool:
        return True


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
def test_mistakes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    stop_after(5, monkeypatch)
    assert main(["train", *QUICK, "--out", "run"]) == 75
    shutil.copytree("run", "damaged")
    Path("damaged/config.yaml").write_text("steps: [12")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["train", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
