"""The restricted unpickler: arrays and containers come out, everything else is refused."""

import pickle

import numpy as np
import pytest

from softmatch.data.sources.image_formats import load_pickle
from tests.data.sources.copies import python2

CONTENT = {b"data": np.arange(12, dtype=np.uint8).reshape(3, 4), b"labels": [1, 2, 3], b"names": [b"a", b"b"], b"x": (1.5, None)}


@pytest.mark.parametrize("content", [python2(CONTENT), *(pickle.dumps(CONTENT, n) for n in range(6))])
def test_arrays_and_containers_come_out(content: bytes) -> None:
    found = load_pickle(content)
    assert np.array_equal(found.pop(b"data"), CONTENT[b"data"])
    assert found == {key: value for key, value in CONTENT.items() if key != b"data"}


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\nexec\n(S'1'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cnumpy.core.multiarray\nfromfile\n(S'x'\ntR.",
        b"c_codecs\ndecode\n(S'x'\ntR.",
        pickle.dumps(np.random.default_rng(0)),
        pickle.dumps(pytest.raises),
    ],
)
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError, match="it asks for"):
        load_pickle(content)


def test_only_the_one_encoding_is_allowed() -> None:
    with pytest.raises(pickle.UnpicklingError, match="encoding"):
        load_pickle(pickle.dumps(b"x\xff", 2).replace(b"latin1", b"rot-13"))


@pytest.mark.parametrize("left", [0, 1, 10, 60, 120])
def test_a_cut_pickle_is_one_kind_of_error(left: int) -> None:
    with pytest.raises(pickle.UnpicklingError):
        load_pickle(python2(CONTENT)[:left])


FORGED = b"A" * 8


@pytest.mark.parametrize(
    "content",
    [
        b"cnumpy\nndarray\n(I1\ncnumpy\ndtype\n(S'O8'\ntRC\x08" + FORGED + b"tR.",
        b"cnumpy\ndtype\n(S'O8'\nI00\nI01\ntR.",
        b"cnumpy\ndtype\n(S'(2,)u1'\nI00\nI01\ntR.",
        b"cnumpy\ndtype\n(S'u1,O'\nI00\nI01\ntR.",
        b"cnumpy._core.numeric\n_frombuffer\n(C\x08" + FORGED + b"S'O8'\nI1\nS'C'\ntR.",
        pickle.dumps(np.array([None, "text"], dtype=object)),
        pickle.dumps(np.zeros(2, dtype=[("a", "u1"), ("b", "O")])),
    ],
    ids=["buffer", "objects", "parts", "fields", "frombuffer", "object array", "structured array"],
)
def test_no_bytes_are_taken_for_objects(content: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError):
        load_pickle(content)


@pytest.mark.parametrize("kind", ["u1", ">i4", "<f8", "?", "f2"])
@pytest.mark.parametrize("protocol", [2, 5])
def test_numbers_of_any_kind_and_order_come_out(kind: str, protocol: int) -> None:
    array = np.asfortranarray(np.arange(6).reshape(2, 3).astype(kind))
    found = load_pickle(pickle.dumps(array, protocol))
    assert (found.dtype.kind, found.dtype.itemsize) == (array.dtype.kind, array.dtype.itemsize)
    assert np.array_equal(found, array)
