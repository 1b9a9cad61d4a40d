"""Tables as Markdown, LaTeX and CSV, with names that mean something there; the files are the same for the same runs."""

import csv
import html
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from softmatch.errors import InputError, SoftmatchError
from softmatch.experiments.results.collect import collect
from softmatch.experiments.results.layout import Layout
from softmatch.experiments.results.tables import (
    cells_csv,
    escape_latex,
    escape_markdown,
    latex,
    markdown,
    runs_csv,
    summary_table,
    write_results,
)
from softmatch.experiments.sheet import Column, Row
from softmatch.experiments.store import Store
from tests.experiments.finished import HOSTILE, PUBLISHED, VALUES, finish, finish_all, full_layout, layout_of, make_sheet

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
    text = "SoftMatch, γ = 50 (40 labels): 4.91 ± 0.12 – “done”"
    assert escape_markdown(text) == text


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


SIGNS = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"\textbar{}": "|",
    r"\char34{}": '"',
    r"$\gamma$": "γ",
    r"$\pm$": "±",
}


def set_text(text: str) -> str:
    """Text that LaTeX sets: its commands, escaped signs, and groups, which show nothing."""
    commands = "|".join(map(re.escape, SIGNS))
    return re.sub(rf"{commands}|\\([{{}}$&#_%])|[{{}}]", lambda m: SIGNS.get(m[0], m[1] or ""), text)


@pytest.mark.parametrize("name", [HOSTILE, "a--b ---''``", "[0] *", "\\end{table}", "γ = 50 ± 2", "%", "100 % & more"])
def test_names_are_set_as_they_are(name: str) -> None:
    found = escape_latex(name)
    assert set_text(found) == " ".join(name.split())
    bare = re.sub(r"\\[{}$&#_%]", "", found)
    assert not re.search(r"[&#_%^~]|--|''|``", bare)  # nothing that LaTeX would take for something else
    assert bare.count("{") == bare.count("}")
    assert not found.startswith(("[", "*"))  # which would belong to the end of the row above


def test_formulas() -> None:
    assert escape_latex("p̂_L(y), 2σ, λ_max ≥ 1") == r"$\hat{p}$\_L(y), 2$\sigma$, $\lambda$\_max $\ge$ 1"


def test_table(tmp_path: Path) -> None:
    columns = (*make_sheet().columns, Column("250", "digits", {"labels": 250}))
    store, sheet = Store(tmp_path), make_sheet(columns=columns, title="100 % try")
    finish_all(store, sheet, VALUES)
    text = latex(Layout(collect(sheet, store), PUBLISHED, ["A_note."]))
    lines = text.splitlines()
    assert lines[:3] == [r"% \usepackage{booktabs}", r"\begin{table}[t]", r"\centering"]
    assert lines[3].startswith(r"\caption{100 \% try. Error in per cent, mean $\pm$ standard deviation over n = 3 seeds")
    assert r"\label{tab:try}" in lines
    start = lines.index(r"\begin{tabular}{@{}lrrr@{}}")
    assert lines[start + 1 : start + 13] == [
        r"\toprule",
        r" & \multicolumn{2}{c}{Digits} & \multicolumn{1}{c}{} \\",
        r"\cmidrule(lr){2-3}",
        r" & \multicolumn{1}{c}{40} & \multicolumn{1}{c}{100} & \multicolumn{1}{c}{250} \\",
        r"\midrule",
        r"Labels alone & 31.33 $\pm$ 1.53 & 21.33 $\pm$ 1.53 & \textendash{} \\",
        r"FixMatch & 12.00 $\pm$ 2.65$^\dagger$ & 1.50 $\pm$ 0.71$^\dagger$ (n = 2 of 3) & \textendash{} \\",
        r"\quad\textit{paper} &  & \textit{5.05 $\pm$ 0.12{*}} &  \\",
        r"SoftMatch & \textbf{11.00 $\pm$ 1.00} & \textbf{6.00 $\pm$ 1.00} & \textendash{} \\",
        r"\quad\textit{paper} & \textit{4.91 $\pm$ 0.12} &  &  \\",
        r"\bottomrule",
        r"\end{tabular}%",
    ]
    assert r"A\_note.\par" in lines
    assert any(line.startswith(r"$\dagger$: not distinguishable") for line in lines)
    assert lines[-1] == r"\end{table}"


def test_many_columns_are_scaled_and_long_names_set_in_lines(tmp_path: Path) -> None:
    columns = [Column(str(n), "digits", {"labels": 40 + n}) for n in range(14)]
    store, sheet = Store(tmp_path), make_sheet(rows=(Row("x" * 40, {}),), columns=columns, seeds=(0,))
    finish(store, sheet.run(sheet.rows[0], columns[0], 0), 0.1)
    text = latex(Layout(collect(sheet, store)))
    assert r"% \usepackage{graphicx}" in text
    assert text.count(r"\resizebox{\textwidth}{!}{%") == 2
    assert r"\begin{tabular}{@{}p{5cm}rrrrrrrrrr@{}}" in text
    assert r"\begin{tabular}{@{}p{5cm}rrrr@{}}" in text
    assert r"\cmidrule" not in text
    for begin in set(re.findall(r"\\begin\{(\w+)\}", text)):
        assert text.count(rf"\begin{{{begin}}}") == text.count(rf"\end{{{begin}}}")


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
