"""Numbers, names and lists in messages."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that move the cursor, clear the screen or reorder what is shown."""
MINUS = "\u2212"
MARKUP = re.compile(r"([\\`*_{}\[\]|~$#])")
"""Characters with a meaning in Markdown, or in GitHub's."""


def duration(seconds: float) -> str:
    """Format a time: '12 s', '3.4 min', '5.2 h', '3.1 days'."""
    if seconds < 90:
        return f"{seconds:.3g} s"
    unit, size = next((each for each in (("min", 60), ("h", 3600)) if seconds < 90 * each[1]), ("days", 86400))
    return f"{seconds / size:.1f} {unit}"


def percent(fraction: float | None) -> str:
    """Format a fraction as '2.6 %', or as a dash where it is not known."""
    return "–" if fraction is None else f"{100 * fraction:z.1f} %"


def series_of(channels: int, length: int) -> str:
    """Describe series: 'series of 140 values', '… in 3 channels'."""
    return f"series of {length:,} values{f' in {channels:,} channels' if channels > 1 else ''}"


def changed_lengths(longer: int, shorter: int) -> str:
    """Describe series that are brought to one length: '2 longer ones are cut at the end, …'."""
    cut = f"{longer:,} longer ones are cut at the end" if longer else ""
    return ", ".join(filter(None, (cut, f"{shorter:,} shorter ones continue with their last value" if shorter else "")))


def signed(fraction: float) -> str:
    """Format a difference in percentage points: '−12.8'; with a second decimal where the first would show none."""
    points = 100 * fraction
    text = f"{points:+.{2 if points and abs(points) < 0.05 else 1}f}"
    return text[1:] if not float(text) else text.replace("-", MINUS)


def visible(text: str) -> str:
    r"""Show control characters as text: a file called "\x1b[2J" must not clear the screen of whoever reads its name."""
    return CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def plain(text: str) -> str:
    """Put a text on one line, without characters that break or turn lines or cannot be written."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def escape_markdown(text: str) -> str:
    """Escape a text so that Markdown shows it as it is, on one line."""
    safe = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKUP.sub(r"\\\1", safe)


def printable(path: Path | str) -> str:
    """Write a path in characters that can be written anywhere: bytes that are not UTF-8 become \\xff."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def visible_lines(text: str) -> str:
    """Show control characters as text, but keep line breaks."""
    return "\n".join(map(visible, text.split("\n")))


def as_json(value: Any) -> str:
    """Format a result as JSON: paths and dates become texts, NaN and infinity null."""
    plain = json.loads(json.dumps(value, default=str), parse_constant=lambda _: None)
    return json.dumps(plain, indent=1, ensure_ascii=False)


def some(texts: Sequence[str], shown: int = 3) -> str:
    """List the first few and count the rest: "row 2; row 5; row 7; and 12 more"."""
    return "; ".join(texts[:shown]) + (f"; and {len(texts) - shown:,} more" if len(texts) > shown else "")


def quoted(names: Sequence[str], shown: int = 5, what: str = "") -> str:
    """List the first few names in quotes and count the rest: "'cat', 'dog' and 12 more classes"."""
    rest = f" and {len(names) - shown:,} more {what}".rstrip() if len(names) > shown else ""
    return ", ".join(map(repr, names[:shown])) + rest


def aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Put cells into columns, each aligned to its side, "<" or ">": a line for each row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{c:{s}{w}}" for c, s, w in zip(row, sides, widths, strict=True)).rstrip() for row in rows]
