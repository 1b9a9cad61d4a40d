"""The report of a run folder: one HTML file that needs no network and no other file."""

from pathlib import Path
from typing import Any

import yaml

from softmatch.files.atomic import write_atomically
from softmatch.report import wording as words
from softmatch.report.charts import thin
from softmatch.report.label_curve import curve_section
from softmatch.report.page_data import page_data, results_section
from softmatch.report.pages import Page, count, percent
from softmatch.report.reliability import calibration_section
from softmatch.report.run_contents import Contents, mapping, number, read
from softmatch.report.series_pictures import pictures_section
from softmatch.runs.folder import RunFolder

__all__ = ["write_report"]

HERE = Path(__file__).parent
TABLE_ROWS = 20
PAGE = Page(HERE / "template.html", [HERE / name for name in ("report.js", "classes.js", "results.js", "boundary.js")])


def write_report(run: RunFolder) -> Path:
    """Write report.html of a run folder and return its path."""
    write_atomically(run.report, render(read(run)).encode())
    return run.report


def render(contents: Contents) -> str:
    """Render the page as text."""
    data = page_data(contents)
    sentence, kind = words.verdict(contents)
    heads, rows = _table(contents)
    return PAGE.render(
        data,
        source=_title(str(contents.config.get("source") or "Run")),
        subtitle=words.subtitle(contents),
        verdict=sentence,
        kind=kind,
        tiles=words.tiles(contents),
        warnings=words.warnings(contents),
        measured=words.how_measured(contents),
        crossfit=contents.measured_by == "crossfit",
        missing=words.missing(contents),
        calibration=calibration_section(contents),
        results=results_section(contents),
        curve=curve_section(contents),
        pictures=(pictures := pictures_section(contents)),
        heard=any(one["sound"] for group in pictures for one in group["pictures"]),
        heads=heads,
        table=rows,
        settings={str(key): _setting(value) for key, value in contents.config.items()},
        versions=mapping(contents.result.get("versions")),
    )


def _title(source: str) -> str:
    """Name of a source, or of its file or folder; the whole path is among the settings."""
    return Path(source).name if Path(source).is_absolute() and Path(source).name else source


def _setting(value: Any) -> str:
    """Format a setting as YAML does."""
    if isinstance(value, (dict, list)):
        return yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, sort_keys=False).strip()
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else str(value)


def _table(contents: Contents) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of the main figures at some records, without empty columns, for readers who cannot see the charts."""
    baseline = {record["step"]: record for record in contents.baseline_records}
    records = thin(contents.records, TABLE_ROWS)
    columns = {
        "Error": [number(record.get("test_error")) for record in records],
        "Baseline error": [number(baseline.get(record["step"], {}).get("test_error")) for record in records],
        "Quantity f": [number(record.get("quantity")) for record in records],
        "Quality g": [number(record.get("quality")) for record in records],
    }
    shown = {head: values for head, values in columns.items() if any(value is not None for value in values)}
    cells = [list(map(percent, values)) for values in shown.values()]
    steps = [count(record["step"]) for record in records]
    return ["Step", *shown], [list(row) for row in zip(steps, *cells, strict=True)]
