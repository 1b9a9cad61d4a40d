"""The command line in this process and a folder of its own: a new process would take seconds to import torch."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import docstring_parser
import pytest

from softmatch.cli.app import main

Said = Callable[..., str]


@pytest.fixture(scope="package", autouse=True)
def _help_is_read_once() -> Iterator[None]:
    """Each command finds its help texts by parsing the source of the same classes, which does not change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(docstring_parser, "parse_from_object", cache(docstring_parser.parse_from_object))
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def said(folder: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """What `softmatch …` prints in `folder`: its output, or its messages where it ends with another code than 0."""

    def say(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(list(arguments)) == code
        found = capsys.readouterr()
        assert "Traceback" not in found.err
        return found.err if code else found.out

    return say
