"""Pages of charts: one file with its data, its style and one script, which the page allows by its hash alone."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from softmatch import formatting
from softmatch.report.run_contents import number

HERE = Path(__file__).parent
VENDOR = HERE / "vendor"
THIN = "\u202f"  # narrow no-break space, between thousands and before units


def count(value: Any, one: str = "", many: str = "") -> str:
    """Format a count: '1 234', or with a noun '1 label', '40 labels'; '?' for no number."""
    found = number(value)
    text = "?" if found is None else f"{round(found):,}".replace(",", THIN)
    return f"{text} {one if found == 1 else many}".strip()


def percent(fraction: float | None) -> str:
    """Format a fraction as `formatting.percent` does, with a narrow space."""
    return formatting.percent(fraction).replace(" ", THIN)


@dataclass(frozen=True)
class Page:
    """A kind of page.

    Attributes:
        template: extends base.html, which puts the parts together.
        scripts: follow uPlot and drawing.js, in this order; one of them defines `chartOf`.
        styles: follow those of uPlot and report.css.
    """

    template: Path
    scripts: Sequence[Path]
    styles: Sequence[Path] = ()

    @cached_property  # compiling takes longer than the rest of a page
    def compiled(self) -> Template:
        loader = FileSystemLoader([self.template.parent, HERE])
        made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        made.filters["percent"] = percent
        return made.get_template(self.template.name)

    def render(self, data: Any, **values: Any) -> str:
        """Render the page from the data that its scripts draw and the values that its template shows."""
        script = self._script()
        styles = (VENDOR / "uPlot.min.css", HERE / "report.css", *self.styles)
        return self.compiled.render(
            **values,
            data=data,
            json=embed(data),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            style=Markup("".join(map(_read, styles))),
        )

    def _script(self) -> str:
        """uPlot under its licence notice, then our own scripts."""
        notice = "/* uPlot 1.6.32\n" + _read(VENDOR / "LICENSE") + "*/\n"
        return notice + "\n".join(map(_read, (VENDOR / "uPlot.iife.min.js", HERE / "drawing.js", *self.scripts)))


def embed(value: Any) -> Markup:
    """Encode a value as JSON that is safe inside a script element, whatever text it holds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
