"""From the run folder to the page's data: what is read, left out, thinned and rounded, and the words of the verdict."""

import json
from pathlib import Path
from typing import Any

import pytest

from softmatch.errors import InputError
from softmatch.report.charts import compact, thin
from softmatch.report.page_data import DOTS, MOMENTS, page_data, results_section
from softmatch.report.pages import count, percent
from softmatch.report.reliability import calibration_section
from softmatch.report.run_contents import Contents, clean_boundary, clean_record, read
from softmatch.report.wording import how_measured, missing, tiles, verdict, warnings
from softmatch.runs.folder import RunFolder
from tests.report.example import CLASSES, make_boundary, make_calibration, make_record, make_run, rewrite_records

BASELINE = "Baseline (labels only)"


def plain(text: str) -> str:
    """Narrow spaces as spaces and the minus sign as a hyphen: easier to read in a test."""
    return text.replace("\u202f", " ").replace("\u2212", "-")


def calibration_of(path: Path, calibration: dict[str, Any], evaluation: str | None = "holdout") -> dict[str, Any]:
    found = calibration_section(read(make_run(path / "run", evaluation=evaluation, result={"calibration": calibration})))
    assert found is not None
    return found


def names(charts: list[dict[str, Any]]) -> list[list[str]]:
    return [[series["label"] for series in chart["series"]] for chart in charts]


def test_charts_of_a_complete_run(tmp_path: Path) -> None:
    data = page_data(read(make_run(tmp_path / "run")))
    assert names(data["charts"]) == [["SoftMatch", BASELINE], ["Quantity f", "Quality g"]]
    assert names(data["statistics"]) == [["μ", "σ"], ["E[p] upper", "E[p] lower"]]
    assert names(data["losses"]) == [["Total", "Supervised", "Unsupervised"], ["Learning rate"]]
    assert data["statistics"][0]["series"][1]["values"][0] == 0.2  # σ is the root of the variance, 0.04
    assert data["charts"][0]["x"] == list(range(5, 61, 5))
    assert len(data["boundary"]["panels"]) == 2
    assert data["aligned"] is True
    assert data["truth"] == 1


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("freematch", [["threshold", "threshold upper", "threshold lower"]]),
        ("dash", [["largest loss used"]]),
        ("mine.py:own", [["temperature"]]),
        ("fixmatch", []),
    ],
)
def test_statistics_of_other_methods(tmp_path: Path, method: str, expected: list[list[str]]) -> None:
    assert names(page_data(read(make_run(tmp_path / "run", method=method)))["statistics"]) == expected


def test_statistics_of_many_classes_are_summed_up(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", classes=tuple(map(str, range(100))))
    rewrite_records(run, lambda r: r.update(statistics={"mean": [c / 100 for c in range(99)] + [None]}))
    (chart,) = page_data(read(run))["statistics"]
    assert [series["values"][0] for series in chart["series"]] == [0, 0.49, 0.98]


def test_supervised_run_has_no_pseudo_labels(tmp_path: Path) -> None:
    data = page_data(read(make_run(tmp_path / "run", method="supervised")))
    assert names(data["charts"]) == [[BASELINE]]
    assert [panel["title"] for panel in data["boundary"]["panels"]] == [BASELINE]
    assert not data["histograms"]
    assert data["truth"] is None
    assert data["moments"][0]["classes"] is None
    assert data["moments"][0]["errors"] == [0.1, 0.1]


def test_unknown_truth_gives_no_wrong_series(tmp_path: Path) -> None:
    contents = read(make_run(tmp_path / "run", truth=False))
    data = page_data(contents)
    assert names(data["charts"])[1] == ["Quantity f"]
    assert {moment["wrong"] for moment in data["moments"]} == {None}
    assert data["truth"] == 0
    assert any("true classes" in note for note in missing(contents))


def test_no_weight_is_not_called_unknown_truth(tmp_path: Path) -> None:
    """A threshold that nothing passes leaves the quality null although the truth is known."""
    run = make_run(tmp_path / "run", method="fixmatch", result={"quality": None, "quantity": 0.0})
    rewrite_records(run, lambda r: r.update(quality=None, quantity=0.0))
    contents = read(run)
    assert {tile["name"]: tile["note"] for tile in tiles(contents)}["Quality g"] == "no sample has weight"
    assert missing(contents) == []


def test_a_baseline_at_other_steps_is_put_on_a_common_axis(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=10)
    (run.path / "twin" / "metrics.jsonl").unlink()
    run.baseline().append_record(make_record(7, 2, "supervised"))
    chart = page_data(read(run))["charts"][0]
    assert chart["x"] == [5, 7, 10]
    assert [series["values"] for series in chart["series"]] == [[0.08, None, 0.05], [None, 0.15, None]]


def test_half_written_and_repeated_records(tmp_path: Path) -> None:
    """An interruption leaves half a line; a resumed run writes steps again, and the later record counts."""
    run = make_run(tmp_path / "run", finished=False, steps=20)
    again = make_record(15, 2) | {"test_error": 0.5}
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(again) + "\n" + json.dumps(make_record(25, 2))[:100])
    contents = read(run)
    assert [r["step"] for r in contents.records] == [5, 10, 15, 20]
    assert contents.records[2]["test_error"] == 0.5
    assert contents.classes == ("0", "1")  # neither result nor model yet


def test_class_names_from_the_model_where_there_is_no_result(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", finished=False)
    (run.path / "model").mkdir()
    run.write_json("model/model.json", {"classes": list(CLASSES)})
    assert read(run).classes == CLASSES


def test_empty_folder(tmp_path: Path) -> None:
    contents = read(RunFolder(tmp_path))
    data = page_data(contents)
    assert data["charts"] == data["moments"] == data["losses"] == []
    assert data["boundary"] is None
    assert verdict(contents)[1] == "unfinished"
    assert len(missing(contents)) == 4


@pytest.mark.parametrize(("name", "text"), [("result.json", "{"), ("result.json", "[1]"), ("config.yaml", "a: [")])
def test_damaged_file_is_named(tmp_path: Path, name: str, text: str) -> None:
    run = make_run(tmp_path / "run")
    (run.path / name).write_text(text)
    with pytest.raises(InputError, match=name):
        read(run)


def test_long_runs_are_thinned_with_both_ends(tmp_path: Path) -> None:
    contents = Contents(records=[make_record(step, 2) for step in range(1, 1001)])
    data = page_data(contents)
    assert [len(chart["x"]) for chart in data["charts"]] == [200, 200]
    steps = [moment["step"] for moment in data["moments"]]
    assert (len(steps), steps[0], steps[-1]) == (MOMENTS, 1, 1000)
    assert steps == sorted(set(steps))
    assert [r["step"] for r in thin(contents.records, 3)] == [1, 501, 1000]


def test_numbers_are_rounded_and_only_finite() -> None:
    assert compact(0.123456789) == 0.12346
    assert compact(1e-7 / 3) == 3.3333e-08
    assert [compact(value) for value in (float("nan"), float("inf"), 1e101, 10**400, None, "1", True)] == [None] * 7
    assert repr(compact(1.0)) == "1"


def test_many_points_keep_the_labelled_ones() -> None:
    side = make_boundary()
    side["points"], side["truth"], side["labeled"] = ([[0.0, 1.0]] * 9001, [0] * 9000, [1, 9000])  # not as many classes
    dots = page_data(Contents(boundary=clean_boundary(side)))["boundary"]["dots"]
    assert len(dots) <= DOTS + 2
    assert sum(dot[3] for dot in dots) == 2
    assert dots[-1] == [0, 1, -1, 1]


@pytest.mark.parametrize(
    ("result", "kind", "sentence"),
    [
        ({}, "helped", "The unlabelled data helped: -12.8 points (95 % interval -15.9 to -9.8)."),
        ({"difference": 0.02, "difference_interval": [0.003, 0.038]}, "hurt", "hurt: +2.0 points (95 % interval +0.3 to +3.8)."),
        (
            {"difference": -0.002, "difference_interval": [-0.012, 0.009]},
            "open",
            "No clear difference: -0.2 points (95 % interval -1.2 to +0.9) contains zero.",
        ),
        ({"difference": -0.01, "difference_interval": [-0.02, 0.0]}, "open", "-2.0 to 0.0) contains zero."),
        ({"difference": -0.01, "difference_interval": None}, "open", "Without an interval it cannot be judged."),
    ],
)
def test_verdict(tmp_path: Path, result: dict[str, Any], kind: str, sentence: str) -> None:
    text, found = verdict(read(make_run(tmp_path / "run", result=result)))
    first = "With 4 labels SoftMatch makes 2.6 % errors on 1 539 held-out samples"
    assert plain(text).startswith(f"{first}; the baseline, trained on the labels only, makes 15.4 %. ")
    assert plain(text).endswith(sentence)
    assert found == kind


def test_verdict_without_comparison(tmp_path: Path) -> None:
    alone, _ = verdict(read(make_run(tmp_path / "alone", twin=False)))
    assert not (tmp_path / "alone" / "twin").exists(), "reading makes no folder"
    assert plain(alone).endswith("so it is not known whether the unlabelled data helped.")
    supervised, _ = verdict(read(make_run(tmp_path / "supervised", method="supervised")))
    assert "There is no pseudo-labelling to judge." in supervised
    unfinished, _ = verdict(read(make_run(tmp_path / "unfinished", finished=False, steps=20, settings={"steps": 1200})))
    assert plain(unfinished).startswith("This run has not finished: it was recorded up to step 20 of 1 200; at its last record")


@pytest.mark.parametrize(
    ("evaluation", "made", "how"),
    [
        (None, "2.6 % errors on 1 539 held-out samples;", ""),  # a run of an earlier version
        ("test", "2.6 % errors on 240 test samples;", "A test set of 240 samples was given. None of them was trained on."),
        ("holdout", "2.6 % errors on 240 held-out samples;", "240 labelled samples were held out: the networks were trained on"),
        (
            "crossfit",
            "With 240 labels SoftMatch makes 2.6 % errors on 240 labelled samples, each left out of training in turn;",
            "The 240 labelled samples were divided into 5 parts. Each part was predicted by a network",
        ),
    ],
)
def test_how_the_error_was_measured(tmp_path: Path, evaluation: str | None, made: str, how: str) -> None:
    contents = read(make_run(tmp_path / "run", evaluation=evaluation, settings={"test_fraction": 0.3}))
    sentence, kind = verdict(contents)
    assert made in plain(sentence)
    assert kind == "helped"
    assert plain(how_measured(contents) or "").startswith(how)


def test_cross_fit_is_named_over_its_figures_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    contents = read(make_run(tmp_path / "run", evaluation="crossfit", result={"labels": 243}))
    assert tiles(contents)[0]["name"] == "Cross-fitted error"
    assert page_data(contents)["charts"][0]["caption"].startswith("The share of labelled samples")
    how = how_measured(contents) or ""
    assert how.startswith("240 of the 243 labelled samples were divided into 5 parts.")
    assert "so its own error is expected to be lower" in how


def test_an_error_on_random_labels_says_so(tmp_path: Path) -> None:
    result = {"labels": 300, "measured_on": "random"}
    how = how_measured(read(make_run(tmp_path / "run", evaluation="crossfit", result=result))) or ""
    assert how.endswith("Only labels of random samples are measured; those that were chosen are trained on only.")


def test_unmeasured_run(tmp_path: Path) -> None:
    contents = read(make_run(tmp_path / "run", evaluation="none", twin=False))
    sentence, kind = verdict(contents)
    assert kind == "unmeasured"
    assert sentence == (
        "The accuracy of this model could not be measured. 3 labelled samples are too few: label 20 or more, or give a test set."
    )
    assert [tile["name"] for tile in tiles(contents)] == ["Quantity f", "Quality g", "Time"]
    assert how_measured(contents) is None
    assert calibration_section(contents) is None
    data = page_data(contents)
    assert [chart["name"] for chart in data["charts"]] == ["pseudo"]
    assert not data["class_errors"]
    assert missing(contents) == []
    assert warnings(contents) == ["The class “lower” has one label only: label a few more of it."]


def test_unmeasured_run_without_a_reason(tmp_path: Path) -> None:
    evaluation = {"kind": "none", "samples": 0, "folds": None, "reason": None}
    sentence, _ = verdict(read(make_run(tmp_path / "run", evaluation="none", result={"evaluation": evaluation})))
    assert "label a few more samples of each class, or give a labelled test set, and train again." in sentence


def test_partly_known_truth_is_no_estimate(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    rewrite_records(run, lambda r: r.update(histogram={"all": [10, 90], "wrong": [10, 0], "right": [0, 30]}))
    contents = read(run)
    assert {tile["name"]: tile["note"] for tile in tiles(contents)}["Quality g"] == "of those whose class is known"
    (note,) = missing(contents)
    assert plain(note).startswith("The true class is known for 40.0 % of the pseudo-labels.")


def test_calibration_in_words_and_shapes(tmp_path: Path) -> None:
    bins = [
        {"low": 0.0, "high": 0.5, "count": 0, "confidence": None, "accuracy": None},
        {"low": 0.5, "high": 0.75, "count": 9, "confidence": 0.6, "accuracy": 1.0},
        {"low": 0.75, "high": 1.0, "count": 991, "confidence": 0.9, "accuracy": 0.8},
    ]
    scaled = [{"low": 0.75, "high": 1.0, "count": 1000, "confidence": 0.8, "accuracy": 0.81}]
    figures = {"samples": 1000, "ece": 0.1, "ece_by_chance": 0.01, "nll": 0.5, "bins": bins}
    after = {"temperature": 1.75, "reason": None, "ece_scaled": 0.01, "nll_scaled": 0.4, "bins_scaled": scaled}
    found = calibration_of(tmp_path, figures | after, None)
    first, second = map(plain, found["paragraphs"])
    assert first == (
        "On average the network is 89.7 % confident, and 80.2 % of its predictions are right: it is overconfident. "
        "Of the 991 predictions with a confidence of 75 to 100 % (90.0 % on average), 80.0 % were right."
    )
    assert second.startswith(
        "After temperature scaling, of the 1 000 predictions with a confidence of 75 to 100 % (80.0 % on average), 81.0 %"
    )
    assert [plain(tile["value"]) for tile in found["tiles"]] == ["10.0 %", "1.0 %", "1.75"]
    before = found["panels"][0]["shapes"]
    assert [shape["few"] for shape in before] == [True, False]
    assert before[0]["top"] == 8  # all right: the bar is as high as the picture
    assert before[1]["top"] - before[1]["mark"] == pytest.approx(0.1 * 240)  # the mark is 10 points above the bar
    assert [panel["title"] for panel in found["panels"]] == ["Before temperature scaling", "After temperature scaling, T = 1.75"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperature": None, "reason": "Too few.", "bins_scaled": None}, "Too few."),
        ({"temperature": 1.0, "reason": "It did not help."}, "It did not help."),
        ({"ece": 0.01, "ece_by_chance": 0.02, "temperature": None, "reason": "None."}, "measured here can be chance."),
    ],
)
def test_calibration_without_scaling_has_one_panel(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    found = calibration_of(tmp_path, make_calibration(240).as_dict() | change)
    assert len(found["panels"]) == len(found["tiles"]) == 1
    assert words in " ".join(found["paragraphs"])


@pytest.mark.parametrize("damaged", [None, {}, [], {"bins": None}, {"bins": [None, {"count": 3}]}, {"bins": [{"low": "a"}]}])
def test_calibration_that_is_not_there(damaged: Any) -> None:
    assert calibration_section(Contents(result={"calibration": damaged})) is None


def test_agreement_is_said_with_its_samples(tmp_path: Path) -> None:
    found = calibration_of(tmp_path, make_calibration(240, temperature=1.0).as_dict())
    assert "as far as 240 samples can tell, the two agree." in found["paragraphs"][0]


def test_results_of_classes_worst_first(tmp_path: Path) -> None:
    classes = [
        {"name": "a", "labels": 9, "test_samples": 10, "error": 0.1, "supervised_error": 0.2, "precision": None, "recall": 0.9},
        {"name": "b", "labels": 1, "test_samples": 0, "error": None, "supervised_error": None, "precision": 0.0, "recall": None},
        {"name": "c", "labels": 1200, "test_samples": 4, "error": 0.5, "supervised_error": 0.25, "precision": 1.0, "recall": 0.5},
        {"name": "d", "labels": 3, "test_samples": 20, "error": 0.5, "supervised_error": 0.5, "precision": 0.5, "recall": 0.5},
        "damaged",
    ]
    found = results_section(read(make_run(tmp_path / "run", evaluation="holdout", result={"classes": classes})))
    assert found is not None
    assert found["heads"] == ["Labels", "Tested", "Error", "Baseline error", "Precision", "Recall"]
    rows = [[row["name"], *map(plain, row["cells"])] for row in found["rows"]]
    assert rows == [
        ["d", "3", "20", "50.0 %", "50.0 %", "50.0 %", "50.0 %"],
        ["c", "1 200", "4", "50.0 %", "25.0 %", "100.0 %", "50.0 %"],
        ["a", "9", "10", "10.0 %", "20.0 %", "–", "90.0 %"],
        ["b", "1", "0", "–", "–", "0.0 %", "–"],
    ]
    assert [row["bar"] for row in found["rows"]] == [50, 50, 10, None]
    assert [plain(sentence) for sentence in found["sentences"]] == [
        "Half of the classes have an error of 50.0 % or less.",
        "Compared with the baseline, the error is lower in 1 class, higher in 1 and the same in 1.",
        "No sample of 1 class was tested.",
    ]


def test_results_show_only_what_is_known(tmp_path: Path) -> None:
    unmeasured = results_section(read(make_run(tmp_path / "none", evaluation="none")))
    assert unmeasured is not None
    assert (unmeasured["heads"], unmeasured["measured"], unmeasured["sentences"]) == (["Labels"], False, [])
    alone = results_section(read(make_run(tmp_path / "alone", evaluation="holdout", twin=False)))
    assert alone is not None
    assert "Baseline error" not in alone["heads"]
    assert results_section(read(make_run(tmp_path / "old"))) is None


@pytest.mark.parametrize(("classes", "moments"), [(2, 60), (100, 60), (150, 40), (1000, 12)])
def test_many_classes_have_fewer_moments(classes: int, moments: int) -> None:
    records = [{"step": s, "test_class_errors": [0.5] * classes} for s in range(1, 101)]
    assert len(page_data(Contents(records=records, classes=("c",) * classes))["moments"]) == moments


def test_formats() -> None:
    counts = [plain(count(n, "label", "labels")) for n in (1, 2, 1048576, None)]
    assert counts == ["1 label", "2 labels", "1 048 576 labels", "? labels"]
    assert percent(0.0264) == "2.6\u202f%"


def test_what_training_writes_stays() -> None:
    record = make_record(5, 3, "softmatch")
    assert clean_record(record) == record
    assert clean_boundary(make_boundary()) == make_boundary()


@pytest.mark.parametrize(
    ("part", "left"),
    [
        ({"histogram": "all"}, {}),
        ({"histogram": {"all": [1, "2"], "wrong": [1, 2]}}, {"histogram": {"wrong": [1, 2]}}),
        ({"classes": {"quantity": [0.5, "x"], "quality": {}, "code": [1]}}, {"classes": {"quantity": [0.5, None]}}),
        ({"curve": {"weight": [1.0]}}, {}),
        ({"statistics": {"mean": "x", "scale": [1, None], "a": 2}}, {"statistics": {"mean": None, "scale": [1, None], "a": 2}}),
        ({"statistics": [1]}, {}),
        ({"test_class_errors": {"a": 1}}, {}),
        ({"loss": "x"}, {"loss": "x"}),
    ],
)
def test_parts_of_another_form_are_left_out(part: dict[str, Any], left: dict[str, Any]) -> None:
    assert clean_record({"step": 1, **part}) == {"step": 1, **left}


@pytest.mark.parametrize("change", [{"x": []}, {"y": "ab"}, {"probs": [[1], 2]}, {"probs": None}, {"x": [None, 1]}])
def test_a_boundary_without_its_grid_is_none(change: dict[str, Any]) -> None:
    assert clean_boundary(make_boundary() | change) == {}
