"""A cache of each test's own, and no network."""

import os
import tempfile
from pathlib import Path

import pytest

# Read when the hub library is first imported.
_home = tempfile.TemporaryDirectory()
os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=_home.name)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
