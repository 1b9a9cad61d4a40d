"""Recordings as spectrograms: known tones at their place, one scale for all, and whatever people have for sound files."""

import math
import struct
import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from softmatch.data.preparations import preparation_from
from softmatch.data.preparations.sounds import (
    BANDS,
    MOMENTS,
    RANGE,
    Header,
    SoundPreparation,
    as_wav,
    draw_spectrogram,
    fit_sounds,
    load_wave,
    mel_bands,
    read_header,
)
from softmatch.errors import InputError
from tests.recordings import tone, write_sound

Wave = npt.NDArray[np.float64]


def plain_spectrogram(samples: Wave, rate: int, bands: int, moments: int) -> Wave:
    """The definition, one moment and one band after the other."""
    hop = math.ceil(len(samples) / moments)
    window = 2 ** math.ceil(math.log2(max(0.025 * rate, 2 * hop)))
    around = np.pad(samples, window // 2)
    corners = 700 * (10 ** (np.linspace(*(2595 * math.log10(1 + f / 700) for f in (50, rate / 2)), bands + 2) / 2595) - 1)
    power = np.empty((bands, moments))
    for moment in range(moments):
        piece = around[moment * hop : moment * hop + window] * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window))
        spectrum = np.abs(np.fft.rfft(piece)) ** 2
        for band in range(bands):
            low, middle, high = corners[band : band + 3]
            below, above = max(middle - low, rate / window), max(high - middle, rate / window)
            weights = [
                max(0.0, min(1 - (middle - f) / below, 1 - (f - middle) / above)) for f in np.fft.rfftfreq(window, 1 / rate)
            ]
            power[band, moment] = spectrum @ np.array(weights)
    return np.clip(1 + 10 * np.log10(np.maximum(power / power.max(), 1e-8)) / RANGE, 0, 1)


@pytest.mark.parametrize(("rate", "seconds"), [(8000, 0.5), (16_000, 0.3), (8000, 3.0)])
def test_a_spectrogram_equals_its_definition(rate: int, seconds: float) -> None:
    made = SoundPreparation.for_length(rate, seconds)
    samples = np.random.default_rng(0).normal(size=made.length).cumsum() * 0.01
    found = made.spectrogram(torch.from_numpy(samples.astype(np.float32)))
    assert found.shape == made.shape
    assert made.shape[0] == BANDS
    assert made.shape[1] <= MOMENTS
    np.testing.assert_allclose(found.numpy(), plain_spectrogram(samples, rate, *made.shape), atol=2e-3)


def test_a_tone_is_in_its_band_and_loudness_does_not_count(tmp_path: Path) -> None:
    files = [
        write_sound(tmp_path / f"{number}.wav", tone(pitch, 0.4) * loud, subtype="FLOAT")
        for number, (pitch, loud) in enumerate([(500, 0.5), (500, 0.01), (2000, 0.5)])
    ]
    made = fit_sounds(files)
    assert not made.findings
    low, quiet, high = made.items
    assert torch.allclose(low, quiet, atol=0.1)
    assert low.mean(1).argmax() < high.mean(1).argmax()
    bands = mel_bands(BANDS, 256, 8000)
    assert abs(int(low.mean(1).argmax()) - int(bands[:, 16].argmax())) <= 1  # 500 Hz is the 16th of 128 steps to 4,000
    assert float(low.max()) == 1


def test_every_band_hears_something() -> None:
    for rate, window in ((8000, 256), (24_000, 1024), (1000, 32)):
        assert bool((mel_bands(BANDS, window, rate).sum(1) > 0).all())


def test_the_middle_is_used_and_shorter_ones_are_in_the_middle(tmp_path: Path) -> None:
    long, short = np.zeros(3000), np.zeros(500)
    long[1500], short[250] = 1, 1
    for samples in (long, short):
        path = write_sound(tmp_path / f"{len(samples)}.wav", samples)
        assert np.abs(load_wave(path, 8000, 1000)).argmax() == 500


def test_rates_and_channels_are_brought_together(tmp_path: Path) -> None:
    one = write_sound(tmp_path / "a.wav", tone(700, 0.5, 16_000), 16_000)
    fast = write_sound(tmp_path / "b.wav", tone(700, 0.5, 44_100), 44_100)
    stereo = write_sound(tmp_path / "c.flac", np.stack([tone(700, 0.5, 16_000)] * 2, 1), 16_000)
    made = fit_sounds([one, fast, stereo])
    assert isinstance(made.preparation, SoundPreparation)
    assert made.preparation.rate == 16_000
    assert [finding.level for finding in made.findings] == ["note"]
    assert "16,000 Hz (2), 44,100 Hz (1)" in made.findings[0].text
    assert (made.items[0] - made.items[1]).abs().mean() < 0.1
    assert torch.allclose(made.items[0], made.items[2], atol=0.02)
    low = write_sound(tmp_path / "d.wav", tone(700, 0.5), 8000)
    (found,) = (finding for finding in fit_sounds([one, stereo, low]).findings if "rates" in finding.text)
    assert found.level == "warning"
    assert "could learn the rate" in found.text


@pytest.mark.parametrize(("rate", "used"), [(8000, 8000), (44_100, 22_050), (48_000, 24_000), (96_000, 24_000)])
def test_high_rates_are_divided(tmp_path: Path, rate: int, used: int) -> None:
    made = fit_sounds([write_sound(tmp_path / "a.wav", tone(300, 0.2, rate), rate)])
    assert isinstance(made.preparation, SoundPreparation)
    assert made.preparation.rate == used


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.mp3", "a.aiff"])
def test_formats(tmp_path: Path, name: str) -> None:
    path = write_sound(tmp_path / name, tone(440, 1.0, 16_000), 16_000)
    header = read_header(path)
    assert header.rate == 16_000
    assert header.seconds == pytest.approx(1.0, abs=0.1)
    (item,) = SoundPreparation.for_length(16_000, 1.0)([path])
    plain = SoundPreparation.for_length(16_000, 1.0)([write_sound(tmp_path / "plain.wav", tone(440, 1.0, 16_000), 16_000)])[0]
    assert item.mean(1).argmax() == plain.mean(1).argmax()


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_24", "FLOAT", "DOUBLE", "ULAW"])
def test_sample_formats(tmp_path: Path, subtype: str) -> None:
    made = fit_sounds([write_sound(tmp_path / "a.wav", tone(440, 0.5), subtype=subtype)])
    plain = fit_sounds([write_sound(tmp_path / "b.wav", tone(440, 0.5))])
    assert made.items.mean(2).argmax() == plain.items.mean(2).argmax()


def test_what_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    good = [write_sound(tmp_path / f"{number}.wav", tone(300 + number, 0.3)) for number in range(7)]
    bad = {name: tmp_path / name for name in ("empty.wav", "text.wav", "cut.flac", "nan.wav", "inf.wav", "none.wav", "gone.wav")}
    bad["empty.wav"].write_bytes(b"")
    bad["text.wav"].write_text("not a sound, but a text that is named like one\n" * 20)
    whole = write_sound(tmp_path / "whole.flac", tone(300, 0.3)).read_bytes()
    bad["cut.flac"].write_bytes(whole[:20])
    write_sound(bad["nan.wav"], np.array([0.1, np.nan] * 500), subtype="FLOAT")
    write_sound(bad["inf.wav"], np.array([0.1, np.inf] * 500), subtype="FLOAT")
    write_sound(bad["none.wav"], np.zeros(0))
    made = fit_sounds([*good, *bad.values()])
    assert made.kept == list(range(7))
    assert len(made.items) == len(made.contents or ()) == 7
    (found,) = made.findings
    assert found.level == "warning"
    assert found.text.startswith("7 of 14 recordings cannot be read")
    said = "\n".join(found.places)
    for name, reason in (
        ("empty", "the file is empty"),
        ("nan", "not finite numbers"),
        ("inf", "not finite numbers"),
        ("none", "no samples"),
        ("gone", "No such file"),
    ):
        assert f"{name}.wav: " in said
        assert reason in said.split(f"{name}.wav: ")[1].splitlines()[0]
    assert {finding.level for finding in fit_sounds([*good[:2], *bad.values()]).findings} == {"stop"}
    with pytest.raises(InputError, match=r"the recording .*text\.wav cannot be read"):
        SoundPreparation.for_length(8000, 0.3)([bad["text.wav"]])


def test_the_content_decides_whatever_the_name_ends_with(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.wav", tone(440, 0.3))
    plain = fit_sounds([path])
    wrong = path.rename(tmp_path / "a.mp3")
    made = fit_sounds([wrong])
    assert torch.equal(made.items, plain.items)
    assert not made.findings


def test_a_file_that_ends_early_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"".join(struct.pack("<h", int(9000 * value)) for value in tone(440, 1.0)))
    path.write_bytes(path.read_bytes()[:8000])
    assert fit_sounds([path]).items.isfinite().all()


def test_odd_recordings_are_named(tmp_path: Path) -> None:
    usual = [write_sound(tmp_path / f"{number}.wav", tone(400 + 9 * number, 0.3)) for number in range(40)]
    hour = write_sound(tmp_path / "hour.wav", np.tile(tone(400, 1.0), 60))
    silent = write_sound(tmp_path / "silent.wav", np.zeros(2400))
    tick = write_sound(tmp_path / "tick.wav", np.array([0.5]))
    made = fit_sounds([*usual, hour, silent, tick])
    assert isinstance(made.preparation, SoundPreparation)
    assert made.preparation.length == 2400
    said = {finding.level + ": " + finding.text for finding in made.findings}
    assert any("far longer than the others" in text and "hour.wav' (60 s)" in text for text in said)
    assert any("without a sound" in text and "silent.wav'" in text for text in said)
    assert any("less than 0.025 s" in text and "tick.wav'" in text for text in said)
    assert not made.items[41].any()
    assert made.items.isfinite().all()


def test_what_was_too_loud_is_named(tmp_path: Path) -> None:
    files = [
        write_sound(tmp_path / "full.wav", 2 * tone(440, 0.3)),
        write_sound(tmp_path / "loud.wav", np.clip(6 * tone(440, 0.3), -1, 1)),
        write_sound(tmp_path / "loud8.wav", np.clip(6 * tone(440, 0.3, 16_000), -1, 1), 16_000, "PCM_U8"),
        write_sound(tmp_path / "still.wav", np.full(2400, 0.5)),
    ]
    (found,) = (finding for finding in fit_sounds(files).findings if "clipping" in finding.text)
    assert found.level == "note"
    assert found.places == ("'" + str(files[1]) + "'", "'" + str(files[2]) + "'")


def test_a_hundred_thousand_files_are_looked_at_before_any_is_decoded(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.wav", tone(440, 0.1))
    with pytest.raises(InputError, match=r"100,000 spectrograms would take .* GB of memory\. Give fewer"):
        fit_sounds([path] * 100_000, names=["a"] * 100_000, limit=2**27)


def test_it_is_saved_and_made_again(tmp_path: Path) -> None:
    files = [write_sound(tmp_path / "a.wav", tone(440, 0.4))]
    made = fit_sounds(files)
    again = preparation_from(made.preparation.settings(), made.preparation.tensors())
    assert torch.equal(again(files), made.items)
    assert again.describe() == "spectrograms of 64 bands × 40 moments of 0.4 s at 8,000 Hz"
    with pytest.raises(InputError, match="something else"):
        again(np.zeros((2, 100)))
    for wrong in ({"rate": 0}, {"shape": [64]}, {"length": 2**40}, {"shape": [64, 0]}):
        with pytest.raises(InputError, match="damaged"):
            preparation_from({**made.preparation.settings(), **wrong}, {})


def test_too_many_for_memory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 spectrograms would take"):
        fit_sounds([write_sound(tmp_path / "a.wav", tone(440, 0.4))], limit=1000)


@pytest.mark.parametrize(
    ("rate", "seconds", "played"), [(8000, 0.5, (8000, 4000)), (24_000, 6.0, (10_922, 65_532)), (24_000, 10.0, (8000, 65_536))]
)
def test_a_report_plays_what_is_used_of_it(tmp_path: Path, rate: int, seconds: float, played: tuple[int, int]) -> None:
    path = write_sound(tmp_path / "a.wav", tone(500, seconds, rate), rate)
    (tmp_path / "played.wav").write_bytes(SoundPreparation.for_length(rate, seconds).as_wav(path))
    assert read_header(tmp_path / "played.wav") == Header(*played)


def test_a_page_can_draw_and_play_it(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.mp3", np.stack([tone(500, 0.5, 16_000)] * 2, 1), 16_000)
    (tmp_path / "played.wav").write_bytes(as_wav(path, 0.25))
    assert read_header(tmp_path / "played.wav") == Header(16_000, 4000)
    picture = draw_spectrogram(path)
    assert picture.height == 4 * BANDS
    columns = np.asarray(picture)[:, picture.width // 2]
    assert columns.argmax() > picture.height / 2  # a low tone is in the lower half
