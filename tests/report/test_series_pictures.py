"""Pictures of series in the report: lines, grey pictures, their words, and files of another form."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import softmatch
from softmatch.report import render
from softmatch.report.run_contents import Contents, read
from softmatch.report.series_pictures import pictures_section
from softmatch.runs.folder import RunFolder


def sample(values: Any, **other: Any) -> dict[str, Any]:
    about = {"group": "mistake", "name": "7", "label": "a", "predicted": "b", "confidence": 0.91, "channels": 1, "length": 5}
    return {**about, "values": values, **other}


def pictures(*samples: Any) -> list[dict[str, Any]]:
    return [one for group in pictures_section(Contents(pictures={"samples": list(samples)})) for one in group["pictures"]]


def test_a_line_touches_both_edges_and_a_constant_is_in_the_middle() -> None:
    (found,) = pictures(sample([[0.0, 10.0, 5.0], [3.0, 3.0, 3.0]], channels=2))
    assert found["lines"] == ["0.0,86.0 120.0,4.0 240.0,45.0", "0.0,45.0 120.0,45.0 240.0,45.0"]
    assert found["alternative"] == "Sample 7: series of 5 values in 2 channels, from 0 to 10; shown are channels 1 to 2."
    assert (found["grey"], found["right"]) == (None, False)


def test_many_channels_are_a_grey_picture_with_the_first_at_the_bottom() -> None:
    (found,) = pictures(sample([[0.0, 0.0], *[[1.0, 2.0]] * 9], channels=10, group="doubtful"))
    levels = np.asarray(Image.open(io.BytesIO(base64.b64decode(found["grey"]))))
    assert levels.tolist() == [[128, 255]] * 9 + [[0, 0]]
    assert found["lines"] == []


@pytest.mark.parametrize(
    "damaged",
    [
        *(None, [], "x", sample(None), sample([]), sample([[1.0]]), sample([["x", 1.0]]), sample([[1.0, 2.0], [1.0]])),
        *(sample([[1.0, 2.0]], confidence="x"), sample([[1.0, 2.0]], group="other"), sample([[1.0, None]])),
    ],
)
def test_what_has_another_form_is_left_out(damaged: Any) -> None:
    assert pictures(damaged) == []


def test_a_recording_can_be_played_and_anything_else_cannot() -> None:
    spectrogram = [[0.0, 1.0]] * 10
    assert pictures(sample(spectrogram, channels=10, sound="UklGRg=="))[0]["sound"] == "UklGRg=="
    page = render(Contents(pictures={"samples": [sample(spectrogram, channels=10, sound='x"><script>')]}))
    assert "<audio" not in page
    assert "Series to look at" in page


def test_names_from_a_file_are_text_on_the_page() -> None:
    page = render(Contents(pictures={"samples": [sample([[0.0, 1.0]], name="<b>x", label='"><script>')]}))
    assert "<bdi>&lt;b&gt;x</bdi>" in page
    assert '"><script>' not in page


@pytest.mark.parametrize(("channels", "rows"), [(1, 1), (5, 3), (12, 12)])
def test_a_run_on_series_writes_its_mistakes(tmp_path: Path, channels: int, rows: int) -> None:
    drawn = np.random.default_rng(0)
    x, y = drawn.normal(size=(60, channels, 400)).astype(np.float32), np.array(["up", "down"])[np.arange(60) % 2]
    np.savez(tmp_path / "noise.npz", x=x, y=np.where(np.arange(60) < 40, y, ""))
    few = {"labeled_batch": 8, "unlabeled_batch": 8, "threads": 1, "folds": 2, "baseline": False, "network": "series-4"}
    run = softmatch.train(tmp_path / "noise.npz", arrays="series", steps=2, out=tmp_path / "run", **few).run
    samples = read(RunFolder(run)).pictures["samples"]
    assert {one["group"] for one in samples} == {"mistake", "doubtful"}
    assert all(one["label"] != one["predicted"] for one in samples if one["group"] == "mistake")
    sure = [one["confidence"] for one in samples if one["group"] == "mistake"]
    assert sure == sorted(sure, reverse=True)
    assert len({one["name"] for one in samples}) == len(samples) <= 16
    assert {len(one["values"]) for one in samples} == {rows}
    first = samples[0]
    if rows < 12:
        assert first["values"][0][0] == pytest.approx(float(x[int(first["name"]) - 1, 0, 0]), rel=1e-4)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert page.count("<polyline") == (len(samples) * rows if rows < 12 else 0)
    assert page.count("data:image/png;base64,") - page.count("img-src data:image") == (len(samples) if rows == 12 else 0)
