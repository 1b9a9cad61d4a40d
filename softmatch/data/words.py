"""Turns of phrase that messages about data share."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN = 3


def some(texts: Sequence[str]) -> str:
    """The first few, and how many more there are: "row 2; row 5; row 7; and 12 more"."""
    return "; ".join(texts[:SHOWN]) + (f"; and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else "")
