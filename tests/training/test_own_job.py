"""Whole runs on data of one's own: each way of measuring, and what the run folder holds."""

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml

import softmatch
from softmatch.cli.summaries import measured_how, verdict
from softmatch.config import make_config
from softmatch.inference.distil import distil
from softmatch.inference.pseudo_labels import write_pseudo_labels
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model
from softmatch.training.job import Result
from softmatch.training.measure import HURT, KEPT
from tests.own.sources import blobs, pictures, texts, write_csv
from tests.prepared import prepare, small_task
from tests.tiny_encoder import make_text_encoder

QUICK: dict[str, Any] = {"steps": 6, "evaluate_every": 3, "unlabeled_batch": 16, "labeled_batch": 8, "threads": 1}


@pytest.fixture(scope="module")
def crossfit(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("crossfit")
    return softmatch.train(blobs(folder / "t.csv"), out=folder / "run", **QUICK, folds=3)


def test_a_cross_fit_measures_every_labelled_sample(crossfit: Result) -> None:
    assert crossfit.evaluation == {"kind": "crossfit", "samples": 30, "folds": 3, "reason": None}
    assert crossfit.labels == 30
    assert crossfit.difference is not None
    with (crossfit.run / "held_out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(int(row["name"]) for row in rows) == list(range(1, 31))
    assert sum(row["right"] == "no" for row in rows) / 30 == pytest.approx(crossfit.test_error)
    wrong = [float(row["confidence"]) for row in rows if row["right"] == "no"]
    assert wrong == sorted(wrong, reverse=True)


def test_the_records_of_a_cross_fit_hold_the_error_of_all_folds(crossfit: Result) -> None:
    run = RunFolder(crossfit.run)
    assert [record["step"] for record in run.records()] == [3, 6]
    assert run.records()[-1]["test_error"] == pytest.approx(crossfit.test_error, abs=1e-5)
    baseline = run.baseline().records()
    assert baseline[-1]["test_error"] == pytest.approx(crossfit.supervised_test_error, abs=1e-5)
    parts = [RunFolder(crossfit.run / "folds" / str(number)).records()[-1]["test_error"] for number in (1, 2, 3)]
    assert sum(parts) / 3 == pytest.approx(crossfit.test_error, abs=1e-5)  # of ten samples each
    assert not (crossfit.run / "folds" / "1" / "model").exists()


def test_a_cross_fit_keeps_the_baseline_where_it_is_clearly_better(tmp_path: Path) -> None:
    quick = {**QUICK, "steps": 40, "folds": 3, "method": "pi_model", "method_options": {"max_weight": 1e7}}  # learns nothing
    source = blobs(tmp_path / "t.csv")
    best, asked = (softmatch.train(source, out=tmp_path / keep, keep=keep, **quick) for keep in ("best", "method"))
    alone = softmatch.train(source, out=tmp_path / "alone", **{**quick, "method": "supervised", "method_options": {}})
    inputs = torch.randn(50, 2)
    plain, mine, other = (load_model(result.run).network(inputs) for result in (alone, best, asked))
    assert torch.equal(mine, plain)
    assert not torch.equal(other, plain)
    for result, kept in ((best, "supervised"), (asked, "pi_model")):
        assert result.test_error == best.test_error > 0.4
        assert result.supervised_test_error == best.supervised_test_error < 0.1
        assert result.kept == kept
        with (result.run / "held_out.csv").open(newline="") as file:
            assert (sum(row["right"] == "yes" for row in csv.DictReader(file)) / 30 > 0.9) == (kept == "supervised")
    assert "The saved model is the baseline" in (best.run / "report.html").read_text()
    assert "The saved model is the baseline" in verdict(best)
    assert "--method supervised" in verdict(asked)
    assert (KEPT in best.warnings, HURT in best.warnings) == (True, False)
    assert (KEPT in asked.warnings, HURT in asked.warnings) == (False, True)
    assert "the baseline" in write_pseudo_labels(best.run).reason


@pytest.mark.parametrize("left_out", ["holdout", "test", "hidden"])
def test_a_hold_out_and_a_given_test_set_keep_the_baseline_where_it_is_clearly_better(left_out: str, tmp_path: Path) -> None:
    quick = {**QUICK, "steps": 15, "method": "pi_model", "method_options": {"max_weight": 1e7}}  # learns nothing yet
    how: dict[str, dict[str, Any]]
    how = {"holdout": {"evaluation": "holdout"}, "test": {"test": blobs(tmp_path / "b.csv", 60, 0, 1)}, "hidden": {"labels": 20}}
    source = blobs(tmp_path / "t.csv", labeled=120)
    best = softmatch.train(source, out=tmp_path / "run", **quick, **how[left_out])
    assert best.difference_interval is not None
    assert best.difference_interval[0] > 0
    inputs = torch.randn(50, 2)
    mine, baseline = (load_model(run).network(inputs) for run in (best.run, RunFolder(best.run).baseline().path))
    chosen = left_out != "hidden"  # labels that the run may not know choose nothing
    assert torch.equal(mine, baseline) == chosen
    assert best.kept == ("supervised" if chosen else "pi_model")
    assert (KEPT in best.warnings, HURT in best.warnings) == (chosen, not chosen)
    assert ("it was chosen by the same samples" in (best.run / "report.html").read_text()) == chosen
    boundaries = [(path / "boundary.json").read_bytes() for path in (best.run, RunFolder(best.run).baseline().path)]
    assert (boundaries[0] == boundaries[1]) == chosen


def test_the_test_set_of_a_benchmark_chooses_nothing(tmp_path: Path) -> None:
    assert not small_task("digits").may_choose
    source = str(blobs(tmp_path / "t.csv"))
    assert prepare(source, make_config({})).may_choose
    assert not prepare(source, make_config({"keep": "method"})).may_choose


def test_the_report_and_the_result_are_there(crossfit: Result) -> None:
    found = json.loads((crossfit.run / "result.json").read_text())
    assert found["evaluation"]["kind"] == "crossfit"
    assert "left out" in (crossfit.run / "report.html").read_text()


def test_the_run_repeats_from_its_settings(crossfit: Result, tmp_path: Path) -> None:
    settings = yaml.safe_load((crossfit.run / "config.yaml").read_text())
    source = settings.pop("source")
    again = softmatch.train(source, **{**settings, "out": tmp_path / "again"})
    for name in ("model/model.safetensors", "model/model.json", "held_out.csv", "split.json"):
        assert (again.run / name).read_bytes() == (crossfit.run / name).read_bytes()
    assert again.test_error == crossfit.test_error


def test_the_model_takes_rows_as_they_stand_in_the_table(crossfit: Result) -> None:
    model = load_model(crossfit.run)
    items = model.preparation({"width": ["0.1", "3.0"], "height": ["0", "2.9"]})
    assert isinstance(items, torch.Tensor)
    assert model.predict_proba(items).shape == (2, 2)
    assert model.samples is not None
    assert model.predict_proba(model.samples).shape == (16, 2)


def test_too_few_labels_are_trained_on_but_not_measured(tmp_path: Path) -> None:
    result = softmatch.train(blobs(tmp_path / "t.csv", labeled=6), out=tmp_path / "run", **QUICK)
    assert result.test_error is None
    assert result.evaluation["kind"] == "none"
    assert "too few" in result.evaluation["reason"]
    assert "could not be measured" in (tmp_path / "run" / "report.html").read_text()
    assert len(load_model(result.run).classes) == 2


def test_test_data_are_measured_on_and_never_trained_on(tmp_path: Path) -> None:
    train, test = blobs(tmp_path / "a.csv"), blobs(tmp_path / "b.csv", 20, 0, seed=1)
    result = softmatch.train(train, test=test, out=tmp_path / "run", **QUICK)
    assert result.evaluation["kind"] == "test"
    assert result.test_samples == 20
    assert result.labels == 30
    other = softmatch.train(train, test=blobs(tmp_path / "c.csv", 16, 0, seed=2), out=tmp_path / "other", **QUICK)
    weights = ((run.run / "model" / "model.safetensors").read_bytes() for run in (result, other))
    assert len(set(weights)) == 1


def test_a_number_of_labels_keeps_copies_of_test_samples_out_of_training(tmp_path: Path) -> None:
    rows = [(i % 50 / 7, i % 50 * 3, "ab"[i % 2]) for i in range(100)]  # each twice
    path = write_csv(tmp_path / "t.csv", rows, ("width", "height", "label"))
    with pytest.raises(softmatch.InputError, match="Leave out --evaluation"):
        softmatch.train(path, labels=10, evaluation="crossfit", out=tmp_path / "run", **QUICK)
    told = [(f"the text number {i % 97} of them", "ab"[i % 2]) for i in range(100)]
    result = softmatch.train(write_csv(tmp_path / "u.csv", told, ("text", "label")), labels=10, out=tmp_path / "run", **QUICK)
    split = json.loads((result.run / "split.json").read_text())
    assert result.evaluation["kind"] == "holdout"
    assert not {position % 97 for position in split["test"]} & {position % 97 for position in split["unlabeled"]}


def test_the_callers_torch_is_left_as_it_was(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    state = torch.get_rng_state()
    softmatch.train(blobs(tmp_path / "t.csv", labeled=6), out=tmp_path / "run", **QUICK)
    assert torch.get_num_threads() == 2
    assert torch.equal(torch.get_rng_state(), state)


def test_nothing_to_measure_needs_no_baseline(tmp_path: Path) -> None:
    result = softmatch.train(blobs(tmp_path / "t.csv"), evaluation="none", out=tmp_path / "run", **QUICK)
    assert not (result.run / "twin").exists()


def test_an_encoder_is_trained_saved_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_text_encoder(tmp_path / "encoder")
    monkeypatch.chdir(tmp_path)
    texts(tmp_path / "t.csv")
    settings = {**QUICK, "steps": 2, "evaluate_every": 2}
    tuned = softmatch.train("t.csv", encoder="encoder", tune="all", folds=2, out=tmp_path / "tuned", **settings)
    frozen = softmatch.train("t.csv", encoder="encoder", folds=2, out=tmp_path / "frozen", **settings)
    monkeypatch.chdir("/")
    for run in (tuned.run, frozen.run):
        settings = yaml.safe_load((run / "config.yaml").read_text())
        task = prepare(settings.pop("source"), make_config(settings))
        model = load_model(run)
        items = model.preparation(["where is my parcel", "my bank card"])
        assert isinstance(items, torch.Tensor)
        assert model.predict_proba(items).shape == (2, 2)
        assert task.examples.items.shape[1:] == model.shape


def test_hidden_labels_give_the_quality_of_pseudo_labels(tmp_path: Path) -> None:
    result = softmatch.train(blobs(tmp_path / "t.csv", 60, 0), labels=10, out=tmp_path / "run", **QUICK)
    assert (result.method, result.labels, result.evaluation["kind"]) == ("softmatch", 10, "holdout")
    assert result.quality is not None


def test_the_quality_of_pseudo_labels_is_not_made_up(crossfit: Result) -> None:
    assert crossfit.quantity is not None
    assert crossfit.quality is None


def test_all_labelled(tmp_path: Path) -> None:
    result = softmatch.train(blobs(tmp_path / "t.csv", 30, 0), out=tmp_path / "run", **QUICK, folds=2)
    assert result.method == "supervised"
    assert result.supervised_test_error is None
    assert result.test_error is not None


def test_texts_and_images(tmp_path: Path) -> None:
    by_text = softmatch.train(texts(tmp_path / "t.csv"), out=tmp_path / "texts", **QUICK, folds=2)
    model = load_model(by_text.run)
    items = model.preparation(["where is my parcel", "my bank card"])
    assert isinstance(items, torch.Tensor)
    assert model.predict_proba(items).shape == (2, 2)
    by_image = softmatch.train(pictures(tmp_path / "photos"), out=tmp_path / "images", **QUICK, folds=2, network="small-conv-4")
    model = load_model(by_image.run)
    items = model.preparation([tmp_path / "photos" / "dark" / "000.png"])
    assert isinstance(items, torch.Tensor)
    assert model.predict_proba(items).shape == (1, 2)


def test_a_model_takes_what_its_user_has(crossfit: Result, tmp_path: Path) -> None:
    model = load_model(crossfit.run)
    columns = {"width": [0.1, 3.0], "height": [0.0, 2.9]}
    assert model.samples is not None
    assert model.predict(pd.DataFrame(columns)) == model.predict(columns)
    assert model.predict(model.samples.numpy()) == model.predict(model.samples)
    with pytest.raises(softmatch.InputError, match="the model takes"):
        model.predict(torch.zeros(2, 5))
    with pytest.raises(softmatch.InputError, match="give a list"):
        model.predict("somewhere.csv")


def test_labels_of_a_file_are_trained_on_and_found_again(tmp_path: Path) -> None:
    source = blobs(tmp_path / "t.csv", labeled=10)
    rows = [(k, "right" if k % 2 == 0 else "left") for k in range(11, 41)]
    given = write_csv(tmp_path / "more.csv", rows, ("name", "label"))
    result = softmatch.train(source, out=tmp_path / "run", labels_from=given, **QUICK, folds=2)
    assert result.labels == result.evaluation["samples"] == 40
    assert RunFolder(result.run).read_json("split.json")["labeled"] == list(range(40))
    written = write_pseudo_labels(result.run, tmp_path / "p.csv", order="source", device="cpu")
    with written.file.open(newline="") as file:
        assert [row["given_label"] for row in csv.DictReader(file)][:40] == ["left", "right"] * 20
    small = distil(result.run, tmp_path / "small", measure=False, device="cpu", steps=2)
    assert RunFolder(small.run).read_json("split.json")["labeled"] == list(range(40))

    with given.open("a") as file:
        file.write("41,centre\n")  # more labels are fine, of new classes too
    write_pseudo_labels(result.run, tmp_path / "more_labels.csv", device="cpu")
    write_csv(given, [*rows[:-1], (40, "left")], ("name", "label"))
    with pytest.raises(softmatch.InputError, match="labels have changed"):
        write_pseudo_labels(result.run, tmp_path / "other.csv", device="cpu")
    given.unlink()
    with pytest.raises(softmatch.InputError, match=r"there is no file .*more\.csv with labels"):
        write_pseudo_labels(result.run, tmp_path / "none.csv", device="cpu")
    assert softmatch.load_model(result.run).classes == ("left", "right")


@pytest.mark.parametrize(("purpose", "measured_on", "samples"), [("random", "random", 24), ("chosen", "chosen", 40)])
def test_a_run_says_which_labels_its_error_rests_on(tmp_path: Path, purpose: str, measured_on: str, samples: int) -> None:
    source = blobs(tmp_path / "t.csv", labeled=10)
    rows = [(k, "right" if k % 2 == 0 else "left", purpose if k < 25 else "chosen") for k in range(11, 41)]
    given = write_csv(tmp_path / "more.csv", rows, ("name", "label", "purpose"))
    result = softmatch.train(source, out=tmp_path / "run", labels_from=given, **QUICK, folds=2)
    assert (result.measured_on, result.test_samples, result.labels) == (measured_on, samples, 40)
    assert RunFolder(result.run).read_json("result.json")["measured_on"] == measured_on
    said = measured_how(result)
    if measured_on == "random":
        assert "Only labels of random samples are measured" in said
        assert said.endswith("They are few, so the interval is wide.")
        assert "Only labels of random samples are measured" in (result.run / "report.html").read_text()
    else:
        assert any("most of them chosen to be labelled" in text for text in result.warnings)
        assert "most of them chosen to be labelled" in (result.run / "report.html").read_text()
