"""What the tests of folders share: writing them, and reading what was understood."""

import sys
from pathlib import Path

import pytest

from softmatch.data.readers.image_folder import open_folder
from softmatch.data.records import Columns, Finding, Found
from softmatch.formatting import printable

NAMES_ARE_BYTES = pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="file names are text there")


STRANGE = ["two words", "it's", 'say "hi"', "🐈", "new\nline", "a,b;c\td", "%s {x}", "-rf", "$HOME"]


def write(folder: Path, *names: str) -> Path:
    """Empty files: nothing is read of images here. Folders end with a slash."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(parents=True, exist_ok=True) if name.endswith("/") else path.touch()
    return folder


def write_table(folder: Path, content: str, name: str = "labels.csv") -> None:
    (folder / name).write_text(content, encoding="utf-8")


def read(folder: Path, names: str, table: str | None = None, columns: Columns | None = None, **tables: str) -> Found:
    """Open a folder of these files, named with spaces between them, with a labels.csv and other tables."""
    write(folder, *names.split())
    for name, content in {"labels": table, **tables}.items():
        if content is not None:
            write_table(folder, content, f"{name.replace('__', '/')}.csv")
    return open_folder(folder, columns or Columns())


def labels(opened: Found | None) -> dict[str, str | None]:
    assert opened is not None
    records = opened.read()
    assert records.kind == "image"
    assert [printable(Path(path).name) for path in records.inputs] == [Path(name).name for name in records.names]
    return dict(zip(records.names, records.labels, strict=True))


def paths(opened: Found) -> list[Path]:
    return [Path(str(path)) for path in opened.records.inputs]


def origin(opened: Found) -> str:
    """What is said about where the labels are from, without the paths of folders."""
    (finding,) = [finding for finding in opened.findings if finding.text.startswith("labels of ")]
    assert finding.level == "note"
    return finding.text.removeprefix(f"labels of {opened.where}: ").replace(f"{opened.where}/", "")


def others(opened: Found) -> list[Finding]:
    """All other findings."""
    return [finding for finding in opened.findings if not finding.text.startswith("labels of ")]


def levels(opened: Found) -> list[str]:
    return [finding.level for finding in others(opened)]


def only(opened: Found) -> Finding:
    (finding,) = others(opened)
    return finding
