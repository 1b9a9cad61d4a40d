"""`softmatch compare`: what it makes of its arguments, that it goes on after whatever ends it, and what it says."""

import csv
import json
import os
import shlex
import shutil
import signal
import threading
from pathlib import Path

import pytest

from softmatch.cli.app import main
from softmatch.cli.compare import _columns, compare, make_sheet
from softmatch.experiments.executors.here import start_child
from softmatch.experiments.results.collect import MEASURES
from tests.experiments.tiny import METHODS, times, wait_for

ROOT = Path(__file__).parent.parent.parent
TINY = shlex.split(
    "--steps 6 --evaluate-every 3 --checkpoint-every 2 --labeled-batch 4 --unlabeled-batch 8 --network mlp-8 --device cpu"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_grid_is_made_once_and_grows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", "two-moons", *TINY, "--threads", "1", "--seeds", "1", "--methods"]
    assert main([*command, "softmatch{k: 3}", "--labels", "4,6", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "0 of 2 finished · 0 running · 2 waiting" in said
    assert "2 runs are missing. This is a dry run: nothing is written." in said
    assert list(folder.iterdir()) == []
    assert main([*command, "softmatch{k: 3}", "--labels", "4,6"]) == 0
    said = capsys.readouterr().out
    assert "[2/2] two-moons-softmatch-" in said
    (results,) = (path for path in (folder / "comparisons").iterdir() if path.name != "runs")
    assert results.name.startswith("two-moons-4-6-labels-")
    assert f"comparisons/{results.name}/table.md" in said
    before = times(folder / "comparisons" / "runs")
    assert main([*command, "softmatch{k: 3},supervised", "--labels", "4,6", "--dry-run"]) == 0
    assert "2 of 4 finished · 0 running · 2 waiting" in capsys.readouterr().out
    assert main([*command, "softmatch{k: 3},supervised", "--labels", "4,6"]) == 0
    after = times(folder / "comparisons" / "runs")
    assert {path: after[path] for path in before} == before
    (grown,) = (path for path in (folder / "comparisons").iterdir() if path.name not in ("runs", results.name))
    with (grown / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted({row["row"] for row in rows}) == ["softmatch{k: 3}", "supervised"]
    assert len(rows) == 4
    settings = [path.read_text() for path in (folder / "comparisons" / "runs").glob("*softmatch*.yaml")]
    assert all("baseline: false\n" in text and "method_options:\n  k: 3\n" in text for text in settings)
    assert main([*command, "softmatch{k: 3},supervised", "--labels", "4,6"]) == 0  # there is nothing left to do
    assert times(folder / "comparisons" / "runs") == after


def test_a_comparison_that_is_killed_and_stopped_ends_as_if_nothing_had_happened(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "own.py").write_text(METHODS)
    settings = shlex.split(
        "--steps 100 --evaluate-every 5 --checkpoint-every 20 --labeled-batch 4 --unlabeled-batch 8 --network mlp-8"
    )
    methods = "own.py:Slow,own.py:Slow{max_weight: 0.5}"
    command = ["compare", "two-moons", "--methods", methods, "--seeds", "1", *settings, "--threads", "1", "--parallel-runs", "2"]
    assert main([*command, "--name", "both", "--out", "whole"]) == 0
    command += ["--name", "both", "--out", "parts"]

    def records() -> list[int]:
        return sorted(path.read_bytes().count(b"\n") for path in (folder / "parts" / "runs").glob("*/metrics.jsonl"))

    def logs() -> str:
        return "".join(path.read_text() for path in sorted((folder / "parts" / "runs").glob("*.log")))

    (folder / "slow").touch()
    killed = start_child(command, folder / "killed.log")
    wait_for(lambda: len(records()) == 2)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    wait_for(lambda: logs().count("stopped by SIGTERM at step") == 2)  # its runs have noticed

    before = records()

    def strike() -> None:
        wait_for(lambda: all(now > then for now, then in zip(records(), before, strict=True)))
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=strike)
    thread.start()
    capsys.readouterr()
    assert main(command) == 75
    thread.join()
    said = capsys.readouterr().err
    assert "softmatch: stopped; 0 of 2 runs are finished, and those that had begun are saved." in said
    assert said.endswith(f"Resume with: {shlex.join(['softmatch', *command])}\n")
    assert logs().count("stopped by SIGTERM at step") == 4

    (folder / "slow").unlink()
    assert main(command) == 0
    assert logs().count("resuming after step") == 4
    for run in (folder / "parts" / "runs").glob("*/"):
        for name in ("metrics.jsonl", "model/model.safetensors"):
            assert (run / name).read_bytes() == (folder / "whole" / "runs" / run.name / name).read_bytes()
    assert (folder / "parts/both/table.csv").read_bytes() == (folder / "whole/both/table.csv").read_bytes()


def test_a_run_that_fails_for_good_is_reported_and_the_table_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own.py").write_text(METHODS)
    (folder / "settings.yaml").write_text("source: two-moons\nsteps: 6\nnetwork: mlp-8\nlabeled_batch: 4\nunlabeled_batch: 8\n")
    command = ["compare", "-c", "settings.yaml", "--methods", "own.py:Broken,fixmatch", "--seeds", "1", "--retries", "1"]
    assert main([*command, "--name", "mine", "--steps", "4"]) == 1
    said = capsys.readouterr()
    assert said.out.count("RuntimeError: no such luck Retrying (attempt 2).") == 1
    assert "failed after 2 attempts: ended with code 1. RuntimeError: no such luck" in said.out
    assert "Its log: comparisons/runs/two-moons-Broken-seed-0-" in said.out
    assert "1 of 2 runs failed" in said.err
    assert "fixmatch" in (folder / "comparisons" / "mine" / "table.md").read_text()
    (result,) = (folder / "comparisons" / "runs").glob("*fixmatch*/result.json")
    assert '"steps": 4' in result.read_text()  # the command line wins over the file


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--methods softmach", "softmach, two-moons: there is no method 'softmach'. Did you mean 'softmatch'?"),
        ("--methods 'softmatch{q: 1}'", "softmatch{q: 1}, two-moons: method 'softmatch' has no option 'q'"),
        ("--methods 'softmatch{k: banana}'", "method 'softmatch': k = 'banana': input should be a valid number."),
        ("--methods 'softmatch{k: banana}' --dry-run", "softmatch{k: banana}, two-moons: method 'softmatch': k = 'banana'"),
        ("--methods 'softmatch{k: .nan}'", "method 'softmatch': k = nan: input should be a finite number."),
        ("--methods 'softmatch{k: .inf}'", "method 'softmatch': k = inf: input should be a finite number."),
        ("--methods 'softmatch{k: -1}'", "method 'softmatch': k = -1: input should be greater than 0."),
        ("--methods 'softmatch{k: 0}'", "method 'softmatch': k = 0: input should be greater than 0."),
        ("--methods 'softmatch{k: [2]}'", "method 'softmatch': k = [2]: input should be a valid number."),
        ("--methods 'softmatch{align: both}'", "method 'softmatch': align = 'both': input should be 'none', 'uniform'"),
        ("--methods 'fixmatch{threshold: high}'", "method 'fixmatch': threshold = 'high': input should be a valid number."),
        ("--methods 'uda{temperature: 0}'", "method 'uda': temperature = 0: input should be greater than 0."),
        ("--methods 'saw+softmatch{base_options: {k: 0}}'", "method 'softmatch': k = 0: input should be greater than 0."),
        ("--methods 'softmatch{momentum: 2, k: 1}'", "(options: momentum = 2, k = 1)"),
        ("--methods softmatch --metric 'worst clas'", "there is no measure 'worst clas'. Did you mean 'worst class'?"),
        ("--methods 'softmatch{k: 1'", "--methods softmatch{k: 1 is not valid YAML"),
        ("--methods 'softmatch{1}'", "--methods softmatch{1}: give NAME, or NAME{option: value}"),
        ("--methods softmatch,,fixmatch", "--methods : give NAME"),
        ("--methods softmatch,softmatch", "the row 'softmatch' is in two-moons-"),
        ("--methods softmatch --labels 4,x", "--labels takes whole numbers separated by commas; 'x' is not one."),
        ("--methods softmatch --labels 4,4", "the column 'two-moons, 4 labels' is in two-moons-4-4-labels-"),
        ("--methods softmatch --labels 0", "two-moons, 0 labels: settings: labels = 0"),
        ("--methods softmatch --imbalance inf", "--imbalance takes numbers separated by commas; 'inf' is not one."),
        ("--methods softmatch --labels 4 --imbalance 5", "--labels and --imbalance exclude each other"),
        ("--methods softmatch --seeds 0", "--seeds 0 --first-seed 0: give 1 or more seeds"),
        ("--methods softmatch --steps 0", "steps = '0': input should be greater than or equal to 1"),
        ("--methods softmatch --method fixmatch", "--method"),
        ("--methods softmatch --name ../other", "--name ../other: a name consists of letters, digits, dashes and dots"),
        ("--methods softmatch --name runs", "--name runs: a name"),
        ("--methods softmatch -c settings.yaml", "settings.yaml: labels is not shared by all runs here. Remove it, and give"),
        ("--methods softmatch --data nowhere.npz", "two-moons: "),
        ("--methods softmatch --on ray --slurm.time 5", "--slurm only works with --on slurm"),
        ("--methods softmatch --on mars", "mars"),
        ("", "--methods"),
    ],
)
def test_mistakes_are_told_before_anything_is_run(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    (folder / "settings.yaml").write_text("labels: 4\n")
    assert main(["compare", "two-moons", *shlex.split(arguments)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert [path.name for path in folder.iterdir()] == ["settings.yaml"]


def test_a_table_of_another_measure_has_a_folder_of_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", "two-moons", *TINY, "--threads", "1", "--seeds", "1", "--methods", "softmatch", "--name", "mine"]
    assert main(command) == 0
    before = times(folder)
    capsys.readouterr()
    assert main([*command, "--metric", "worst class"]) == 0
    assert "Error of the worst class in per cent" in " ".join(capsys.readouterr().out.split())
    assert {path: time for path, time in times(folder).items() if path in before} == before
    assert {path.name for path in (folder / "comparisons").iterdir()} == {"runs", "mine", "mine-worst-class"}
    assert "Error of the worst class in per cent" in (folder / "comparisons" / "mine-worst-class" / "table.md").read_text()


@pytest.mark.parametrize("where", ["help", "documentation"])
def test_all_measures_are_named(where: str) -> None:
    text = str(compare.__doc__) if where == "help" else (ROOT / "docs" / "comparing.md").read_text()
    words = " ".join(text.split())
    ends = "`{}`" if where == "documentation" else " {}"
    assert [name for name in MEASURES if ends.format(name) not in words] == []


def test_a_damaged_result_is_a_failure_until_its_folder_is_removed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", "two-moons", *TINY, "--threads", "1", "--seeds", "1", "--methods", "supervised,softmatch"]
    assert main([*command, "--name", "mine"]) == 0
    (result,) = (folder / "comparisons" / "runs").glob("*supervised*/result.json")
    whole = result.read_text()
    result.write_text(whole[: len(whole) // 2])
    for methods in ("supervised,softmatch", "supervised,softmatch,fixmatch"):  # nothing is to be made, and something
        capsys.readouterr()
        assert main([*command[:-1], methods, "--name", "mine"]) == 1
        said = capsys.readouterr()
        assert f"remove comparisons/runs/{result.parent.name}, and the same command runs it again." in said.out
        assert f"1 of {methods.count(',') + 1} runs failed" in said.err
    assert "result.json is damaged" in (folder / "comparisons" / "mine" / "runs.csv").read_text()
    shutil.rmtree(result.parent)
    assert main([*command, "--name", "mine"]) == 0
    assert json.loads(result.read_text())["test_error"] == json.loads(whole)["test_error"]


def test_a_ray_cluster_that_cannot_be_started_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(*_: object, **__: object) -> None:
        raise Exception("The current node timed out during startup.")

    ray = pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", init)
    assert main(["compare", "two-moons", *TINY, "--methods", "softmatch", "--seeds", "1", "--on", "ray"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("softmatch: cannot start a Ray cluster on this machine, in 2 attempts: Exception: The current")
    assert "Traceback" not in said


def test_rows_and_columns() -> None:
    columns = _columns("cifar10", None, "10,1.5")
    sheet = make_sheet("cifar10", "saw+softmatch{base_options: {k: [2, 3]}, a: x} , own.py:mine", columns, range(3, 5), {})
    assert [(row.name, dict(row.settings)) for row in sheet.rows] == [
        (
            "saw+softmatch{base_options: {k: [2, 3]}, a: x}",
            {"method": "saw+softmatch", "method_options": {"base_options": {"k": [2, 3]}, "a": "x"}},
        ),
        ("own.py:mine", {"method": "own.py:mine"}),
    ]
    assert [(column.title, dict(column.settings)) for column in sheet.columns] == [
        ("cifar10, γ = 10", {"imbalance": 10}),
        ("cifar10, γ = 1.5", {"imbalance": 1.5}),
    ]
    assert sheet.seeds == (3, 4)


def test_names_of_comparisons(tmp_path: Path) -> None:
    def name(source: str, labels: str | None, common: dict[str, object], given: str | None = None, row: str = "uda") -> str:
        return make_sheet(source, row, _columns(source, labels, None), [0], common, given).name

    plain = name("digits", "40,1000", {"baseline": False, "device": "cpu"})
    assert plain.startswith("digits-40-1000-labels-")
    assert plain == name("digits", "40,1000", {})  # nothing there decides about the outcome
    assert name("digits", None, {}, row="uda") != name("digits", None, {}, row="vat")  # no table takes another's place
    assert name("digits", "40", {"steps": 5}) != name("digits", "40", {"steps": 6})
    one, other = (name(str(tmp_path / part / "my data.csv"), None, {}) for part in "ab")
    assert one.startswith("my-data-")
    assert one != other
    assert name("digits", "40", {"steps": 5}, "mine-2") == "mine-2"


def test_other_data_of_the_same_name_are_other_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{'a' if number % 2 else 'b'},{number % 2},{number / 50}" for number in range(50)]
    (folder / "d.csv").write_text("\n".join(["y,p,q", *rows]))
    command = shlex.split("compare d.csv --methods supervised --label-column y --seeds 1 --steps 3 --folds 2")
    assert main([*command, "--dry-run"]) == 0
    assert main(command) == 0
    assert "[1/1]" in capsys.readouterr().out
    assert main([*command, "--dry-run"]) == 0
    assert "0 runs are missing" in capsys.readouterr().out
    (folder / "d.csv").write_text("\n".join(["y,p,q", *reversed(rows)]))
    assert main([*command, "--dry-run"]) == 0
    assert "1 run is missing" in capsys.readouterr().out
    (folder / "d.csv").write_text("nonsense")
    assert main([*command, "--dry-run"]) == 2


def test_labels_of_a_file_are_part_of_what_is_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same path with other labels is another comparison."""
    (folder / "d.csv").write_text("a,b\n" + "".join(f"{k % 2 * 5 + k / 99:.3f},{k / 50:.2f}\n" for k in range(40)))
    labels = folder / "labels.csv"
    labels.write_text("row,label\n" + "".join(f"{k},{'odd' if k % 2 else 'even'}\n" for k in range(1, 25)))
    command = ["compare", "d.csv", *TINY, "--threads", "1", "--seeds", "1", "--folds", "2", "--methods", "softmatch"]
    command += ["--labels-from", "labels.csv"]
    assert main(command) == 0
    assert main([*command, "--dry-run"]) == 0
    assert "0 runs are missing" in capsys.readouterr().out
    labels.write_text(labels.read_text() + "25,odd\n")
    assert main([*command, "--dry-run"]) == 0
    assert "1 run is missing" in capsys.readouterr().out
