"""Results as HTML for notebooks: small tables without scripts and styles of a page. Every text is escaped."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from softmatch.report import wording
from softmatch.report.pages import THIN
from softmatch.report.run_contents import Contents

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
    """Show the figures of a run, its verdict and its warnings.

    Args:
        result: figures as in result.json.
        report: path of the page of the run.
    """
    contents = Contents(result=dict(result))
    rows = [(tile["name"], tile["value"], tile["note"]) for tile in wording.tiles(contents)]
    notes = [*wording.warnings(contents), f"Report: {report}"]
    return html_table(wording.verdict(contents)[0], (), rows, notes).replace(THIN, "\N{NO-BREAK SPACE}")
