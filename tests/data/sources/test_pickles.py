"""The restricted unpickler: arrays and containers come out, everything else is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from softmatch.data.sources import pickles
from tests.data.sources.copies import python2

CONTENT = {b"data": np.arange(12, dtype=np.uint8).reshape(3, 4), b"labels": [1, 2, 3], b"names": [b"a", b"b"], b"x": (1.5, None)}


@pytest.mark.parametrize("content", [python2(CONTENT), *(pickle.dumps(CONTENT, n) for n in range(6))])
def test_arrays_and_containers_come_out(content: bytes) -> None:
    found = pickles.load(content)
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
        pickles.load(content)


def test_only_the_one_encoding_is_allowed() -> None:
    with pytest.raises(pickle.UnpicklingError, match="encoding"):
        pickles.load(pickle.dumps(b"x\xff", 2).replace(b"latin1", b"rot-13"))


@pytest.mark.parametrize("left", [0, 1, 10, 60, 120])
def test_a_cut_pickle_is_one_kind_of_error(left: int) -> None:
    with pytest.raises(pickle.UnpicklingError):
        pickles.load(python2(CONTENT)[:left])
