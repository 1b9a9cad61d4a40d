"""Tables as Markdown and CSV, and names that have a meaning there."""

import csv
import html
import io
import re
from pathlib import Path

import pytest

from softmatch.experiments.results.collect import collect
from softmatch.experiments.results.layout import Layout
from softmatch.experiments.results.markdown import escape, markdown
from softmatch.experiments.results.write import cells_csv, runs_csv
from softmatch.experiments.sheet import Column, Row
from softmatch.experiments.store import Store
from tests.experiments.finished import COLUMNS, HOSTILE, finish, full_layout, make_sheet

MESSAGE = "first\nout of *memory*\n"


def test_markdown(tmp_path: Path) -> None:
    layout = full_layout(tmp_path, MESSAGE)
    folder = Store(tmp_path).results("try")
    text = markdown(layout, [folder / "a figure.png"], ["softmatch compare digits"], folder)
    table = text.split("\n\n")[3]
    assert table == (
        "|              |       Digits, 40 |                Digits, 100 |\n"
        "| :----------- | ---------------: | -------------------------: |\n"
        "| Labels alone |     31.33 ± 1.53 |               21.33 ± 1.53 |\n"
        "| FixMatch     |   12.00 ± 2.65 † | 1.50 ± 0.71 † (n = 2 of 3) |\n"
        "| ↳ *paper*    |                  |            *5.05 ± 0.12\\** |\n"
        "| SoftMatch    | **11.00 ± 1.00** |            **6.00 ± 1.00** |\n"
        "| ↳ *paper*    |    *4.91 ± 0.12* |                            |"
    )
    assert "- **Bold**: the best mean" in text
    assert "- Paper: the number that the paper prints" in text
    assert "## Notes\n\n- Only 2^20 steps\\_here.\n" in text
    run = layout.failures[0][1].run
    failed = f"- FixMatch, Digits, 100, seed 1 (3 attempts): first out of \\*memory\\* ([log](../runs/{run.name}.log))"
    assert failed in text.splitlines()
    assert "![a figure](a%20figure.png)" in text
    assert text.endswith("## Again\n\n    softmatch compare digits\n")
    assert "1.00 |" not in text.replace("± 1.00", "")  # a number of a cell that the sheet does not have


def unescaped(cell: str) -> str:
    """As a reader of Markdown shows it."""
    return html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", cell))


@pytest.mark.parametrize("name", [HOSTILE, "p̂_L(y)", "long " * 40, "\\|", "表"])
def test_any_name_stays_in_its_cell(tmp_path: Path, name: str) -> None:
    store, sheet = Store(tmp_path), make_sheet(rows=(Row(name, {}),), columns=(Column(name, "digits", {}, name),), seeds=(0,))
    finish(store, sheet.run(sheet.rows[0], sheet.columns[0], 0), 0.1)
    layout = Layout(collect(sheet, store), {(name, sheet.columns[0].title): name})
    lines = [line for line in markdown(layout, [], [], tmp_path).splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1] for line in lines]
    assert [len(row) for row in cells] == [2] * 4
    clean = " ".join(name.split())
    assert unescaped(cells[2][0].strip()) == clean
    assert unescaped(cells[0][1].strip()) == f"{clean}, {clean}"
    assert unescaped(cells[3][1].strip()) == f"*{clean}*"
    assert not re.search(r"(?<!\\)[<>]", "".join(lines))
    (row,) = csv.DictReader(io.StringIO(cells_csv(layout)))
    assert (row["row"], row["group"], row["published"]) == (clean, clean, clean)
    (run,) = csv.DictReader(io.StringIO(runs_csv(layout.results, tmp_path)))
    assert (run["row"], run["folder"]) == (clean, f"runs/{sheet.run(sheet.rows[0], sheet.columns[0], 0).name}")


def test_escape_keeps_ordinary_text() -> None:
    assert escape("SoftMatch, γ = 50 (40 labels): 4.91 ± 0.12 – “done”") == "SoftMatch, γ = 50 (40 labels): 4.91 ± 0.12 – “done”"


def test_cells_csv(tmp_path: Path) -> None:
    layout = full_layout(tmp_path, MESSAGE)
    rows = list(csv.DictReader(io.StringIO(cells_csv(layout))))
    assert [(row["row"], row["column"]) for row in rows] == [
        (name, column) for name in ("Labels alone", "FixMatch", "SoftMatch") for column in ("40", "100")
    ]
    fixmatch = rows[3]
    assert {key: fixmatch[key] for key in ("n", "seeds", "values", "missing_seeds", "best", "published")} == {
        **{"n": "2", "seeds": "3", "values": "1 2", "missing_seeds": "1", "best": "no", "published": "5.05 ± 0.12*"}
    }
    assert [float(fixmatch[key]) for key in ("mean", "sd", "min", "max")] == pytest.approx([1.5, 0.707107, 1, 2])
    test = layout.rankings["Digits, 100"].tests["FixMatch"]
    assert float(fixmatch["difference_to_best"]) == pytest.approx(-4.5)
    assert float(fixmatch["p_holm"]) == pytest.approx(test.corrected, rel=1e-5)
    assert (fixmatch["common_seeds"], fixmatch["not_distinguishable"]) == ("2", "yes")
    assert (rows[5]["best"], rows[5]["p"], rows[5]["unit"], rows[5]["measure"]) == ("yes", "", "%", "error")


def test_cells_left_out(tmp_path: Path) -> None:
    """They are empty, unless the paper has a number for them."""
    store, sheet = Store(tmp_path), make_sheet(without=frozenset({("FixMatch", c.title) for c in COLUMNS}), seeds=(0,))
    layout = Layout(collect(sheet, store), {("FixMatch", "Digits, 40"): "7.47"})
    rows = [(row["row"], row["column"], row["n"], row["published"]) for row in csv.DictReader(io.StringIO(cells_csv(layout)))]
    assert rows[2] == ("FixMatch", "40", "", "7.47")
    assert len(rows) == 5
    table = markdown(layout, [], [], tmp_path)
    assert re.search(r"\| FixMatch +\| +\| +\|\n\| ↳ \*paper\* +\| +\*7.47\* \| +\|", table)
    assert re.search(r"\| SoftMatch +\| +– \| +– \|", table)


def test_runs_csv(tmp_path: Path) -> None:
    layout = full_layout(tmp_path, MESSAGE)
    rows = list(csv.DictReader(io.StringIO(runs_csv(layout.results, Store(tmp_path).results("try")))))
    assert len(rows) == 18
    assert sum(row["state"] == "finished" for row in rows) == 17
    failed = next(row for row in rows if row["state"] == "failed")
    assert (failed["row"], failed["seed"], failed["error"], failed["message"]) == ("FixMatch", "1", "", "first out of *memory*")
    last = rows[-1]
    assert [last[key] for key in ("group", "column", "seed", "error", "f", "g", "seconds")] == [
        *("Digits", "100", "2", "0.07", "0.9", "0.87", "75.4")
    ]
    assert last["folder"].startswith("../runs/digits-softmatch-100-labels-seed-2-")


def test_thirty_rows_and_ten_columns_are_aligned(tmp_path: Path) -> None:
    rows = [Row(f"A method with a long name of many words, number {n}", {"lr": 1.0 + n}) for n in range(30)]
    columns = [Column(str(n), "digits", {"labels": 40 + n}, f"Set {n // 5}") for n in range(10)]
    store, sheet = Store(tmp_path), make_sheet(rows=rows, columns=columns, seeds=(0,))
    lines = [line for line in markdown(Layout(collect(sheet, store)), [], [], tmp_path).splitlines() if line.startswith("|")]
    assert len(lines) == 32
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) < 180
