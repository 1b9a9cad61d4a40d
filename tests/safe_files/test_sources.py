"""Archives, images and encoders of others: nothing is written outside, no program started, no memory taken."""

import gzip
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softmatch.data.pictures import UnreadableImage, read_image
from softmatch.data.readers import array_files, csv_files
from softmatch.data.readers.open_source import open_source
from softmatch.data.sources import hub_datasets as hub
from softmatch.data.sources.originals import read_npz
from softmatch.encoders.encoder_folder import read_image_settings, read_text_settings
from softmatch.errors import InputError
from tests.safe_files.hostile import DEEP, SHAPE, archive, place


def test_members_with_paths_are_not_written_anywhere(tmp_path: Path) -> None:
    made = io.BytesIO()
    np.lib.format.write_array(made, np.ones((4, 2), np.float32))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        for name in ("x.npy", "../../escaped.npy", "/escaped.npy"):
            file.writestr(name, made.getvalue())
    assert len(open_source(tmp_path / "a.npz").read().names) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"a.npz"}
    assert not (tmp_path.parents[1] / "escaped.npy").exists()


def test_archives_that_unpack_to_more_than_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((1000, 1000), np.uint8), y=np.zeros(1000))
    monkeypatch.setattr(array_files, "_memory", lambda: 10**5)
    for read in (lambda: open_source(tmp_path / "a.npz"), lambda: read_npz(tmp_path / "a.npz", SHAPE)):
        with pytest.raises(InputError, match=r"a\.npz decompresses to 0\.0 GB"):
            read()


def test_an_array_that_claims_terabytes_is_refused(tmp_path: Path) -> None:
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
    for path in (place(tmp_path, "a.npz", archive(made.getvalue())), place(tmp_path, "a.npy", made.getvalue())):
        with pytest.raises(InputError, match="cannot be read"):
            open_source(path)


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "LONGEST_LINE", 2**20)
    path = place(tmp_path, "a.csv.gz", gzip.compress(b"text,label\n" + b"a" * 2**23))
    with pytest.raises(InputError, match="has a line of more than 1 MB"):
        open_source(path).read()


def test_images_start_no_programs(tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow gives EPS files to Ghostscript, whatever their name."""
    program = place(tmp_path, "bin/gs", f"#!/bin/sh\ntouch '{canary}'\n".encode())
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    content = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    with pytest.raises(UnreadableImage):
        read_image(place(tmp_path, "a.png", content), 8)
    with pytest.raises(InputError, match="the image is cut off or damaged"):
        hub._decode({"bytes": content}, (3, 8, 8), "row 1")
    assert not canary.exists()


ENCODERS: dict[str, tuple[str, Any]] = {
    "no list of modules": ("modules.json", 3),
    "modules of anything": ("modules.json", [1, None, {"type": 3}]),
    "size of a list": ("preprocessor_config.json", {"size": [[8]]}),
    "size of a text": ("preprocessor_config.json", {"size": "large"}),
    "endless size": ("preprocessor_config.json", {"size": 10**9}),
    "factor of a text": ("preprocessor_config.json", {"rescale_factor": "x"}),
    "mean of a number": ("preprocessor_config.json", {"image_mean": 1}),
}


@pytest.mark.parametrize(("name", "content"), ENCODERS.values(), ids=ENCODERS)
def test_settings_of_an_encoder_are_not_believed(tmp_path: Path, name: str, content: Any) -> None:
    (tmp_path / name).write_text(json.dumps(content))
    if name == "modules.json":
        assert not read_text_settings(tmp_path).normalize
    else:
        with pytest.raises(InputError, match=r"preprocessor_config\.json cannot be used"):
            read_image_settings(tmp_path)
    (tmp_path / name).write_text(DEEP)
    with pytest.raises(InputError, match="is damaged"):
        read_text_settings(tmp_path) if name == "modules.json" else read_image_settings(tmp_path)
