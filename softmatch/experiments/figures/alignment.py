"""The paper's figure 6: average weight of each class by pseudo-label, before and after uniform alignment, and the difference.

What differs: the weights are those of the first record of SoftMatch runs ("the beginning of training"), means over seeds with
whiskers of a standard deviation. A class that no pseudo-label of a seed names has no weight there and is left out of the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softmatch.errors import InputError
from softmatch.experiments.figures.reading import Values, class_figures, finished_runs, is_softmatch, spread
from softmatch.experiments.figures.style import INK, SOFT, SOFTMATCH, means, new_figure, panel, percent, styled
from softmatch.experiments.sheet import Column, Sheet
from softmatch.experiments.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 40
"""Up to so many classes have their names at the axis."""


@dataclass(frozen=True)
class ClassWeights:
    """Average weights of classes.

    Attributes:
        before, after: (seeds, C), λ without and with alignment; NaN for a class without pseudo-labels.
    """

    step: int
    classes: tuple[str, ...]
    before: Values
    after: Values


def read(sheet: Sheet, store: Store, column: Column) -> ClassWeights | None:
    """The first record of the runs of the row that is SoftMatch; None where none is finished.

    Raises:
        InputError: where there is no such row.
    """
    rows = [row for row in sheet.rows if is_softmatch(sheet, row)]
    if not rows:
        raise InputError(f"fig-ua shows SoftMatch with its own settings: {sheet.name} has no such row.")
    found = [
        (run, record)
        for run in finished_runs(sheet, store, column).get(rows[0].name, [])
        for record in run.records[:1]
        if class_figures(record, "unaligned_quantity") and class_figures(record, "quantity")
    ]
    if not found:
        return None
    first, record = found[0]
    same = [other for _, other in found if other["step"] == record["step"]]
    number = len(class_figures(record, "quantity"))
    return ClassWeights(
        record["step"],
        first.classes if len(first.classes) == number else tuple(str(position) for position in range(number)),
        *(
            np.array([class_figures(other, key) for other in same], dtype=np.float64)
            for key in ("unaligned_quantity", "quantity")
        ),
    )


def ua_balance(weights: ClassWeights) -> tuple[float, float]:
    """How much the average weights (their means over seeds) differ between classes: their sd before and after alignment.

    The classes are all there are: it is the sd of a population. Alignment balances where the second is smaller.
    """
    before, after = (float(np.nanstd(spread(values)[0])) for values in (weights.before, weights.after))
    return before, after


def figure(weights: ClassWeights, title: str) -> Figure:
    """Three panels of horizontal bars, a bar for each class."""
    before, after = ua_balance(weights)
    panels = (
        (f"before UA, sd of classes {100 * before:.1f} %", weights.before, SOFT),
        (f"after UA, sd of classes {100 * after:.1f} %", weights.after, SOFTMATCH),
        ("after − before", weights.after - weights.before, "#56B4E9"),
    )
    places = np.arange(len(weights.classes))
    with styled():
        height = 1.3 + min(0.24 * len(places), 8.0)
        made = new_figure(height, f"{title} · SoftMatch at step {weights.step:,} · {means([len(weights.before)])}")
        across: Any = made.subplots(1, 3, sharey=True)
        for position, (axes, (heading, values, colour)) in enumerate(zip(across, panels, strict=True)):
            mean, sd = spread(values)
            axes.barh(places, mean, color=colour, height=0.75, linewidth=0)
            if len(values) > 1:
                axes.errorbar(mean, places, xerr=sd, fmt="none", ecolor=INK, elinewidth=0.8, capsize=1.5)
            axes.set_title(panel(position, heading))
            axes.set_xlabel("average weight λ (%)" if position < 2 else "difference of λ (points)")
            axes.grid(axis="y", visible=False)
            axes.axvline(0.0, color=SOFT, linewidth=0.8)
            percent(axes.xaxis)
        both = [spread(values)[0] for values in (weights.before, weights.after)]
        for axes in across[:2]:
            axes.set_xlim(0.0, 1.05 * max(1.0, np.nanmax(both)))  # whiskers may say more than there can be
        few = len(places) <= NAMED
        across[0].set_yticks(places if few else [], weights.classes if few else [])
        across[0].set_ylabel("class by pseudo-label")
        across[0].invert_yaxis()
    return made
