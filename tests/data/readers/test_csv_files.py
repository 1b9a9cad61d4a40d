"""Cells between delimiters: what is read, and where each mistake is said to be."""

import csv
from pathlib import Path

import pytest

from softmatch.data.readers.csv_files import LONGEST_CELL, Delimited, read_columns
from softmatch.errors import InputError


def table(tmp_path: Path, content: str, name: str = "table.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_delimiter_is_found_from_the_header(tmp_path: Path, delimiter: str, end: str) -> None:
    path = table(
        tmp_path, end.join(["a b|label", "x, y; z|1", "w|2", ""]).replace("|", delimiter).replace("x, y; z", '"x, y; z"')
    )
    assert read_columns(path) == {"a b": ["x, y; z", "w"], "label": ["1", "2"]}


def test_delimiters_within_quoted_names_do_not_count(tmp_path: Path) -> None:
    assert read_columns(table(tmp_path, '"a,b,c,d";e\n1;2\n')) == {"a,b,c,d": ["1"], "e": ["2"]}


def test_single_column_may_hold_every_delimiter(tmp_path: Path) -> None:
    assert read_columns(table(tmp_path, 'text\nOne, two; three | four\n\n"a ""b"""\n')) == {
        "text": ["One, two; three | four", 'a "b"']
    }


def test_cells_keep_quotes_emoji_newlines_and_spaces(tmp_path: Path) -> None:
    cells = ['say "hi", then\ngo', "😀 \r\n end", " spaced ", "'single'", ""]
    path = tmp_path / "table.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows([cell, "x"] for cell in cells)
    assert read_columns(path) == {"text": cells, "label": ["x"] * 5}


def test_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    path = tmp_path / "marked.csv"
    path.write_bytes("label,a\nx,1\n".encode("utf-8-sig"))
    assert list(read_columns(path)) == ["label", "a"]


def test_blank_lines_are_no_rows_and_names_are_stripped(tmp_path: Path) -> None:
    assert read_columns(table(tmp_path, "\n a , b\n\n1,2\n   \n,\n3,4\n\n")) == {"a": ["1", "", "3"], "b": ["2", "", "4"]}


def test_nameless_columns_are_called_by_their_position(tmp_path: Path) -> None:
    assert Delimited(table(tmp_path, ",a,\n0,1,2\n")).names == ("Unnamed: 0", "a", "Unnamed: 2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "table.csv is empty"),
        ("\n \n", "table.csv is empty"),
        ("a,b,a\n1,2,3\n", "columns 1 and 3 are both called 'a'"),
        ("1,2.5,-3e4\n4,5,6\n", r"has no header: its first line holds numbers \(1,2.5,-3e4"),
        ("a,b" * 50_000 + "c" * 200_000 + "\n1,2\n", "has no header: its first line holds texts of over 300 characters"),
        ("a,b\n1,2\n3\n", r"table.csv, row 2 \(line 3\) has 1 cell, the header has 2"),
        ('a,b\n"x\ny",2\n\n3,4,5\n', r"table.csv, row 2 \(line 5\) has 3 cells, the header has 2. A cell that holds ','"),
        ('a,b\n1,2\n3,"x\n4,5\n6,7\n', r"row 2 \(line 3\): a cell starts with a double quote that is never closed"),
        ('a,b\n1,"x" y\n', r"row 1 \(line 2\): a quoted cell continues after its closing quote"),
        ('"a,b\n1,2\n', "header: a cell starts with a double quote that is never closed"),
    ],
)
def test_mistakes_name_row_and_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_columns(table(tmp_path, content))


def test_long_cells_are_read_and_endless_ones_refused(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    long = "x" * (before + 10)
    assert read_columns(table(tmp_path, f"a,b\n{long},1\n"))["a"] == [long]
    with pytest.raises(InputError, match=r"row 1 \(line 2\): a cell has more than .* a double quote is never closed"):
        read_columns(table(tmp_path, f'a,b\n"{"x" * LONGEST_CELL}x",1\n'))
    assert csv.field_size_limit() == before


def test_quotes_are_characters_in_a_tsv_that_does_not_quote(tmp_path: Path) -> None:
    path = table(tmp_path, 'text\tlabel\n"Well" said he\t1\n"never closed\t2\n', "table.tsv")
    assert read_columns(path)["text"] == ['"Well" said he', '"never closed']
    assert "quotes in its cells are read as characters" in Delimited(path).findings[0].text
    quoted = Delimited(table(tmp_path, 'text\tlabel\n"a\tb ""c"""\t1\n', "quoted.tsv"))
    assert [dict(piece) for piece in quoted.pieces(["text"], 9)] == [{"text": ['a\tb "c"']}]
    assert not quoted.findings


def test_pieces_hold_the_wanted_columns_and_at_most_so_many_rows(tmp_path: Path) -> None:
    file = Delimited(table(tmp_path, "a,b,c\n" + "".join(f"{k},{k + 1},{k + 2}\n" for k in range(7))))
    pieces = [dict(piece) for piece in file.pieces(["c", "a"], 3)]
    assert [len(piece["a"]) for piece in pieces] == [3, 3, 1]
    assert pieces[2] == {"c": ["8"], "a": ["6"]}
    assert list(pieces[0]) == ["c", "a"]


def test_wide_tables_come_in_small_pieces(tmp_path: Path) -> None:
    names = [f"c{k}" for k in range(5000)]
    row = ",".join(["1.5"] * 5000)
    file = Delimited(table(tmp_path, ",".join(names) + f"\n{row}\n" * 1 + f"{row}\n" * 149))
    pieces = [len(piece["c4999"]) for piece in file.pieces(names, 10_000)]
    assert pieces == [100, 50]
