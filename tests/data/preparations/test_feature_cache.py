"""Tests of the cache of encoder features."""

import sqlite3
from pathlib import Path

import pytest
import torch

from softmatch.data.preparations.feature_cache import FeatureCache


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


CONTENTS = [number.to_bytes(32) for number in range(1200)]
FEATURES = torch.randn(1200, 3, generator=torch.Generator().manual_seed(0))


def test_what_was_stored_is_found_by_content_and_maker() -> None:
    assert FeatureCache("m").find(CONTENTS) == {}
    assert not FeatureCache("m").path.exists()
    FeatureCache("m").add(CONTENTS, FEATURES)
    found = FeatureCache("m").find([*CONTENTS[::-1], b"unknown"])
    assert torch.equal(torch.stack([found[content] for content in CONTENTS]), FEATURES)
    assert b"unknown" not in found
    assert FeatureCache("other").find(CONTENTS) == {}


@pytest.mark.parametrize("damage", ["cut", "changed", "replaced", "emptied"])
def test_a_damaged_file_is_not_used_and_can_be_replaced(damage: str, caplog: pytest.LogCaptureFixture) -> None:
    cache = FeatureCache("m")
    cache.add(CONTENTS, FEATURES)
    content = cache.path.read_bytes()
    content = {"cut": content[: len(content) // 2], "changed": content, "replaced": b"text" * 2000, "emptied": b""}[damage]
    cache.path.write_bytes(content)
    if damage == "changed":
        with sqlite3.connect(cache.path) as connection:
            connection.execute("UPDATE features SET numbers = zeroblob(12)")
        connection.close()
    assert not [row for row, kept in cache.find(CONTENTS).items() if not torch.equal(kept, FEATURES[CONTENTS.index(row)])]
    assert damage == "emptied" or "computed again" in caplog.text
    cache.add(CONTENTS, FEATURES)
    assert len(cache.find(CONTENTS)) == len(CONTENTS)


def test_a_cache_that_cannot_be_written_only_loses_the_caching(cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    FeatureCache("m").add(CONTENTS, FEATURES)
    assert FeatureCache("m").find(CONTENTS) == {}
    assert cache.read_text() == "a file where the folder should be"
