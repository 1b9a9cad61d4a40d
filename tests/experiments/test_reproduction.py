"""An experiment of the paper at a scale: what is left out, how long it takes, and what is written of it."""

import json
from pathlib import Path

import pytest

from softmatch.errors import InputError
from softmatch.experiments.paper import EXPERIMENTS
from softmatch.experiments.paper.experiment import SECONDS
from softmatch.experiments.reproduction import Reproduction, plan, why_missing, write
from softmatch.experiments.sheet import Run
from softmatch.experiments.store import Store

GONE = Path("/nowhere/fashion_mnist.npz")
ERRORS = {1: 0.50, 2: 0.40, 3: 0.41}
"""By k, the range of the variance."""


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that are not given are not here; those of the hub are not asked for."""

    def why(source: str, where: Path | None) -> str | None:
        return why_missing(source, where or GONE)

    monkeypatch.setattr("softmatch.experiments.reproduction.why_missing", why)


def digits_only(name: str = "ablate-range") -> Reproduction:
    return plan(EXPERIMENTS[name], "laptop", {})


def finish(store: Store, run: Run, error: float) -> None:
    folder = store.folder(run)
    folder.mkdir(parents=True)
    classes = {"samples": [3, 1], "quantity": [0.5, 0.4], "quality": [0.9, 0.8], "unaligned_quantity": [0.6, 0.2]}
    record = {"step": 50, "test_error": error, "quantity": 0.5, "quality": 0.9, "classes": classes}
    (folder / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    result = {"test_error": error, "seconds": 3.0, "class_errors": {"zero": error, "one": error}}
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "report.html").write_text("")


def test_a_column_whose_data_are_not_here_is_left_out_with_the_reason() -> None:
    found = digits_only()
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


def test_of_the_papers_scale_the_time_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softmatch.experiments.reproduction.why_missing", lambda source, where: None)
    found = plan(EXPERIMENTS["ablate-range"], "paper", {})
    assert found.seconds(Store(tmp_path), 1) is None
    assert "All settings that the paper gives are the paper's." in found.notes()


def test_runs_go_seed_by_seed_and_shared_ones_stand_once() -> None:
    runs = digits_only("fig-ablation").runs()
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    assert len({run.key for run in runs}) == len(runs)


def test_the_document_has_tables_the_papers_numbers_and_claims(tmp_path: Path) -> None:
    store, found = Store(tmp_path / "store"), digits_only()
    for run in found.runs():
        finish(store, run, ERRORS[run.settings.get("method_options", {}).get("k", 2)] + 0.01 * (run.seed % 3))
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


def test_at_the_papers_columns_its_numbers_stand_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softmatch.experiments.reproduction.why_missing", lambda source, where: None)
    found = plan(EXPERIMENTS["table-functions"], "laptop", {})
    text = write(found, Store(tmp_path))[0].read_text()
    assert "84.11 ± 1.84" in text  # quadratic on SVHN, beside the digits
    assert "not measured" in text


def test_figures_are_drawn_and_linked(tmp_path: Path) -> None:
    store, found = Store(tmp_path), digits_only("fig-ua")
    for run in found.runs():
        finish(store, run, 0.1)
    paths = write(found, store)
    assert [path.name for path in paths[:3]] == ["fig-ua.md", "fig-ua.png", "fig-ua.pdf"]
    assert "![fig-ua](fig-ua.png)" in paths[0].read_text()
    nothing = write(plan(EXPERIMENTS["fig-functions"], "laptop", {}), store)
    assert [path.name for path in nothing] == ["fig-functions.md", "fig-functions.png", "fig-functions.pdf"]


def test_runs_of_other_files_or_another_encoder_are_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softmatch.experiments.reproduction.why_missing", lambda source, where: None)
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
