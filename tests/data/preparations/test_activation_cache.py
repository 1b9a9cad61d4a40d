"""Tests of the cache of activations."""

from pathlib import Path

import numpy as np
import pytest

from softmatch.data.preparations.feature_cache import ROW, ActivationCache, content_of
from softmatch.errors import InputError

CONTENTS = [number.to_bytes(32) for number in range(6)]
PARTS = [np.full((number + 1, 4), number, dtype=np.float32) for number in range(6)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ActivationCache:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    return ActivationCache("m", 4)


def _read(cache: ActivationCache, content: bytes) -> np.ndarray | None:
    place = cache.find(content)
    return None if place is None else np.array(cache.values()[place[0] : place[0] + place[1]])


def test_what_was_added_is_found_by_content_maker_and_width(cache: ActivationCache) -> None:
    assert cache.find(CONTENTS[0]) is None
    assert not cache.folder.exists()
    cache.add(CONTENTS[:2], PARTS[:2])
    cache.add(CONTENTS[2:5], PARTS[2:5])
    for each in (cache, ActivationCache("m", 4)):
        for content, part in zip(CONTENTS[:5], PARTS[:5], strict=True):
            assert np.array_equal(_read(each, content), part)  # type: ignore[arg-type]  # they are there
        assert each.find(CONTENTS[5]) is None
        assert len(each) == 5
    assert ActivationCache("other", 4).find(CONTENTS[0]) is None
    assert ActivationCache("m", 2).find(CONTENTS[0]) is None
    assert cache.values().dtype == np.float16
    assert isinstance(cache.values(), np.memmap)


@pytest.mark.parametrize("left", ["values", "part of an entry", "an entry without values"])
def test_a_killed_process_costs_what_it_was_writing(left: str, cache: ActivationCache) -> None:
    cache.add(CONTENTS[:3], PARTS[:3])
    values, index = cache.folder / "values.f16", cache.folder / "index"
    whole = values.read_bytes(), index.read_bytes()
    cache.add(CONTENTS[3:4], PARTS[3:4])
    if left == "values":
        index.write_bytes(whole[1])
    elif left == "part of an entry":
        index.write_bytes(index.read_bytes()[: len(whole[1]) + ROW.itemsize // 2])
    else:
        values.write_bytes(whole[0] + b"12")
    again = ActivationCache("m", 4)
    assert again.find(CONTENTS[3]) is None
    again.add(CONTENTS[4:], PARTS[4:])
    for number in (0, 1, 2, 4, 5):
        assert np.array_equal(_read(again, CONTENTS[number]), PARTS[number])  # type: ignore[arg-type]  # they are there
    assert values.stat().st_size == sum(part.size for part in (*PARTS[:3], *PARTS[4:])) * 2


def test_damaged_activations_are_not_used_and_can_be_replaced(cache: ActivationCache) -> None:
    cache.add(CONTENTS, PARTS)
    path = cache.folder / "values.f16"
    content = bytearray(path.read_bytes())
    content[2 * 8 + 1] ^= 1  # of the third position, the last in the second input's part
    path.write_bytes(bytes(content))
    again = ActivationCache("m", 4)
    assert [again.find(each) is None for each in CONTENTS] == [False, True, False, False, False, False]
    again.add(CONTENTS[1:2], PARTS[1:2])
    assert np.array_equal(_read(again, CONTENTS[1]), PARTS[1])  # type: ignore[arg-type]  # it is there


def test_numbers_that_float16_lacks_are_cut(cache: ActivationCache) -> None:
    cache.add(CONTENTS[:1], [np.array([[1e9, -1e9, 0.1, 0.0]])])
    found = _read(cache, CONTENTS[0])
    assert found is not None
    assert found[0, :2].tolist() == [65504.0, -65504.0]


def test_a_full_or_closed_disk_is_named(cache: ActivationCache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache.require_space(1000, "--tune last-1")
    with pytest.raises(InputError, match=r"last-1 needs 1000000000.0 GB in .*cache, where .* GB are free.*SOFTMATCH_CACHE"):
        cache.require_space(10**18, "--tune last-1")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"activations cannot be cached in .*: Not a directory"):
        ActivationCache("m", 4).add(CONTENTS[:1], PARTS[:1])


def test_a_digest_depends_on_shape_type_and_values() -> None:
    arrays = [np.zeros(4, np.int32), np.zeros((2, 2), np.int32), np.zeros(4, np.uint32), np.ones(4, np.int32)]
    assert len({content_of(each) for each in arrays}) == 4
    assert content_of(arrays[0]) == content_of(np.zeros(4, np.int32))
