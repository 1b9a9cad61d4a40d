"""Section of the report on the error against the number of labels, where `softmatch curve` has measured it."""

import math
from typing import Any

from softmatch.report.pages import count, percent
from softmatch.report.run_contents import Contents, mapping, number, pair

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 620, 14, 252


def curve_section(contents: Contents) -> dict[str, Any] | None:
    """Points with their whiskers in a diagram, the same as rows, and the sentences; None where there is no curve."""
    found = curve_points(contents.curve)
    if found is None:
        return None
    points = found["points"]
    few, many = (math.log(pick(point["labels"] for point in points)) for pick in (min, max))
    top = _round_up(max(point["high"] for point in points))

    def place(labels: float) -> float:
        return round(LEFT + 24 + (RIGHT - LEFT - 48) * (math.log(labels) - few) / max(many - few, 1e-9), 1)

    def height(error: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * error / top, 1)

    for point in points:
        point |= {"x": place(point["labels"]), "y": height(point["error"])}
        point |= {"from": height(point["low"]), "to": height(point["high"])}
        point["row"] = (count(point["labels"]), percent(point["error"]), f"{percent(point['low'])} to {percent(point['high'])}")
    said = [found[key] for key in ("verdict", "tested") if found[key]]
    ticks = [{"y": height(top * share / 4), "text": percent(top * share / 4)} for share in range(5)]
    frame = {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM, "width": WIDTH, "height": HEIGHT}
    return {"points": _spaced(points), "sentences": said, "ticks": ticks, **frame}


def curve_points(curve: dict[str, Any]) -> dict[str, Any] | None:
    """Points and sentences of a run's curve.json; None where there is no curve."""
    points = [*_points(curve, "measured"), *_points(curve, "predicted")]
    said = {key: text if isinstance(text := curve.get(key), str) else "" for key in ("verdict", "tested")}
    return {"points": points, **said} if len(points) >= 2 else None


def _points(curve: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = curve.get(key)
    points = []
    for one in map(mapping, found if isinstance(found, list) else ()):
        labels, error, ends = number(one.get("labels")), number(one.get("error")), pair(one.get("interval"))
        if not labels or labels < 1 or error is None or ends is None or min(error, *ends) < 0 or max(error, *ends) > 1:
            continue
        points.append({"labels": labels, "error": error, "low": ends[0], "high": ends[1], "predicted": key == "predicted"})
    return points


def _round_up(value: float) -> float:
    """A round share above this one, for the top of the diagram."""
    return next((top for top in (0.02, 0.04, 0.08, 0.12, 0.2, 0.4, 0.6, 0.8) if value <= top), 1.0)


def _spaced(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out numbers of labels that would be printed over the one before."""
    last = -math.inf
    for point in points:
        point["named"] = point["x"] - last >= 34
        last = point["x"] if point["named"] else last
    return points
