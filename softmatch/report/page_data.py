"""The page's data: a run folder's contents as one compact dictionary, small enough to embed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softmatch.methods import proper_name
from softmatch.report.charts import (
    compact,
    error_chart,
    loss_charts,
    pseudo_label_chart,
    statistics_charts,
    thin,
)
from softmatch.report.cleaning import CLASS_FIGURES
from softmatch.report.run_contents import Contents, Record, number

MOMENTS = 60
FEWEST_MOMENTS = 12
CLASS_MOMENTS = 6000
"""Moments times classes: of more than 100 classes fewer moments are kept, for the page's sake."""
DOTS = 2000


def page_data(contents: Contents) -> dict[str, Any]:
    """Everything that the page's script draws."""
    most = min(MOMENTS, max(FEWEST_MOMENTS, CLASS_MOMENTS // max(len(contents.classes), 1)))
    moments = [_moment(record, contents) for record in thin(contents.records, most)]
    return {
        "method": proper_name(contents.method),
        "classes": list(contents.classes),
        "total": compact(contents.setting("steps"), 15),
        "charts": [c for c in (error_chart(contents, proper_name(contents.method)), pseudo_label_chart(contents)) if c],
        "statistics": statistics_charts(contents),
        "losses": loss_charts(contents),
        "moments": moments,
        "confidence": _grid(contents.records),
        "largest_weight": max((w for m in moments for w in m["weights"] or () if w is not None), default=None),
        "histograms": any(moment["all"] for moment in moments),
        "truth": compact(contents.known_share, 4),
        "compared": bool(contents.twin_records),
        "class_figures": any(moment["classes"] or moment["errors"] for moment in moments),
        "class_errors": any(moment["errors"] for moment in moments),
        "aligned": any(_is_aligned(record) for record in contents.records),
        "boundary": _boundary(contents),
    }


def _moment(record: Record, contents: Contents) -> dict[str, Any]:
    """What the slider shows at one record: histograms, λ(p), figures of each class."""
    histogram, classes, curve = (record.get(key) or {} for key in ("histogram", "classes", "curve"))
    judged = sum(histogram.get("wrong") or ()) + sum(histogram.get("right") or ())
    twin = next((r for r in contents.twin_records if r["step"] == record["step"]), {})
    return {
        "step": record["step"],
        "all": histogram.get("all"),
        "wrong": histogram.get("wrong") if judged else None,
        "weights": _numbers(curve.get("weight")),
        "classes": {name: _numbers(classes.get(name)) for name in CLASS_FIGURES} if classes else None,
        "errors": _numbers(record.get("test_class_errors")),
        "twin_errors": _numbers(twin.get("test_class_errors")),
    }


def _numbers(values: Sequence[Any] | None) -> list[float | int | None] | None:
    """Figures that are drawn as bars or curves: a fourth decimal cannot be seen."""
    if not values:
        return None
    return [None if (n := number(value)) is None else compact(round(n, 4)) for value in values]


def _grid(records: Sequence[Record]) -> list[float | int | None] | None:
    """The confidences at which λ(p) is recorded: the same at every record."""
    return next((_numbers(record["curve"]["confidence"]) for record in records if record.get("curve")), None)


def _is_aligned(record: Record) -> bool:
    classes = record.get("classes") or {}
    before, after = classes.get("unaligned_quantity"), classes.get("quantity")
    return bool(before and after and before != after)


def _boundary(contents: Contents) -> dict[str, Any] | None:
    """Points once, and a grid of probabilities for the run and the twin, in thousandths."""
    both = [(proper_name(contents.method), contents.boundary), ("Labels alone", contents.twin_boundary)]
    panels = [
        {
            "title": title,
            "x": [compact(found["x"][0]), compact(found["x"][-1])],
            "y": [compact(found["y"][0]), compact(found["y"][-1])],
            "probs": [[round(1000 * (number(p) or 0.0)) for p in row] for row in found["probs"]],
        }
        for title, found in both
        if found.get("probs") and found.get("x") and found.get("y")
    ]
    if not panels:
        return None
    source = contents.boundary or contents.twin_boundary
    points, truth, labeled = (source.get(key) or [] for key in ("points", "truth", "labeled"))
    chosen = set(labeled)
    kept = [p for p in range(len(points)) if p % (len(points) // DOTS + 1) == 0 or p in chosen]
    dots = [
        [compact(points[p][0], 4), compact(points[p][1], 4), truth[p] if p < len(truth) else -1, int(p in chosen)] for p in kept
    ]
    return {"panels": panels, "dots": dots}
