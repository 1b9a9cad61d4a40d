"""Commands after training, as a user and as a program runs them; and every command of the documentation."""

import json
import re
import shlex
from pathlib import Path

import pytest

from softmatch.cli.app import COMMANDS, app
from softmatch.cli.options import remember
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


def test_labels_come_back_round_by_round(folder: Path, said: Said) -> None:
    """As a user does it: suggest, fill in, check, train, suggest again; and a mistake in the table is explained."""
    rows = [f"{k % 2 * 5 + k / 99:.3f},{k / 50:.2f}" for k in range(60)]
    (folder / "d.csv").write_text("\n".join(["a,b", *rows]))
    shown = said("suggest", "d.csv", "--number", "30", "--random-share", "0.8")
    assert "24 of the 30 are random instead, to measure the error on." in shown
    header, *lines = (folder / "to_label.csv").read_text().splitlines()
    assert header == "name,label,reason,digest,purpose"
    filled = [line.replace(",", f",{('even', 'odd')[int(line.split(',')[0]) % 2]}", 1) for line in lines]
    (folder / "labels.csv").write_text("\n".join([header, *filled]))

    settings = ["--labels-from", "labels.csv", "--steps", "3", "--threads", "1", "--unlabeled-batch", "8", "--network", "mlp-4"]
    facts = json.loads(said("check", "d.csv", *settings, "--json"))
    assert facts["classes"]["even"] + facts["classes"]["odd"] == 30
    assert any("purpose: 24 random, 6 chosen" in finding["text"] for finding in facts["findings"])
    result = json.loads(said("train", "d.csv", *settings, "--no-baseline", "--out", "run", "--json"))
    assert (result["labels"], result["test_samples"], result["measured_on"]) == (30, 24, "random")
    more = json.loads(said("suggest", "run", "--number", "60", "--json"))
    assert len(more["names"]) == 30
    assert not set(more["names"]) & {line.split(",")[0] for line in lines}
    (folder / "later.csv").write_text("row,label\n" + "".join(f"{name},even\n" for name in more["names"][:28]))
    assert len(json.loads(said("suggest", "run", "--labels-from", "later.csv", "--json"))["names"]) == 2

    (folder / "wrong.csv").write_text("name,label\n1,even\n61,odd\n")
    for command in (["check", "d.csv"], ["train", "d.csv"], ["suggest", "d.csv"], ["suggest", "run"]):
        told = said(*command, "--labels-from", "wrong.csv", code=2)
        assert "wrong.csv, row 2: '61'" in told.replace("\n", " "), command
    assert "is for data of your own" in said("train", "digits", "--labels-from", "labels.csv", code=2)
    assert "give the file with --labels-from" in said("train", "d.csv", "--label-column", "a", "--prefer", "new", code=2)
