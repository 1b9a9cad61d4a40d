"""Suggestions: distinct, unlabelled and doubtful; before training, typical; and in words for whoever labels them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import softmatch
from softmatch.data.fingerprint import text_digest
from softmatch.data.label_file import add_labels
from softmatch.data.readers.open_source import open_source
from softmatch.data.records import Columns
from softmatch.data.understanding import Reading
from softmatch.inference.suggest import cold_start, suggest
from softmatch.inference.unlabeled_pool import open_pool
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import set_temperature
from tests.inference.conftest import read_csv
from tests.own.sources import blobs, pictures, texts, write_csv
from tests.refusals import refused


@pytest.fixture
def enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the labels of every run be enough for doubts."""
    monkeypatch.setattr("softmatch.inference.suggest.FEW", 0)


def test_with_few_labels_typical_ones_are_suggested(digits_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four labels per class: the most typical samples lie closer to their neighbours than doubtful ones."""
    pool = open_pool(digits_run, device="cpu")
    typical = suggest(digits_run, 15, tmp_path / "typical.csv", device="cpu", random_share=0)
    monkeypatch.setattr("softmatch.inference.suggest.FEW", 0)
    doubtful = suggest(digits_run, 15, tmp_path / "doubtful.csv", device="cpu", random_share=0)
    pixels = pool.examples.items.flatten(1).float()  # type: ignore[union-attr]  # in memory

    def distance(positions: tuple[int, ...]) -> float:
        return float(torch.cdist(pixels[list(positions)], pixels).sort().values[:, 1:21].mean())

    assert distance(typical.positions) < 0.9 * distance(doubtful.positions)
    assert not set(typical.positions) & set(pool.task.split.labeled.tolist())
    assert "typical of its own cluster" in typical.explanation
    assert all("similar samples" in row["reason"] for row in read_csv(tmp_path / "typical.csv"))


@pytest.mark.usefixtures("enough")
def test_suggestions_are_distinct_unlabelled_and_doubtful(digits_run: Path, tmp_path: Path) -> None:
    found = suggest(digits_run, 15, tmp_path / "s.csv", device="cpu", random_share=0)
    pool = open_pool(digits_run, device="cpu")
    assert len(set(found.names)) == len(found.positions) == 15
    assert not set(found.positions) & set(pool.task.split.labeled.tolist())
    assert set(found.positions) <= set(pool.positions.tolist())
    top = pool.model.calibrated(pool.probabilities()).topk(2)
    margin = dict(zip(pool.positions.tolist(), (top.values[:, 0] - top.values[:, 1]).tolist(), strict=True))
    margins = [margin[k] for k in found.positions]
    assert margins == sorted(margins)
    assert max(margins) < np.quantile(list(margin.values()), 0.2)
    rows = read_csv(tmp_path / "s.csv")
    assert list(rows[0]) == ["name", "label", "predicted", "second", "margin", "reason", "digest", "purpose"]
    assert [row["name"] for row in rows] == list(found.names) == [str(k) for k in found.positions]
    assert {row["label"] for row in rows} == {""}
    assert [float(row["margin"]) for row in rows] == pytest.approx(margins, abs=1e-5)
    likely = dict(zip(pool.positions.tolist(), top.indices.tolist(), strict=True))
    assert [[int(row["predicted"]), int(row["second"])] for row in rows] == [likely[k] for k in found.positions]
    assert all(row["reason"].startswith(f"{row['predicted']} (") for row in rows)
    assert suggest(digits_run, 15, tmp_path / "again.csv", device="cpu", random_share=0).names == found.names


@pytest.mark.usefixtures("enough")
def test_suggestions_differ_from_each_other(digits_run: Path, tmp_path: Path) -> None:
    """The features of the chosen ones lie farther apart than those of the most doubtful ones."""
    pool = open_pool(digits_run, device="cpu")
    chosen = suggest(digits_run, 10, tmp_path / "s.csv", device="cpu", random_share=0).positions
    top = pool.model.calibrated(pool.probabilities()).topk(2).values
    order = (top[:, 0] - top[:, 1]).argsort()
    labeled = set(pool.task.split.labeled.tolist())
    doubtful = [k for k in pool.positions[order].tolist() if k not in labeled][:10]

    def spread(positions: list[int]) -> float:
        items = pool.examples.items[torch.tensor(positions)]
        features = pool.model.network.features(pool.model.views.plain(items)).detach()  # type: ignore[operator]  # a method
        return float(torch.pdist(features).mean())

    assert spread(list(chosen)) > spread(doubtful)


def test_copies_are_suggested_once_and_never_of_a_labelled_sample(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0)
    points = [(round(float(x), 3), round(float(y), 3)) for x, y in drawn.normal(size=(30, 2))]
    labeled = [(*point, "ab"[point[0] > 0]) for point in points[:10]]
    others = [*points[10:], points[3], points[12], points[20]]
    source = write_csv(tmp_path / "t.csv", [*labeled, *[(*point, "") for point in others]], ("x", "y", "label"))
    softmatch.train(str(source), steps=3, baseline=False, evaluation="none", out=tmp_path / "run")
    found = suggest(tmp_path / "run", 50, tmp_path / "s.csv")
    rows = read_csv(source)
    content = [(rows[k]["x"], rows[k]["y"]) for k in found.positions]
    assert sorted(content) == sorted({(str(x), str(y)) for x, y in points[10:]})


def test_texts_are_shown_and_the_default_is_in_the_run(text_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(text_folder / "run", tmp_path / "run")
    found = suggest(run, 4)
    assert found.file == run / "to_label.csv"
    source = read_csv(text_folder / "texts.csv")
    assert [row["text"] for row in read_csv(found.file)] == [source[int(name) - 1]["text"] for name in found.names]
    assert all(source[int(name) - 1]["label"] == "" for name in found.names)
    assert found.describe().endswith("to_label.csv: fill in the column label, then train with --labels-from")
    assert suggest(run, 4).file == run / "to_label-2.csv"


def test_a_network_that_shows_no_features(tmp_path: Path) -> None:
    quick = {"steps": 2, "labeled_batch": 4, "unlabeled_batch": 8, "baseline": False}
    network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    softmatch.train("two-moons", network=network, out=tmp_path / "run", **quick)
    assert len(set(suggest(tmp_path / "run", 5, network=network).names)) == 5


def test_impossible_wishes(digits_run: Path, tmp_path: Path) -> None:
    refused("--number 0", suggest, digits_run, 0)
    refused("--number -1", cold_start, "digits", -1, tmp_path / "c.csv")
    full = write_csv(tmp_path / "full.csv", [(1, "a"), (2, "b"), (3, "a")], ("x", "label"))
    refused("has no unlabelled sample", cold_start, full, 2, tmp_path / "c.csv")
    softmatch.train(str(full), steps=1, baseline=False, evaluation="none", out=tmp_path / "run")
    refused("nothing left to label", suggest, tmp_path / "run")
    assert not (tmp_path / "c.csv").exists()


def test_cold_start_of_a_named_source(tmp_path: Path) -> None:
    found = cold_start("digits", 10, tmp_path / "c.csv")
    assert len(set(found.positions)) == 10
    rows = read_csv(tmp_path / "c.csv")
    assert list(rows[0]) == ["name", "label", "reason", "digest", "purpose"]
    reasons = {"chosen": "the most typical of ", "random": "a random sample"}
    assert all(row["reason"].startswith(reasons[row["purpose"]]) for row in rows)
    assert cold_start("digits", 10, tmp_path / "d.csv").names == found.names


def test_cold_start_of_texts_without_any_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("cat dog fur", "dog cat paw", "fur paw cat"), ("train ticket", "plane ticket", "train road")
    texts = [(text,) for kind in words for text in kind * 8]
    source = write_csv(tmp_path / "t.csv", texts, ("text",))
    monkeypatch.chdir(tmp_path)
    found = cold_start(source, 2)
    assert found.file == Path("to_label.csv")
    shown = [row["text"] for row in read_csv(found.file)]
    assert sum("ticket" in text or "train" in text for text in shown) == 1


def test_cold_start_leaves_labelled_rows_alone_and_takes_named_columns(table_folder: Path, tmp_path: Path) -> None:
    found = cold_start(table_folder / "wine.csv", 6, tmp_path / "c.csv", Reading(Columns(label="grade")))
    assert len(set(found.names)) == 6
    assert all((int(name) - 1) % 6 for name in found.names)


def test_cold_start_says_which_columns_it_uses(table_folder: Path, tmp_path: Path) -> None:
    told = cold_start(table_folder / "wine.csv", 6, tmp_path / "c.csv").describe()
    assert "features: 'alcohol'" in told
    assert "no label column was found. If there is one, name it with --label" in told
    rows = [(k, k % 7, "ab"[k % 2] if k < 10 else "") for k in range(40)]
    found = cold_start(write_csv(tmp_path / "t.csv", rows, ("x", "z", "target")), 4, tmp_path / "d.csv")
    assert "label: column 'target'; features: 'x', 'z'" in found.describe()
    assert "no label column" not in found.describe()
    assert all(int(name) > 10 for name in found.names)


def test_cold_start_of_a_single_sample(image_folder: Path, tmp_path: Path) -> None:
    image = next((image_folder / "images" / "unlabeled").iterdir())
    refused("has a single sample", cold_start, image, 2, tmp_path / "c.csv")
    assert not (tmp_path / "c.csv").exists()


def test_no_doubt_is_claimed_where_there_is_none(text_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(text_folder / "run", tmp_path / "run")
    set_temperature(RunFolder(run), 0.01)
    found = suggest(run, 4)
    rows = read_csv(found.file)
    assert all(float(row["margin"]) > 0.9 for row in rows)
    assert all("the model is certain" in row["reason"] and "doubtful" not in row["reason"] for row in rows)
    assert "the model is certain of all" in found.explanation


def test_cold_start_of_images_leaves_out_what_cannot_be_read(image_folder: Path, tmp_path: Path) -> None:
    images = shutil.copytree(image_folder / "images", tmp_path / "images")
    (images / "unlabeled" / "zz.png").write_bytes(b"x")
    found = cold_start(images, 5, tmp_path / "c.csv")
    assert [row["name"] for row in read_csv(tmp_path / "c.csv")] == list(found.names)
    assert all((images / name).is_file() and name.startswith("unlabeled/") for name in found.names)
    assert "unlabeled/zz.png" not in found.names


def test_random_samples_are_uniform_and_among_the_others(digits_run: Path, tmp_path: Path) -> None:
    """The 75 random ones of three draws are spread over the pool, whatever the model says about them."""
    pool = open_pool(digits_run, device="cpu")
    top = pool.model.calibrated(pool.probabilities()).topk(2).values
    margin = dict(zip(pool.positions.tolist(), (top[:, 0] - top[:, 1]).tolist(), strict=True))
    ranks, places, among = list[float](), list[int](), sorted(margin.values())
    for seed in range(3):
        found = suggest(digits_run, 50, tmp_path / f"{seed}.csv", device="cpu", seed=seed, random_share=0.5)
        assert found.purposes.count("random") == found.purposes.count("chosen") == 25
        assert len(set(found.names)) == 50
        assert [row["purpose"] for row in read_csv(found.file)] == list(found.purposes)
        drawn = [k for k, purpose in zip(found.positions, found.purposes, strict=True) if purpose == "random"]
        ranks += [np.searchsorted(among, margin[k]) / len(among) for k in drawn]
        places += [place for place, purpose in enumerate(found.purposes) if purpose == "random"]
        assert "25 of the 50 are random instead" in found.describe()
    assert np.mean(ranks) == pytest.approx(0.5, abs=0.1)  # three standard deviations of the mean of 75
    assert np.mean(places) == pytest.approx(24.5, abs=5)


@pytest.mark.parametrize(("share", "number"), [(0, 0), (0.2, 2), (1, 10)])
def test_the_share_of_random_samples(table_folder: Path, tmp_path: Path, share: float, number: int) -> None:
    for name, found in (
        ("run", suggest(table_folder / "run", 10, tmp_path / "r.csv", device="cpu", random_share=share)),
        ("data", cold_start(table_folder / "wine.csv", 10, tmp_path / "c.csv", random_share=share)),
    ):
        assert (found.purposes.count("random"), len(found.names)) == (number, 10), name


def test_a_share_that_is_none_is_refused(table_folder: Path, tmp_path: Path) -> None:
    text = "--random-share 1.5 must lie in 0 … 1"
    refused(text, cold_start, table_folder / "wine.csv", 10, tmp_path / "c.csv", random_share=1.5)


@pytest.mark.parametrize("kind", ["text", "table", "image"])
def test_a_filled_in_table_comes_back(kind: str, tmp_path: Path) -> None:
    """Labels go round: suggest, fill in, sort the source, train, suggest again; no sample comes twice."""
    make = {"text": texts, "table": blobs, "image": pictures}[kind]
    source = make(tmp_path / ("p" if kind == "image" else "t.csv"), *((4, 30) if kind == "image" else (8, 40)))
    before = Reading(Columns(text="message", label="category") if kind == "text" else Columns())
    first = cold_start(str(source), 12, tmp_path / "to_label.csv", before)
    rows = read_csv(first.file)
    classes = {"text": ("cards", "parcels"), "table": ("left", "right"), "image": ("dark", "light")}[kind]
    filled = [{**row, "label": classes[k % 2]} for k, row in enumerate(rows)]
    labels = write_csv(tmp_path / "labels.csv", [list(row.values()) for row in filled], list(filled[0]))
    if kind != "image":  # the rows turned round: all names are wrong now, and the digests right
        lines = source.read_text().splitlines()
        source.write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    again = cold_start(str(source), 34, tmp_path / "again.csv", replace(before, labels_from=labels))
    assert not {row["digest"] for row in read_csv(again.file)} & {row["digest"] for row in rows}

    named = {"text_column": "message", "label_column": "category"} if kind == "text" else {}
    settings = {
        "steps": 4,
        "labeled_batch": 8,
        "unlabeled_batch": 8,
        "evaluation": "none",
        "device": "cpu",
        "threads": 1,
        **named,
    }
    run = softmatch.train(str(source), out=tmp_path / "run", labels_from=labels, **settings).run
    more = suggest(run, 100, tmp_path / "more.csv", device="cpu")
    assert not {row["digest"] for row in read_csv(more.file)} & {row["digest"] for row in rows}
    given = write_csv(tmp_path / "later.csv", [(name, "a new class") for name in more.names[:5]], ("name", "label"))
    rest = suggest(run, 100, tmp_path / "rest.csv", device="cpu", labels_from=given)
    assert set(rest.names) == set(more.names[5:])


def test_tasks_of_label_studio_go_round(tmp_path: Path) -> None:
    source = pictures(tmp_path / "p", per_class=4, unlabeled=10)
    found = cold_start(str(source), 5, tmp_path / "tasks.json")
    assert found.describe().endswith("tasks.json: import it into Label Studio, then train with --labels-from")
    tasks = json.loads(found.file.read_text())
    assert [task["data"]["name"] for task in tasks] == list(found.names)
    assert [task["data"]["purpose"] for task in tasks] == list(found.purposes)
    assert tasks[0]["data"]["image"] == f"/data/local-files/?d={found.names[0]}"
    for task in tasks:
        task["annotations"] = [{"result": [{"type": "choices", "value": {"choices": ["light"]}}]}]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    records, findings = add_labels(open_source(source).read(), "source", tmp_path / "export.json")
    assert [records.labels[records.names.index(name)] for name in found.names] == ["light"] * 5
    assert sum(records.chosen) == found.purposes.count("chosen") == 4
    assert not [finding for finding in findings if finding.level == "stop"]


def test_tasks_have_the_texts(text_folder: Path, tmp_path: Path) -> None:
    found = suggest(text_folder / "run", 3, tmp_path / "tasks.json", device="cpu")
    source = read_csv(text_folder / "texts.csv")
    data = [task["data"] for task in json.loads(found.file.read_text())]
    assert [each["text"] for each in data] == [source[int(name) - 1]["text"] for name in found.names]
    assert [each["digest"] for each in data] == [text_digest(each["text"]) for each in data]
