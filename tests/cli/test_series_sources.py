"""Series from every kind of source: trained on, predicted and named by the command line, and by a Classifier."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import softmatch
from softmatch.errors import InputError
from softmatch.runs.model import load_model
from tests.cli.conftest import Said

CLASSES = ("slow", "fast")
TINY = {"steps": 3, "network": "series-8", "labeled_batch": 6, "unlabeled_batch": 12}
OPTIONS = ("--steps", "3", "--network", "series-8", "--unlabeled-batch", "12", "--threads", "1", "--no-baseline")
COLUMNS = {"series_column": "id", "time_column": "t", "label_column": "activity"}
NAMED = ("--series", "id", "--time", "t", "--label-column", "activity")


def waves(number: int, seed: int, even: bool = False) -> list[npt.NDArray[np.float64]]:
    """Slow and fast waves in turn, in two channels of 20 to 29 values."""
    drawn = np.random.default_rng(seed)
    lengths = [24] * number if even else drawn.integers(20, 30, number)
    turns = [np.array([[1.0 + 3 * (k % 2)], [2.0]]) * np.arange(length) / 8 for k, length in enumerate(lengths)]
    return [np.sin(turn + drawn.uniform(0, 6)) + 0.1 * drawn.normal(size=turn.shape) for turn in turns]


def text(values: Sequence[float], mark: str = ",") -> str:
    return mark.join(f"{value:.4f}" for value in values)


def write(name: str, number: int, seed: int, labels: int) -> None:
    """Write waves in the form that the name of the file says; the first of them have a label."""
    rows = waves(number, seed, even=name.endswith(".arff"))
    kinds = [CLASSES[k % 2] if k < labels else "?" for k in range(number)]
    both = list(zip(rows, kinds, strict=True))
    if name.endswith(".ts"):
        lines = ["@equalLength false", "@classLabel true slow fast", "@data"]
        lines += [f"{text(a)}:{text(b)}:{kind}" for (a, b), kind in both]
    elif name.startswith("multi"):
        lines = ["@attribute x relational", "@attribute t numeric", "@end x", "@attribute class {slow,fast}", "@data"]
        lines += [f"'{text(a)}\\n{text(b)}',{kind}" for (a, b), kind in both]
    elif name.endswith(".arff"):
        lines = [*(f"@attribute a{k} numeric" for k in range(24)), "@attribute class {slow,fast}", "@data"]
        lines += [f"{text(a)},{kind}" for (a, _), kind in both]
    else:
        number_of = {"slow": "1", "fast": "2", "?": ""}
        filled = [np.pad(a, (0, 30 - len(a)), constant_values=np.nan) for a, _ in rows]
        lines = [f"{number_of[kind]}\t{text(a, chr(9))}" for a, kind in zip(filled, kinds, strict=True)]
    Path(name).write_text("\n".join(lines) + "\n")


def write_readings(name: str, number: int, seed: int, labels: int) -> None:
    drawn = np.random.default_rng(seed)
    with Path(name).open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["t", "id", "x", "y", "activity"])
        for k, wave in enumerate(waves(number, seed)):
            for at in drawn.permutation(wave.shape[1]):
                rows.writerow([at * 0.02, f"walk {k}", *wave[:, at], CLASSES[k % 2] if k < labels else ""])


def names(file: str) -> list[str]:
    return [row["name"] for row in csv.DictReader(Path(file).read_text().splitlines())]


@pytest.mark.parametrize(
    ("name", "options"),
    [("W_TRAIN.ts", ()), ("uni_TRAIN.arff", ()), ("multi_TRAIN.arff", ()), ("P_TRAIN.tsv", ("--arrays", "series"))],
)
def test_a_run_on_a_file_of_the_archives(said: Said, name: str, options: tuple[str, ...]) -> None:
    test = name.replace("TRAIN", "TEST")
    write(name, 30, 0, 12)
    write(test, 10, 1, 10)
    checked = " ".join(said("check", name, *options).split())
    assert "12 labelled, 18 unlabelled" in checked
    assert "measured on 10 test samples" in checked
    assert f"{test}, beside {name}, is the test set" in checked
    assert ("are brought to" in checked) == (not name.endswith(".arff"))
    said("train", name, *options, *OPTIONS, "--out", "run")
    assert json.loads(Path("run/result.json").read_text())["evaluation"]["kind"] == "test"
    found = said("predict", "run", test, "--out", "new.csv")
    assert "error on the 10 samples" in found
    assert ("the model has series of one length" in found) == (not name.endswith(".arff"))
    assert names("new.csv") == [str(k) for k in range(1, 11)]


def test_a_run_on_a_table_of_readings(said: Said) -> None:
    write_readings("readings.csv", 30, 0, 12)
    write_readings("new.csv", 8, 1, 8)
    said("train", "readings.csv", *NAMED, *OPTIONS, "--out", "run", "--evaluation", "none")
    preparation: Any = load_model("run").preparation
    assert (preparation.columns, preparation.grid.series, preparation.grid.time) == (("x", "y"), "id", "t")
    assert preparation.grid.step == pytest.approx(0.02)
    assert "error on the 8 samples" in said("predict", "run", "new.csv", "--out", "new_out.csv")
    assert names("new_out.csv") == [f"walk {k}" for k in range(8)]
    lines = Path("new.csv").read_text().splitlines()
    other = [",".join(np.array(line.split(","))[[3, 2, 4, 1, 0]]) for line in lines]  # the same columns in another order
    Path("other.csv").write_text("\n".join(other).replace("id,", "who,", 1).replace(",id", ",who", 1) + "\n")
    said("predict", "run", "other.csv", "--series", "who", "--out", "other_out.csv")
    assert Path("other_out.csv").read_text() == Path("new_out.csv").read_text()
    assert "has no column 'id'" in said("predict", "run", "other.csv", code=2)
    assert "walk" in (said("suggest", "run", "-n", "3", "--out", "ask.csv") and Path("ask.csv").read_text())
    said("pseudo-labels", "run", "--out", "pool.csv")
    assert len(Path("pool.csv").read_text().splitlines()) == 31
    said("suggest", "readings.csv", *NAMED, "-n", "3", "--out", "first.csv")
    assert "walk" in Path("first.csv").read_text()


def test_labels_of_readings_in_a_file_of_their_own(said: Said) -> None:
    write_readings("readings.csv", 20, 0, 0)
    Path("labels.csv").write_text("name,label\n" + "".join(f"walk {k},{CLASSES[k % 2]}\n" for k in range(8)))
    found = " ".join(said("check", "readings.csv", *NAMED, "--labels-from", "labels.csv").split())
    assert "8 labelled, 12 unlabelled" in found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("W.ts", "--arrays", "vectors"), "--arrays vectors: this source holds series"),
        (("W.ts", "--label-column", "kind"), "--label names columns of a table"),
        (("readings.csv", "--time", "t"), "also name the column of the series with --series"),
        (("digits", "--series", "id"), "--series-column is for data of your own"),
    ],
)
def test_options_that_do_not_fit_are_refused(said: Said, words: tuple[str, ...], message: str) -> None:
    write("W.ts", 8, 0, 8)
    write_readings("readings.csv", 6, 0, 6)
    assert message in " ".join(said("check", *words, code=2).split())


def test_a_classifier_takes_files_frames_and_lists_of_series(folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    write("W_TRAIN.ts", 24, 0, 12)
    assert len(softmatch.Classifier(**TINY).fit("W_TRAIN.ts").predict("W_TRAIN.ts")) == 24
    write_readings("readings.csv", 24, 0, 12)
    frame = pandas.read_csv("readings.csv")
    fitted = softmatch.Classifier(**TINY, settings=COLUMNS).fit(frame)
    assert fitted.sample_names_ == [f"walk {k}" for k in range(24)]
    fitted.save(folder / "saved")
    loaded = softmatch.Classifier.load(folder / "saved")
    np.testing.assert_array_equal(loaded.predict_proba("readings.csv"), fitted.predict_proba(frame))
    rows = waves(24, 0)
    listed = softmatch.Classifier(**TINY).fit(rows, np.where(np.arange(24) < 12, np.arange(24) % 2, -1))
    assert listed.predict_proba(rows).shape == (24, 2)
    np.testing.assert_allclose(listed.predict_proba(rows[:1]), listed.predict_proba(rows)[:1], rtol=1e-5)
    with pytest.raises(InputError, match="series 1 has 1 channels; those of the training data have 2"):
        listed.predict([row[0] for row in rows])
