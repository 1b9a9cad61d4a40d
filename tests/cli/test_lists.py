"""`softmatch methods --json` and `softmatch runs`."""

import json
from pathlib import Path

import pytest

from softmatch.cli.app import main
from softmatch.methods import METHODS
from tests.report.example import make_run


def test_methods_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--json"]) == 0
    assert [method["name"] for method in json.loads(capsys.readouterr().out)] == list(METHODS)
    assert main(["methods", "flexmatch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["card"].startswith("# FlexMatch")


def test_runs_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "one")
    make_run(tmp_path / "runs" / "\x1b[2Jtwo", finished=False)
    assert main(["runs"]) == 0
    said = capsys.readouterr().out
    assert "stopped at step 0 of" in said
    assert "runs/one" in said
    assert "\x1b" not in said
    assert main(["runs", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {run["source"] for run in found} == {"two-moons"}
    (tmp_path / "empty").mkdir()
    assert main(["runs", "empty"]) == 0
    assert "There are no runs in empty." in capsys.readouterr().out
    assert main(["runs", "nowhere"]) == 2
    assert "there is no folder nowhere" in capsys.readouterr().err
