"""Figure 6 of the paper: average weight of each class by pseudo-label, before and after uniform alignment, and the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from softmatch.errors import InputError
from softmatch.experiments.figures import style
from softmatch.experiments.results.collect import Cell
from softmatch.experiments.results.run_files import numbers

NAMED = 40  # classes, up to which they have their names at the axis
KEYS = ("unaligned_quantity", "quantity")


def figure(cells: Sequence[Cell], title: str) -> Figure | None:
    """Draw the first record of the row that is SoftMatch; None where no run of it has these weights."""
    if not (chosen := [cell for cell in cells if style.is_softmatch(cell)]):
        raise InputError(f"fig-ua shows SoftMatch with its own settings: {title} has no such row.")
    first = [(run, record) for run in chosen[0].runs for record in run.records[:1]]
    found = [(run, record) for run, record in first if all(numbers(record, "classes", key) for key in KEYS)]
    if not found:
        return None
    run, record = found[0]
    same = [other for _, other in found if other["step"] == record["step"]]
    before, after = (np.array([numbers(other, "classes", key) for other in same], dtype=np.float64) for key in KEYS)
    names = list(run.class_errors) if len(run.class_errors) == before.shape[1] else [str(n) for n in range(before.shape[1])]
    return draw(names, before, after, f"{title} · SoftMatch at step {record['step']:,} · {style.means([len(before)])}")


def draw(names: Sequence[str], before: style.Values, after: style.Values, title: str) -> Figure:
    """Three panels with a bar for each class, from weights (seeds, C); NaN for a class without pseudo-labels."""
    averages = [style.spread(values)[0] for values in (before, after)]
    sds = [f"sd of classes {100 * float(np.nanstd(average)):.1f} %" for average in averages]
    panels = (
        (f"(a) before UA, {sds[0]}", before, style.SOFT),
        (f"(b) after UA, {sds[1]}", after, style.SOFTMATCH),
        ("(c) after − before", after - before, "#56B4E9"),
    )
    places = np.arange(len(names))
    with style.styled():
        made = style.new_figure(1.3 + min(0.24 * len(places), 8.0), title)
        across: Any = made.subplots(1, 3, sharey=True)
        for axes, (heading, values, colour) in zip(across, panels, strict=True):
            mean, sd = style.spread(values)
            axes.barh(places, mean, color=colour, height=0.75, linewidth=0)
            if len(values) > 1:
                axes.errorbar(mean, places, xerr=sd, fmt="none", ecolor=style.INK, elinewidth=0.8, capsize=1.5)
            axes.set(title=heading, xlabel="difference of λ (points)" if axes is across[2] else "average weight λ (%)")
            axes.grid(axis="y", visible=False)
            axes.axvline(0.0, color=style.SOFT, linewidth=0.8)
            style.percent(axes.xaxis)
        for axes in across[:2]:
            axes.set_xlim(0.0, 1.05 * max(1.0, np.nanmax(averages)))  # whiskers may be longer than possible weights
        few = len(places) <= NAMED
        across[0].set_yticks(places if few else [], names if few else [])
        across[0].set_ylabel("class by pseudo-label")
        across[0].invert_yaxis()
    return made
