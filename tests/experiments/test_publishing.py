"""What is published of an experiment, and the overview of all."""

import csv
import sys
from pathlib import Path

import pytest

from softmatch.errors import InputError
from softmatch.experiments.paper import EXPERIMENTS
from softmatch.experiments.paper.experiment import EMBEDDED
from softmatch.experiments.reproduction import Reproduction, copy_results, plan, write, write_overview
from softmatch.experiments.store import Store
from tests.experiments.finished import finish

ERRORS = {1: (0.50, 0.52, 0.55, 0.51, 0.53), 2: (0.40, 0.41, 0.43, 0.40, 0.45), 3: (0.41, 0.40, 0.43, 0.41, 0.44)}
"""Of σ, 2σ and 3σ over the seeds: the first is worse, the last is the same as 2σ."""


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that need files are not here, and are not asked of the hub."""
    monkeypatch.setattr(
        "softmatch.experiments.reproduction.why_missing", lambda source, where: None if source in EMBEDDED else "no"
    )


@pytest.fixture
def ranges(tmp_path: Path) -> tuple[Reproduction, Store]:
    """The digits of ablate-range, finished."""
    store, found = Store(tmp_path / "store"), plan(EXPERIMENTS["ablate-range"], "laptop", {})
    for run in found.runs():
        finish(store, run, ERRORS[run.settings.get("method_options", {}).get("k", 2)][run.seed])
    return found, store


def test_a_document_its_pictures_and_every_run_are_copied(ranges: tuple[Reproduction, Store], tmp_path: Path) -> None:
    found, store = ranges
    written = write(found, store)
    copied = copy_results(found, store, written, tmp_path / "docs")
    assert sorted(path.name for path in (tmp_path / "docs").iterdir()) == ["ablate-range-laptop.csv", "ablate-range.md"]
    assert set(copied) == set((tmp_path / "docs").iterdir())
    assert (tmp_path / "docs" / "ablate-range.md").read_bytes() == written[0].read_bytes()
    with (tmp_path / "docs" / "ablate-range-laptop.csv").open(newline="") as file:
        rows = {(row["row"], int(row["seed"])): float(row["error"]) for row in csv.DictReader(file)}
    assert rows == {(name, seed): ERRORS[k][seed] for k, name in enumerate(("σ", "2σ", "3σ"), 1) for seed in range(5)}


def test_pictures_of_several_sheets(tmp_path: Path) -> None:
    store, found = Store(tmp_path / "store"), plan(EXPERIMENTS["fig-ablation"], "laptop", {}, seeds=[0])
    for run in found.runs():
        finish(store, run, 0.1)
    names = {path.name for path in copy_results(found, store, write(found, store), tmp_path / "docs")}
    assert {"fig-ablation.md", "fig-ablation.png", "fig-ablation-laptop-target.csv", "fig-ablation-laptop-functions.csv"} <= names
    assert not any(name.endswith(".pdf") for name in names)


def test_the_overview_counts_claims_and_has_all_of_them(ranges: tuple[Reproduction, Store], tmp_path: Path) -> None:
    found, store = ranges
    functions = plan(EXPERIMENTS["fig-functions"], "laptop", {})
    text = write_overview([found, functions], store, tmp_path, "softmatch reproduce all").read_text()
    assert text.startswith("# All tables and figures at laptop scale\n\n15 of 15 runs are finished")
    # "2σ is lower than σ" holds; "2σ and 3σ are the same": no difference seen
    assert "| [ablate-range](ablate-range.md) | Table 11 | Range of the variance | 15 | 1 | 1 | 0 | 0 | 0 | 0 |" in text
    assert "| [fig-functions](fig-functions.md) | Figure 4 | The weighting functions | 0 | 0 | 0 | 0 | 0 | 0 | 0 |" in text
    assert "| 2σ has a slightly lower error than σ | Digits, 40 | **holds** | −10.40 points" in text
    assert text.count("Differences of means over the same seeds") == 1
    assert text.endswith("## Again\n\n    softmatch reproduce all\n")


def test_what_is_against_the_paper_is_counted_as_such(ranges: tuple[Reproduction, Store], tmp_path: Path) -> None:
    found, store = ranges
    for run in found.runs():
        k = run.settings.get("method_options", {}).get("k", 2)
        finish(store, run, ERRORS[{1: 2, 2: 1, 3: 3}[k]][run.seed])
    assert "| Range of the variance | 15 | 0 | 0 | 0 | 0 | 2 | 0 |" in write_overview([found], store, tmp_path, "").read_text()


def test_without_matplotlib_the_tables_are_written_and_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = plan(EXPERIMENTS["fig-ua"], "laptop", {}, seeds=[0])
    with pytest.raises(InputError, match=r"pip install 'softmatch\[plots\]'"):
        write(found, Store(tmp_path))
    assert (tmp_path / "fig-ua-laptop" / "table.md").is_file()
