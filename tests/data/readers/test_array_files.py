"""Arrays and frames as sources."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from softmatch.data.readers.array_files import array_labels, open_arrays, open_frame, open_npy, open_npz
from softmatch.data.records import Columns
from softmatch.errors import InputError

X = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize(
    "y",
    [
        np.array([0, 1, -1, 1]),
        [0, 1, -1, 1],
        [0, 1, None, 1],
        np.array([0.0, 1.0, np.nan, 1.0]),
        np.array([0.0, 1.0, -1.0, 1.0], dtype=np.float32),
        torch.tensor([0.0, 1.0, -1.0, 1.0]),
        pd.Series([0, 1, -1.0, 1]),
        ["0", "1", "", "1.0"],
        np.array([[0], [1], [-1], [1]]),
        torch.tensor([0, 1, -1, 1]),
        pd.Series([0, 1, -1, 1]),
        pd.Series([0, 1, None, 1], dtype="Int64"),
        np.array([0, "1", None, 1.0], dtype=object),
    ],
)
def test_labels_of_any_kind_are_the_same(y: Any) -> None:
    assert array_labels(y) == ["0", "1", None, "1"]
    records = open_arrays(X, y).read()
    assert (records.kind, records.names, records.labels) == ("array", ["1", "2", "3", "4"], ["0", "1", None, "1"])
    np.testing.assert_array_equal(np.asarray(records.inputs), X)


def test_minus_one_is_a_label_where_it_is_a_text() -> None:
    assert array_labels(["-1", "1"]) == ["-1", "1"]
    assert array_labels(np.array([-1.0, 1.0])) == [None, "1"]


@pytest.mark.parametrize("x", [X.tolist(), torch.from_numpy(X), X.astype(object), X.astype(np.int64), X.astype(bool)])
def test_numbers_of_any_kind_are_taken(x: Any) -> None:
    opened = open_arrays(x, None)
    assert (opened.kind, opened.read().labels) == ("array", [None] * 4)
    assert np.asarray(opened.read().inputs).shape == (4, 3)


@pytest.mark.parametrize("x", [["one", "two\nlines", "😀"], np.array(["one", "two\nlines", "😀"], dtype=object)])
def test_texts_are_texts(x: Any) -> None:
    opened = open_arrays(x, ["a", None, "b"])
    records = opened.read()
    assert (records.kind, records.inputs, records.labels) == ("text", ["one", "two\nlines", "😀"], ["a", None, "b"])
    assert [piece.inputs for piece in opened.stream(2)] == [["one", "two\nlines"], ["😀"]]
    assert [piece.names for piece in opened.stream(2)] == [["1", "2"], ["3"]]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, [1, 2], "arrays: there are 4 items but 2 labels"),
        (X, np.eye(4), r"the labels must have one dimension. .* argmax\(1\)"),
        (X, "abcd", "the labels must be a list or an array of one dimension"),
        (X, [1, 2, {}, 3], "row 3: the label is a dict"),
        ([], None, "there are no items in it"),
        ([[1, 2], [3]], None, "arrays: cannot be converted to an array"),
        (np.array([[1, "x"], [2, "y"]], dtype=object), None, "holds Python objects that are not numbers"),
        (np.array([["a", "b"]]), None, "texts must have one dimension"),
        (np.array([1j]), None, "holds complex128, not numbers or texts"),
        (sparse.csr_matrix(X), None, r"sparse matrices are not read. Give x.toarray\(\)"),
        (torch.zeros(2, 2, requires_grad=True), None, "cannot be converted to an array"),
    ],
)
def test_what_is_no_data_is_refused(x: Any, y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_arrays(x, y)


def test_stream_gives_the_same_in_pieces() -> None:
    pieces = list(open_arrays(X, [1, 2, None, 1]).stream(3))
    assert [(list(piece.names), list(piece.labels)) for piece in pieces] == [(["1", "2", "3"], ["1", "2", None]), (["4"], ["1"])]
    np.testing.assert_array_equal(np.concatenate([np.asarray(piece.inputs) for piece in pieces]), X)


@pytest.mark.parametrize("keys", [("x", "y"), ("X", "Y"), ("data", "labels"), ("features", "target"), ("x_train", "y_train")])
def test_npz_with_usual_names(tmp_path: Path, keys: tuple[str, str]) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, **{keys[0]: X, keys[1]: np.array([0, 1, -1, 1]), "notes": np.zeros(1)})
    opened = open_npz(path, Columns())
    assert (opened.where, opened.kind, opened.test) == (str(path), "array", None)
    assert opened.read().labels == ["0", "1", None, "1"]


def test_npz_with_unlabeled_and_test_items(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(
        path, x_train=X, y_train=np.array(["a", "b", "?", "a"]), x_unlabeled=X[:2] + 100, x_test=X[:1], y_test=np.array(["b"])
    )
    opened = open_npz(path, Columns(unlabeled="?"))
    records = opened.read()
    assert records.labels == ["a", "b", None, "a", None, None]
    np.testing.assert_array_equal(np.asarray(records.inputs), np.concatenate([X, X[:2] + 100]))
    assert opened.test is not None
    assert opened.test.read().labels == ["b"]
    assert opened.test.where == f"{path}, x_test"


def test_npz_with_names_of_ones_own_hold_for_a_further_archive_and_need_no_labels(tmp_path: Path) -> None:
    given = Columns(label="truth", features=("mine",), unlabeled="?", text="unused")
    for name, labels in (("train.npz", ["a", "?", "b", "a"]), ("test.npz", ["b", "a", "?", "b"])):
        np.savez(tmp_path / name, mine=X, other=X, truth=np.array(labels))
    opened = open_npz(tmp_path / "train.npz", given)
    assert opened.columns == Columns(label="truth", features=("mine",), unlabeled="?")
    assert open_npz(tmp_path / "test.npz", opened.columns).read().labels == ["b", "a", None, "b"]
    assert open_npz(tmp_path / "test.npz", Columns(features=("mine",))).read().labels == [None] * 4


@pytest.mark.parametrize(
    ("arrays", "columns", "message"),
    [
        ({"a": X, "b": X}, Columns(), r"which array holds the items \(a, b\). Choose one with --features"),
        ({"x": X, "data": X}, Columns(), r"which array is meant \(x or data\). Choose one with --features"),
        ({"x": X, "y": [1], "labels": [1]}, Columns(), r"which array is meant \(y or labels\). Choose one with --label"),
        ({"x": X, "y": [1]}, Columns(label="lables"), "has no array 'lables'. Known: x, y"),
        ({"x": X, "y": [1]}, Columns(features=("x", "y")), "--features must name one of its arrays: x, y"),
        ({"x": X, "y": [1, 2]}, Columns(), "data.npz, x: there are 4 items but 2 labels"),
        ({"x": X, "x_unlabeled": X[:, :2]}, Columns(), "x_unlabeled holds float32 2 items, x float32 3 items"),
        ({"x": np.array([{}, 1], dtype=object)}, Columns(), "data.npz holds Python objects, which are not read"),
    ],
)
def test_npz_that_is_not_understood_is_refused(tmp_path: Path, arrays: Any, columns: Columns, message: str) -> None:
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(InputError, match=message):
        open_npz(tmp_path / "data.npz", columns)


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x=X)
    content = path.read_bytes()
    path.write_bytes(content[:100])
    with pytest.raises(InputError, match=r"data.npz is cut off or damaged: it is not a complete .npz archive"):
        open_npz(path, Columns())
    at = content.index(X.tobytes())
    path.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    with pytest.raises(InputError, match=r"data.npz cannot be read: Bad CRC-32"):
        open_npz(path, Columns())


def test_npy_has_items_and_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "data.npy"
    np.save(path, X)
    opened = open_npy(path)
    assert opened.read().labels == [None] * 4
    np.testing.assert_array_equal(np.asarray(next(opened.stream(2)).inputs), X[:2])
    assert "np.savez('data.npz', x=x, y=y)" in opened.findings[0].text
    np.save(path, np.array([{}, []], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"data.npy holds Python objects"):
        open_npy(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"data.npy "):
        open_npy(path)


def test_frame_is_read_as_a_table() -> None:
    frame = pd.DataFrame(
        {
            "size": [1, 2, 3],
            "share": pd.Series([0.5, None, 1.5]),
            "count": pd.Series([1, None, 2], dtype="Int64"),
            "colour": pd.Series(["red", None, "red"], dtype="category"),
            "good": [True, False, True],
            "when": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
            "label": pd.Series([1.0, np.nan, 2.0]),
        }
    )
    opened = open_frame(frame, Columns())
    records = opened.read()
    assert (opened.where, opened.kind, records.labels) == ("frame", "table", ["1", None, "2"])
    assert isinstance(records.inputs, dict)
    np.testing.assert_array_equal(records.inputs["size"], [1, 2, 3])
    np.testing.assert_array_equal(records.inputs["share"], [0.5, np.nan, 1.5])
    np.testing.assert_array_equal(records.inputs["count"], [1, np.nan, 2])
    assert records.inputs["colour"] == ["red", "", "red"]
    assert records.inputs["good"] == ["True", "False", "True"]
    assert [len(piece) for piece in opened.stream(2)] == [2, 1]


def test_frame_of_texts_and_labels_beside_it() -> None:
    frame = pd.DataFrame({"review": [f"review number {k} of this film" for k in range(4)], "class": list("abab")})
    opened = open_frame(frame, Columns(), y=[0, -1, None, 1])
    assert opened.kind == "text"
    assert opened.read().labels == ["0", None, None, "1"]
    inside = open_frame(frame, Columns())
    assert inside.read().labels == list("abab")
    table = open_frame(pd.DataFrame({0: [1.0, 2.0], "y": [3.0, 4.0]}), Columns(label="y"), y=["a", "b"])
    assert (table.columns.features, table.read().labels) == (("0", "y"), ["a", "b"])


def test_frames_without_pandas_are_frames_too() -> None:
    class Series:
        def __init__(self, values: list[Any]) -> None:
            self.values = values

        def to_list(self) -> list[Any]:
            return self.values

    class Frame:
        columns = ("a", "label")

        def __len__(self) -> int:
            return 2

        def __getitem__(self, name: str) -> Series:
            return Series([1, 2.5] if name == "a" else ["x", ""])

    records = open_frame(Frame(), Columns()).read()
    assert isinstance(records.inputs, dict)
    np.testing.assert_array_equal(records.inputs["a"], [1, 2.5])
    assert records.labels == ["x", None]


@pytest.mark.parametrize(
    ("frame", "y", "message"),
    [
        (pd.DataFrame({"a": [1, 2]}), [1], "frame: there are 2 rows but 1 labels"),
        (pd.DataFrame({"a": [1, 2]}), None, "frame: cannot tell which column holds the labels"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), [1], "frame: columns 1 and 2 are both called 'a'"),
        (pd.DataFrame({"a": [], "label": []}), None, "frame has no rows"),
        (pd.DataFrame(), [], "frame: it has no columns"),
        (pd.DataFrame({"a": [[1], [2]], "label": [1, 2]}), None, r"no column to learn from: 'a' \(lists or objects\)"),
    ],
)
def test_frames_that_cannot_be_used_are_refused(frame: Any, y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_frame(frame, Columns(), y)


def test_labels_of_a_frame_are_not_needed_to_predict() -> None:
    opened = open_frame(pd.DataFrame({"a": [1, 2], "b": [1, 2]}), Columns(label="y", features=("b",)), need_label=False)
    assert opened.read().labels == [None, None]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("code", [0x110000, 0xFFFFFFFF])
def test_texts_of_characters_that_do_not_exist_are_refused(tmp_path: Path, order: str, code: int) -> None:
    """Numpy makes a text of any number, and Python may crash on it."""
    wrong = np.array([[97, 97], [98, code]], dtype=f"{order}u4").view(f"{order}U2")[:, 0]
    for arrays in ({"x": wrong, "y": [0, 1]}, {"x": [1.0, 2.0], "y": wrong}):
        np.savez(tmp_path / "t.npz", **arrays)  # type: ignore[arg-type]  # numpy's own signature mixes names and options
        with pytest.raises(InputError, match=r"t\.npz, [xy] is damaged: its texts hold characters that do not exist"):
            open_npz(tmp_path / "t.npz", Columns()).read()


@pytest.mark.parametrize("order", ["<", ">"])
def test_half_a_character_becomes_a_question_mark(tmp_path: Path, order: str) -> None:
    halves = np.array([[97, 0xD800], [98, 0xE9]], dtype=f"{order}u4").view(f"{order}U2")[:, 0]
    np.savez(tmp_path / "t.npz", x=halves, y=halves)
    found = open_npz(tmp_path / "t.npz", Columns()).read()
    assert list(found.inputs) == ["a?", "bé"]
    assert found.labels == ["a?", "bé"]


def test_an_array_that_says_it_has_more_items_than_can_be_counted(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**30, 2)})
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + b"\0" * 64)
    with pytest.raises(InputError, match=r"t\.npz cannot be read"):
        open_npz(tmp_path / "t.npz", Columns())
