"""What a source is, is found out from the source itself."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from softmatch.data.readers.open_source import NotThere, open_source
from softmatch.errors import InputError
from tests.own.sources import blobs, pictures, texts, write_csv


def test_each_kind(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    assert open_source(pictures(tmp_path / "photos")).kind == "image"
    assert open_source(tmp_path / "photos" / "dark" / "000.png").kind == "image"
    assert open_source(texts(tmp_path / "t.csv")).kind == "text"
    assert open_source(blobs(tmp_path / "b.csv")).kind == "table"
    assert open_source(pd.read_csv(tmp_path / "b.csv")).kind == "table"
    assert open_source((np.zeros((3, 2)), [0, 1, -1])).kind == "array"
    assert open_source(tmp_path / "x.npy").kind == "array"


def test_a_table_that_names_images(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    table = write_csv(tmp_path / "labels.csv", [("a.png", "x"), ("b.png", "")], ("file", "label"))
    opened = open_source(table)
    assert opened.kind == "image"
    assert list(opened.read().labels) == ["x", None]


def test_what_is_not_there_or_not_known(tmp_path: Path) -> None:
    for name in ("digit", tmp_path / "nothing.csv"):
        with pytest.raises(NotThere, match=f"no file or folder {name}, and a dataset of the .* hub is given as owner/name"):
            open_source(name)
    (tmp_path / "a.docx").write_bytes(b"x")
    with pytest.raises(InputError, match=r"a\.docx is not a file that softmatch reads"):
        open_source(tmp_path / "a.docx")


def test_the_whole_file_system_is_a_slip_of_the_keyboard() -> None:
    with pytest.raises(InputError, match="/ is the whole file system"):
        open_source("/")
