"""An experiment of the paper at a scale: what is left out, how long it takes, what is written and published of it."""

import csv
import sys
from pathlib import Path

import pytest

from softmatch.errors import InputError
from softmatch.experiments.paper import EXPERIMENTS
from softmatch.experiments.paper.experiment import SECONDS
from softmatch.experiments.reproduction import Reproduction, copy_results, plan, why_missing, write, write_overview
from softmatch.experiments.sheet import Run
from softmatch.experiments.store import Store
from tests.experiments.finished import finish

GONE = Path("/nowhere/fashion_mnist.npz")
ERRORS = {1: (0.50, 0.52, 0.55, 0.51, 0.53), 2: (0.40, 0.41, 0.43, 0.40, 0.45), 3: (0.41, 0.40, 0.43, 0.41, 0.44)}
"""Of σ, 2σ and 3σ over the seeds: the first is worse, the last is the same as 2σ."""
Ranges = tuple[Reproduction, Store]


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that are not given are not here; those of the hub are not asked for."""

    def why(source: str, where: Path | None) -> str | None:
        return why_missing(source, where or GONE)

    monkeypatch.setattr("softmatch.experiments.reproduction.why_missing", why)


@pytest.fixture
def all_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """All data count as available."""
    monkeypatch.setattr("softmatch.experiments.reproduction.why_missing", lambda source, where: None)


@pytest.fixture
def ranges(tmp_path: Path) -> Ranges:
    """The digits of ablate-range, finished."""
    store, found = Store(tmp_path / "store"), plan(EXPERIMENTS["ablate-range"], "laptop", {})
    for run in found.runs():
        finish(store, run, ERRORS[range_of(run)][run.seed])
    return found, store


def range_of(run: Run) -> int:
    """k, the range of the variance."""
    return int(run.settings.get("method_options", {}).get("k", 2))


def test_a_column_whose_data_are_not_here_is_left_out_with_the_reason() -> None:
    found = plan(EXPERIMENTS["ablate-range"], "laptop", {})
    (sheet,) = found.sheets
    assert sheet.name == "ablate-range-laptop"
    assert [column.title for column in sheet.columns] == ["Digits, 40"]
    (reason,) = found.left_out
    assert reason.startswith("Fashion-MNIST is left out: ")
    assert str(GONE) in reason
    assert "--data.fashion-mnist PATH" in reason
    assert reason in found.notes()


def test_nothing_to_run_on_is_an_error() -> None:
    with pytest.raises(InputError, match="table-text at laptop scale has no data to run on"):
        plan(EXPERIMENTS["table-text"], "laptop", {})
    with pytest.raises(InputError, match=r"--data.fashion-mnist /nowhere/fashion_mnist.npz: "):
        plan(EXPERIMENTS["ablate-range"], "laptop", {"fashion-mnist": GONE})
    assert why_missing("digits", None) is None


def test_seeds_can_be_others_and_time_is_that_of_missing_runs(tmp_path: Path) -> None:
    found = plan(EXPERIMENTS["ablate-range"], "laptop", {}, seeds=[7])
    assert {run.seed for run in found.runs()} == {7}
    assert found.seconds(Store(tmp_path), 1) == 3 * SECONDS["digits"]
    finish(Store(tmp_path), found.runs()[0], 0.1)
    assert found.seconds(Store(tmp_path), 2) == SECONDS["digits"]


@pytest.mark.usefixtures("all_here")
def test_of_the_papers_scale_the_time_is_not_known(tmp_path: Path) -> None:
    found = plan(EXPERIMENTS["ablate-range"], "paper", {})
    assert found.seconds(Store(tmp_path), 1) is None
    assert "All settings that the paper gives are the paper's." in found.notes()


def test_runs_go_seed_by_seed_and_shared_ones_stand_once() -> None:
    runs = plan(EXPERIMENTS["fig-ablation"], "laptop", {}).runs()
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    assert len({run.key for run in runs}) == len(runs)


def test_the_document_has_tables_the_papers_numbers_and_claims(ranges: Ranges, tmp_path: Path) -> None:
    found, store = ranges
    for run in found.runs():
        finish(store, run, {1: 0.50, 2: 0.40, 3: 0.41}[range_of(run)] + 0.01 * (run.seed % 3))
    paths = write(found, store, (), ["softmatch reproduce ablate-range"])
    text = paths[0].read_text()
    assert paths[0] == tmp_path / "store" / "ablate-range-laptop" / "ablate-range.md"
    assert text.startswith("# Table 11: Range of the variance\n")
    assert "Table 11 of the paper at laptop scale." in text
    assert "Fashion-MNIST is left out" in text
    assert "**40.80 ± 0.84**" in text  # 40, 41, 42, 40, 41
    assert "| 2σ has a slightly lower error than σ | Digits, 40 | " in text
    assert "−10.00 points, n = 5" in text  # the same in all seeds: nothing to test
    assert "\n    softmatch reproduce ablate-range\n" in text
    assert {path.name for path in paths} == {"ablate-range.md", "table.md", "table.tex", "table.csv", "runs.csv", "report.html"}
    before = {path: path.read_bytes() for path in paths}
    assert {path: path.read_bytes() for path in write(found, store, (), ["softmatch reproduce ablate-range"])} == before


@pytest.mark.usefixtures("all_here")
def test_at_the_papers_columns_its_numbers_stand_beside(tmp_path: Path) -> None:
    found = plan(EXPERIMENTS["table-functions"], "laptop", {})
    text = write(found, Store(tmp_path))[0].read_text()
    assert "84.11 ± 1.84" in text  # quadratic on SVHN, beside the digits
    assert "not measured" in text


def test_figures_are_drawn_and_linked(tmp_path: Path) -> None:
    store, found = Store(tmp_path), plan(EXPERIMENTS["fig-ua"], "laptop", {})
    for run in found.runs():
        finish(store, run, 0.1, (50,))
    paths = write(found, store)
    assert [path.name for path in paths[:3]] == ["fig-ua.md", "fig-ua.png", "fig-ua.pdf"]
    assert "![fig-ua](fig-ua.png)" in paths[0].read_text()
    nothing = write(plan(EXPERIMENTS["fig-functions"], "laptop", {}), store)
    assert [path.name for path in nothing] == ["fig-functions.md", "fig-functions.png", "fig-functions.pdf"]


@pytest.mark.usefixtures("all_here")
def test_runs_of_other_files_or_another_encoder_are_other_runs(tmp_path: Path) -> None:
    files, encoders = [tmp_path / name for name in ("a", "same", "b")], [tmp_path / "small", tmp_path / "large"]
    for file, content in zip(files, (b"1", b"1", b"2"), strict=True):
        file.write_bytes(content)
    for encoder in encoders:
        encoder.mkdir()
        (encoder / "config.json").write_text(encoder.name)

    def keys(name: str, file: Path | None, encoder: Path | None = None) -> list[str]:
        given = {} if file is None else dict.fromkeys(("fashion-mnist", "agnews"), file)
        return [run.key for run in plan(EXPERIMENTS[name], "laptop", given, seeds=[0], encoder=encoder).runs()]

    first, same, other, none = (keys("ablate-range", file) for file in (*files, None))
    assert first == same
    digits = set(first) & set(other)
    assert len(digits) == 3, "what is not read from files stays the same"
    assert not (set(first) | set(other)) & set(none) - digits
    assert keys("ablate-range", files[0], encoders[0]) == first, "it has no texts"
    texts = [keys("table-text", files[0], encoder) for encoder in (None, *encoders)]
    assert len({key for each in texts for key in each}) == 3 * 10


def test_a_document_its_pictures_and_every_run_are_copied(ranges: Ranges, tmp_path: Path) -> None:
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


def test_the_overview_counts_claims_and_has_all_of_them(ranges: Ranges, tmp_path: Path) -> None:
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


def test_what_is_against_the_paper_is_counted_as_such(ranges: Ranges, tmp_path: Path) -> None:
    found, store = ranges
    for run in found.runs():
        finish(store, run, ERRORS[{1: 2, 2: 1, 3: 3}[range_of(run)]][run.seed])
    assert "| Range of the variance | 15 | 0 | 0 | 0 | 0 | 2 | 0 |" in write_overview([found], store, tmp_path, "").read_text()


def test_without_matplotlib_the_tables_are_written_and_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = plan(EXPERIMENTS["fig-ua"], "laptop", {}, seeds=[0])
    with pytest.raises(InputError, match=r"pip install 'softmatch\[plots\]'"):
        write(found, Store(tmp_path))
    assert (tmp_path / "fig-ua-laptop" / "table.md").is_file()
