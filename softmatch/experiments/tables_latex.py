r"""Tables as LaTeX: booktabs, groups of columns under one heading, whatever is in a name.

Only \usepackage{booktabs} is needed, and graphicx for a table of many columns. Greek letters and signs become formulas, so that
every engine can set them.
"""

from __future__ import annotations

import re
from itertools import groupby

from softmatch.experiments.layout import Layout, Line, Set, plain

WIDE = 5
"""Columns above which a table is scaled to the width of the text."""
LONG = 32
"""Letters of a name above which names are set in lines."""

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "[": "{[}",  # which would belong to the end of the row before, and so would the star
    "]": "{]}",
    "*": "{*}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "→": r"$\to$",
    "↳": r"$\hookrightarrow$",
    "†": r"$\dagger$",
    "²": "$^2$",
    "⁻": "$^-$",
    "–": r"\textendash{}",
    "…": r"\ldots{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "’": "'",
    "\u0302": r"\^{}",
}
GREEK = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi"),
    *("omicron", "pi", "rho", "varsigma", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
)
CAPITALS = ("Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega")
FORMULAS = {
    **{chr(ord("α") + place): rf"$\{name}$" for place, name in enumerate(GREEK) if name != "omicron"},
    **{letter: rf"$\{name}$" for letter, name in zip("ΓΔΘΛΞΠΣΥΦΨΩ", CAPITALS, strict=True)},
}
_SETTING = str.maketrans({**SPECIAL, **FORMULAS})
_LIGATURE = re.compile(r"([-'`])(?=\1)")
_HAT = re.compile("([^\\W\\d_])\u0302")
_MARK = "\0"


def escape(text: str) -> str:
    """Text that LaTeX sets as it is."""
    hats = _HAT.findall(line := plain(text))
    parts = _LIGATURE.sub(r"\1{}", _HAT.sub(_MARK, line).translate(_SETTING)).split(_MARK)
    return parts[0] + "".join(rf"$\hat{{{letter}}}$" + part for letter, part in zip(hats, parts[1:], strict=True))


def latex(layout: Layout) -> str:
    """A table environment to be put into a document."""
    blocks = layout.blocks()
    wide = any(len(block) > WIDE for block in blocks)
    needed = [r"% \usepackage{booktabs}", *([r"% \usepackage{graphicx}"] if wide else [])]
    lines = [*needed, r"\begin{table}[t]", r"\centering", rf"\caption{{{escape(f'{layout.title}. {layout.caption}')}}}"]
    lines.append(rf"\label{{tab:{re.sub('[^A-Za-z0-9-]+', '-', layout.results.sheet.name)}}}")
    for place, block in enumerate(blocks):
        table = _tabular(layout, block)
        lines += [*([r"\par\medskip"] if place else []), *([r"\resizebox{\textwidth}{!}{%", *table, "}"] if wide else table)]
    sentences = [*layout.legend, *layout.notes]
    if layout.failures:
        failed = "; ".join(f"{failure.row}, {failure.column}, seed {failure.entry.seed}" for failure in layout.failures)
        sentences.append(f"Failed: {failed}.")
    if sentences:
        lines += [r"\par\medskip", r"\begin{minipage}{\linewidth}\footnotesize"]
        lines += [escape(sentence) + r"\par" for sentence in sentences]
        lines.append(r"\end{minipage}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _tabular(layout: Layout, block: range) -> list[str]:
    names = "p{5cm}" if any(len(line.name) > LONG for line in layout.lines) else "l"
    lines = [rf"\begin{{tabular}}{{@{{}}{names}{'r' * len(block)}@{{}}}}", r"\toprule"]
    if layout.grouped:
        lines += _groups(layout, block)
    heads = [escape(layout.columns[place].name) for place in block]
    lines += [_row(["", *(rf"\multicolumn{{1}}{{c}}{{{head}}}" for head in heads)]), r"\midrule"]
    for line in layout.lines:
        lines += _rows(line, block)
    return [*lines, r"\bottomrule", r"\end{tabular}%"]


def _groups(layout: Layout, block: range) -> list[str]:
    """Headings over neighbouring columns, with a rule under each."""
    heads, rules, first = [""], [], 2
    for name, places in groupby(block, key=lambda place: layout.columns[place].group):
        number = len(list(places))
        heads.append(rf"\multicolumn{{{number}}}{{c}}{{{escape(name)}}}")
        if name:
            rules.append(rf"\cmidrule(lr){{{first}-{first + number - 1}}}")
        first += number
    return [_row(heads), " ".join(rules)]


def _rows(line: Line, block: range) -> list[str]:
    rows = [_row([escape(line.name), *(_cell(line.cells[place]) for place in block)])]
    if line.published:
        published = (line.cells[place].published for place in block)
        rows.append(_row([r"\quad\textit{paper}", *(rf"\textit{{{escape(each)}}}" if each else "" for each in published)]))
    return rows


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(cell: Set) -> str:
    text = rf"\textbf{{{escape(cell.value)}}}" if cell.best else escape(cell.value)
    return text + (r"$^\dagger$" if cell.close else "") + (f" ({cell.partial})" if cell.partial else "")
