"""Tables as LaTeX: groups, marks and names, read back by a small reader."""

import re
from pathlib import Path

import pytest

from softmatch.experiments.results.collect import collect
from softmatch.experiments.results.latex import escape, latex
from softmatch.experiments.results.layout import Layout
from softmatch.experiments.sheet import Column, Row
from softmatch.experiments.store import Store
from tests.experiments.finished import HOSTILE, PUBLISHED, VALUES, finish, finish_all, make_sheet

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
    found = escape(name)
    assert set_text(found) == " ".join(name.split())
    bare = re.sub(r"\\[{}$&#_%]", "", found)
    assert not re.search(r"[&#_%^~]|--|''|``", bare)  # nothing that LaTeX would take for something else
    assert bare.count("{") == bare.count("}")
    assert not found.startswith(("[", "*"))  # which would belong to the end of the row above


def test_formulas() -> None:
    assert escape("p̂_L(y), 2σ, λ_max ≥ 1") == r"$\hat{p}$\_L(y), 2$\sigma$, $\lambda$\_max $\ge$ 1"


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
