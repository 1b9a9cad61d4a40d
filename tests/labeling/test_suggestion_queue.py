"""The queue: typical samples, then doubtful ones; after the first 40 random ones, without a prediction; no sample twice."""

from pathlib import Path

import pytest

from softmatch.data.understanding import Reading
from softmatch.labeling import suggestion_queue
from softmatch.labeling.label_log import LabelLog
from softmatch.labeling.review_lists import ReviewLists
from softmatch.labeling.shown_samples import ShownSamples
from softmatch.labeling.suggestion_queue import SuggestionQueue
from softmatch.labeling.trainings import Trainings
from tests.labeling.conftest import KINDS, put


def test_samples_come_before_features_and_random_ones_after_forty(queue: SuggestionQueue) -> None:
    purposes = []
    for _ in range(46):
        (each,) = queue.next(1, "tab", [])
        assert (each.purpose == "random") == queue.is_random(each.position)
        purposes.append(each.purpose)
        put(queue, each.position)
    random = sum(queue.is_random(position) for position in range(60))
    assert purposes.count("random") == 2 <= random
    assert purposes.index("random") == 42
    assert [each.purpose for each in queue.next(100, "tab", [])].count("random") == random - 2
    assert len(queue.next(100, "tab", [])) == 14


def test_typical_samples_are_found_again_when_all_are_labelled(queue: SuggestionQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestion_queue, "ROUNDS", (2,))
    queue.find_features()
    for position in range(10):  # of ten classes, so that it is early
        queue.refresh()
        (each,) = queue.next(1, "tab", [])
        assert each.reason.startswith("Typical of")
        put(queue, each.position, f"class {position}")


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
