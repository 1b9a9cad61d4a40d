"""A store of run folders with known figures, and helpers to read what a figure shows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from softmatch.experiments.results.collect import Cell, collect
from softmatch.experiments.sheet import Column, Row, Run, Sheet
from softmatch.experiments.store import Store
from tests.report.example import make_boundary, make_record, make_run

ROWS = (
    Row("FixMatch", {"method": "fixmatch"}),
    Row("FlexMatch", {"method": "flexmatch"}),
    Row("SoftMatch", {"method": "softmatch"}),
)
MOONS = Column("4", "two-moons", {"labels": 4}, "Two moons")
STEPS = (10, 20, 30, 40)


def make_sheet(rows: Sequence[Row] = ROWS, columns: Sequence[Column] = (MOONS,), seeds: Sequence[int] = (0, 1)) -> Sheet:
    return Sheet("fig-try", "A try", rows, columns, seeds, {"baseline": False})


def record_of(run: Run, step: int, **changes: Any) -> dict[str, Any]:
    """A record whose quantity, quality and error follow from the run's method, its seed and the step."""
    better = {"fixmatch": 0.0, "flexmatch": 0.1, "softmatch": 0.2}[run.method]
    figures = {
        "quantity": 0.3 + better + run.seed / 10 + step / 1000,
        "quality": 0.5 + better * step / 40 + run.seed / 20,
        "test_error": 0.5 - better - step / 1000 + run.seed / 50,
    }
    return make_record(step, 2, run.method) | figures | changes


def finish(store: Store, run: Run, records: Sequence[dict[str, Any]] | None = None, *, error: float | None = 0.25) -> Path:
    """The folder of a finished run; by default with a record at each of STEPS."""
    result = {"seed": run.seed, "test_error": error}
    made = make_run(store.folder(run), method=run.method, twin=False, boundary=False, steps=0, result=result)
    for record in [record_of(run, step) for step in STEPS] if records is None else records:
        made.append_record(record)
    made.write_json("boundary.json", make_boundary())
    made.report.write_text("<p>a report</p>")
    return made.path


def cells_of(sheet: Sheet, store: Store, column: Column = MOONS) -> list[Cell]:
    """Cells of a column that have finished runs: the input of a figure."""
    return [cell for cell in collect(sheet, store).column(column.title) if cell.runs]


def texts(figure: Any) -> str:
    """All text of a figure, with ordinary spaces."""
    import matplotlib.text

    return "\n".join(text.get_text() for text in figure.findobj(matplotlib.text.Text)).replace("\N{NO-BREAK SPACE}", " ")


def titled(figure: Any, title: str) -> Any:
    """The panel whose title starts so."""
    return next(axes for axes in figure.axes if axes.get_title(loc="left").startswith(title))


def legend(figure: Any) -> list[str]:
    """The names of all legends."""
    import matplotlib.legend

    return [text.get_text() for each in figure.findobj(matplotlib.legend.Legend) for text in each.get_texts()]


def lines(axes: Any, colour: str) -> list[tuple[list[float], list[float]]]:
    """The lines of a colour, as their coordinates."""
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines() if line.get_color() == colour]
