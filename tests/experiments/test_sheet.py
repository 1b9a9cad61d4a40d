"""Sheets: which runs there are, and which are the same."""

import os
from pathlib import Path

import pytest

from softmatch.errors import InputError
from softmatch.experiments.sheet import Column, Row, Run, Sheet, code_of, digest

FIX, SOFT = Row("FixMatch", {"method": "fixmatch"}), Row("SoftMatch", {"method": "softmatch", "method_options": {"k": 3}})
FORTY, EIGHTY = Column("40", "digits", {"labels": 40}, "Digits"), Column("80", "digits", {"labels": 80}, "Digits")


def sheet(**changes: object) -> Sheet:
    given: dict[str, object] = {"rows": [FIX, SOFT], "columns": [FORTY, EIGHTY], "seeds": [0, 1], "common": {"steps": 9}}
    return Sheet("test", "A test", **{**given, **changes})  # type: ignore[arg-type]  # the given ones are of the right types


def test_a_run_is_its_source_and_what_decides_about_its_outcome() -> None:
    run = Run("digits", {"labels": 40, "seed": 1})
    assert run.key == Run("digits", {"seed": 1, "labels": 40}).key
    assert run.key == Run("digits", {"seed": 1, "labels": 40, "threads": 2, "data": Path("x"), "method_options": {}}).key
    others = [Run("two-moons", run.settings), Run("digits", {"labels": 40, "seed": 2}), Run("digits", {"labels": 41, "seed": 1})]
    assert len({run.key, *(other.key for other in others)}) == 4


def test_other_data_and_other_code_make_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Run("own.csv", {}, "one").key != Run("own.csv", {}, "two").key
    runs = [lambda: Run("digits", {"method": "saw+mine.py:W"}), lambda: Run("digits", {"method_options": {"base": "mine.py:W"}})]
    before = [run().key for run in runs]
    (tmp_path / "mine.py").write_text("W = 1")
    written = [run().key for run in runs]
    (tmp_path / "mine.py").write_text("W = 2")
    changed = [run().key for run in runs]
    assert len({*before, *written, *changed}) == 6
    column = Column("40", "own.csv", {}, made_of="three")
    assert sheet(columns=[column]).runs()[0].made_of == "three"


def test_whether_workers_make_the_views_matters_and_not_how_many() -> None:
    keys = [Run("digits", {"workers": number}).key for number in (0, 1, 4)]
    assert keys[1] == keys[2] != keys[0]


def test_the_name_of_a_run_is_readable_and_fit_for_a_file() -> None:
    run = Run("/data/my photos.csv", {"labels": 40, "seed": 3, "method": "saw+dir/mine.py:My:Weighting"})
    assert run.name == f"my-photos-Weighting-40-labels-seed-3-{run.key}"
    assert Run("digits", {}).name.startswith("digits-softmatch-seed-0-")


def test_rows_win_over_columns_and_these_over_what_is_common() -> None:
    made = sheet(columns=[Column("short", "digits", {"steps": 5})], rows=[SOFT, Row("longer", {"steps": 7})])
    assert [run.settings["steps"] for run in made.runs()] == [5, 7, 5, 7]
    options = Row("more", {"method_options": {"momentum": 0.5}})
    merged = sheet(common={"method_options": {"k": 2}}).run(options, FORTY, 0)
    assert merged.settings["method_options"] == {"k": 2, "momentum": 0.5}


def test_runs_go_seed_by_seed_and_shared_ones_stand_once() -> None:
    runs = sheet().runs()
    assert [(run.seed, run.method, run.settings["labels"]) for run in runs] == [
        (seed, method, labels) for seed in (0, 1) for method in ("fixmatch", "softmatch") for labels in (40, 80)
    ]
    assert len(sheet(rows=[FIX, Row("again", FIX.settings)]).runs()) == 4


@pytest.mark.parametrize("what", ["rows", "columns"])
def test_what_is_there_twice_is_refused(what: str) -> None:
    with pytest.raises(InputError, match="is in test twice"):
        sheet(**{what: [FIX, FIX] if what == "rows" else [FORTY, FORTY]})


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(InputError, match="unknown setting 'lables'"):
        sheet(common={"lables": 3}).runs()


def test_of_a_file_the_bytes_count(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a" * 3_000_000)
    two.write_bytes(b"a" * 3_000_000)
    assert digest(one) == digest(two)
    two.write_bytes(b"a" * 2_999_999 + b"b")
    assert digest(one) != digest(two)


def test_of_a_folder_names_sizes_and_times_count(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    (folder / "cat").mkdir(parents=True)
    (folder / "cat" / "1.png").write_bytes(b"1")
    seen = [digest(folder)]
    (folder / "cat" / "1.png").rename(folder / "cat" / "2.png")
    seen.append(digest(folder))
    os.utime(folder / "cat" / "2.png", ns=(1, 1))
    seen.append(digest(folder))
    (folder / "dog.png").write_bytes(b"")
    seen.append(digest(folder))
    assert len(set(seen)) == 4
    assert digest(folder) == seen[-1]


def test_code_is_found_wherever_it_is_named(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("x = 1")
    named = {"method": f"saw+{mine}:x", "method_options": {"list": [f"{mine}:y"]}, "network": "gone.py:x", "labels": 4}
    assert code_of(named) == {str(mine): digest(mine)}
    assert code_of({"method": "softmatch.weightings:Linear"}) == {}
