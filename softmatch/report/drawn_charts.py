"""Charts of the report as pictures, drawn by matplotlib for trackers and notebooks, and results as HTML for a notebook."""

import io
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jinja2 import Environment
from markupsafe import Markup

from softmatch.errors import InputError
from softmatch.report import wording
from softmatch.report.charts import Chart
from softmatch.report.page_data import page_data
from softmatch.report.pages import THIN
from softmatch.report.run_contents import Contents, read
from softmatch.runs.folder import RunFolder

TABLE = """
<div>
{% if title %}<p><strong>{{ title }}</strong></p>{% endif %}
<table>
{% if heads %}<thead><tr>{% for head in heads %}<th>{{ head }}</th>{% endfor %}</tr></thead>{% endif %}
<tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
{% for note in notes %}<p>{{ note }}</p>
{% endfor %}
</div>
"""
_TEMPLATE = Environment(autoescape=True, trim_blocks=True).from_string(TABLE)


def html_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str | Markup]], notes: Iterable[str] = ()) -> str:
    """Write a table as HTML; a cell that is Markup is taken as it is."""
    return _TEMPLATE.render(title=title, heads=heads, rows=rows, notes=notes)


def html_result(result: Mapping[str, Any], report: str) -> str:
    """Show the figures of a run, its verdict and its warnings."""
    contents = Contents(result=dict(result))
    rows = [(tile["name"], tile["value"], tile["note"]) for tile in wording.tiles(contents)]
    notes = [*wording.warnings(contents), f"Report: {report}"]
    return html_table(wording.verdict(contents)[0], (), rows, notes).replace(THIN, "\N{NO-BREAK SPACE}")


COLORS = {"run": "tab:blue", "baseline": "tab:gray", "quality": "tab:green", "text": "black"}
Picture = npt.NDArray[np.uint8]


def draw_charts(run: RunFolder) -> dict[str, Picture]:
    """Pictures (height, width, 3) of a run's line charts, by short name; none where matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    data, found = page_data(read(run)), {}
    for chart in (*data["charts"], *data["losses"], *data["statistics"]):
        canvas = FigureCanvasAgg(Figure((7, 4), layout="tight"))
        _draw(chart, canvas.figure.add_subplot())
        with warnings.catch_warnings(action="ignore"):  # a class name may have characters that the font has not
            canvas.draw()  # type: ignore[no-untyped-call]  # matplotlib's own signature
        name = re.sub(r"[^a-z]+", "_", chart["title"].lower().replace("μ", "mu").replace("σ", "sigma")).strip("_")
        found[name or chart["name"]] = np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]  # matplotlib's
    return found


def plot(run: Path | str) -> Any:
    """Draw the error of a run and of its baseline, and quantity f and quality g of the pseudo-labels, over the steps.

    Args:
        run: a run folder, also of a run that has not finished.

    Returns:
        A figure of matplotlib, which a notebook shows by itself; `figure.savefig("run.png")` writes it.

    Raises:
        InputError: the folder has no records, or matplotlib is not installed.

    Example:
        >>> len(plot("runs/mine").axes) > 0
        True
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("softmatch.plot needs matplotlib: pip install 'softmatch[plots]'.") from error

    class Drawing(Figure):
        """A figure without pyplot, which would keep it open, that a notebook can show."""

        def _repr_png_(self) -> bytes:
            content = io.BytesIO()
            with warnings.catch_warnings(action="ignore"):  # as above
                self.savefig(content, format="png")
            return content.getvalue()

    charts = page_data(read(RunFolder(Path(run))))["charts"]
    if not charts:
        raise InputError(f"{run} has no records to draw: it is not a run folder, or nothing was measured.")
    figure = Drawing(figsize=(6 * len(charts), 4), layout="tight")
    for position, chart in enumerate(charts, 1):
        _draw(chart, figure.add_subplot(1, len(charts), position))
    return figure


def _draw(chart: Chart, axes: Any) -> None:
    factor = 100 if chart.get("unit") == "percent" else 1
    for series in chart["series"]:
        values = [np.nan if value is None else factor * value for value in series["values"]]
        color = COLORS.get(series["color"]) or f"C{int(series['color']) % 10}"
        axes.plot(chart["x"], values, color=color, linestyle="--" if series["dash"] else "-", label=series["label"])
    axes.set(title=chart["title"], xlabel="step", ylabel="%" if factor == 100 else "")
    axes.set_ylim(bottom=0 if chart.get("zero") else None, top=factor * chart["top"] if chart.get("top") else None)
    axes.legend()
