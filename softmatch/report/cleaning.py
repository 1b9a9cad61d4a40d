"""Records of a run as the report can rely on: what has another form than it should is left out, whoever has written it."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]

LARGEST = 1e100
"""No figure of a run is larger: sums and products of such numbers are still numbers."""
CLASS_FIGURES = ("samples", "quantity", "quality", "unaligned_quantity")


def number(value: Any) -> float | None:
    """A finite number, or None for anything else."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) <= LARGEST else None  # NaN is not less than anything


def mapping(value: Any) -> dict[str, Any]:
    """Itself, or nothing where it is something else."""
    return value if isinstance(value, dict) else {}


def figures(value: Any) -> list[float | None] | None:
    """A list of figures, None where one is missing; None where it is no list, or an empty one."""
    return [number(item) for item in value] if isinstance(value, list) and value else None


def clean_record(record: Record) -> Record:
    """A record whose parts are what their names say: lists of figures in mappings."""
    curve = _lists(record, "curve", ("confidence", "weight"))
    parts = {
        "histogram": _lists(record, "histogram", ("all", "wrong", "right"), gaps=False),
        "classes": _lists(record, "classes", CLASS_FIGURES),
        "curve": curve if len(curve) == 2 else None,
        "statistics": {name: _statistic(value) for name, value in mapping(record.get("statistics")).items()},
        "test_class_errors": figures(record.get("test_class_errors")),
    }
    return {key: value for key, value in record.items() if key not in parts} | {key: part for key, part in parts.items() if part}


def clean_boundary(found: dict[str, Any]) -> dict[str, Any]:
    """Points and probabilities on a grid; nothing where the grid is none."""
    x, y = figures(found.get("x")), figures(found.get("y"))
    rows = [figures(row) for row in found["probs"]] if isinstance(found.get("probs"), list) else []
    if not x or not y or not rows or None in (x[0], x[-1], y[0], y[-1]) or any(row is None for row in rows):
        return {}
    points = [figures(point) for point in found["points"]] if isinstance(found.get("points"), list) else []
    whole = [point is not None and len(point) == 2 and None not in point for point in points]
    return {
        "x": x,
        "y": y,
        "probs": [[min(max(p or 0.0, 0.0), 1.0) for p in row or ()] for row in rows],
        "points": points if all(whole) else [],
        "truth": _positions(found.get("truth")),
        "labeled": _positions(found.get("labeled")),
    }


def _lists(record: Record, key: str, names: tuple[str, ...], gaps: bool = True) -> dict[str, list[float | None]]:
    """Those of the named lists that there are.

    Args:
        gaps: whether a figure may be missing.
    """
    found = {name: figures(mapping(record.get(key)).get(name)) for name in names}
    return {name: values for name, values in found.items() if values is not None and (gaps or None not in values)}


def _statistic(value: Any) -> float | list[float | None] | None:
    return figures(value) if isinstance(value, list) else number(value)


def _positions(value: Any) -> list[int]:
    return [item for item in value if type(item) is int] if isinstance(value, list) else []
