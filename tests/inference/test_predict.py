"""Predictions on every kind of source: right, complete, in pieces, and whole or not at all."""

import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import softmatch
from softmatch.data.preparations import encoder_features as encoder_module
from softmatch.data.preparations.encoder_features import EncoderPreparation
from softmatch.data.records import Columns
from softmatch.errors import InputError
from softmatch.inference.predict import predict, predict_pieces, use_device
from softmatch.inference.prediction_summary import Predictions
from softmatch.inference.pseudo_labels import write_pseudo_labels
from softmatch.inference.suggest import suggest
from softmatch.inference.unlabeled_pool import open_pool
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model, set_temperature
from tests.forked import Forked
from tests.inference.conftest import read_csv
from tests.own.sources import write_csv
from tests.refusals import refused
from tests.tiny_encoder import make_text_encoder

GRADE = Columns(label="grade")


def matrix(rows: list[dict[str, str]]) -> np.ndarray:
    """The columns p_… as numbers."""
    return np.array([[float(value) for key, value in row.items() if key.startswith("p_")] for row in rows])


def test_a_table_is_predicted_as_the_model_does_in_pieces_of_any_size(table_folder: Path, tmp_path: Path) -> None:
    run, truth = table_folder / "run", table_folder / "truth.csv"
    done: list[int] = []
    found = predict(run, truth, tmp_path / "p.csv", GRADE, rows=50, device="cpu", progress=done.append)
    rows, given = read_csv(tmp_path / "p.csv"), read_csv(truth)
    assert list(rows[0]) == ["name", "label", "confidence", "p_g0", "p_g1", "p_g2", "problem"]
    assert [row["name"] for row in rows] == [str(k) for k in range(1, 179)]
    model = load_model(run)
    cells = {name: np.array([float(row[name]) for row in given]) for name in model.preparation.columns}
    expected = model.predict_proba(model.preparation(cells))
    assert np.abs(matrix(rows) - expected.numpy()).max() < 1e-5
    assert [row["label"] for row in rows] == [model.classes[k] for k in expected.argmax(-1)]
    assert np.allclose([float(row["confidence"]) for row in rows], expected.max(-1).values, atol=1e-5)
    wrong = sum(row["label"] != other["grade"] for row, other in zip(rows, given, strict=True))
    assert (found.known, found.error) == (178, wrong / 178)
    assert found.error_interval is not None
    assert found.error_interval[0] < found.error < found.error_interval[1]
    assert 0 < wrong < 60
    assert (found.samples, sum(found.counts.values()), found.problems) == (178, 178, 0)
    assert found.confidence == pytest.approx(float(expected.max(-1).values.mean()))
    assert done == [50, 100, 150, 178]
    assert "error on the 178 samples of this source with a label" in found.describe()
    predict(run, truth, tmp_path / "one.csv", rows=1, device="cpu")
    assert np.abs(matrix(read_csv(tmp_path / "one.csv")) - matrix(rows)).max() < 1e-5


def test_labels_are_compared_with_where_there_are_some(table_folder: Path, tmp_path: Path) -> None:
    found = predict(table_folder / "run", table_folder / "wine.csv", tmp_path / "p.csv", GRADE)
    assert found.known == 30
    assert found.error == 0.0
    assert found.error_interval == (0.0, pytest.approx(0.1135, abs=1e-4))  # Wilson's, of none in 30
    rows = read_csv(table_folder / "wine.csv")
    for number, row in enumerate(rows):
        row["grade"] = "strange" if number < 4 else ""
    strange = write_csv(tmp_path / "strange.csv", [tuple(row.values()) for row in rows], tuple(rows[0]))
    found = predict(table_folder / "run", strange, tmp_path / "s.csv", GRADE)
    assert (found.known, found.error, found.unknown_labels) == (0, None, 4)
    assert "4 samples have a label that is not a class of the model" in found.describe()
    unlabelled = write_csv(tmp_path / "none.csv", [tuple(row.values())[:-1] for row in rows], tuple(rows[0])[:-1])
    assert predict(table_folder / "run", unlabelled, tmp_path / "n.csv").error is None


def test_the_label_column_named_in_training_is_compared_with(table_folder: Path, tmp_path: Path) -> None:
    run, truth = table_folder / "run", table_folder / "truth.csv"
    expected = predict(run, truth, tmp_path / "named.csv", GRADE)
    found = predict(run, truth, tmp_path / "plain.csv")
    assert (found.known, found.error) == (178, expected.error)
    rows = read_csv(truth)
    renamed = write_csv(tmp_path / "r.csv", [tuple(row.values()) for row in rows], (*tuple(rows[0])[:-1], "label"))
    assert predict(run, renamed, tmp_path / "renamed.csv").error == expected.error  # found by its name, as before
    copy = shutil.copytree(run, tmp_path / "run")
    settings = yaml.safe_load((copy / "config.yaml").read_text(encoding="utf-8"))
    (copy / "config.yaml").write_text(yaml.safe_dump({**settings, "unlabeled": "g0"}), encoding="utf-8")
    assert predict(copy, truth, tmp_path / "word.csv").known == 178 - 59  # the word stands for "no label"
    (copy / "config.yaml").unlink()
    assert predict(copy, truth, tmp_path / "none.csv").known == 0


def test_parquet_holds_the_same_and_probabilities_can_be_left_out(table_folder: Path, tmp_path: Path) -> None:
    import pyarrow.parquet

    run, source = table_folder / "run", table_folder / "wine.csv"
    predict(run, source, tmp_path / "p.csv")
    predict(run, source, tmp_path / "p.parquet")
    predict(run, source, tmp_path / "short.csv", probabilities=False)
    rows, table = read_csv(tmp_path / "p.csv"), pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pylist()
    assert [row["label"] for row in rows] == [row["label"] for row in table]
    assert np.allclose([row["p_g1"] for row in table], matrix(rows)[:, 1], atol=1e-5)
    assert {row["problem"] for row in table} == {None}
    assert read_csv(tmp_path / "short.csv") == [
        {key: row[key] for key in ("name", "label", "confidence", "problem")} for row in rows
    ]


def test_frames_and_arrays_can_be_given(table_folder: Path, tmp_path: Path) -> None:
    import pandas

    frame = pandas.read_csv(table_folder / "truth.csv")
    found = predict(table_folder / "run", frame, tmp_path / "p.csv", GRADE)
    assert (found.samples, found.known) == (178, 178)
    with pytest.raises(InputError, match=r"contains arrays of numbers; the model of .* was trained on tables of features"):
        predict(table_folder / "run", np.zeros((3, 13)), tmp_path / "q.csv")


def test_texts_in_a_table_and_a_text_itself(text_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(text_folder / "run", tmp_path / "run")
    found = predict(run, text_folder / "texts.csv")
    assert found.file == run / "predictions" / "texts.csv"
    assert (found.samples, found.known, found.error) == (90, 30, 0.0)
    assert list(read_csv(found.file)[0])[3:6] == ["p_animals", "p_food, drink", "p_travel"]
    for text in ("cat dog fur", "cat " * 3000, "no, this/that\nis no path: paw tail cat", "text:cat/paw", "cat/paw/tail"):
        single = predict(run, text)
        assert (single.file, single.samples) == (None, 1)
        assert single.likeliest[0][0] == "animals"
        assert sum(share for _, share in single.likeliest) == pytest.approx(1.0)
        assert single.describe().splitlines()[0].endswith("%  animals")
    refused("cat/paw is not a file or folder here. Give hub:cat/paw", predict, run, "cat/paw")
    assert [path.name for path in (run / "predictions").iterdir()] == ["texts.csv"]
    assert predict(run, "cat", tmp_path / "one.csv").file == tmp_path / "one.csv"
    assert [row["label"] for row in read_csv(tmp_path / "one.csv")] == ["animals"]
    for mistyped in ("missing.csv", "missing.npz"):
        refused("there is no file or folder", predict, run, mistyped)


def test_a_text_column_of_another_name(text_folder: Path, tmp_path: Path) -> None:
    other = write_csv(tmp_path / "o.csv", [("train ticket road", "x"), ("soup bread", "y")], ("words", "note"))
    with pytest.raises(InputError, match=r"has no column 'text': it has 'words', 'note'. .*: give --text"):
        predict(text_folder / "run", other, tmp_path / "p.csv")
    predict(text_folder / "run", other, tmp_path / "p.csv", Columns(text="words"))
    assert [row["label"] for row in read_csv(tmp_path / "p.csv")] == ["travel", "food, drink"]


def test_images_with_hard_names_and_one_that_cannot_be_read(image_folder: Path, tmp_path: Path) -> None:
    images = shutil.copytree(image_folder / "images", tmp_path / "images")
    model = load_model(image_folder / "run")
    assert model.classes == ('=a "0", b', '=a "1", b')
    before = predict(image_folder / "run", images, tmp_path / "before.csv")
    (images / "unlabeled" / "40a.png").write_bytes(b"no image")
    after = predict(image_folder / "run", images, tmp_path / "after.csv", rows=60)
    rows = {row["name"]: row for row in read_csv(tmp_path / "after.csv")}
    assert set(rows) == {path.relative_to(images).as_posix() for path in images.rglob("*.png")}
    bad = rows.pop("unlabeled/40a.png")
    assert "40a.png cannot be read" in bad["problem"]
    assert {bad[key] for key in bad if key not in ("name", "problem")} == {""}
    expected = read_csv(tmp_path / "before.csv")
    assert [row["label"] for row in rows.values()] == [row["label"] for row in expected]
    assert np.abs(matrix(list(rows.values())) - matrix(expected)).max() < 1e-5
    assert (after.samples, after.problems, after.known, after.error) == (81, 1, 30, before.error)
    assert "1 could not be used" in after.describe()
    assert before.problems == 0


def test_all_parts_of_a_folder_are_predicted(image_folder: Path, tmp_path: Path) -> None:
    for number, path in enumerate(sorted((image_folder / "images").rglob("*.png"))[:8]):
        place = tmp_path / "parts" / ("train", "test")[number % 2] / ("x", "y")[number // 2 % 2]
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    assert predict(image_folder / "run", tmp_path / "parts", tmp_path / "p.csv").samples == 8
    assert sum(row["name"].startswith("test/") for row in read_csv(tmp_path / "p.csv")) == 4


def test_a_single_image(image_folder: Path, tmp_path: Path) -> None:
    path = next((image_folder / "images" / "unlabeled").iterdir())
    found = predict(image_folder / "run", path)
    assert (found.file, found.samples, len(found.likeliest)) == (None, 1, 2)
    model = load_model(image_folder / "run")
    probs = model.predict_proba(model.preparation([path]))[0].sort(descending=True)
    assert found.likeliest == tuple((model.classes[k], pytest.approx(float(p))) for p, k in zip(*probs, strict=True))
    (tmp_path / "bad.png").write_bytes(b"")
    refused(r"^the image .*bad\.png cannot be read", predict, image_folder / "run", tmp_path / "bad.png")


def test_what_the_model_was_not_trained_on_is_refused(image_folder: Path, table_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"wine\.csv contains tables of features; the model of .* was trained on images \(grey"):
        predict(image_folder / "run", table_folder / "wine.csv")
    with pytest.raises(InputError, match=r"contains images; the model of .* was trained on tables of features \(13 features"):
        predict(table_folder / "run", image_folder / "images")
    short = write_csv(tmp_path / "short.csv", [(1, 2)], ("alcohol", "ash"))
    refused("no column 'malic_acid'", predict, table_folder / "run", short, tmp_path / "p.csv")
    assert not (image_folder / "run" / "predictions").exists()
    assert list(tmp_path.iterdir()) == [short]
    refused("is not the folder of a finished run", predict, tmp_path, short)


def test_a_folder_of_nothing_but_damaged_files_stops(image_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for number in range(3):
        (tmp_path / "images" / f"{number}.png").write_bytes(b"x")
    with pytest.raises(InputError, match=r"none of the first 3 samples can be used\. the image .*0\.png"):
        predict(image_folder / "run", tmp_path / "images", tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()


def test_rows_that_cannot_be_used_do_not_stop_the_others(tmp_path: Path) -> None:
    """The first and the last of a piece fail alone with the same words as the piece does."""
    x = np.random.default_rng(0).normal(size=(30, 2))
    y = ["a" if point[0] > 0 else "b" for point in x]
    softmatch.train((x, y), steps=2, baseline=False, evaluation="none", out=tmp_path / "run", device="cpu")
    good = predict(tmp_path / "run", x, tmp_path / "good.csv")
    x[[0, 13, 19, 29]] = np.nan
    found = predict(tmp_path / "run", x, tmp_path / "p.csv", rows=20)
    rows = read_csv(tmp_path / "p.csv")
    assert [row["name"] for row in rows if row["problem"]] == ["1", "14", "20", "30"]
    assert [row["label"] for row in rows if row["problem"]] == [""] * 4
    assert (good.problems, found.problems, found.samples) == (0, 4, 30)
    expected = {row["name"]: row["label"] for row in read_csv(tmp_path / "good.csv")}
    assert all(row["label"] == expected[row["name"]] for row in rows if not row["problem"])
    refused(r"^items are 3, those of the training data were 2", predict, tmp_path / "run", np.zeros((9, 3)), tmp_path / "q.csv")


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """texts.csv, encoder/, and run/ on the features of that."""
    folder = tmp_path_factory.mktemp("encoder")
    make_text_encoder(folder / "encoder")
    rows = [("the cat sat" if k % 2 else "a dog ran", str(k), ("A", "B")[k % 2] if k < 12 else "") for k in range(40)]
    write_csv(folder / "texts.csv", [(f"{text} {number}", label) for text, number, label in rows], ("text", "label"))
    settings = {"steps": 2, "baseline": False, "evaluation": "none", "device": "cpu"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTMATCH_CACHE", str(folder / "cache"))
        softmatch.train(str(folder / "texts.csv"), encoder=str(folder / "encoder"), out=folder / "run", **settings)
    return folder


@pytest.fixture
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("no_cache")
def test_a_changed_encoder_is_told_at_once(encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after its files have been looked at for every text."""
    taken, run = [], encoder_folder / "run"
    real = encoder_module.take_fingerprint

    def count(folder: Path) -> str:
        taken.append(folder)
        return real(folder)

    monkeypatch.setattr(encoder_module, "take_fingerprint", count)
    settings = encoder_folder / "encoder" / "config.json"
    before = settings.read_text()
    settings.write_text(before + "\n")
    try:
        with pytest.raises(InputError, match="is not the one that this model was trained with: its files have changed"):
            predict(run, encoder_folder / "texts.csv", tmp_path / "p.csv")
    finally:
        settings.write_text(before)
    assert len(taken) == 2
    assert not (tmp_path / "p.csv").exists()
    assert predict(run, encoder_folder / "texts.csv", tmp_path / "p.csv").samples == 40


@pytest.mark.usefixtures("no_cache")
def test_the_device_is_also_that_of_the_encoder(encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(encoder_folder / "run")
    use_device(model, torch.device("meta"))
    assert isinstance(model.preparation, EncoderPreparation)
    assert model.preparation.device.type == "meta"
    assert {parameter.device.type for parameter in model.network.parameters()} == {"meta"}
    real = encoder_module.choose_device  # a machine on which "auto" is a device that cannot compute

    def choose(name: str) -> torch.device:
        return torch.device("meta") if name == "auto" else real(name)

    monkeypatch.setattr(encoder_module, "choose_device", choose)
    run = shutil.copytree(encoder_folder / "run", tmp_path / "run")
    assert predict(run, encoder_folder / "texts.csv", device="cpu").problems == 0
    assert open_pool(run, device="cpu").model.preparation.device == torch.device("cpu")  # type: ignore[attr-defined]  # of an encoder
    assert len(suggest(run, 2, device="cpu").names) == 2
    assert write_pseudo_labels(run, device="cpu").samples == 40


def test_values_that_training_has_not_seen_are_counted_and_columns_are_kept(tmp_path: Path) -> None:
    columns = ("id", "city", "size", "when", "label")
    rows = [(f"x{k}", ("Ulm", "Bern")[k % 2], k, f"2024-01-{k % 28 + 1:02}", "AB"[k % 2] if k < 12 else "") for k in range(60)]
    source = write_csv(tmp_path / "t.csv", rows, columns)
    used = "city,size,when"
    settings = {"steps": 2, "baseline": False, "evaluation": "none", "device": "cpu", "feature_columns": used}
    softmatch.train(str(source), out=tmp_path / "run", **settings)
    known = predict(tmp_path / "run", source, tmp_path / "known.csv", keep=("id", "label"))
    assert known.unseen == {}
    assert [row["id"] for row in read_csv(tmp_path / "known.csv")] == [row[0] for row in rows]
    assert [row["source_label"] for row in read_csv(tmp_path / "known.csv")] == [row[-1] for row in rows]
    new = [
        *rows[:2],
        ("y1", "Rome", "large", "soon", ""),
        ("y2", "Rome", "", "2024-02-30", ""),
        ("y3", "Oslo", -5, "", ""),
        ("", "", 1, "", ""),
    ]
    found = predict(tmp_path / "run", write_csv(tmp_path / "new.csv", new, columns), tmp_path / "new-p.csv", rows=2)
    assert {name: (each.cells, set(each.examples)) for name, each in found.unseen.items()} == {
        "city": (3, {"Rome", "Oslo"}),
        "size": (1, {"large"}),
        "when": (2, {"soon", "2024-02-30"}),
    }
    said = found.describe()
    assert "column 'city': 3 cells have a value never or too rarely seen in training, such as 'Rome', 'Oslo'" in said
    assert "column 'size': 1 cell has a value never or too rarely seen in training, such as 'large'" in said
    refused("has no column 'idd'. Did you mean 'id'", predict, tmp_path / "run", source, keep=("idd",))


def test_nothing_is_overwritten(text_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(text_folder / "run", tmp_path / "run")
    names = [predict(run, text_folder / "texts.csv").file for _ in range(2)]
    assert [path.name for path in names if path is not None] == ["texts.csv", "texts-2.csv"]
    refused("never overwritten", predict, run, text_folder / "texts.csv", run / "predictions" / "texts.csv")


def test_only_a_piece_is_read_at_a_time(text_folder: Path, tmp_path: Path) -> None:
    """A row that is broken behind the first piece is met only after that has been predicted; then nothing is left behind."""
    source = write_csv(tmp_path / "t.csv", [("cat dog", 1)] * 20_000, ("text", "number"))
    with source.open("a") as file:
        file.write("bread,2,3\n")
    first = next(predict_pieces(load_model(text_folder / "run"), source, rows=10))
    assert (first.names[-1], first.probs.shape, first.labels) == ("10", (10, 3), [None] * 10)
    refused("row 20001", predict, text_folder / "run", source, tmp_path / "p.csv")
    assert list(tmp_path.iterdir()) == [source]


def test_an_interruption_leaves_nothing_that_looks_whole(text_folder: Path, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "t.csv", [("cat dog",)] * 50_000, ("text",))
    code = """
import sys
from softmatch.inference.predict import predict
predict(sys.argv[1], sys.argv[2], progress=lambda done: print(done, flush=True), rows=10, device="cpu")
"""
    run = shutil.copytree(text_folder / "run", tmp_path / "run")
    child = Forked(["-c", code, str(run), str(source)], tmp_path)
    while child.poll() is None and len(child.written().splitlines()) < 3:
        time.sleep(0.01)
    assert [path.name[:3] for path in (run / "predictions").iterdir()] == [".t."]
    child.send_signal(signal.SIGINT)
    lines, errors = child.communicate(timeout=60)
    assert lines.splitlines()[2] == "30"
    assert child.returncode != 0
    assert "KeyboardInterrupt" in errors
    assert list((run / "predictions").iterdir()) == []


def test_words_for_many_classes() -> None:
    found = Predictions(None, 30, {f"c{k}": 30 - k for k in range(12)}, 0.5)
    assert found.describe().splitlines() == [
        "30 samples: c0 30, c1 29, c2 28, c3 27, c4 26, c5 25, c6 24, c7 23, c8 22, c9 21, 2 more classes",
        "mean confidence 50.0%",
    ]


def test_confidences_are_calibrated(table_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(table_folder / "run", tmp_path / "run")
    plain = predict(run, table_folder / "wine.csv", tmp_path / "a.csv")
    set_temperature(RunFolder(run), 4.0)
    softer = predict(run, table_folder / "wine.csv", tmp_path / "b.csv")
    before, after = (torch.from_numpy(matrix(read_csv(tmp_path / name))) for name in ("a.csv", "b.csv"))
    assert torch.allclose(torch.softmax(before.clamp_min(1e-30).log() / 4.0, -1), after, atol=1e-4)
    assert softer.confidence is not None
    assert plain.confidence is not None
    assert softer.confidence < plain.confidence
