"""The data of a run, read again: found where they are now, refused where they are others, prepared as the model knows them."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from softmatch.errors import InputError
from softmatch.inference.pseudo_labels import write_pseudo_labels
from softmatch.inference.suggest import suggest
from softmatch.inference.unlabeled_pool import open_pool
from softmatch.networks import build_network
from softmatch.runs.model import load_model
from tests.inference.conftest import read_csv
from tests.own.sources import write_csv
from tests.refusals import refused


def test_the_pool_is_what_was_trained_on(table_folder: Path) -> None:
    pool = open_pool(table_folder / "run", device="cpu")
    assert len(pool.positions) == 178
    assert pool.given == [row["grade"] or None for row in read_csv(table_folder / "wine.csv")]
    assert pool.names(torch.tensor([0, 177])) == ["1", "178"]
    model = load_model(table_folder / "run")
    items = pool.examples.items
    assert isinstance(items, torch.Tensor)
    assert torch.allclose(pool.model.calibrated(pool.probabilities()), model.predict_proba(items), atol=1e-6)
    assert pool.texts(["1"]) is None


def test_a_named_source_is_drawn_again(digits_run: Path) -> None:
    pool = open_pool(digits_run, device="cpu")
    assert len(pool.positions) == 1258
    assert sum(label is not None for label in pool.given) == 40
    assert pool.names(torch.tensor([3])) == ["3"]
    done: list[int] = []
    assert pool.probabilities(done.append).shape == (1258, 10)
    assert done == [1258]


def test_texts_are_found_by_their_names(text_folder: Path) -> None:
    pool = open_pool(text_folder / "run", device="cpu")
    rows = read_csv(text_folder / "texts.csv")
    assert pool.texts(["90", "2"]) == [rows[89]["text"], rows[1]["text"]]


def test_data_that_have_moved(table_folder: Path, tmp_path: Path) -> None:
    for name in ("run", "wine.csv"):
        (shutil.copytree if name == "run" else shutil.copy)(table_folder / name, tmp_path / name)
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace(str(table_folder / "wine.csv"), str(tmp_path / "gone.csv")))
    refused(r"do not exist: .*gone\.csv\. If they have moved, give their new place with --source", open_pool, tmp_path / "run")
    assert len(open_pool(tmp_path / "run", tmp_path / "wine.csv").positions) == 178


def test_other_data_are_refused(table_folder: Path, text_folder: Path, tmp_path: Path) -> None:
    rows = read_csv(table_folder / "wine.csv")
    few = write_csv(tmp_path / "few.csv", [tuple(row.values()) for row in rows[:100]], tuple(rows[0]))
    refused("it has 100 samples, and the run used number 178", open_pool, table_folder / "run", few)
    renamed = [(*list(row.values())[:-1], row["grade"] and f"x{row['grade']}") for row in rows]
    other = write_csv(tmp_path / "other.csv", renamed, tuple(rows[0]))
    refused("its classes are 'xg0', 'xg1', 'xg2', those of the run 'g0', 'g1', 'g2'", open_pool, table_folder / "run", other)
    refused("grade", open_pool, table_folder / "run", text_folder / "texts.csv")


def without_fingerprint(run: Path, copy: Path) -> Path:
    """A copy of a run as versions wrote them that took no fingerprint of the data."""
    shutil.copytree(run, copy)
    split = json.loads((copy / "split.json").read_text())
    assert len(split.pop("data")) == 64
    (copy / "split.json").write_text(json.dumps(split))
    return copy


def test_rows_that_came_later_do_not_change_what_the_model_sees(table_folder: Path, tmp_path: Path) -> None:
    """A preparation fitted to the longer table has other means: the model's own is used."""
    run = without_fingerprint(table_folder / "run", tmp_path / "run")
    before = open_pool(table_folder / "run").examples
    rows = [tuple(row.values()) for row in read_csv(table_folder / "wine.csv")]
    longer = write_csv(tmp_path / "w.csv", [*rows, *[(1e4,) * 13 + ("",)] * 30], tuple(read_csv(table_folder / "wine.csv")[0]))
    after = open_pool(run, longer).examples
    assert isinstance(before.items, torch.Tensor)
    assert isinstance(after.items, torch.Tensor)
    assert len(after) == 208
    assert torch.allclose(after.items[:178], before.items)
    with pytest.raises(InputError, match=r"w\.csv has changed since .*run was trained on it: samples were added, removed"):
        open_pool(table_folder / "run", longer)


def test_a_table_that_was_sorted_is_refused(table_folder: Path, tmp_path: Path) -> None:
    """By row, the labels that were trained on would be others, or none."""
    rows = read_csv(table_folder / "wine.csv")
    header = tuple(rows[0])
    ordered = sorted(rows, key=lambda row: float(row["alcohol"]))
    by_size = write_csv(tmp_path / "sorted.csv", [tuple(row.values()) for row in ordered], header)
    old = without_fingerprint(table_folder / "run", tmp_path / "run")
    wanted = r"sorted\.csv has changed since .* has lost its label\. Give the original data with --source, or train"
    for run in (table_folder / "run", old):
        for use in (suggest, write_pseudo_labels):
            refused(wanted, use, run, source=by_size)
    labeled = [row for row in rows if row["grade"]]
    turned = iter(labeled[::-1])
    among = write_csv(tmp_path / "among.csv", [tuple((next(turned) if row["grade"] else row).values()) for row in rows], header)
    refused(r"among\.csv has changed since .*, or labels have changed", open_pool, table_folder / "run", among)
    assert not list(old.glob("*.csv"))


def test_labels_that_came_later_are_welcome_and_others_are_not(table_folder: Path, tmp_path: Path) -> None:
    rows = read_csv(table_folder / "truth.csv")
    given = open_pool(table_folder / "run").given
    assert open_pool(table_folder / "run", table_folder / "truth.csv").given == given
    assert given.count(None) == 148
    changed = [*list(rows[0].values())[:-1], "g2"], *[list(row.values()) for row in rows[1:]]
    other = write_csv(tmp_path / "other.csv", changed, tuple(rows[0]))
    assert rows[0]["grade"] == "g0"
    refused(r"other\.csv has changed since .*, or labels have changed", open_pool, table_folder / "run", other)


def test_files_that_were_added_or_removed(image_folder: Path, tmp_path: Path) -> None:
    images = shutil.copytree(image_folder / "images", tmp_path / "images")
    assert len(open_pool(image_folder / "run", images).positions) == 80
    one = next((images / "unlabeled").iterdir())
    shutil.copy(one, images / "unlabeled" / "new.png")
    refused("has changed since", open_pool, image_folder / "run", images)
    one.unlink()  # as many as before
    assert len(open_pool(image_folder / "run", images).positions) == 80


def test_data_of_another_kind_are_refused(table_folder: Path, tmp_path: Path) -> None:
    rows = read_csv(table_folder / "wine.csv")
    words = [(f"a wine of {row['alcohol']} percent, number {number}", row["grade"]) for number, row in enumerate(rows)]
    texts = write_csv(tmp_path / "texts.csv", words, ("text", "grade"))
    refused("it contains texts; the run was trained on tables of features", open_pool, table_folder / "run", texts)


def test_damaged_positions_are_refused(table_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(table_folder / "run", tmp_path / "run")
    split = json.loads((run / "split.json").read_text())
    split["unlabeled"][0] = -1000
    (run / "split.json").write_text(json.dumps(split))
    refused(r"split\.json has the position -1000", open_pool, run)


def test_no_network_that_the_folder_names_is_run(table_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, trace = shutil.copytree(table_folder / "run", tmp_path / "run"), tmp_path / "ran"
    code = "from pathlib import Path\nfrom torch import nn\n"
    code += f"Path({str(trace)!r}).touch()\ndef net(num_classes, shape):\n    return nn.Linear(shape[0], num_classes)\n"
    (run / "evil.py").write_text(code)
    monkeypatch.chdir(run)
    config = run / "config.yaml"
    written = yaml.safe_load(config.read_text())
    for name in (f"{run / 'evil.py'}:net", "evil:net"):
        config.write_text(yaml.safe_dump({**written, "network": name}))
        assert len(open_pool(run).positions) == 178
        assert len(suggest(run, 3).names) == 3
        assert write_pseudo_labels(run).weight is not None
    assert not trace.exists()
    build_network(f"{run / 'evil.py'}:net", (13,), 3)
    assert trace.exists()  # it would have been seen


def test_a_folder_that_is_no_run(tmp_path: Path, digits_run: Path) -> None:
    refused("not the folder of a finished run", open_pool, tmp_path)
    for use in (suggest, write_pseudo_labels):
        refused("not the folder of a finished run", use, tmp_path / "no")
        refused("must end with", use, digits_run, out=tmp_path / "p.xls")
    assert list(tmp_path.iterdir()) == []
    run = shutil.copytree(digits_run, tmp_path / "run")
    (run / "split.json").unlink()
    refused("does not name its data", open_pool, run)
