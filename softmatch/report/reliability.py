"""Section on calibration: figures, sentences, and reliability diagrams as shapes for the template's SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from softmatch.report.pages import THIN, count, percent
from softmatch.report.run_contents import Contents, mapping, number

WIDTH, HEIGHT = 360, 356
LEFT, RIGHT, TOP, BOTTOM = 46, 350, 8, 248  # of the diagram in the picture
STRIP_TOP, STRIP_BOTTOM = 296, 352  # of the counts below it
FEW = 10
"""Bins with fewer predictions are drawn pale: they may be chance."""


@dataclass(frozen=True)
class Bar:
    """One bin with predictions: their number, mean confidence and accuracy."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float

    @property
    def text(self) -> str:
        """Tooltip of the bar."""
        made = count(self.count, "prediction", "predictions")
        return f"Confidence {_range(self)} ({percent(self.confidence)} on average): {made}, {percent(self.accuracy)} right"

    def sentence(self, start: str) -> str:
        """Say what to expect of such a confidence; `start` ends with "of the"."""
        made = count(self.count, "prediction", "predictions")
        mean = f"({percent(self.confidence)} on average)"
        return f"{start} {made} with a confidence of {_range(self)} {mean}, {percent(self.accuracy)} were right."


def calibration_section(contents: Contents) -> dict[str, Any] | None:
    """Values for the template, or None where the run has no measured calibration."""
    found = mapping(contents.result.get("calibration"))
    bars = _bars(found.get("bins"))
    if not bars:
        return None
    temperature = number(found.get("temperature"))
    scaled = _bars(found.get("bins_scaled")) if temperature not in (None, 1.0) else []
    panels = [_panel("Before temperature scaling" if scaled else "Confidence and accuracy", bars)]
    if scaled:
        panels.append(_panel(f"After temperature scaling, T = {temperature:.2f}", scaled))
    return {
        "tiles": _tiles(found, bars, temperature if scaled else None),
        "paragraphs": _paragraphs(contents, found, bars, scaled),
        "panels": panels,
        "width": WIDTH,
        "height": HEIGHT,
        "frame": {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM, "strip": STRIP_BOTTOM},
        "ticks": [{"text": f"{tick}{THIN}%", "x": _x(tick / 100), "y": _y(tick / 100)} for tick in (0, 25, 50, 75, 100)],
    }


def _bars(bins: Any) -> list[Bar]:
    """Bins with predictions; anything else is left out."""
    found = []
    for one in bins if isinstance(bins, list) else []:
        keys = ("low", "high", "count", "confidence", "accuracy")
        low, high, size, confidence, accuracy = (number(mapping(one).get(key)) for key in keys)
        if size and size >= 1 and low is not None and high is not None and confidence is not None and accuracy is not None:
            found.append(Bar(low, high, int(size), confidence, accuracy))
    return found


def _panel(title: str, bars: Sequence[Bar]) -> dict[str, Any]:
    most = max(bar.count for bar in bars)
    shapes = [
        {
            "text": bar.text,
            "few": bar.count < FEW,
            "x": _x(bar.low) + 1,
            "width": round(_x(bar.high) - _x(bar.low) - 2, 2),
            "middle": round((_x(bar.low) + _x(bar.high)) / 2, 2),
            "top": _y(bar.accuracy),
            "bottom": BOTTOM,
            "mark": _y(bar.confidence),
            "count": count(bar.count),
            "strip": round(STRIP_BOTTOM - (STRIP_BOTTOM - STRIP_TOP) * bar.count / most, 2),
        }
        for bar in bars
    ]
    rows = [[_range(bar), count(bar.count), percent(bar.confidence), percent(bar.accuracy)] for bar in bars]
    return {"title": title, "shapes": shapes, "rows": rows}


def _x(share: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * share, 2)


def _y(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * share, 2)


def _range(bar: Bar) -> str:
    return f"{100 * bar.low:.0f} to {100 * bar.high:.0f}{THIN}%"


def _tiles(found: dict[str, Any], bars: Sequence[Bar], temperature: float | None) -> list[dict[str, str]]:
    error, scaled, chance = (number(found.get(key)) for key in ("ece", "ece_scaled", "ece_by_chance"))
    made = f"of {count(sum(bar.count for bar in bars), 'prediction', 'predictions')}"
    rows = [("Calibration error (ECE)", percent(error), made if chance is None else f"about {percent(chance)} by chance")]
    if temperature is not None:
        direction = "above 1: the network is overconfident" if temperature > 1 else "below 1: the network is underconfident"
        rows.append(("After scaling", percent(scaled), "on samples that T was not fitted on"))
        rows.append(("Temperature T", f"{temperature:.2f}", direction))
    return [{"name": name, "value": value, "note": note} for name, value, note in rows]


def _paragraphs(contents: Contents, found: dict[str, Any], bars: Sequence[Bar], scaled: Sequence[Bar]) -> list[str]:
    """Say what to expect of a confidence, before and after scaling."""
    first = f"{_overall(bars)} {_surest(bars).sentence('Of the')}"
    error, chance = number(found.get("ece")), number(found.get("ece_by_chance"))
    if error is not None and chance is not None and error <= 1.5 * chance:
        first += (
            f" With {count(sum(bar.count for bar in bars), 'sample', 'samples')} a perfectly calibrated network would show a "
            f"calibration error of about {percent(chance)} too: the {percent(error)} measured here can be chance."
        )
    if not scaled:
        return [first, reason] if isinstance(reason := found.get("reason"), str) else [first]
    second = (
        f"{_surest(scaled).sentence('After temperature scaling, of the')} Scaling changes the confidences, never the predicted "
        "class; the saved model applies it to all its predictions."
    )
    if contents.measured_by == "crossfit":
        second += (
            " The temperature is that of the networks of the cross-fit; the saved model, trained on all labels, may need a "
            "slightly different one."
        )
    return [first, second]


def _surest(bars: Sequence[Bar]) -> Bar:
    """Bin of the highest confidence with enough predictions; else the fullest one."""
    return next((bar for bar in reversed(bars) if bar.count >= FEW), max(bars, key=lambda bar: bar.count))


def _overall(bars: Sequence[Bar]) -> str:
    samples = sum(bar.count for bar in bars)
    confidence = sum(bar.count * bar.confidence for bar in bars) / samples
    accuracy = sum(bar.count * bar.accuracy for bar in bars) / samples
    # two standard deviations of the accuracy if each prediction is right with its confidence
    chance = 2 * math.sqrt(sum(bar.count * bar.confidence * max(0.0, 1 - bar.confidence) for bar in bars)) / samples
    if abs(confidence - accuracy) <= chance:
        judged = f"as far as {count(samples, 'sample', 'samples')} can tell, the two agree"
    else:
        judged = "it is overconfident" if confidence > accuracy else "it is underconfident"
    right = f"{percent(accuracy)} of its predictions are right"
    return f"On average the network is {percent(confidence)} confident, and {right}: {judged}."
