"""Mistakes are found before anything is run, and the cell is named."""

from pathlib import Path
from typing import Any

import pytest

from softmatch.errors import InputError
from softmatch.experiments.checking import check
from softmatch.experiments.sheet import Column, Row, Sheet
from softmatch.experiments.store import Store
from tests.experiments.tiny import TINY


def sheet(rows: dict[str, dict[str, Any]], columns: dict[str, dict[str, Any]], **common: Any) -> Sheet:
    made = [Column(name, "two-moons", settings) for name, settings in columns.items()]
    return Sheet("sheet", "", [Row(name, settings) for name, settings in rows.items()], made, (0,), {**TINY, **common})


GOOD = {"soft": {"method": "softmatch", "method_options": {"k": 3}}, "fix": {"method": "fixmatch", "lr": 0.1}}


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (GOOD | {"wrong": {"method": "softmach"}}, {"all": {}}, "wrong, all: there is no method 'softmach'. Did you mean"),
        (GOOD | {"wrong": {"method_options": {"q": 3}}}, {"all": {}}, "wrong, all: method 'softmatch' has no option 'q'"),
        (
            GOOD | {"wrong": {"method_options": {"k": "banana"}}},
            {"all": {}},
            "wrong, all: method 'softmatch': k = 'banana': ",
        ),
        (GOOD | {"wrong": {"lr": -1}}, {"all": {}}, "wrong, all: settings: lr = -1"),
        (GOOD | {"wrong": {"network": "mpl"}}, {"all": {}}, "wrong, all: there is no network 'mpl'"),
        (GOOD, {"all": {}, "many": {"labels": 5000}}, "many: "),
        (GOOD, {"other": {"data": "nowhere"}}, "other: "),
        (GOOD, {"text": {"text": "message"}}, "text: --text-column is for data of your own"),
    ],
    ids=["method", "option", "value", "setting", "network", "labels", "data", "own"],
)
def test_mistakes(rows: dict[str, Any], columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        check(sheet(rows, columns), Store(tmp_path))
    assert str(error.value).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_what_is_finished_is_not_looked_at(tmp_path: Path) -> None:
    store, finished = Store(tmp_path), sheet({"wrong": {"method": "softmach"}}, {"all": {}})
    folder = store.folder(finished.runs()[0])
    folder.mkdir(parents=True)
    for name in ("result.json", "report.html"):
        (folder / name).touch()
    assert check(finished, store) == []


def test_findings_about_own_data_are_given_back_once(tmp_path: Path) -> None:
    rows = [f"{x},{x % 7},{'ab'[x % 2] if x < 20 else ''}" for x in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y,label", *rows]))
    own = [Column(f"{seed}", str(tmp_path / "t.csv"), {"split_seed": seed}) for seed in (0, 1)]
    found = check(Sheet("own", "", [Row("soft", {})], own, (0,), {**TINY, "evaluation": "none"}), Store(tmp_path / "store"))
    assert len(found) == len({finding.text for finding in found})
    with pytest.raises(InputError, match="0: --data is for named sources"):
        check(Sheet("own", "", [Row("soft", {})], own, (0,), TINY), Store(tmp_path), {own[0].source: tmp_path})
