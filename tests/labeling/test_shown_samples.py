"""Labels follow their samples when files are renamed or rows sorted; those of samples that are gone are left out."""

from pathlib import Path

import pytest

from softmatch.data.understanding import Reading
from softmatch.errors import InputError
from softmatch.labeling.label_log import LabelLog
from softmatch.labeling.label_page import LabelPage
from softmatch.labeling.shown_samples import ShownSamples
from softmatch.labeling.suggestion_queue import SuggestionQueue
from softmatch.labeling.trainings import Trainings


def label_some(source: Path, project: Path, labels: dict[str, str]) -> None:
    shown, log = ShownSamples(str(source), Reading()), LabelLog(project)
    for name, label in labels.items():
        log.write(name, "key", [(name, shown.digest(shown.ids[name]))], label, {name: "chosen"})
    log.close()


def test_a_sorted_table_keeps_the_labels_of_its_texts(tmp_path: Path) -> None:
    texts = [f"{word} words {word}" for word in ("one", "two", "three", "four", "five")]
    table = tmp_path / "texts.csv"
    table.write_text("text\n" + "\n".join(texts) + "\n")
    label_some(table, tmp_path / "p", {"1": "a", "2": "b", "5": "c"})
    table.write_text("text\n" + "\n".join([texts[1], texts[0], "new words here", texts[3]]) + "\n")
    shown, log = ShownSamples(str(table), Reading()), LabelLog(tmp_path / "p")
    assert shown.follow(log) == (2, {"5"})
    assert {name: value.label for name, value in log.labels().items()} == {"1": "b", "2": "a", "5": "c"}
    assert not log.can_undo  # the acts before are about rows that are others now
    assert shown.follow(log) == (0, {"5"})
    log.close()
    again = LabelLog(tmp_path / "p")
    assert {name: value.label for name, value in again.labels().items()} == {"1": "b", "2": "a", "5": "c"}
    again.close()


def test_a_label_never_replaces_that_of_a_copy(pictures: Path, tmp_path: Path) -> None:
    (pictures / "copy.png").write_bytes((pictures / "000.png").read_bytes())
    label_some(pictures, tmp_path / "p", {"000.png": "left", "copy.png": "right", "001.png": "below"})
    (pictures / "000.png").unlink()
    (pictures / "001.png").rename(pictures / "other.png")
    shown, log = ShownSamples(str(pictures), Reading()), LabelLog(tmp_path / "p")
    assert shown.follow(log) == (1, {"000.png"})
    assert log.labels()["copy.png"].label == "right"
    assert log.labels()["other.png"].label == "below"
    log.close()


def test_trainings_leave_out_what_is_gone_and_unreadable_files_get_no_label(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    label_some(pictures, tmp_path / "p", {"000.png": "left", "001.png": "right", "002.png": "below"})
    (pictures / "000.png").unlink()
    shown, log = ShownSamples(str(pictures), Reading()), LabelLog(tmp_path / "p")
    trainings = Trainings(tmp_path / "p", str(pictures), [])
    monkeypatch.setattr(trainings, "_launch", lambda name, about: started.append(about["labels"]))
    started: list[int] = []
    page = LabelPage(trainings, shown, log, SuggestionQueue(shown, log, Reading()), shown.follow(log)[1])
    (pictures / "001.png").unlink()  # while the server runs
    page.train({"how": "start"})
    rows = (tmp_path / "p" / "runs" / "001.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["name", "002.png"]
    assert started == [1]
    (pictures / "003.png").unlink()
    about = {"request": "x", "how": "key", "epoch": shown.epoch, "samples": [shown.ids["003.png"]], "label": "left"}
    with pytest.raises(InputError, match=r"003\.png cannot be read"):
        page.act(about)
    assert page.act({**about, "how": "skip"})["skipped"] == 1
    assert [row["name"] for row in page.review({"list": "left", "offset": 0, "number": 9})["rows"]] == ["003.png"]
    page.close()
