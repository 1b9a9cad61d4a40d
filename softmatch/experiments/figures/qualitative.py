"""The paper's figure 2: evaluation error, quantity and quality of pseudo-labels over training, and the quality of two classes.

What differs: lines are means over seeds in a band of one standard deviation, where the paper has single lines. The best and the
worst class are those with the highest and the lowest quality, chosen anew for every record and seed among the classes of which
there are pseudo-labels; quality of a class is that of the pseudo-labels which name it. A value that is not defined, as the
quality where no pseudo-label has a weight, is left out of the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from softmatch.experiments.figures.curves import draw_series, named
from softmatch.experiments.figures.reading import Series, class_figures, finished_runs, over_steps
from softmatch.experiments.figures.style import INK, colours, means, new_figure, panel, percent_range, step_axis, styled
from softmatch.experiments.sheet import Column, Sheet
from softmatch.experiments.store import Store
from softmatch.report.run_contents import Contents, Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Learning:
    """A method over training; `best` and `worst` are qualities of classes."""

    error: Series
    quantity: Series
    quality: Series
    best: Series
    worst: Series


def read(sheet: Sheet, store: Store, column: Column) -> dict[str, Learning]:
    """Every row that has finished runs."""
    return {name: learning(runs) for name, runs in finished_runs(sheet, store, column).items()}


def learning(runs: Sequence[Contents]) -> Learning:
    """The figures of a method's runs."""
    return Learning(
        error=over_steps(runs, lambda record: record.get("test_error")),
        quantity=over_steps(runs, lambda record: record.get("quantity")),
        quality=over_steps(runs, lambda record: record.get("quality")),
        best=over_steps(runs, lambda record: max(_qualities(record), default=None)),
        worst=over_steps(runs, lambda record: min(_qualities(record), default=None)),
    )


def _qualities(record: Record) -> list[float]:
    return [value for value in class_figures(record, "quality") if value is not None]


def figure(methods: Mapping[str, Learning], title: str) -> Figure:
    """Four panels; one colour for each method."""
    from_name, counts = colours(list(methods)), {found.error.n for found in methods.values()}
    panels = (
        ("Evaluation error", "error (%)"),
        ("Quantity of pseudo-labels", "quantity f (%)"),
        ("Quality of pseudo-labels", "quality g (%)"),
        ("Quality of the best and the worst class", "quality g (%)"),
    )
    with styled():
        made = new_figure(5.4, f"{title} · {means(counts)}")
        every = made.subplots(2, 2).ravel()
        for name, found in methods.items():
            label, colour = named(name, found.error.n, counts), from_name[name]
            for axes, series in zip(every, (found.error, found.quantity, found.quality, found.best), strict=True):
                draw_series(axes, series, colour, label)
            draw_series(every[3], found.worst, colour, label, dashed=True)
        for number, (axes, (heading, unit)) in enumerate(zip(every, panels, strict=True)):
            axes.set_title(panel(number, heading))
            axes.set_ylabel(unit)
            percent_range(axes, least=0.04)
            step_axis(axes)
        _legend(made)
    return made


def _legend(made: Figure) -> None:
    from matplotlib.lines import Line2D

    handles, labels = made.axes[0].get_legend_handles_labels()
    handles += [Line2D([], [], color=INK), Line2D([], [], color=INK, linestyle=(0, (3, 1.5)))]
    made.legend(handles, [*labels, "best class", "worst class"], loc="outside lower center", ncols=len(handles))
