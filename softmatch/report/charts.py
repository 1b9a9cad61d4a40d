"""Line charts of the report as data: series over the steps, their scale, and a sentence on how to read them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from softmatch.report.run_contents import Contents, Record, number

POINTS = 200
NAME = 24  # characters of a class name in a legend
LINES = 10  # classes drawn as lines of their own; of more classes the mean and the extremes are drawn

Chart = dict[str, Any]
Series = dict[str, Any]
Item = TypeVar("Item")


def thin(records: Sequence[Item], most: int) -> list[Item]:
    """Keep at most `most` items, evenly spread, with the first and the last."""
    if len(records) <= most:
        return list(records)
    return [records[round(place * (len(records) - 1) / (most - 1))] for place in range(most)]


def compact(value: Any, digits: int = 5) -> float | int | None:
    """Round a number to `digits` significant digits; None for anything else."""
    found = number(value)
    if found is None:
        return None
    rounded = float(f"{found:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def shorten(name: str) -> str:
    return name if len(name) <= NAME else name[: NAME - 1] + "…"


def line(records: Sequence[Record], label: str, get: Callable[[Record], Any], color: str, dash: bool = False) -> Series:
    return {"label": label, "values": [compact(get(r)) for r in records], "color": color, "dash": dash}


def chart(name: str, title: str, caption: str, records: Sequence[Record], series: list[Series], **scale: Any) -> Chart | None:
    """One chart, or None where no series has a value; `scale` is unit="percent" or "number", zero, top."""
    series = [s for s in series if any(value is not None for value in s["values"])]
    if not series:
        return None
    steps = [record["step"] for record in records]
    return {"name": name, "title": title, "caption": caption, "x": steps, "series": series, **scale}


def error_chart(contents: Contents, method: str) -> Chart | None:
    """Evaluation error of the run and of the baseline; their steps may differ."""
    own, baseline = ({r["step"]: r for r in records} for records in (contents.records, contents.baseline_records))
    hint = ". The unlabelled data help where the solid line stays clearly below the dashed one" if own and baseline else ""
    steps = thin([{"step": step} for step in sorted(own.keys() | baseline.keys())], POINTS)
    if contents.measured_by == "crossfit":
        share = (
            "labelled samples that are classified wrongly by the network that has not seen them, over all parts of the cross-fit"
        )
    else:
        share = f"{'test' if contents.measured_by == 'test' else 'held-out'} samples that are classified wrongly"
    return chart(
        "error",
        "Evaluation error",
        f"The share of {share}, in the course of training: lower is better{hint} (compare the paper’s figure 2a).",
        steps,
        [
            line(steps, method, lambda r: own.get(r["step"], {}).get("test_error"), "run"),
            line(steps, "Baseline (labels only)", lambda r: baseline.get(r["step"], {}).get("test_error"), "baseline", dash=True),
        ],
        unit="percent",
        zero=True,
    )


def pseudo_label_chart(contents: Contents) -> Chart | None:
    records = thin(contents.records, POINTS)
    return chart(
        "pseudo",
        "Quantity and quality of pseudo-labels",
        "Quantity f is the average weight λ of the unlabelled samples, quality g the share of that weight on correct "
        "pseudo-labels. A threshold usually trades one for the other; both should be high (figures 1b, 1c, 2b and 2c).",
        records,
        [
            line(records, "Quantity f", lambda r: r.get("quantity"), "run"),
            line(records, "Quality g", lambda r: r.get("quality"), "quality"),
        ],
        unit="percent",
        zero=True,
        top=1,
    )


def loss_charts(contents: Contents) -> list[Chart]:
    records = thin(contents.records, POINTS)
    losses = chart(
        "loss",
        "Losses",
        "Averages over the steps since the previous record. The unsupervised loss may rise when more pseudo-labels get weight.",
        records,
        [
            line(records, "Total", lambda r: r.get("loss"), "text"),
            line(records, "Supervised", lambda r: r.get("supervised_loss"), "baseline", dash=True),
            line(records, "Unsupervised", lambda r: r.get("unsupervised_loss"), "run"),
        ],
        unit="number",
        zero=True,
    )
    rates = [line(records, "Learning rate", lambda r: r.get("lr"), "run")]
    rate = chart("rate", "Learning rate", "The learning rate at each record.", records, rates, unit="number", zero=True)
    return [c for c in (losses, rate) if c]


# title, caption, and the statistics (name → symbol) of one chart, in the order of the page
STATISTICS: list[tuple[str, str, dict[str, str]]] = [
    (
        "μ and σ of the confidence",
        "The weighting function estimates these from the predictions on unlabelled samples: samples more confident than μ get "
        "the full weight, and below μ the weight falls the more slowly, the larger σ is (section 3 of the paper).",
        {"mean": "μ", "variance": "σ", "scale": "scale"},
    ),
    (
        "Confidence threshold",
        "Predictions that are less confident than this are not used; the threshold adapts while the network learns.",
        {"threshold": "threshold", "class_thresholds": "threshold"},
    ),
    (
        "Loss threshold",
        "Pseudo-labels whose loss is larger than this are not used; it falls during training.",
        {"loss_threshold": "largest loss used"},
    ),
    ("Ramp", "The factor on all weights, which grows at the beginning of training.", {"ramp": "factor"}),
    (
        "Average prediction",
        "The running average of the predictions, E[p], by which alignment divides. Lines close together mean that the "
        "network predicts all classes equally often.",
        {"marginal": "E[p]"},
    ),
    (
        "Refined average prediction",
        "The average of the predictions on all unlabelled samples after refinement to the target class frequencies.",
        {"refined_marginal": "E[p']"},
    ),
    (
        "Class weights",
        "The factor on the losses of each class; classes that are predicted rarely get more.",
        {"class_weights": "weight"},
    ),
    (
        "Generation",
        "Number of times training has restarted; each generation has the labels that the previous one added.",
        {"generation": "generation"},
    ),
    ("Added labels", "Unlabelled samples that count as labelled ones in this generation.", {"added_labels": "samples"}),
    ("Allocated share", "The share of the unlabelled samples that is to get a label; it grows to one.", {"share": "share"}),
    (
        "Error of the allocation",
        "Distance between the class sizes of the allocation and the target sizes, as a share of all samples.",
        {"error": "error"},
    ),
    (
        "Potential",
        "Offset that the allocation adds to the score of each class, and of “no label” last, so that all classes get their size.",
        {"potential": "potential"},
    ),
    (
        "Feedback",
        "Decrease of the student's loss on labelled samples in its last step: above zero, the teacher's labels helped.",
        {"feedback": "feedback"},
    ),
    ("Sample weight", "Mean of the learned sample weights.", {"sample_weight": "weight"}),
    (
        "Mean count gap",
        "Mean difference in votes between the first and the second label of a sample.",
        {"mean_gap": "gap"},
    ),
]


def statistics_charts(contents: Contents) -> list[Chart]:
    """One chart for each kind of state of the method; those of a user's own method are drawn too."""
    records = thin(contents.records, POINTS)
    names = list(dict.fromkeys(name for record in records for name in record.get("statistics") or {}))
    known = {name for _, _, symbols in STATISTICS for name in symbols}
    own = [(name, f"“{name}”, a statistic that this method keeps.", {name: name}) for name in names if name not in known]
    found: list[Chart | None] = []
    for title, caption, symbols in [*STATISTICS, *own]:
        series = [s for name in names if name in symbols for s in _lines(records, name, symbols[name], contents.classes)]
        found.append(chart(f"statistic-{len(found)}", title, caption, records, _colored(series), unit="number"))
    return [c for c in found if c]


def _lines(records: Sequence[Record], name: str, symbol: str, classes: Sequence[str]) -> list[Series]:
    """One line for a scalar; for a list, one line per class, or its mean and extremes."""

    def get(record: Record) -> Any:
        value = (record.get("statistics") or {}).get(name)
        return _root(value) if name == "variance" else value

    width = max((len(value) for r in records if isinstance(value := get(r), list)), default=0)
    if not width:
        return [line(records, symbol, get, "")]
    if width > LINES:
        return [
            line(records, f"{symbol}, lowest class", lambda r: _over(get(r), min), ""),
            line(records, f"{symbol}, mean", lambda r: _over(get(r), _mean), ""),
            line(records, f"{symbol}, highest class", lambda r: _over(get(r), max), ""),
        ]
    labels = [shorten(name) for name in classes] if len(classes) == width else [str(place) for place in range(width)]
    return [line(records, f"{symbol} {labels[place]}", partial(_item, get, place), "") for place in range(width)]


def _colored(series: list[Series]) -> list[Series]:
    """Colour one line as the run, several by the palette."""
    if len(series) == 1:
        return [{**series[0], "color": "run"}]
    return [{**s, "color": place % LINES, "dash": place >= LINES} for place, s in enumerate(series)]


def _root(value: Any) -> Any:
    if isinstance(value, list):
        return [_root(item) for item in value]
    found = number(value)
    return None if found is None or found < 0 else math.sqrt(found)


def _over(value: Any, function: Callable[[list[float]], float]) -> float | None:
    numbers = [n for n in map(number, value if isinstance(value, list) else []) if n is not None]
    return function(numbers) if numbers else None


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _item(get: Callable[[Record], Any], place: int, record: Record) -> Any:
    value = get(record)
    return value[place] if isinstance(value, list) and place < len(value) else None
