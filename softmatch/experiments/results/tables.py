"""Tables of a sheet as Markdown, LaTeX and CSV, in files and in the terminal; documents from the templates *.jinja."""

import csv
import io
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from softmatch.errors import SoftmatchError
from softmatch.experiments.results.collect import Results
from softmatch.experiments.results.layout import Layout, Line, Shown, link
from softmatch.experiments.results.page import page
from softmatch.experiments.results.statistics import Difference
from softmatch.experiments.store import Store
from softmatch.files.atomic import write_atomically
from softmatch.formatting import escape_markdown, plain


def markdown(layout: Layout, figures: Sequence[Path], commands: Sequence[str], folder: Path) -> str:
    """The table with everything it says, for a file in `folder`."""
    return render("table.md.jinja", layout=layout, figures=figures, commands=commands, folder=folder)


def render(template: str, **values: Any) -> str:
    """A document from a template."""
    return TEMPLATES.get_template(template).render(grid=_grid, link=link, **values)


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.filters |= {"md": escape_markdown, "plain": plain}


def _grid(layout: Layout, block: range) -> str:
    """A table that can be read as it is: names to the left, numbers to the right."""
    heads = ["", *(escape_markdown(layout.columns[place].title) for place in block)]
    rows = [row for line in layout.lines for row in _rows(line, block)]
    widths = [max(3, *(cell_len(row[place]) for row in [heads, *rows])) for place in range(len(heads))]
    ruler = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = []
    for cells in [heads, ruler, *rows]:
        padding = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
        numbers = (space + cell for space, cell in zip(padding[1:], cells[1:], strict=True))
        lines.append(f"| {' | '.join([cells[0] + padding[0], *numbers])} |")
    return "\n".join(lines)


def _rows(line: Line, block: range) -> list[list[str]]:
    """A row, and the paper's numbers below it if there are any."""
    rows = [[escape_markdown(line.name), *(_markdown_cell(line.cells[place]) for place in block)]]
    published = [line.cells[place].published for place in block]
    if any(cell.published for cell in line.cells):
        rows.append(["↳ *paper*", *(f"*{escape_markdown(each)}*" if each else "" for each in published)])
    return rows


def _markdown_cell(shown: Shown) -> str:
    return (f"**{shown.value}**" if shown.best else shown.value) + shown.marks(" †")


SPECIAL = {
    **{sign: "\\" + sign for sign in "{}$&#_%"},
    **{sign: f"{{{sign}}}" for sign in "[]*"},  # at the start of a row they would belong to the end of the row before
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}"},
    **{">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\char34{}", "–": r"\textendash{}", "…": r"\ldots{}"},
    **{"“": r"\textquotedblleft{}", "”": r"\textquotedblright{}", "’": "'", "\u0302": r"\^{}"},
    **{"±": r"$\pm$", "×": r"$\times$", "−": "$-$", "≥": r"$\ge$", "≤": r"$\le$", "≈": r"$\approx$", "∞": r"$\infty$"},
    **{"→": r"$\to$", "↳": r"$\hookrightarrow$", "†": r"$\dagger$", "²": "$^2$", "⁻": "$^-$"},
}
GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho varsigma sigma tau upsilon phi chi psi "
    "omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
FORMULAS = {sign: rf"$\{name}$" for sign, name in zip("αβγδεζηθικλμνξπρςστυφχψωΓΔΘΛΞΠΣΥΦΨΩ", GREEK.split(), strict=True)}
_SETTING = str.maketrans({**SPECIAL, **FORMULAS})
_LIGATURE = re.compile(r"([-'`])(?=\1)")
_HAT = re.compile("([^\\W\\d_])\u0302")


def escape_latex(text: str) -> str:
    """Text that LaTeX sets as it is."""
    parts = _HAT.split(plain(text))  # every second one is a letter with a hat
    parts[::2] = [_LIGATURE.sub(r"\1{}", part.translate(_SETTING)) for part in parts[::2]]
    parts[1::2] = [rf"$\hat{{{letter}}}$" for letter in parts[1::2]]
    return "".join(parts)


def latex(layout: Layout) -> str:
    """A table environment; a document needs booktabs, and graphicx for a wide table."""
    failed = [f"Failed: {'; '.join(where for where, _ in layout.failures)}."] if layout.failures else []
    return _ENVIRONMENT.get_template("table.tex.jinja").render(
        layout=layout,
        label=re.sub("[^A-Za-z0-9-]+", "-", layout.results.sheet.name),
        sentences=[*layout.legend, *layout.notes, *failed],
    )


def _latex_cell(shown: Shown) -> str:
    value = escape_latex(shown.value)
    return (rf"\textbf{{{value}}}" if shown.best else value) + shown.marks(r"$^\dagger$")


_ENVIRONMENT = TEMPLATES.overlay("<%", "%>", "<<", ">>")
_ENVIRONMENT.filters = {**TEMPLATES.filters, "tex": escape_latex, "cell": _latex_cell}


ACROSS = 8  # columns of a terminal's table; a sheet with more columns than this and than rows is transposed
CELL_HEADS = (
    *("row", "group", "column", "measure", "unit", "published", "n", "seeds", "mean", "sd", "min", "max", "values"),
    *("missing_seeds", "best", "not_distinguishable"),
    *("difference_to_best", "difference_low", "difference_high", "p", "p_holm", "common_seeds"),
)
RUN_HEADS = ("row", "group", "column", "seed", "error", "f", "g", "seconds", "folder", "state", "message")


def write_results(layout: Layout, store: Store, *, figures: Sequence[Path] = (), commands: Sequence[str] = ()) -> list[Path]:
    """Write table.md, table.tex, table.csv (a line for each cell), runs.csv (a line for each run) and report.html.

    They go into the folder of the sheet, with PNG files of `figures` and the commands that make all of this again. Each file is
    complete or absent, and the same, byte by byte, for the same runs.
    """
    folder = store.results(layout.results.sheet.name)
    contents = {
        "table.md": markdown(layout, figures, commands, folder),
        "table.tex": latex(layout),
        "table.csv": cells_csv(layout),
        "runs.csv": runs_csv(layout.results, folder),
        "report.html": page(layout, figures, commands, folder),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            write_atomically(folder / name, text.encode("utf-8", "replace"))
    except OSError as error:
        raise SoftmatchError(f"the results in {folder} cannot be written: {error.strerror or error}.") from error
    return [folder / name for name in contents]


def summary_table(layout: Layout) -> Group:
    """The table for the terminal, with its legend."""
    names, titles = [line.name for line in layout.lines], [column.title for column in layout.columns]
    cells = [[Text(c.value, style="bold" if c.best else "").append(c.marks(" †")) for c in line.cells] for line in layout.lines]
    if len(titles) > ACROSS and len(titles) > len(names):
        names, titles, cells = titles, names, [list(turned) for turned in zip(*cells, strict=True)]
    table = Table(padding=(0, 1))
    table.add_column("")
    for title in titles:
        table.add_column(Text(title), justify="right")
    for name, row in zip(names, cells, strict=True):
        table.add_row(Text(name), *row)
    return Group(Text(layout.title, style="bold"), table, *(Text(each, style="dim") for each in (layout.caption, *layout.legend)))


def cells_csv(layout: Layout) -> str:
    """One line for each cell, in the unit that the line names; differences are to the first of the best rows."""
    measure, rows = layout.results.measure, []
    for line, row in zip(layout.lines, layout.results.sheet.rows, strict=True):
        for shown, column, own in zip(line.cells, layout.columns, layout.results.sheet.columns, strict=True):
            named = [line.name, column.group, column.name, measure.title, measure.unit, shown.published]
            test = layout.rankings[own.title].tests.get(row.name)
            rows.append([*named, *_figures(shown, measure.factor), *(_test(test, measure.factor) if test else ())])
    return _csv(CELL_HEADS, rows)


def _figures(shown: Shown, factor: float) -> list[str]:
    cell, values = shown.cell, list(shown.cell.values.values())
    spread = (cell.mean, cell.sd, min(values, default=None), max(values, default=None))
    figures = [str(cell.n), str(len(cell.entries)), *(_number(value, factor) for value in spread)]
    figures += [" ".join(_number(value, factor) for value in values), " ".join(map(str, cell.missing))]
    return [*figures, *("yes" if mark else "no" for mark in (shown.best, shown.close))]


def _test(test: Difference, factor: float) -> list[str]:
    bounds = test.interval or (None, None)
    return [*(_number(value, factor) for value in (test.mean, *bounds)), _number(test.p), _number(test.corrected), str(test.n)]


def runs_csv(results: Results, folder: Path) -> str:
    """One line for each seed of each cell. Shares are fractions; a run's folder is relative to this file's."""
    rows = [
        [
            *(plain(text) for text in (cell.row.name, cell.column.group, cell.column.name)),
            *(str(entry.run.seed), *(_number(entry.figure(name)) for name in ("test_error", "quantity", "quality", "seconds"))),
            *(Path(os.path.relpath(entry.folder, folder)).as_posix(), entry.state, plain(entry.message)),
        ]
        for cell, entry in results.entries()
    ]
    return _csv(RUN_HEADS, rows)


def _number(value: float | None, factor: float = 1.0) -> str:
    return "" if value is None else f"{value * factor:.6g}"


def _csv(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([heads, *([*row, *[""] * (len(heads) - len(row))] for row in rows)])
    return text.getvalue()
