"""Numbers as the report writes them."""

from __future__ import annotations

from typing import Any

from softmatch.formatting import MINUS
from softmatch.report.run_contents import number

THIN = "\u202f"  # narrow no-break space, between thousands and before units


def count(value: Any, one: str = "", many: str = "") -> str:
    """1 234, or with a noun: 1 label, 40 labels."""
    found = number(value)
    text = "?" if found is None else f"{round(found):,}".replace(",", THIN)
    return f"{text} {one if found == 1 else many}".strip()


def percent(fraction: float) -> str:
    return f"{_decimal(fraction * 100)}{THIN}%"


def _decimal(value: float) -> str:
    text = f"{abs(value):,.1f}".replace(",", THIN)
    return (MINUS if value < 0 and float(text.replace(THIN, "")) else "") + text


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f}{THIN}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{THIN}min {rest}{THIN}s"
    return f"{minutes // 60}{THIN}h {minutes % 60:02d}{THIN}min"


def pair(value: Any) -> tuple[float, float] | None:
    """Both bounds of an interval, or None where one is missing."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    low, high = number(value[0]), number(value[1])
    return None if low is None or high is None else (low, high)
