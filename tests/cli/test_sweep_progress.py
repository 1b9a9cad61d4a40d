"""What is shown of a sweep: a live table on a terminal, lines elsewhere; read from the files of runs."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from softmatch.cli import sweep_progress as showing
from softmatch.cli.sweep_progress import Progress, last_step
from softmatch.experiments.sheet import Column, Row, Run, Sheet
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import Outcome

SHEET = Sheet(
    "sheet",
    "A sheet",
    [Row("fixmatch", {"method": "fixmatch"}), Row("softmatch", {"method": "softmatch"})],
    [Column(f"{labels} labels", "digits", {"labels": labels}, "digits") for labels in (20, 40)],
    (0, 1, 2),
)


def run(row: int, column: int, seed: int) -> Run:
    return SHEET.run(SHEET.rows[row], SHEET.columns[column], seed)


def finish(store: Store, which: Run, error: float | None, seconds: float) -> None:
    folder = store.folder(which)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"test_error": error, "seconds": seconds}))
    (folder / "report.html").touch()


def come_to(store: Store, which: Run, step: int, steps: int) -> None:
    folder = store.folder(which)
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"source: digits\nsteps: {steps}\n")
    lines = [json.dumps({"step": each}) for each in range(0, step + 1, 5)]
    (folder / "metrics.jsonl").write_text("\n".join([*lines, '{"step": 999, "lo']))  # the last is being written


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def make(store: Store, terminal: bool) -> tuple[Progress, io.StringIO]:
    out = io.StringIO()
    return Progress([SHEET], store, Console(file=out, force_terminal=terminal, width=110, color_system=None)), out


def test_the_table_has_what_is_finished_running_failed_and_how_long_it_takes(store: Store) -> None:
    finish(store, run(1, 0, 0), 0.120, 10.0)
    finish(store, run(1, 0, 1), 0.130, 20.0)
    finish(store, run(1, 1, 0), None, 60.0)
    come_to(store, run(1, 0, 2), 45, 100)
    progress, _ = make(store, terminal=True)
    progress.begins([each for each in SHEET.runs() if not store.is_finished(each)])
    progress.started(run(1, 0, 2))
    progress.started(run(1, 1, 1))  # which has written nothing yet
    progress.ended(Outcome(run(0, 1, 0), "failed", 3, "ended with code 1.\nlog"))
    console = Console(file=io.StringIO(), width=110)
    with console.capture() as shown:
        console.print(progress.table())
    lines = [" ".join(line.split()) for line in shown.get().splitlines()]
    assert lines == [
        "A sheet",
        "digits, 20 labels digits, 40 labels",
        "fixmatch 0/3 0/3 · 1 failed",
        "softmatch 2/3 · 12.5 ± 0.7 · running 45 % 1/3 · running 0 %",
        # 0.55 of the cell's 15 s, 15 s for three others of the first column, 60 s for four of the second; two at a time
        "3 of 12 finished · 2 running · 6 waiting · 1 failed · about 2.4 min left",
    ]


def test_a_live_table_is_drawn_again_now_and_then(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "EVERY", 0.0)
    progress, out = make(store, terminal=True)
    with progress:
        progress.begins(SHEET.runs())
        progress.look()
        finish(store, run(1, 0, 0), 0.5, 3.0)
        progress.started(run(1, 0, 0))
        progress.ended(Outcome(run(1, 0, 0), "done", 1))
        progress.look()
    shown = out.getvalue()
    assert shown.index("0 of 12 finished · 0 running · 12 waiting") < shown.index("1 of 12 finished · 0 running · 11 waiting")
    assert "1/3 · 50.0" in shown
    assert "error" not in shown  # no line: it is in the table


def test_without_a_terminal_there_is_a_line_for_each_event(store: Store) -> None:
    progress, out = make(store, terminal=False)
    first, second, third = run(0, 1, 0), run(0, 1, 1), run(0, 1, 2)
    with progress:
        progress.begins(SHEET.runs())
        progress.started(first)
        progress.retried(first, 1, "was ended by signal 9 (killed).\nsome log")
        progress.elsewhere(second)
        finish(store, first, 0.1234, 75.0)
        progress.ended(Outcome(first, "done", 2))
        progress.ended(Outcome(second, "failed", 1, "ended with code 2.\nsoftmatch: there is no method 'x'."))
        store.folder(third).mkdir()
        for name in ("result.json", "report.html"):
            (store.folder(third) / name).write_text("damaged")
        progress.ended(Outcome(third, "done", 1))
        progress.look()
    assert out.getvalue().splitlines() == [
        f"{first.name} was ended by signal 9 (killed). some log Retrying (attempt 2).",
        f"{second.name} is being trained by another process.",
        f"[1/12] {first.name}: error 12.34 %, 75 s",
        f"[2/12] {second.name} failed after 1 attempt: ended with code 2. softmatch: there is no method 'x'.",
        f"[3/12] {third.name}: no error measured",
    ]


def test_the_last_step_is_that_of_the_last_whole_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    assert last_step(path) == 0
    path.write_text('{"step": 5}\n{"step": 10}\n{"st')
    assert last_step(path) == 10
    monkeypatch.setattr(showing, "TAIL", 20)  # begins in the middle of a line
    assert last_step(path) == 10
    path.write_text("no record")
    assert last_step(path) == 0
