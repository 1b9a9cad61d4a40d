"""The queue: typical samples, then doubtful ones; after the first 20 a fifth at random, without a prediction; no sample twice."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from softmatch.data.understanding import Reading
from softmatch.labeling import suggestion_queue
from softmatch.labeling.label_log import LabelLog
from softmatch.labeling.review_lists import ReviewLists
from softmatch.labeling.shown_samples import ShownSamples
from softmatch.labeling.suggestion_queue import SuggestionQueue, measuring_due
from softmatch.labeling.trainings import Trainings
from tests.labeling.conftest import make_pictures

KINDS = ("left", "right", "below")


@pytest.fixture
def queue(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SuggestionQueue]:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    shown, log = ShownSamples(str(pictures), Reading()), LabelLog(tmp_path / "project")
    yield SuggestionQueue(shown, log, Reading())
    log.close()


def put(queue: SuggestionQueue, position: int, label: str | None = None) -> None:
    name = queue.shown.records.names[position]
    purpose = {name: "random" if queue.is_random(position) else "chosen"}
    queue.log.write(f"{name} {queue.log.version}", "key", [(name, "")], label or KINDS[position % 3], purpose)


def test_samples_come_before_features_and_random_ones_after_twenty(queue: SuggestionQueue) -> None:
    purposes = []
    for _ in range(40):
        (each,) = queue.next(1, "tab", [])
        assert (each.purpose == "random") == queue.is_random(each.position)
        purposes.append(each.purpose)
        put(queue, each.position)
    random = sum(queue.is_random(position) for position in range(60))
    assert purposes.count("random") == 5 <= random
    assert purposes.index("random") == 23
    assert [each.purpose for each in queue.next(100, "tab", [])].count("random") == random - 5
    assert len(queue.next(100, "tab", [])) == 20


@pytest.mark.parametrize(("number", "random"), [(20, 0), (24, 1), (40, 5), (60, 10), (99, 19), (100, 20), (105, 21), (1000, 200)])
def test_no_random_samples_at_first_and_a_fifth_from_100_on(number: int, random: int) -> None:
    assert measuring_due(number) == random


def test_typical_samples_are_found_again_when_all_are_labelled(queue: SuggestionQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestion_queue, "ROUNDS", (2,))
    queue.find_features()
    for position in range(10):  # of ten classes, so that it is early
        queue.refresh()
        (each,) = queue.next(1, "tab", [])
        assert each.reason.startswith("Typical of")
        put(queue, each.position, f"class {position}")


def test_what_is_random_depends_on_the_name_alone(queue: SuggestionQueue, tmp_path: Path) -> None:
    more = make_pictures(tmp_path / "more", 90)
    other = SuggestionQueue(ShownSamples(str(more), Reading()), queue.log, Reading())
    names = queue.shown.records.names
    assert [queue.is_random(k) for k in range(60)] == [other.is_random(other.shown.ids[name]) for name in names]


def test_tabs_get_different_samples(queue: SuggestionQueue) -> None:
    one, two = ({each.position for each in queue.next(10, tab, [])} for tab in ("one", "two"))
    assert not one & two
    again = {each.position for each in queue.next(10, "one", [])}
    assert again == one  # a tab that was reloaded gets its samples again


def test_typical_ones_first_then_doubtful_ones(queue: SuggestionQueue) -> None:
    queue.find_features()
    queue.refresh()
    first = [each for each in queue.next(6, "tab", []) if each.purpose == "chosen"]
    assert all(each.reason.startswith("Typical of") and each.prediction is None for each in first[:3])
    for position in range(12):
        put(queue, position)
    queue.refresh()
    early = [each for each in queue.next(20, "tab", []) if each.purpose == "chosen"]
    assert all(each.reason.startswith("Typical of") for each in early)
    for position in range(12, 16):  # five labels per class: now the light model has a say
        put(queue, position)
    queue.refresh()
    assert queue.head is not None
    assert (queue.head.probs.argmax(1) == [queue.head.classes.index(KINDS[k % 3]) for k in queue.places]).mean() > 0.9
    found = queue.next(20, "tab", [])
    assert {each.prediction for each in found if each.purpose == "random"} <= {None}
    reasons = [each.reason for each in found if each.purpose == "chosen"]
    assert any("Represents" in reason for reason in reasons)
    assert len({each.position for each in found}) == len(found)


def test_groups_have_no_measuring_samples_and_share_a_class(queue: SuggestionQueue) -> None:
    assert queue.group([]) is None
    queue.find_features()
    for position in range(9):
        put(queue, position)
    queue.refresh()
    queue.clusters = np.array([k % 3 for k in queue.places])
    group = queue.group([])
    assert group is not None
    members = [sample["id"] for sample in group["samples"]]
    assert not any(queue.is_random(k) for k in members)
    assert {KINDS[k % 3] for k in members} == {group["prediction"]}
    other = queue.group([group["cluster"]])
    assert other is not None
    assert other["cluster"] != group["cluster"]


def test_a_group_of_a_mixed_cluster_is_of_one_class(queue: SuggestionQueue) -> None:
    queue.find_features()
    assert queue.clusters is not None
    assert len(np.unique(queue.clusters)) == 10  # 60 samples are few, and not all alike
    queue.clusters = np.zeros(len(queue.places), dtype=int)
    for position in range(12):
        put(queue, position)
    everything = queue.group([])
    assert everything is not None
    assert len({KINDS[sample["id"] % 3] for sample in everything["samples"]}) == 3  # no model yet
    queue.refresh()
    group = queue.group([])
    assert group is not None
    assert {KINDS[sample["id"] % 3] for sample in group["samples"]} == {group["prediction"]}
    assert 0 < group["size"] < everything["size"]


def test_wrong_labels_and_copies_are_found(queue: SuggestionQueue, pictures: Path, tmp_path: Path) -> None:
    (pictures / "900.png").write_bytes((pictures / "000.png").read_bytes())
    shown = ShownSamples(str(pictures), Reading())
    queue = SuggestionQueue(shown, queue.log, Reading())
    queue.find_features()
    for position in range(40):
        put(queue, position)
    put(queue, 4, "left")  # which is "right"
    queue.refresh()
    lists = ReviewLists(Trainings(tmp_path, "", []), queue, shown)
    doubtful = lists.find("disagreements", None, 0, 10)["rows"]
    assert tuple(doubtful[0][key] for key in ("name", "label", "prediction")) == ("004.png", "left", "right")
    copies = lists.find("copies", None, 0, 2)["rows"]
    assert {row["name"] for row in copies} == {"000.png", "900.png"}
    predictions = lists.find("predictions", "below", 0, 50)
    assert predictions["total"] == len(predictions["rows"])
    assert {row["prediction"] for row in predictions["rows"]} == {"below"}
    assert not any(queue.is_random(row["id"]) for row in predictions["rows"])
    assert lists.find("labels", "left", 0, 5)["rows"][0]["now"] == "left"
    assert lists.find("outliers", None, 0, 5)["total"] > 0


@pytest.mark.parametrize("each", [1, 2, 3])
def test_few_labels_of_many_classes_can_be_reviewed(queue: SuggestionQueue, tmp_path: Path, each: int) -> None:
    queue.find_features()
    for position in range(12):
        put(queue, position, f"class {position // each}")
    queue.refresh()
    found = ReviewLists(Trainings(tmp_path, "", []), queue, queue.shown).find("disagreements", None, 0, 20)
    assert (found["total"] > 0) == (each > 1)  # the classes have nothing to do with the pictures


def test_texts_and_rows_of_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    words = ["the card was swallowed", "please close my account", "what is the rate today"]
    rows = [f'{number},"{words[number % 3]} {number}",x{number}' for number in range(40)]
    (tmp_path / "texts.csv").write_text("id,message,customer\n" + "\n".join(rows) + "\n")
    from softmatch.data.records import Columns

    reading = Reading(columns=Columns(text="message"))
    shown, log = ShownSamples(str(tmp_path / "texts.csv"), reading), LabelLog(tmp_path / "project")
    assert shown.show(1) == {"id": 1, "name": "2", "text": "please close my account 1", "others": {"id": "1", "customer": "x1"}}
    queue = SuggestionQueue(shown, log, reading)
    queue.find_features()
    queue.refresh()
    assert queue.next(1, "tab", [])[0].reason.startswith("Typical")
    log.close()
    (tmp_path / "rows.csv").write_text("a,b\n" + "\n".join(f"{k},{k % 5}.5" for k in range(30)) + "\n")
    table = ShownSamples(str(tmp_path / "rows.csv"), Reading())
    assert table.show(3)["cells"] == {"a": "3.0", "b": "3.5"}
    assert len({table.digest(k) for k in range(30)}) == 30
