"""Numbers, names and lists in messages."""

from __future__ import annotations

from collections.abc import Sequence

MINUS = "\u2212"


def duration(seconds: float) -> str:
    """Format a time: '12 s', '3.4 min', '5.2 h', '3.1 days'."""
    if seconds < 90:
        return f"{seconds:.3g} s"
    unit, size = next((each for each in (("min", 60), ("h", 3600)) if seconds < 90 * each[1]), ("days", 86400))
    return f"{seconds / size:.1f} {unit}"


def percent(fraction: float | None) -> str:
    """Format a fraction as '2.6 %', or as a dash where it is not known."""
    return "–" if fraction is None else f"{100 * fraction:z.1f} %"


def signed(fraction: float) -> str:
    """Format a difference in percentage points: '−12.8'; with a second decimal where the first would show none."""
    points = 100 * fraction
    text = f"{points:+.{2 if points and abs(points) < 0.05 else 1}f}"
    return text[1:] if not float(text) else text.replace("-", MINUS)


def some(texts: Sequence[str], shown: int = 3) -> str:
    """List the first few and count the rest: "row 2; row 5; row 7; and 12 more"."""
    return "; ".join(texts[:shown]) + (f"; and {len(texts) - shown:,} more" if len(texts) > shown else "")


def quoted(names: Sequence[str], shown: int = 5, what: str = "") -> str:
    """List the first few names in quotes and count the rest: "'cat', 'dog' and 12 more classes".

    Args:
        what: noun for the rest, where it is needed.
    """
    rest = f" and {len(names) - shown:,} more {what}".rstrip() if len(names) > shown else ""
    return ", ".join(map(repr, names[:shown])) + rest
