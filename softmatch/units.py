"""Numbers with units, for people."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """'12 s', '3.4 min', '5.2 h', '3.1 days'."""
    if seconds < 90:
        return f"{seconds:.3g} s"
    for unit, size in (("min", 60.0), ("h", 3600.0), ("days", 86400.0)):
        if seconds < 90 * size or unit == "days":
            return f"{seconds / size:.1f} {unit}"
    raise AssertionError("unreachable")
