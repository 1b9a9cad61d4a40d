"""Paths as people write them."""

from pathlib import Path

import pytest

from softmatch.data.readers.open_source import open_source
from softmatch.errors import InputError
from softmatch.files.paths import expand_home


def test_the_home_of_the_user_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert expand_home("~/data.csv") == expand_home(Path("~/data.csv")) == Path("/somewhere/data.csv")
    assert expand_home("a~/b") == Path("a~/b")


def test_a_home_of_nobody_is_not_there() -> None:
    assert expand_home("~nobody-of-that-name/x") == Path("~nobody-of-that-name/x")
    with pytest.raises(InputError, match="no file or folder ~nobody-of-that-name"):
        open_source("~nobody-of-that-name")
