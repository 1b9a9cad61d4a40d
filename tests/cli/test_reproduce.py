"""The command that reproduces the paper, from its arguments to its files."""

from dataclasses import replace
from pathlib import Path

import pytest

from softmatch.cli.app import main
from softmatch.cli.reproducing import command_of
from softmatch.experiments import paper
from softmatch.experiments.paper.experiment import THREE, lower, sheet
from softmatch.experiments.reproduction import plan
from softmatch.experiments.sheet import Column

TINY = {"steps": 4, "unlabeled_batch": 8, "evaluate_every": 2}


def test_it_lists_every_table_and_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce"]) == 0
    printed = capsys.readouterr().out
    for name, experiment in paper.EXPERIMENTS.items():
        assert name in printed
        assert f"{experiment.where}." in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table-mian"], "Did you mean 'table-main'?"),
        (["table-main", "--seeds", "0"], "--seeds 0: give 1 or more"),
        (["table-main", "--data.cifar11", "x"], "--data.cifar11: there is no dataset 'cifar11'. Did you mean 'cifar10'?"),
        (["table-main", "--data.cifar10", "gone.npz"], "--data.cifar10 gone.npz: there is no such file or folder."),
        (["table-text", "--encoder", "gone"], "--encoder gone: there is no folder of an encoder"),
        (["fig-ua", "--scale", "phone"], "--scale"),
    ],
)
def test_mistakes_are_explained_and_nothing_is_written(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["reproduce", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_experiment_from_the_command_to_its_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real runs, of a table that is small."""
    columns = [Column("4", "two-moons", TINY, "Two moons")]
    claims = (lower("SoftMatch", "FixMatch", text="SoftMatch is better"),)
    tiny = replace(
        paper.EXPERIMENTS["table-main"],
        name="tiny",
        sheets={"laptop": [sheet("A tiny table", THREE[::2], columns, range(2))], "paper": []},
        published={},
        beside={},
        claims=claims,
    )
    monkeypatch.setattr("softmatch.cli.reproducing.EXPERIMENTS", {"tiny": tiny})
    out, docs = tmp_path / "out", tmp_path / "docs"
    command = ["reproduce", "tiny", "--out", str(out), "--publish", str(docs), "--parallel-runs", "2"]
    assert main([*command, "--dry-run"]) == 0
    assert "4 runs are missing, about" in capsys.readouterr().out
    assert not out.exists()
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "SoftMatch is better; Two moons, 4: " in printed
    made = sorted(path.stat().st_mtime_ns for path in (out / "runs").glob("*/result.json"))
    assert len(made) == 4
    text = (docs / "laptop" / "tiny.md").read_text()
    assert text == (out / "tiny-laptop" / "tiny.md").read_text()
    assert (docs / "laptop" / "tiny-laptop.csv").read_text() == (out / "tiny-laptop" / "runs.csv").read_text()
    assert "n = 2 seeds" in text
    assert main(command) == 0
    assert "All 4 runs are finished." in capsys.readouterr().out
    assert sorted(path.stat().st_mtime_ns for path in (out / "runs").glob("*/result.json")) == made
    assert main([word if word != "tiny" else "all" for word in command]) == 0
    assert "| [tiny](tiny.md) | Table 2 | " in (docs / "laptop" / "README.md").read_text()
    assert f"softmatch reproduce tiny --out {out}" in (docs / "laptop" / "tiny.md").read_text()


def test_the_command_of_one_experiment_has_its_own_data_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--scale", "laptop", "all", "--data.agnews=news", "--data.cifar10", "c.npz", "--encoder", "e", "--seeds", "2"]
    monkeypatch.setattr("softmatch.cli.options._words", ["reproduce", *given])
    data = {"agnews": Path("news"), "cifar10": Path("c.npz")}
    monkeypatch.setattr("softmatch.experiments.reproduction.why_missing", lambda source, where: None)
    commands = {name: command_of(plan(paper.EXPERIMENTS[name], "laptop", {}), data) for name in ("table-text", "fig-ua")}
    assert commands == {
        "table-text": "softmatch reproduce --scale laptop table-text --data.agnews=news --encoder e --seeds 2",
        "fig-ua": "softmatch reproduce --scale laptop fig-ua --data.cifar10 c.npz --seeds 2",
    }
