"""Tables as LaTeX, from the template table.tex.jinja; Greek letters become formulas, which every engine can set."""

from __future__ import annotations

import re
from itertools import groupby

from softmatch.experiments.results.layout import Layout, Shown, plain
from softmatch.experiments.results.markdown import TEMPLATES

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
_MARK = "\0"


def escape(text: str) -> str:
    """Text that LaTeX sets as it is."""
    hats = _HAT.findall(line := plain(text))
    parts = _LIGATURE.sub(r"\1{}", _HAT.sub(_MARK, line).translate(_SETTING)).split(_MARK)
    return parts[0] + "".join(rf"$\hat{{{letter}}}$" + part for letter, part in zip(hats, parts[1:], strict=True))


def latex(layout: Layout) -> str:
    """A table environment; a document needs booktabs, and graphicx for a wide table."""
    failed = [f"Failed: {'; '.join(where for where, _ in layout.failures)}."] if layout.failures else []
    return _ENVIRONMENT.get_template("table.tex.jinja").render(
        layout=layout,
        label=re.sub("[^A-Za-z0-9-]+", "-", layout.results.sheet.name),
        sentences=[*layout.legend, *layout.notes, *failed],
        groups_of=lambda block: _groups(layout, block),
    )


def _groups(layout: Layout, block: range) -> list[tuple[str, int, int]]:
    """Headings over neighbouring columns of a table, each with the first and the last column that it is over."""
    groups = [(name, list(places)) for name, places in groupby(block, key=lambda place: layout.columns[place].group)]
    return [(name, places[0] - block.start + 2, places[-1] - block.start + 2) for name, places in groups]


def _cell(shown: Shown) -> str:
    value = escape(shown.value)
    return (rf"\textbf{{{value}}}" if shown.best else value) + shown.marks(r"$^\dagger$")


_ENVIRONMENT = TEMPLATES.overlay("<%", "%>", "<<", ">>")
_ENVIRONMENT.filters = {**TEMPLATES.filters, "tex": escape, "cell": _cell}
