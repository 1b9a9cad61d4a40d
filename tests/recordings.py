"""Recordings that are made by the tests."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def tone(pitch: float, seconds: float, rate: int = 8000) -> npt.NDArray[np.float64]:
    """A tone of one frequency with a soft begin and end."""
    times = np.arange(round(seconds * rate)) / rate
    return 0.5 * np.sin(2 * np.pi * pitch * times) * np.sin(np.pi * times / seconds)


def write_sound(path: Path, samples: npt.NDArray[Any], rate: int = 8000, subtype: str | None = None) -> Path:
    """Write samples, or (samples, channels), in the format that the name ends with."""
    import soundfile  # type: ignore[import-untyped]  # has no types

    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, subtype)
    return path


def two_birds(folder: Path, labelled: int, unlabelled: int, seed: int = 0) -> Path:
    """A folder of rising and falling calls in noise, some of them without a label."""
    rng = np.random.default_rng(seed)
    for number in range(2 * labelled + unlabelled):
        kind = "rising" if number % 2 else "falling"
        where = folder / (kind if number < 2 * labelled else "unlabeled")
        times = np.arange(2400) / 8000
        pitch = 800 + 400 * rng.random() + (1500 if kind == "rising" else -1500) * times + (0 if kind == "rising" else 450)
        samples = 0.3 * np.sin(2 * np.pi * np.cumsum(pitch) / 8000) + 0.02 * rng.normal(size=2400)
        write_sound(where / f"call {number}.wav", samples)
    return folder
