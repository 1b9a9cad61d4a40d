"""Series of the UCR and UEA archives: .ts, .arff and rows of numbers; and files that are not as they should be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softmatch.data.readers.open_source import open_source
from softmatch.data.records import Columns, Found
from softmatch.errors import InputError

TS = "# waves\n@problemName W\n@timeStamps false\n@dimensions 2\n@equalLength false\n@classLabel true up down\n@data\n"
EVEN = "@univariate true\n@equalLength true\n@classLabel true up down\n@data\n"
UNIVARIATE = "@relation W\n@attribute a numeric\n@attribute 'b b' REAL\n@attribute target {up, 'down'}\n@data\n"
MULTIVARIATE = (
    "% waves\n@relation W\n@attribute x relational\n  @attribute t0 numeric\n  @attribute t1 numeric\n@end x\n"
    "@attribute class {up,down}\n@data\n"
)
ROWS = Columns(series_rows=True)


def opened(folder: Path, name: str, text: str, columns: Columns | None = None) -> Found:
    (folder / name).write_text(text)
    found = open_source(folder / name, columns, need_label=False)
    assert isinstance(found, Found)
    return found


def values(found: Found) -> list[Any]:
    assert found.kind == "array"
    return [one.tolist() for one in found.records.inputs]  # type: ignore[union-attr]  # arrays of numbers


def test_ts_with_dimensions_of_different_lengths_gaps_and_missing_classes(tmp_path: Path) -> None:
    found = opened(tmp_path, "w.ts", f"{TS}1,2,3:4,5,6:up\n\n1,?:3,4:?\n1:2:\n-1e2,nan:5,6:down\n")
    assert found.records.labels == ["up", None, None, "down"]
    assert found.records.names == ["1", "2", "3", "4"]
    shown = [[[None if np.isnan(value) else value for value in row] for row in one] for one in values(found)]
    assert shown == [[[1, 2, 3], [4, 5, 6]], [[1, None], [3, 4]], [[1], [2]], [[-100, None], [5, 6]]]
    short = opened(tmp_path, "short.ts", f"{TS}1,2:4:up\n").records.inputs[0]  # type: ignore[index]  # arrays of numbers
    np.testing.assert_array_equal(short, [[1, 2], [4, np.nan]])
    plain = opened(tmp_path, "plain.ts", "@CLASSLABEL false\n@DATA\n1,2\n3,4\n")
    assert (values(plain), plain.records.labels) == ([[[1, 2]], [[3, 4]]], [None, None])


def test_arff_of_one_and_of_several_dimensions(tmp_path: Path) -> None:
    found = opened(tmp_path, "w.arff", f"{UNIVARIATE}1,2,up\n3, 4, 'down'\n5,6,?\n")
    assert (values(found), found.records.labels) == ([[[1, 2]], [[3, 4]], [[5, 6]]], ["up", "down", None])
    found = opened(tmp_path, "m.arff", f"{MULTIVARIATE}'1,2\\n3,4',up\n\"5,6\\n7,8\",down\n")
    assert (values(found), found.records.labels) == ([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], ["up", "down"])


@pytest.mark.parametrize(("name", "mark"), [("W_TRAIN.tsv", "\t"), ("w.csv", ",")])
def test_rows_of_numbers_after_their_class(tmp_path: Path, name: str, mark: str) -> None:
    lines = ["1 0.5 0.25 NaN", "-1.0 1 NaN 2", " 1 2 3"]
    text = "".join(mark.join(line.split(" ")) + "\n" for line in lines)
    found = opened(tmp_path, name, text, ROWS)
    assert found.records.labels == ["1", "-1", None]
    assert [one.shape for one in found.records.inputs] == [(1, 2), (1, 3), (1, 3)]  # type: ignore[union-attr]  # arrays
    with pytest.raises(InputError, match=r"has no header: its first line holds numbers .* give --arrays series"):
        open_source(tmp_path / name)


def test_a_table_with_a_header_stays_a_table(tmp_path: Path) -> None:
    text = "label,a,b\n1,2,3\n0,4,5\n"
    assert opened_kind(tmp_path, text, ROWS) == opened_kind(tmp_path, text, Columns()) == "table"


def opened_kind(folder: Path, text: str, columns: Columns) -> str:
    (folder / "t.csv").write_text(text)
    return open_source(folder / "t.csv", columns).kind


def test_the_test_part_beside_a_file(tmp_path: Path) -> None:
    (tmp_path / "W_TEST.ts").write_text(f"{TS}1:2:up\n")
    found = opened(tmp_path, "W_TRAIN.ts", f"{TS}1:2:down\n")
    assert found.test is not None
    assert found.test.records.labels == ["up"]
    assert "W_TEST.ts, beside W_TRAIN.ts, is the test set" in found.test.findings[0].text
    (tmp_path / "W_TEST.ts").write_text(f"{TS}1:2:?\n")
    found = opened(tmp_path, "W_TRAIN.ts", f"{TS}1:2:down\n")
    assert found.test is None
    assert "is not used: none of its series has a label" in found.findings[0].text
    assert opened(tmp_path, "other.ts", f"{TS}1:2:down\n").test is None


WRONG = [
    ("w.ts", "", "w.ts is empty"),
    ("w.ts", TS, "w.ts has no series"),
    ("w.ts", TS.replace("@data\n", "1:2:up\n"), r"line 7 is '1:2:up' before @data"),
    ("w.ts", TS.replace("@data\n", ""), "has no line @data, after which the series begin"),
    ("w.ts", TS.replace("@classLabel true up down\n", ""), "has no line @classLabel true or false"),
    ("w.ts", TS.replace("false", "true", 1), "has @timeStamps true: values with times are not read"),
    ("w.ts", TS.replace("@dimensions 2", "@dimensions two"), "@dimensions two is not a number"),
    ("w.ts", f"{TS}1:2:up\n1,2:up\n", "line 9 has 1 dimension, not 2. Is the line complete"),
    ("w.ts", f"{TS}1:2:3:up\n", "line 8 has 3 dimensions, not 2"),
    ("w.ts", f"{TS}1,2:3,four:up\n", "line 8, dimension 2: value 2 is 'four', not a number"),
    ("w.ts", f"{TS}1,2:3,1_000:up\n", "line 8, dimension 2: value 2 is '1_000', not a number"),
    ("w.ts", f"{TS}1,2:3,4:upp\n", r"line 8: the class 'upp' is not in the list of the header. Did you mean 'up'\?"),
    ("w.ts", f"{EVEN}1,2,3:up\n1,2:up\n", "line 6 has 2 values, not 3. Is the line complete"),
    ("w.ts", f"{EVEN}1,2,3\n", "line 5 has no class after a colon"),
    ("w.arff", "", "w.arff is empty"),
    ("w.arff", UNIVARIATE.replace("@data\n", ""), "has no line @data"),
    ("w.arff", f"{UNIVARIATE}1,2\n", "line 6 has 2 cells, not 3. Is the line complete"),
    ("w.arff", f"{UNIVARIATE}1,x,up\n", "line 6: value 2 is 'x', not a number"),
    ("w.arff", f"{UNIVARIATE}1,2,left\n", "line 6: the class 'left' is not in the list"),
    ("w.arff", f"{UNIVARIATE}1,'{'2' * 200_000}\n", "line 6 cannot be split into cells"),
    ("w.arff", UNIVARIATE.replace("REAL", "string"), "line 3: the attribute 'b b' is of type 'string'"),
    ("w.arff", UNIVARIATE.replace("numeric", "{u,v}"), "is a table of another kind"),
    ("w.arff", f"{MULTIVARIATE}'1,2\\n3,4\n", "line 9 is not a series in quotes and a class"),
    ("w.arff", f"{MULTIVARIATE}'1,2\\n3,4'\n", "line 9 is not a series in quotes and a class"),
    ("w.arff", f"{MULTIVARIATE}'1,2\\n3,4',up\n'1,2',up\n", "line 10 has 1 dimension, not 2"),
    ("w.arff", "hello\n", "line 1 is 'hello' before @data"),
    ("w.tsv", "1\t2\t3\n1\t2\n", "line 2 has 2 cells, not 3"),
    ("w.tsv", "1\t2\t3\n1\t2\tx\n", "line 2: value 2 is 'x', not a number"),
]


@pytest.mark.parametrize(("name", "text", "message"), WRONG)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        opened(tmp_path, name, text, ROWS)


def test_columns_cannot_be_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--features names columns of a table, and .*w\.ts has none"):
        opened(tmp_path, "w.ts", f"{TS}1:2:up\n", Columns(features=("a",)))
    with pytest.raises(InputError, match=r"--series is for a table with one row per reading: .*w\.ts is not one"):
        opened(tmp_path, "w.ts", f"{TS}1:2:up\n", Columns(series="a"))
