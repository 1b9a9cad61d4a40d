"""Lines of files with marks, in packets, and in encodings that are not read."""

import gzip
from pathlib import Path

import pytest

from softmatch.data.readers.text_lines import read_lines
from softmatch.errors import InputError


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_marks_and_packets_make_no_difference(tmp_path: Path, encoding: str, packed: bool) -> None:
    content = "naïve,😀\r\nzwei\n".encode(encoding)
    path = tmp_path / ("lines.csv.gz" if packed else "lines.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    assert list(read_lines(path)) == ["naïve,😀\r\n", "zwei\n"]


def test_another_encoding_is_refused_with_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("text,label\nok,1\ncafé,2\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin.csv, line 3: byte 19 \(0xe9\) is not UTF-8. Save the file as UTF-8"):
        list(read_lines(path))


def test_another_encoding_is_found_beyond_the_first_block(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes(b"word\n" * 50_000 + b"\xe9\n")
    with pytest.raises(InputError, match=r"line 50001: byte 250000 \(0xe9\)"):
        list(read_lines(path))


def test_text_that_is_not_what_its_mark_says_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.csv"
    path.write_bytes("a,b\n".encode("utf-16") + b"\x00\xd8")
    with pytest.raises(InputError, match=r"is not UTF-16 throughout"):
        list(read_lines(path))


def test_nul_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "nul.csv"
    path.write_bytes(b"a,b\n1,2\n3,\x004\n")
    with pytest.raises(InputError, match=r"nul.csv, line 3 holds a NUL"):
        list(read_lines(path))
    path.write_bytes("a,b\n".encode("utf-16-le"))
    with pytest.raises(InputError, match=r"line 1 holds a NUL: .* UTF-16 without a byte order mark"):
        list(read_lines(path))


def test_cut_packet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n" * 1000)[:-20])
    with pytest.raises(InputError, match=r"cut.csv.gz is damaged: "):
        list(read_lines(path))
    path.write_bytes(b"no packet")
    with pytest.raises(InputError, match=r"cut.csv.gz is damaged: Not a gzipped file"):
        list(read_lines(path))


def test_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read: No such file"):
        list(read_lines(tmp_path / "nowhere.csv"))
    with pytest.raises(InputError, match=r"cannot be read: Is a directory"):
        list(read_lines(tmp_path))
