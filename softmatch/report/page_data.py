"""Data of the page: what its script draws, small enough to embed, and the table of the classes."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from softmatch.methods import BASELINE, proper_name
from softmatch.report.charts import compact, error_chart, loss_charts, pseudo_label_chart, statistics_charts, thin
from softmatch.report.pages import count, percent
from softmatch.report.run_contents import CLASS_FIGURES, Contents, Record, number

MOMENTS = 60
FEWEST_MOMENTS = 12
CLASS_MOMENTS = 6000
"""Moments times classes: with more than 100 classes, fewer moments keep the page small."""
DOTS = 2000
SHARES = ("error", "supervised_error", "precision", "recall")
COLUMNS = {
    "labels": "Labels",
    "test_samples": "Tested",
    "error": "Error",
    "supervised_error": "Baseline error",
    "precision": "Precision",
    "recall": "Recall",
}
SEARCH_FROM = 20
"""Number of classes above which the table can be searched."""
Row = dict[str, float | None]


def page_data(contents: Contents) -> dict[str, Any]:
    """All that the page's script draws."""
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
        # confidences at which λ(p) is recorded, the same at every record
        "confidence": next((_numbers(r["curve"]["confidence"]) for r in contents.records if r.get("curve")), None),
        "largest_weight": max((w for m in moments for w in m["weights"] or () if w is not None), default=None),
        "histograms": any(moment["all"] for moment in moments),
        "truth": compact(contents.known_share, 4),
        "compared": bool(contents.baseline_records),
        "class_figures": any(moment["classes"] or moment["errors"] for moment in moments),
        "class_errors": any(moment["errors"] for moment in moments),
        "aligned": any(_is_aligned(record) for record in contents.records),
        "boundary": _boundary(contents),
    }


def _moment(record: Record, contents: Contents) -> dict[str, Any]:
    """Data of the slider at one record: histograms, λ(p), figures of each class."""
    histogram, classes, curve = (record.get(key) or {} for key in ("histogram", "classes", "curve"))
    judged = sum(histogram.get("wrong") or ()) + sum(histogram.get("right") or ())
    baseline = next((r for r in contents.baseline_records if r["step"] == record["step"]), {})
    return {
        "step": record["step"],
        "all": histogram.get("all"),
        "wrong": histogram.get("wrong") if judged else None,
        "weights": _numbers(curve.get("weight")),
        "classes": {name: _numbers(classes.get(name)) for name in CLASS_FIGURES} if classes else None,
        "errors": _numbers(record.get("test_class_errors")),
        "baseline_errors": _numbers(baseline.get("test_class_errors")),
    }


def _numbers(values: Sequence[Any] | None) -> list[float | int | None] | None:
    """Round figures that are drawn as bars or curves: a fifth decimal cannot be seen."""
    if not values:
        return None
    return [None if (n := number(value)) is None else compact(round(n, 4)) for value in values]


def _is_aligned(record: Record) -> bool:
    classes = record.get("classes") or {}
    before, after = classes.get("unaligned_quantity"), classes.get("quantity")
    return bool(before and after and before != after)


def _boundary(contents: Contents) -> dict[str, Any] | None:
    """Points once, and a grid of probabilities in thousandths for the run and for the baseline."""
    both = [(proper_name(contents.method), contents.boundary), (proper_name(BASELINE), contents.baseline_boundary)]
    panels = [
        {
            "title": title,
            "x": [compact(found["x"][0]), compact(found["x"][-1])],
            "y": [compact(found["y"][0]), compact(found["y"][-1])],
            "probs": [[round(1000 * (number(p) or 0.0)) for p in row] for row in found["probs"]],
        }
        for title, found in both
        if found
    ]
    if not panels:
        return None
    source = contents.boundary or contents.baseline_boundary
    points, truth, chosen = source["points"], source["truth"], set(source["labeled"])
    kept = [p for p in range(len(points)) if p % (len(points) // DOTS + 1) == 0 or p in chosen]
    dots = [[compact(points[p][0], 4), compact(points[p][1], 4), truth[p], int(p in chosen)] for p in kept]
    return {"panels": panels, "dots": dots}


def results_section(contents: Contents) -> dict[str, Any] | None:
    """Heads, rows and sentences of the table of the classes, the worst first; None where the run has no such figures."""
    found = contents.result.get("classes")
    classes = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    rows = [(str(one.get("name")), {key: number(one.get(key)) for key in COLUMNS}) for one in classes]
    # a column of zero test samples says nothing
    columns = [key for key in COLUMNS if any(row[key] or (row[key] == 0 and key != "test_samples") for _, row in rows)]
    if not columns:
        return None
    rows.sort(key=_worst_first)
    return {
        "heads": [COLUMNS[key] for key in columns],
        "measured": "error" in columns,
        "compared": "supervised_error" in columns,
        "rows": [
            {
                "name": name,
                "cells": [_cell(key, row[key]) for key in columns],
                "bar": None if row["error"] is None else compact(round(100 * row["error"], 1)),
                "place": None if row["error"] is None else columns.index("error"),
            }
            for name, row in rows
        ],
        "sentences": _sentences([row for _, row in rows]),
        "search": len(rows) > SEARCH_FROM,
    }


def _worst_first(named: tuple[str, Row]) -> tuple[float, float, str]:
    """Sort by error, highest first, and by test samples; classes without an error come last, by their labels."""
    name, row = named
    if row["error"] is None:
        return 1.0, row["labels"] or 0.0, name
    return -row["error"], -(row["test_samples"] or 0.0), name


def _cell(column: str, value: float | None) -> str:
    if value is None:
        return "–"
    return percent(value) if column in SHARES else count(value)


def _sentences(rows: list[Row]) -> list[str]:
    """Sum up the rows in sentences."""
    errors = [error for row in rows if (error := row["error"]) is not None]
    both = [(row["error"], row["supervised_error"]) for row in rows]
    differences = [error - alone for error, alone in both if error is not None and alone is not None]
    sentences = []
    if len(errors) > 2:
        sentences.append(f"Half of the classes have an error of {percent(median(errors))} or less.")
    if differences:
        lower, higher = sum(each < 0 for each in differences), sum(each > 0 for each in differences)
        sentences.append(
            f"Compared with the baseline, the error is lower in {count(lower, 'class', 'classes')}, "
            f"higher in {higher:,} and the same in {len(differences) - lower - higher:,}."
        )
    if errors and len(errors) < len(rows):
        sentences.append(f"No sample of {count(len(rows) - len(errors), 'class', 'classes')} was tested.")
    return sentences
