"""What pages of charts have in common: one file with its data, its style and one script, which is allowed by its hash alone."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from softmatch.report.numbers import percent

HERE = Path(__file__).parent
VENDOR = HERE / "vendor"


@dataclass(frozen=True)
class Page:
    """A kind of page.

    Attributes:
        template: that extends base.html, which puts the parts together.
        scripts: after uPlot and drawing.js, in this order; one of them has `chartOf`.
        styles: after those of uPlot and report.css.
    """

    template: Path
    scripts: Sequence[Path]
    styles: Sequence[Path] = ()

    def compiled(self) -> Template:
        return _compiled(self.template)

    def render(self, data: Any, **values: Any) -> str:
        """The page as text, from what its scripts draw and what its template shows."""
        script = self._script()
        styles = (VENDOR / "uPlot.min.css", HERE / "report.css", *self.styles)
        return self.compiled().render(
            **values,
            data=data,
            json=embed(data),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            style=Markup("".join(map(_read, styles))),
        )

    def _script(self) -> str:
        """uPlot under its licence notice, then our own; the page allows this one script and no other."""
        notice = "/* uPlot 1.6.32\n" + _read(VENDOR / "LICENSE") + "*/\n"
        return notice + "\n".join(map(_read, (VENDOR / "uPlot.iife.min.js", HERE / "drawing.js", *self.scripts)))


@cache
def _compiled(path: Path) -> Template:
    """Once: that takes longer than the rest of a page."""
    environment = Environment(
        loader=FileSystemLoader([path.parent, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    return environment.get_template(path.name)


def embed(value: Any) -> Markup:
    """JSON that may stand inside a script element, whatever text it holds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
