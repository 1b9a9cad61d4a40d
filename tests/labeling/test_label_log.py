"""The log of labels: what is acknowledged is never lost, and everything follows from its lines."""

import errno
import json
import os
from pathlib import Path

import pytest

from softmatch.data.label_file import read_label_file
from softmatch.errors import InputError, SoftmatchError
from softmatch.labeling.label_log import LabelLog, class_name


def put(log: LabelLog, name: str, label: str | None, purpose: str = "chosen", request: str | None = None) -> None:
    log.write(request or f"{name}-{log.version}", "key", [(name, f"d{name}")], label, {name: purpose})


def labels(log: LabelLog) -> dict[str, str | None]:
    return {name: value.label for name, value in log.values.items()}


def test_labels_undo_and_redo_follow_from_the_lines(tmp_path: Path) -> None:
    log = LabelLog(tmp_path)
    put(log, "a", "cat")
    put(log, "b", "dog", "random")
    put(log, "a", "dog")
    put(log, "c", None, "skip")
    assert labels(log) == {"a": "dog", "b": "dog", "c": None}
    log.undo("1")
    log.undo("2")
    assert labels(log) == {"a": "cat", "b": "dog"}
    log.redo("3")
    assert labels(log) == {"a": "dog", "b": "dog"}
    put(log, "d", "cat")
    assert (log.can_undo, log.can_redo, log.redo("4")) == (True, False, None)
    before, counts = dict(log.values), log.counts()
    assert counts == {"cat": 1, "dog": 2}
    log.close()
    again = LabelLog(tmp_path)
    assert (again.values, again.counts(), again.version, again.cut) == (before, counts, 8, 0)
    for number in range(10):
        again.undo(f"u{number}")
    assert again.values == {}
    assert again.undo("more") is None
    again.close()


def test_a_group_is_one_step(tmp_path: Path) -> None:
    log = LabelLog(tmp_path)
    names = [f"n{number}" for number in range(20)]
    log.write("g", "group", [(name, "") for name in names], "cat", dict.fromkeys(names, "group"))
    assert log.counts() == {"cat": 20}
    log.undo("u")
    assert log.counts() == {}
    log.close()


def test_a_class_is_renamed_and_merged_in_one_step_each(tmp_path: Path) -> None:
    log = LabelLog(tmp_path)
    for name, label in (("a", "cat"), ("b", "cta"), ("c", "dog"), ("d", "cta")):
        put(log, name, label, "random" if name == "d" else "chosen")
    log.rename("r", "cta", "bird")
    assert log.rename("r", "cta", "bird") is log._acts[-1]
    assert list(log.counts().items()) == [("cat", 1), ("bird", 2), ("dog", 1)]  # in its place, so with its key
    log.rename("m", "bird", "cat")
    assert log.counts() == {"cat": 3, "dog": 1}
    assert (log.values["d"].purpose, log.values["d"].digest) == ("random", "dd")
    log.undo("u")
    assert list(log.counts()) == ["cat", "bird", "dog"]
    log.close()
    again = LabelLog(tmp_path)
    assert list(again.counts().items()) == [("cat", 1), ("bird", 2), ("dog", 1)]
    again.undo("v")
    assert list(again.counts().items()) == [("cat", 1), ("cta", 2), ("dog", 1)]
    again.redo("w")
    assert labels(again) == {"a": "cat", "b": "bird", "c": "dog", "d": "bird"}
    again.close()


def test_a_repeated_request_is_written_once(tmp_path: Path) -> None:
    log = LabelLog(tmp_path)
    put(log, "a", "cat", request="r")
    put(log, "a", "cat", request="r")
    assert (log.version, log.undo("u"), log.undo("u")) == (1, log._acts[-1], log._acts[-1])
    assert log.version == 2
    log.close()
    again = LabelLog(tmp_path)
    put(again, "a", "cat", request="r")  # also after a restart
    assert again.version == 2
    again.close()


def test_a_torn_last_line_is_cut_wherever_it_is_torn(tmp_path: Path) -> None:
    log = LabelLog(tmp_path)
    put(log, "a", "cat")
    put(log, "b", "dög")
    log.close()
    whole = (tmp_path / "log.jsonl").read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(first, len(whole)):
        (tmp_path / "log.jsonl").write_bytes(whole[:length])
        again = LabelLog(tmp_path)
        assert (labels(again), again.cut) == ({"a": "cat"}, length - first)
        again.close()
        assert (tmp_path / "log.jsonl").read_bytes() == whole[:first]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"time": "", "request": "1", "how": "undo", "changes": []}\n')
    with pytest.raises(InputError, match=r"log.jsonl, line 1 is damaged"):
        LabelLog(tmp_path)
    (tmp_path / "log.jsonl").write_text("nonsense\n{}\n")
    with pytest.raises(InputError, match=r"line 1 is damaged .* backup"):
        LabelLog(tmp_path)


def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, write = LabelLog(tmp_path), os.write
    put(log, "a", "cat")

    def half(file: int, line: bytes) -> int:
        write(file, line[: len(line) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        with pytest.raises(SoftmatchError, match="No space left"):
            put(log, "b", "dog")
    put(log, "c", "dog")
    assert labels(log) == {"a": "cat", "c": "dog"}
    log.close()
    again = LabelLog(tmp_path)
    assert (labels(again), again.cut) == ({"a": "cat", "c": "dog"}, 0)
    again.close()


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    log = LabelLog(tmp_path)
    log.announce("http://127.0.0.1:7765")
    with pytest.raises(InputError, match=r"is open in http://127.0.0.1:7765. Stop that server"):
        LabelLog(tmp_path)
    log.close()
    LabelLog(tmp_path).close()


def test_a_table_that_others_have_changed_is_kept(tmp_path: Path) -> None:
    log = LabelLog(tmp_path / "p")
    put(log, "a", "cat")
    log.close()
    table = tmp_path / "p" / "labels.csv"
    table.write_text(table.read_text().replace("cat", "dog"))
    for number in (1, 2):
        log = LabelLog(tmp_path / "p")
        put(log, f"b{number}", "cat")
        log.write_table()
        log.write_table()
        assert [path.name for path in log.edited] == (["labels-edited-1.csv"] if number == 1 else [])
        log.close()
    assert "dog" in (tmp_path / "p" / "labels-edited-1.csv").read_text()
    assert "dog" not in table.read_text()


def test_the_table_is_what_training_reads(tmp_path: Path) -> None:
    log = LabelLog(tmp_path)
    put(log, "=a,1.png", "cat")
    put(log, 'b "x".png', "dog", "random")
    put(log, "c", None, "none")
    found = read_label_file(log.write_table())
    assert [(each.label, each.purpose, each.digest) for each in found] == [
        ("cat", "chosen", "d=a,1.png"),
        ("dog", "random", 'db "x".png'),
    ]
    assert [each.name for each in found] == ["=a,1.png", 'b "x".png']
    line = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])
    assert line["changes"] == [
        {
            "name": "=a,1.png",
            "digest": "d=a,1.png",
            "label": "cat",
            "purpose": "chosen",
            "previous": None,
            "previous_purpose": None,
        }
    ]
    log.close()


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\nb", "NA", "?", None, 3])
def test_names_that_training_would_refuse(name: object) -> None:
    with pytest.raises(InputError):
        class_name(name)
    assert class_name(" 1.0 ") == "1"
