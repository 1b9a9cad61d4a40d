"""Numbers, names and lists as messages show them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

MINUS = "\u2212"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def duration(seconds: float) -> str:
    """'12 s', '3.4 min', '5.2 h', '3.1 days'."""
    if seconds < 90:
        return f"{seconds:.3g} s"
    for unit, size in (("min", 60.0), ("h", 3600.0), ("days", 86400.0)):
        if seconds < 90 * size or unit == "days":
            return f"{seconds / size:.1f} {unit}"
    raise AssertionError("unreachable")


def percent(fraction: float | None) -> str:
    """Format a fraction as '2.6 %', or as a dash where it is not known."""
    return "–" if fraction is None else f"{100 * fraction:.1f} %"


def signed(fraction: float) -> str:
    """Format a difference in percentage points: '−12.8'; with a second decimal where the first would show none."""
    points = 100 * fraction
    text = f"{points:+.{2 if points and abs(points) < 0.05 else 1}f}"
    return text[1:] if not float(text) else text.replace("-", MINUS)


def printable(text: str) -> str:
    """Show control characters, which could change a terminal, as \\x1b; line breaks stay."""
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def as_json(value: Any) -> str:
    """Format a result as JSON: paths and dates become texts, NaN and infinity null."""
    plain = json.loads(json.dumps(value, default=str), parse_constant=lambda _: None)
    return json.dumps(plain, indent=1, ensure_ascii=False)


def some(texts: Sequence[str], shown: int = 3) -> str:
    """The first few as they are, and how many more there are: "row 2; row 5; row 7; and 12 more"."""
    return "; ".join(texts[:shown]) + (f"; and {len(texts) - shown:,} more" if len(texts) > shown else "")


def quoted(names: Sequence[str], shown: int = 5, what: str = "") -> str:
    """The first few names in quotes, and how many more there are: "'cat', 'dog' and 12 more classes".

    Args:
        what: the further ones are, if that has to be said.
    """
    rest = f" and {len(names) - shown:,} more {what}".rstrip() if len(names) > shown else ""
    return ", ".join(map(repr, names[:shown])) + rest
