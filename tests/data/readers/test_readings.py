"""Tables with one row per reading: grouped, sorted, put on an even grid; and tables that cannot be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softmatch.data.readers.open_source import open_source
from softmatch.data.records import Columns, Found, Grid
from softmatch.errors import InputError

NAMED = Columns(label="kind", series="id", time="t")
ROWS = [
    {"id": "b", "t": 2, "x": 30.0, "y": 1, "kind": ""},
    {"id": "a", "t": 0, "x": 1.0, "y": 5, "kind": "up"},
    {"id": "b", "t": 0, "x": 10.0, "y": 2, "kind": ""},
    {"id": "a", "t": 1, "x": 2.0, "y": 6, "kind": ""},
    {"id": "b", "t": 1, "x": 20.0, "y": 3, "kind": ""},
]


def opened(folder: Path, rows: list[dict[str, Any]], columns: Columns = NAMED, name: str = "r.csv", label: bool = True) -> Found:
    path = folder / name
    if name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif name.endswith(".parquet"):
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        pandas.DataFrame(rows).to_parquet(path)
    else:
        mark = "\t" if name.endswith(".tsv") else ","
        lines = [mark.join(rows[0]), *(mark.join(str(cell) for cell in row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    found = open_source(path, columns, need_label=label)
    assert isinstance(found, Found)
    return found


def readings(times: list[Any], values: list[Any]) -> list[dict[str, Any]]:
    return [{"id": "a", "t": time, "x": value, "kind": "up"} for time, value in zip(times, values, strict=True)]


def first(found: Found) -> list[Any]:
    series: list[Any] = found.records.inputs[0].tolist()  # type: ignore[index, union-attr]  # arrays of numbers
    return series


@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.jsonl", "r.parquet"])
def test_rows_become_series_by_id_and_time(tmp_path: Path, name: str) -> None:
    found = opened(tmp_path, ROWS, name=name)
    assert found.records.names == ["b", "a"]
    assert found.records.labels == [None, "up"]
    assert [one.tolist() for one in found.records.inputs] == [[[10, 20, 30], [2, 3, 1]], [[1, 2], [5, 6]]]  # type: ignore[union-attr]  # arrays
    assert found.records.grid == Grid("id", "t", ("x", "y"), 1.0)
    (note,) = found.findings
    assert "values: 'x', 'y'" in note.text


def test_a_frame_and_named_values(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    found = open_source(pandas.DataFrame(ROWS), Columns(label="kind", features=("y",), series="id"))
    assert isinstance(found, Found)
    assert [one.tolist() for one in found.records.inputs] == [[[1, 2, 3]], [[5, 6]]]  # type: ignore[union-attr]  # in the order of rows
    assert opened(tmp_path, ROWS, Columns(features=("x",), series="id", time="t"), label=False).records.labels == [None, None]


def test_irregular_times_are_brought_to_an_even_grid(tmp_path: Path) -> None:
    found = opened(tmp_path, readings([0, 1, 2, 4, 5, 6.5], [0, 10, 20, 40, 50, 65]))
    assert first(found) == [[0, 10, 20, 30, 40, 50, 60]]
    assert found.columns.step == 1.0
    assert "1 series has irregular times: brought to one value every 1 by straight lines" in found.findings[-1].text
    model = opened(tmp_path, readings([0, 1, 2], [0, 10, 20]), Columns(label="kind", series="id", time="t", step=0.5))
    assert first(model) == [[0, 5, 10, 15, 20]]


def test_dates_gaps_and_several_readings_at_a_time(tmp_path: Path) -> None:
    dates = ["2024-05-31T08:00:10Z", "2024-05-31 08:00:00", "2024-05-31T10:00:20+02:00", "2024-05-31T08:00:30"]
    assert first(found := opened(tmp_path, readings(dates, [2, 1, "", 4]))) == [[1, 2, 3, 4]]
    assert found.columns.step == pytest.approx(10)
    found = opened(tmp_path, readings([0, 1, 1, 2], [1, 2, 4, 5]))
    assert first(found) == [[1, 3, 5]]
    assert "1 series has several readings at one time: a. Their mean is used." in found.findings[-1].text
    found = opened(tmp_path, readings([3], [7]), Columns(label="kind", features=("x",), series="id", time="t"))
    assert first(found) == [[7]]
    assert "1 series has a single reading, which is repeated: a." in found.findings[-1].text


@pytest.mark.parametrize(
    ("change", "columns", "message"),
    [
        (
            {"kind": "down", "id": "a"},
            NAMED,
            r"series 'a' has the labels 'down' \(row 1\) and 'up' \(row 2\)",
        ),
        ({"t": "noon"}, NAMED, r"row 1: the time in column 't' is 'noon'. Write numbers, or dates such as 2024"),
        ({"t": ""}, NAMED, "row 1: the time in column 't' is empty"),
        ({"id": " "}, NAMED, "row 1: column 'id' is empty"),
        ({"x": "ten"}, Columns("kind", features=("x",), series="id"), "row 1: column 'x' holds 'ten', not a number"),
        ({"t": 10**9}, NAMED, "series 'b' has 3 readings over 1,000,000,001 steps of 1"),
        ({}, Columns("kind", series="idd"), r"has no column 'idd'. Did you mean 'id'\?"),
        ({}, Columns("kind", series="id", time="time"), "has no column 'time'"),
        ({}, Columns("kind", time="t"), "also name the column of the series with --series"),
        ({}, Columns("kind", series="id", time="id"), "column 'id' is named for two purposes"),
        ({}, Columns("kind", text="x", series="id"), "--text and --augmented are for texts"),
        ({}, Columns(series="id"), r"cannot tell which column holds the labels \('t', 'x' or 'kind'\)"),
    ],
)
def test_what_is_wrong_is_named_with_its_row(tmp_path: Path, change: dict[str, Any], columns: Columns, message: str) -> None:
    with pytest.raises(InputError, match=message):
        opened(tmp_path, [ROWS[0] | change, *ROWS[1:]], columns)


def test_columns_that_are_no_readings_are_left_out(tmp_path: Path) -> None:
    rows = [row | {"row": at, "place": "in" if at % 2 else "out"} for at, row in enumerate(ROWS)]
    found = opened(tmp_path, rows)
    assert found.columns.features == ("x", "y")
    assert "left out: 'row' (all values differ, a row number), 'place' (not numbers)" in found.findings[0].text
    with pytest.raises(InputError, match="has no column of numbers beside 'id', 't'"):
        opened(tmp_path, [{"id": "a", "t": 1, "kind": "up"}, {"id": "b", "t": 1, "kind": "down"}])
    (tmp_path / "none.csv").write_text("id,t,x\n")
    with pytest.raises(InputError, match="has no rows"):
        open_source(tmp_path / "none.csv", NAMED)


def test_the_values_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0)
    rows = [{"id": f"s{k % 7}", "t": float(t), "x": float(t * k), "kind": ""} for k in range(7) for t in drawn.uniform(0, 20, 9)]
    by_name = {}
    for order in (range(len(rows)), drawn.permutation(len(rows))):
        records = opened(tmp_path, [rows[k] for k in order]).records
        by_name[len(by_name)] = {name: one.tolist() for name, one in zip(records.names, records.inputs, strict=True)}  # type: ignore[arg-type]  # arrays
    assert by_name[0] == by_name[1]
