"""Features on disk: found again by content, made again when damaged, not missed when the disk refuses."""

from pathlib import Path

import pytest
import torch

from softmatch.data.preparations.encoder_features import cache_key, load_features, store_features


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_was_stored_is_found() -> None:
    features = torch.randn(5, 3)
    assert load_features("key") is None
    store_features("key", features.T.contiguous().T)
    found = load_features("key")
    assert found is not None
    assert torch.equal(found, features)
    assert load_features("other") is None


def test_the_key_is_of_maker_content_and_order() -> None:
    keys = [cache_key("m", [b"one", b"two"]), cache_key("m", [b"two", b"one"]), cache_key("n", [b"one", b"two"])]
    assert len(set(keys)) == len(keys)
    assert cache_key("m", iter([b"one", b"two"])) == keys[0]


@pytest.mark.parametrize("damage", ["cut", "changed", "emptied"])
def test_a_damaged_file_is_not_used_and_can_be_replaced(damage: str, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    features = torch.randn(40, 3)
    store_features("key", features)
    (path,) = (cache / "features").iterdir()
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes({"cut": content[:-9], "changed": content, "emptied": b""}[damage])
    assert load_features("key") is None
    assert "computed again" in caplog.text
    store_features("key", features)
    found = load_features("key")
    assert found is not None
    assert torch.equal(found, features)


def test_a_cache_that_cannot_be_written_only_loses_the_caching(cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    store_features("key", torch.ones(2, 2))
    assert load_features("key") is None
    assert cache.read_text() == "a file where the folder should be"


def test_nothing_else_is_left_in_the_folder(cache: Path) -> None:
    store_features("key", torch.ones(2, 2))
    assert [path.name for path in (cache / "features").iterdir()] == ["key.safetensors"]
