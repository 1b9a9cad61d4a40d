"""Line charts of the report as data: series over the steps, their scale, and a sentence on how to read them."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
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


def line(label: str, values: Iterable[Any], color: str = "run", dash: bool = False) -> Series:
    return {"label": label, "values": [compact(value) for value in values], "color": color, "dash": dash}


def chart(name: str, title: str, caption: str, steps: Sequence[int], series: list[Series], **scale: Any) -> Chart | None:
    """One chart, or None where no series has a value; `scale` is unit="percent" or "number", zero, top."""
    series = [s for s in series if any(value is not None for value in s["values"])]
    return {"name": name, "title": title, "caption": caption, "x": steps, "series": series, **scale} if series else None


def error_chart(contents: Contents, method: str) -> Chart | None:
    """Evaluation error of the run and of the baseline; their steps may differ."""
    own, baseline = ({r["step"]: r.get("test_error") for r in some} for some in (contents.records, contents.baseline_records))
    hint = ". The unlabelled data help where the solid line stays clearly below the dashed one" if own and baseline else ""
    steps = thin(sorted(own.keys() | baseline.keys()), POINTS)
    share = f"{'test' if contents.measured_by == 'test' else 'held-out'} samples that are classified wrongly"
    if contents.measured_by == "crossfit":
        share = (
            "labelled samples that are classified wrongly by the network that has not seen them, over all parts of the cross-fit"
        )
    return chart(
        "error",
        "Evaluation error",
        f"The share of {share}, in the course of training: lower is better{hint} (compare the paper’s figure 2a).",
        steps,
        [
            line(method, map(own.get, steps)),
            line("Baseline (labels only)", map(baseline.get, steps), "baseline", dash=True),
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
        [r["step"] for r in records],
        [
            line("Quantity f", [r.get("quantity") for r in records]),
            line("Quality g", [r.get("quality") for r in records], "quality"),
        ],
        unit="percent",
        zero=True,
        top=1,
    )


def loss_charts(contents: Contents) -> list[Chart]:
    records = thin(contents.records, POINTS)
    steps = [r["step"] for r in records]
    means = (
        "Averages over the steps since the previous record. The unsupervised loss may rise when more pseudo-labels get weight."
    )
    losses = [
        line("Total", [r.get("loss") for r in records], "text"),
        line("Supervised", [r.get("supervised_loss") for r in records], "baseline", dash=True),
        line("Unsupervised", [r.get("unsupervised_loss") for r in records]),
    ]
    rates = [line("Learning rate", [r.get("lr") for r in records])]
    found = (
        chart("loss", "Losses", means, steps, losses, unit="number", zero=True),
        chart("rate", "Learning rate", "The learning rate at each record.", steps, rates, unit="number", zero=True),
    )
    return [c for c in found if c]


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
    ("Mean count gap", "Mean difference in votes between the first and the second label of a sample.", {"mean_gap": "gap"}),
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
        if len(series) > 1:
            series = [{**s, "color": place % LINES, "dash": place >= LINES} for place, s in enumerate(series)]
        found.append(chart(f"statistic-{len(found)}", title, caption, [r["step"] for r in records], series, unit="number"))
    return [c for c in found if c]


def _lines(records: Sequence[Record], name: str, symbol: str, classes: Sequence[str]) -> list[Series]:
    """One line for a scalar; for a list, one line per class, or its mean and extremes."""
    values = [(record.get("statistics") or {}).get(name) for record in records]
    if name == "variance":
        values = [_root(value) for value in values]
    lists = [value if isinstance(value, list) else [] for value in values]
    width = max(map(len, lists), default=0)
    if not width:
        return [line(symbol, values)]
    if width > LINES:
        known = [[value for value in own if value is not None] for own in lists]
        summaries: dict[str, Callable[[list[float]], float]] = {"lowest class": min, "mean": fmean, "highest class": max}
        return [line(f"{symbol}, {what}", [over(own) if own else None for own in known]) for what, over in summaries.items()]
    short = [name if len(name) <= NAME else name[: NAME - 1] + "…" for name in classes]
    labels = short if len(short) == width else range(width)
    return [
        line(f"{symbol} {label}", [own[place] if place < len(own) else None for own in lists])
        for place, label in enumerate(labels)
    ]


def _root(value: Any) -> Any:
    if isinstance(value, list):
        return [_root(item) for item in value]
    found = number(value)
    return None if found is None or found < 0 else math.sqrt(found)
