"""Files of a sheet's results: complete, and the same for the same runs; the table in the terminal."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from softmatch.errors import InputError, SoftmatchError
from softmatch.experiments.results.collect import collect
from softmatch.experiments.results.layout import Layout
from softmatch.experiments.results.write import summary_table, write_results
from softmatch.experiments.sheet import Column
from softmatch.experiments.store import Store
from tests.experiments.finished import HOSTILE, VALUES, finish_all, full_layout, layout_of, make_sheet

NAMES = ["table.md", "table.tex", "table.csv", "runs.csv", "report.html"]
PNG = b"\x89PNG\r\n\x1a\n" + b"not shown"


def test_same_runs_same_bytes(tmp_path: Path) -> None:
    """Also at another place, and with nothing that says when."""
    contents = []
    for place in ("one", "two"):
        store, layout = Store(tmp_path / place), full_layout(tmp_path / place, "out of memory")
        figure = store.results("try") / "fig.png"
        figure.parent.mkdir(parents=True)
        figure.write_bytes(PNG)
        for _ in range(2):
            paths = write_results(layout, store, figures=[figure], commands=["softmatch x"])
            contents.append([path.read_bytes() for path in paths])
        assert paths == [store.results("try") / name for name in NAMES]
        assert sorted(path.name for path in store.results("try").iterdir()) == sorted([*NAMES, "fig.png"])
    assert contents[0] == contents[1] == contents[2] == contents[3]
    for text in (content.decode() for content in contents[0][:2] + contents[0][4:]):
        assert "steps" in text
        assert "4.91" in text
        assert "FixMatch, Digits, 100, seed 1" in text
    assert b"out of memory" in contents[0][3]


def test_another_measure(tmp_path: Path) -> None:
    store, sheet = Store(tmp_path), make_sheet()
    finish_all(store, sheet, VALUES)
    text = write_results(Layout(collect(sheet, store, "seconds")), store)[0].read_text()
    assert "Training time in seconds, mean ± standard deviation over n = 3 seeds; lower is better." in text
    assert "**75.4 ± 0.0**" in text


def test_what_cannot_be_shown_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    layout = Layout(collect(make_sheet(), store))
    (tmp_path / "fig.png").write_bytes(b"GIF89a")
    for figure, words in (("fig.png", "is not a PNG file"), ("none.png", "none.png cannot be read: No such file")):
        with pytest.raises(InputError, match=words):
            write_results(layout, store, figures=[tmp_path / figure])
    assert not store.root.exists()
    store.root.write_text("in the way")
    with pytest.raises(SoftmatchError, match=r"the results in .* cannot be written"):
        write_results(layout, store)


def shown(sheet_options: dict[str, object], folder: Path, width: int = 100) -> str:
    layout = layout_of(folder, VALUES if "columns" not in sheet_options else {}, **sheet_options)
    printed = io.StringIO()
    Console(width=width, file=printed, force_terminal=True, color_system="standard").print(summary_table(layout))
    return printed.getvalue()


def test_summary_for_the_terminal(tmp_path: Path) -> None:
    text = shown({"title": f"[red]{HOSTILE}"}, tmp_path)
    assert "[red]a|b_{c}$d$%&<b>" in text
    assert re.search("\x1b\\[1m *11.00 ± 1.00\x1b", text)
    assert not re.search("\x1b\\[1m *12.00", text)
    assert "12.00 ± 2.65 †" in text
    assert "1.50 ± 0.71 † (n = 2 of 3)" in text
    assert re.search(r"17 of 18\s+runs\s+are\s+finished\.", re.sub(r"\x1b\[\S*?m", "", text))


def test_summary_of_many_columns_is_turned(tmp_path: Path) -> None:
    columns = [Column(str(n), "digits", {"labels": 40 + n}, "Digits") for n in range(12)]
    lines = shown({"columns": columns}, tmp_path).splitlines()
    assert sum("│ Digits, " in line for line in lines) == 12
    assert any("Labels alone" in line and "SoftMatch" in line for line in lines)
