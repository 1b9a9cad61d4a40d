"""Section of the report with pictures of series: the surest mistakes, and the most doubtful predictions."""

import base64
import re
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from PIL import Image

from softmatch.formatting import series_of
from softmatch.report.pages import percent
from softmatch.report.run_contents import Contents, figures, mapping, number

WIDTH, HEIGHT, EDGE = 240, 90, 4
LINES = 3
"""Most channels that are drawn as lines."""
GREY_FROM = 9
"""Channels from which on a series, such as a spectrogram, is a grey picture of all of them."""
TITLES = {"mistake": "Surest mistakes", "doubtful": "Most doubtful"}


def pictures_section(contents: Contents) -> list[dict[str, Any]]:
    """Groups of pictures with their captions; empty for a run without series."""
    found = contents.pictures.get("samples")
    samples = [mapping(one) for one in found] if isinstance(found, list) else []
    made = [(str(one.get("group")), _picture(one)) for one in samples]
    groups = ({"title": title, "pictures": [p for group, p in made if group == name and p]} for name, title in TITLES.items())
    return [group for group in groups if group["pictures"]]


def _picture(one: dict[str, Any]) -> dict[str, Any] | None:
    """A series as lines or as a grey picture, with a text alternative; None for one that is damaged."""
    given = one.get("values")
    rows = [figures(row) for row in given] if isinstance(given, list) else []
    channels = [[value for value in row if value is not None] for row in rows if row]
    number_of, length, sure = (number(one.get(key)) for key in ("channels", "length", "confidence"))
    if not channels or len(channels) != len(rows) or len({*map(len, channels), *map(len, filter(None, rows))}) != 1:
        return None
    if number_of is None or length is None or sure is None or len(channels[0]) < 2:
        return None
    every = [value for row in channels for value in row]
    grey = len(channels) >= GREY_FROM
    sound = str(one.get("sound", ""))
    sound = sound if re.fullmatch(r"[A-Za-z0-9+/]+=*", sound) else ""
    drawn = "all channels, the first at the bottom, bright is high" if grey else f"channels 1 to {len(channels)}"
    what = f"{series_of(int(number_of), int(length))}, from {min(every):.4g} to {max(every):.4g}"
    what += f"; shown are {drawn}." if len(channels) > 1 else "."
    if sound:
        what = "spectrogram, low tones at the bottom, loud is bright."
    named = {key: str(one.get(key)) for key in ("name", "label", "predicted")}
    return {
        **named,
        "right": named["label"] == named["predicted"],
        "sure": percent(sure),
        "alternative": f"Sample {named['name']}: {what}",
        "sound": sound,
        "lines": [] if grey else [_line(row) for row in channels[:LINES]],
        "grey": _grey(channels) if grey else None,
    }


def _line(values: Sequence[float]) -> str:
    """Points of a polyline; the lowest and the highest value touch the edges."""
    low, high, last = min(values), max(values), len(values) - 1
    scale = (HEIGHT - 2 * EDGE) / (high - low) if high > low else 0.0
    middle = 0.0 if high > low else HEIGHT / 2 - EDGE
    points = (f"{WIDTH * k / last:.1f},{HEIGHT - EDGE - middle - scale * (v - low):.1f}" for k, v in enumerate(values))
    return " ".join(points)


def _grey(channels: Sequence[Sequence[float]]) -> str:
    """A PNG as text, channels × time, the first channel at the bottom."""
    low, high = min(map(min, channels)), max(map(max, channels))
    levels = bytes(round(255 * (v - low) / (high - low or 1.0)) for row in reversed(channels) for v in row)
    made = BytesIO()
    Image.frombytes("L", (len(channels[0]), len(channels)), levels).save(made, "PNG")
    return base64.b64encode(made.getvalue()).decode()
