"""Commands after training, as a user and as a program runs them; and every command of the documentation."""

import json
import re
import shlex
from pathlib import Path

import pytest

from softmatch.cli.app import COMMANDS, app
from softmatch.cli.typed import remember
from tests.cli.conftest import Said
from tests.report.example import make_run

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(rf"^\s*(?:srun )?(softmatch (?:{'|'.join(COMMANDS)})\b[^#\n]*)", re.MULTILINE)


def documented() -> list[str]:
    """Commands of the documentation, without comments; those that go on in a further line are left out."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    blocks = [block for file in files for block in re.findall(r"```(?:bash|sh|console)?\n(.*?)```", file.read_text(), re.DOTALL)]
    found = [line.strip() for block in blocks for line in COMMAND.findall(block)]
    return sorted({re.split(r" && | \| ", line)[0] for line in found if not line.endswith("\\") and "…" not in line})


@pytest.mark.parametrize("command", documented())
def test_commands_of_the_documentation_are_understood(command: str) -> None:
    words = remember(shlex.split(command)[1:], lambda note: None)
    app.parse_args([word for word in words if word != "--help"], exit_on_error=False, print_error=False)


def test_results_for_programs(tmp_path: Path, said: Said) -> None:
    rows = [f"{k % 2 * 5 + k / 99},{k / 50},{('=one', '-two', '')[k % 2 if k < 16 else 2]}" for k in range(30)]
    (tmp_path / "d.csv").write_text("\n".join(["a,b,label", *rows]))

    settings = ["--steps", "4", "--evaluation", "none", "--threads", "1", "--unlabeled-batch", "8", "--network", "mlp-4"]
    facts = json.loads(said("check", "d.csv", *settings, "--json"))
    assert facts["classes"] == {"-two": 8, "=one": 8}
    assert facts["settings"]["network"] == "mlp-4"
    result = json.loads(said("train", "d.csv", *settings, "--out", "run", "--json"))
    assert (result["run"], result["labels"], result["test_error"]) == ("run", 16, None)
    assert said("train", "d.csv", *settings, "--out", "silent", "-q") == ""
    assert "optimizer" in said("train", "d.csv", *settings, "--out", "loud", "-v")
    assert json.loads(said("train", "--resume", "run", "--json"))["labels"] == 16

    found = json.loads(said("predict", "run", "d.csv", "--json"))
    assert (found["samples"], Path(found["file"]).name) == (30, "d.csv")
    lines = said("predict", "run", "d.csv", "--out", "-", "--no-probabilities").splitlines()
    assert lines[0] == "name,label,confidence,problem"
    assert {line.split(",")[1] for line in lines[1:]} <= {"'=one", "'-two"}
    raw = said("predict", "run", "d.csv", "--out", "-", "--raw").splitlines()[1:]
    assert {line.split(",")[1] for line in raw} <= {"=one", "-two"}
    said("predict", "run", "d.csv", "--out", "p.jsonl", "-q")
    assert json.loads((tmp_path / "p.jsonl").read_text().splitlines()[0])["label"] in ("=one", "-two")
    said("pseudo-labels", "run", "--out", "q.jsonl")
    assert len((tmp_path / "q.jsonl").read_text().splitlines()) == 30
    assert len(json.loads(said("suggest", "run", "-n", "3", "--json"))["names"]) == 3
    said("suggest", "d.csv", "-n", "2", "--out", "s.jsonl")
    assert json.loads((tmp_path / "s.jsonl").read_text().splitlines()[0])["label"] is None
    assert "--text-column a is not read here: run is a run" in said("suggest", "run", "--text", "a", code=2)


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
