"""`softmatch methods --json` and `softmatch runs`."""

import json
from pathlib import Path

from softmatch.methods import METHODS
from tests.cli.conftest import Said
from tests.report.example import make_run


def test_methods_as_json(said: Said) -> None:
    assert [method["name"] for method in json.loads(said("methods", "--json"))] == list(METHODS)
    assert json.loads(said("methods", "flexmatch", "--json"))["card"].startswith("# FlexMatch")


def test_runs_are_listed(folder: Path, said: Said) -> None:
    make_run(folder / "runs" / "one")
    make_run(folder / "runs" / "\x1b[2Jtwo", finished=False)
    shown = said("runs")
    assert "stopped at step 0 of" in shown
    assert "runs/one" in shown
    assert "\x1b" not in shown
    assert {run["source"] for run in json.loads(said("runs", "--json"))} == {"two-moons"}
    (folder / "empty").mkdir()
    assert "There are no runs in empty." in said("runs", "empty")
    assert "there is no folder nowhere" in said("runs", "nowhere", code=2)
