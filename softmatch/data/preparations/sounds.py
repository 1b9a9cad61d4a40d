"""Sound files become log-mel spectrograms of one size: (bands, moments), loudness relative to the loudest of the recording."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from softmatch.data.preparations import Prepared
from softmatch.data.preparations.file_reading import by_threads, unreadable
from softmatch.data.records import Finding, InputKind, Inputs, Progress, UnreadableFile, about
from softmatch.errors import InputError, first_line
from softmatch.formatting import printable

BANDS, MOMENTS = 64, 128
"""Bands of a spectrogram, and the most moments that it has."""
HOP, WINDOW = 0.010, 0.025
"""Seconds from one moment to the next, and of the piece of sound around a moment; more where a recording is long."""
LOWEST = 50.0
"""Frequency in hertz at which the bands begin; they end at half the sampling rate."""
RANGE = 80.0
"""Decibels from the loudest moment down to what counts as silence."""
SILENT = 1e-10
FASTEST = 24_000
"""Highest sampling rate that is used; a higher one is divided by a whole number."""
LONGEST = 10.0
"""Seconds of a recording that are used at most."""
USUAL = 0.95
"""Share of the recordings that are used whole, as far as this limit allows."""
ODD = 10
"""A recording that many times as long as what is used of it is named."""
PLAYED = 60.0
"""Seconds of a recording that a page plays and draws at most."""
CLIPPED, FULL = 0.01, 0.98
"""A recording is cut off if this share of its samples repeats the loudest one, and that is nearly as loud as can be."""
LOWEST_RATE = 8000
LIGHT = 2**17
"""Bytes of a recording in a report: its rate is lowered to `LOWEST_RATE` for that, and then its ends are left out."""
LIMIT = 4 * 2**30
"""Bytes of spectrograms to hold in memory."""


class UnreadableSound(UnreadableFile):
    """A recording that cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the recording {printable(path)}", reason)


class Header(NamedTuple):
    """Sampling rate and length of a recording."""

    rate: int
    samples: int

    @property
    def seconds(self) -> float:
        """Duration."""
        return self.samples / self.rate


class SoundPreparation:
    """The middle of each recording, mixed to one channel, at one sampling rate; shorter ones get silence around them.

    Args:
        rate: samples in a second.
        length: samples that are used.
        shape: bands and moments of a spectrogram.
    """

    takes: InputKind = "sound"
    columns: tuple[str, ...] = ()

    def __init__(self, rate: int, length: int, shape: Sequence[int]) -> None:
        self.rate, self.length, self.shape = rate, length, tuple(shape)
        self._hop = math.ceil(length / self.shape[1])
        self._window = 2 ** math.ceil(math.log2(max(WINDOW * rate, 2 * self._hop)))

    @classmethod
    def for_length(cls, rate: int, seconds: float) -> "SoundPreparation":
        """Choose the size of spectrograms of so many seconds."""
        length = max(round(seconds * rate), 8)
        return cls(rate, length, (BANDS, min(max(math.ceil(seconds / HOP), 8), MOMENTS)))

    @classmethod
    def from_saved(cls, saved: Any, tensors: Mapping[str, Tensor]) -> "SoundPreparation":
        """Invert `settings`; there are no tensors."""
        return cls(saved.rate, saved.length, saved.shape)

    def settings(self) -> dict[str, Any]:
        return {"kind": "sound", "rate": self.rate, "length": self.length, "shape": list(self.shape)}

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def describe(self) -> str:
        bands, moments = self.shape
        return f"spectrograms of {bands} bands × {moments} moments of {self.length / self.rate:.2g} s at {self.rate:,} Hz"

    def __call__(self, inputs: Inputs) -> Tensor:
        """Make float32 (n, bands, moments), from 0 for silence to 1 for the loudest of each recording."""
        return self._made(sound_paths(inputs), None, {})[0]

    def read(self, inputs: Inputs, names: Sequence[str], progress: Progress | None = None) -> Prepared:
        """Make items of all recordings that can be read, and report the others."""
        failed = dict[int, UnreadableFile]()
        paths = sound_paths(inputs)
        cut = list[int]()
        items, contents = self._made(paths, progress, failed, cut)
        kept = [position for position in range(len(paths)) if position not in failed]
        quiet = (items.flatten(1).amax(1) == 0).tolist() if len(items) else []
        silent = [position for position, one in zip(kept, quiet, strict=True) if one]
        return Prepared(self, items, kept, about_sounds(failed, silent, cut, names), contents)

    def _made(
        self, paths: Sequence[Path], progress: Progress | None, failed: dict[int, UnreadableFile], cut: list[int] | None = None
    ) -> tuple[Tensor, list[bytes]]:
        """Make spectrograms and digests; with `cut`, collect errors, and the positions of what is cut off."""
        items, contents = torch.empty(len(paths), *self.shape), list[bytes]()
        for position, made in enumerate(by_threads(self._heard, paths, progress)):
            if not isinstance(made, UnreadableFile):
                items[len(contents)] = made[0]
                contents.append(made[1])
                if made[2] and cut is not None:
                    cut.append(position)
            elif cut is not None:
                failed[position] = made
            else:
                raise made
        return items[: len(contents)], contents

    def _heard(self, path: Path) -> tuple[Tensor, bytes, bool]:
        """Make the spectrogram and the digest of a recording, and tell whether it is cut off."""
        wave, own = _read_wave(path, self.rate, self.length)
        made = self.spectrogram(torch.from_numpy(_fitted(wave, own, self.rate, self.length)))
        return made, content_digest(path), _is_clipped(wave)

    def as_wav(self, path: Path) -> bytes:
        """Encode what is used of a recording as a small WAV."""
        rate = min(self.rate, max(LOWEST_RATE, self.rate * LIGHT // (2 * self.length)))
        length = min(round(self.length * rate / self.rate), LIGHT // 2)
        return _encoded(load_wave(path, rate, length), rate)

    def spectrogram(self, waves: Tensor) -> Tensor:
        """(…, samples) → (…, bands, moments)."""
        shape = torch.hann_window(self._window)
        parts = torch.stft(waves, self._window, self._hop, window=shape, pad_mode="constant", return_complex=True)
        power = self._bands @ parts[..., : self.shape[1]].abs().square()
        loudest = power.amax((-2, -1), keepdim=True)
        decibels = 10 * torch.log10((power / loudest.clamp_min(SILENT)).clamp_min(10 ** (-RANGE / 10)))
        return (1 + decibels / RANGE).clamp(0, 1) * (loudest > SILENT)

    @cached_property
    def _bands(self) -> Tensor:
        return mel_bands(self.shape[0], self._window, self.rate)


def mel_bands(number: int, window: int, rate: int) -> Tensor:
    """Triangles over the frequencies of a window, (number, window // 2 + 1): equal steps on the mel scale."""
    low, high = (2595 * math.log10(1 + hertz / 700) for hertz in (min(LOWEST, rate / 8), rate / 2))
    corners = 700 * (10 ** (torch.linspace(low, high, number + 2, dtype=torch.float64) / 2595) - 1)
    frequencies = torch.linspace(0, rate / 2, window // 2 + 1, dtype=torch.float64)
    # A triangle is at least one frequency wide: low bands would be empty.
    wide = torch.maximum(corners.diff(), torch.tensor(rate / window, dtype=torch.float64))[:, None]
    rising = 1 - (corners[1:-1, None] - frequencies) / wide[:-1]
    falling = 1 - (frequencies - corners[1:-1, None]) / wide[1:]
    return torch.minimum(rising, falling).clamp_min(0).float()


def fit_sounds(
    paths: Sequence[Path], progress: Progress | None = None, names: Sequence[str] | None = None, limit: int = LIMIT
) -> Prepared:
    """Choose rate and length by looking at all headers, and read everything that can be read."""
    names = [printable(path) for path in paths] if names is None else names
    headers, seconds = look_at(paths)
    if not headers:
        return SoundPreparation.for_length(FASTEST, 1.0).read(paths, names, progress)
    common = Counter(header.rate for header in headers.values()).most_common(1)[0][0]
    made = SoundPreparation.for_length(common // math.ceil(common / FASTEST), seconds)
    needed = 4 * math.prod(made.shape) * len(headers)
    if needed > limit:
        raise InputError(f"{len(headers):,} spectrograms would take {needed / 1e9:.1f} GB of memory. Give fewer recordings.")
    read = made.read(paths, names, progress)
    return read._replace(findings=[*read.findings, *about_lengths(headers, names, made.rate, made.length)])


def look_at(paths: Sequence[Path]) -> tuple[dict[int, Header], float]:
    """Read the headers of all recordings that can be read, by position; also how many seconds to use of each."""
    looked = dict(enumerate(by_threads(read_header, paths)))
    headers = {position: header for position, header in looked.items() if isinstance(header, Header)}
    durations = sorted(header.seconds for header in headers.values()) or [1.0]
    return headers, min(durations[math.ceil(USUAL * len(durations)) - 1], LONGEST)


def read_header(path: Path) -> Header:
    """Read sampling rate and length of a recording."""
    with _opened(path) as file:
        return Header(file.samplerate, file.frames)


def load_wave(path: Path, rate: int, length: int) -> npt.NDArray[np.float32]:
    """Read the middle `length` samples at this rate, the mean of all channels, with silence around what is shorter."""
    return _fitted(*_read_wave(path, rate, length), rate, length)


def hear(path: Path, rate: int, length: int) -> tuple[Tensor, bytes, bool]:
    """Read the middle of a recording at this rate, `length` samples at most, its digest, and whether it is cut off.

    One of less than a tenth of a second gets silence around it: encoders cannot hear less.
    """
    wave, own = _read_wave(path, rate, length)
    most = min(length, math.ceil(len(wave) * rate / own))
    return torch.from_numpy(_fitted(wave, own, rate, max(most, rate // 10))), content_digest(path), _is_clipped(wave)


def _read_wave(path: Path, rate: int, length: int) -> tuple[npt.NDArray[np.float32], int]:
    """Read as much of the middle as makes `length` samples at this rate; also its own rate."""
    with _opened(path) as file:
        wanted = math.ceil(length * file.samplerate / rate)
        file.seek(max(file.frames - wanted, 0) // 2)
        wave = file.read(wanted, dtype="float32", always_2d=True).mean(1)
        own = file.samplerate
    if not len(wave):
        raise UnreadableSound(path, "there are no samples in it")
    if not np.isfinite(wave).all():
        raise UnreadableSound(path, "it has samples that are not finite numbers")
    return wave, own


def _fitted(wave: npt.NDArray[np.float32], own: int, rate: int, length: int) -> npt.NDArray[np.float32]:
    """Bring a wave to another rate and to a length."""
    from scipy.signal import resample_poly  # takes half a second to import

    if own != rate:
        common = math.gcd(own, rate)
        wave = resample_poly(wave, rate // common, own // common)[:length]
    before = (length - len(wave)) // 2
    return np.pad(wave, (before, length - len(wave) - before)).astype(np.float32)


def as_wav(path: Path, seconds: float = PLAYED) -> bytes:
    """Encode the beginning of a recording, in one channel, as WAV."""
    with _opened(path) as file:
        wave = file.read(round(seconds * file.samplerate), dtype="float32", always_2d=True).mean(1)
        return _encoded(wave, file.samplerate)


def _encoded(wave: npt.NDArray[np.float32], rate: int) -> bytes:
    made = BytesIO()
    _library().write(made, np.clip(np.nan_to_num(wave), -1, 1), rate, "PCM_16", format="WAV")
    return made.getvalue()


def _is_clipped(wave: npt.NDArray[np.float32]) -> bool:
    """Tell whether many neighbours are equal and as loud as can be."""
    most = np.abs(wave).max()
    same = (np.abs(wave[1:]) == most) & (wave[1:] == wave[:-1])
    return bool(most >= FULL and same.sum() > CLIPPED * len(wave))


def draw_spectrogram(path: Path) -> Image.Image:
    """Draw the spectrogram of the beginning of a recording, time from left to right, high frequencies at the top."""
    header = read_header(path)
    made = SoundPreparation.for_length(header.rate, min(max(header.seconds, WINDOW), PLAYED))
    values = made([path])[0].flip(0)
    picture = Image.fromarray((255 * values).round().to(torch.uint8).numpy())
    return picture.resize((4 * picture.width, 4 * picture.height), Image.Resampling.BILINEAR)


def content_digest(path: Path) -> bytes:
    """Compute the SHA-256 digest of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise UnreadableSound(path, error.strerror or str(error)) from error


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a recording; whatever goes wrong in the block becomes UnreadableSound."""
    library = _library()
    try:
        if not path.stat().st_size:
            raise UnreadableSound(path, "the file is empty")
        with library.SoundFile(path) as file:
            if not file.frames:
                raise UnreadableSound(path, "there are no samples in it")
            yield file
    except (OSError, RuntimeError) as error:  # errors of soundfile are RuntimeErrors
        reason = getattr(error, "strerror", None) or getattr(error, "error_string", None) or first_line(error)
        raise UnreadableSound(path, str(reason).rstrip(".")) from error


def _library() -> Any:
    try:
        import soundfile
    except (ImportError, OSError) as error:  # OSError: its C library is missing
        raise InputError("sound files need soundfile: pip install 'softmatch[audio]'.") from error
    return soundfile


def about_sounds(
    failed: Mapping[int, UnreadableFile], silent: Sequence[int], cut: Sequence[int], names: Sequence[str]
) -> list[Finding]:
    """Report recordings at these positions that cannot be read, are silent, or are cut off."""
    found = unreadable(failed, names, "recordings")
    quiet, loud = ([repr(names[position]) for position in each] for each in (silent, cut))
    found += about("warning", "there are recordings without a sound", quiet, "Remove them if that is a mistake.")
    return found + about("note", "there are recordings cut off at full volume (clipping)", loud, "They may sound odd.")


def about_lengths(headers: Mapping[int, Header], names: Sequence[str], rate: int, length: int) -> list[Finding]:
    """Report lengths and sampling rates that may be a mistake, where `length` samples at this rate are used."""
    used, found = length / rate, list[Finding]()
    longer = {position: header.seconds for position, header in headers.items() if header.seconds > used + HOP}
    if longer:
        text = f"{len(longer):,} of {len(names):,} recordings are longer than {used:.2g} s, of which the middle is used"
        found.append(Finding("note", f"{text}. If that is too little, cut them into pieces first."))
    odd = [f"{names[position]!r} ({seconds:,.0f} s)" for position, seconds in longer.items() if seconds > ODD * used]
    found += about("warning", "there are recordings far longer than the others", odd, "Only their middle is used.")
    rates = Counter(header.rate for header in headers.values())
    if len(rates) > 1:
        kinds = ", ".join(f"{own:,} Hz ({count:,})" for own, count in rates.most_common(5))
        text = f"the recordings have different sampling rates: {kinds}. All are brought to {rate:,} Hz."
        lower = any(own < rate for own in rates)
        advice = " A model could learn the rate instead of the sound, if it differs between classes." if lower else ""
        found.append(Finding("warning" if lower else "note", text + advice))
    short = [repr(names[position]) for position, header in headers.items() if header.seconds < WINDOW]
    return found + about("warning", f"there are recordings of less than {WINDOW} s", short, "There is hardly anything to hear.")


def sound_paths(inputs: Inputs) -> Sequence[Path]:
    if isinstance(inputs, (Mapping, np.ndarray)) or any(not isinstance(each, Path) for each in inputs):
        raise InputError("a model of recordings takes sound files; these inputs are something else.")
    return inputs  # type: ignore[return-value]  # just checked
