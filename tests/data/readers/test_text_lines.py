"""Lines of files with marks, in packets, and in encodings that are not read."""

import gzip
from pathlib import Path

import pytest

from softmatch.data.readers.csv_files import read_lines
from softmatch.errors import InputError


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_marks_and_packets_make_no_difference(tmp_path: Path, encoding: str, packed: bool) -> None:
    content = "naïve,😀\r\nzwei\n".encode(encoding)
    path = tmp_path / ("lines.csv.gz" if packed else "lines.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    assert list(read_lines(path)) == ["naïve,😀\r\n", "zwei\n"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv",
            "text,label\nok,1\ncafé,2\n".encode("latin-1"),
            r"line 3: byte 19 \(0xe9\) is not UTF-8. Save the file as UTF-8",
        ),
        ("a.csv", b"word\n" * 50_000 + b"\xe9\n", r"line 50001: byte 250000 \(0xe9\)"),  # beyond the first block
        ("a.csv", "a,b\n".encode("utf-16") + b"\x00\xd8", "is not UTF-16 throughout"),
        ("a.csv", b"a,b\n1,2\n3,\x004\n", "a.csv, line 3 holds a NUL"),
        ("a.csv", "a,b\n".encode("utf-16-le"), "line 1 holds a NUL: .* UTF-16 without a byte order mark"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:-20], "a.csv.gz is damaged: "),
        ("a.csv.gz", b"no packet", "a.csv.gz is damaged: Not a gzipped file"),
    ],
)
def test_another_encoding_and_damage_are_refused_with_the_place(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_lines(tmp_path / name))


def test_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read: No such file"):
        list(read_lines(tmp_path / "nowhere.csv"))
    with pytest.raises(InputError, match=r"cannot be read: Is a directory"):
        list(read_lines(tmp_path))
