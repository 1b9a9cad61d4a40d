"""The report: a run folder becomes one HTML file that needs no network and no other file."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from softmatch.report import words
from softmatch.report.charts import thin
from softmatch.report.data import page_data
from softmatch.report.reading import Contents, number, read
from softmatch.runs import RunFolder
from softmatch.training.checkpoint import write_atomically

__all__ = ["write_report"]

HERE = Path(__file__).parent
TABLE_ROWS = 20


def write_report(run: RunFolder) -> Path:
    """Write report.html of a run folder, from what the folder holds; returns its path."""
    write_atomically(run.report, render(read(run)).encode())
    return run.report


def render(contents: Contents) -> str:
    """The page as text."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["percent"] = words.percent
    data, script = page_data(contents), _script()
    sentence, kind = words.verdict(contents)
    return environment.get_template("template.html").render(
        source=str(contents.config.get("source") or "Run"),
        subtitle=words.subtitle(contents),
        verdict=sentence,
        kind=kind,
        tiles=words.tiles(contents),
        missing=words.missing(contents),
        data=data,
        json=embed(data),
        table=_table(contents),
        settings={str(key): _setting(value) for key, value in contents.config.items()},
        versions=contents.result.get("versions") or {},
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=Markup(_file("vendor/uPlot.min.css") + _file("report.css")),
    )


def embed(value: Any) -> Markup:
    """JSON that may stand inside a script element, whatever text it holds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _script() -> str:
    """uPlot under its licence notice, then our own script; the page allows this one script and no other, by its hash."""
    notice = "/* uPlot 1.6.32\n" + _file("vendor/LICENSE") + "*/\n"
    return notice + "\n".join(_file(name) for name in ("vendor/uPlot.iife.min.js", "report.js", "classes.js", "boundary.js"))


def _file(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _setting(value: Any) -> str:
    """A setting as YAML writes it."""
    if isinstance(value, (dict, list)):
        return yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, sort_keys=False).strip()
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else str(value)


def _table(contents: Contents) -> list[list[str]]:
    """The main figures at some records, for those who do not see the charts."""
    twin = {record["step"]: record for record in contents.twin_records}
    return [
        [
            words.count(record["step"]),
            *(
                "–" if (n := number(figure)) is None else words.percent(n)
                for figure in (
                    record.get("test_error"),
                    twin.get(record["step"], {}).get("test_error"),
                    record.get("quantity"),
                    record.get("quality"),
                )
            ),
        ]
        for record in thin(contents.records, TABLE_ROWS)
    ]
