"""Fixtures for tests of augmented texts: two tiny models, and a new cache for each test."""

from pathlib import Path

import pytest

from tests.tiny_translator import make_marian


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    return make_marian(folder / "forth", 1), make_marian(folder / "back", 2)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
