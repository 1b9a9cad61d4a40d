"""What may be given as texts."""

from __future__ import annotations

import numpy as np
import pytest

from softmatch.data.preparations.text_preparations import as_texts
from softmatch.errors import InputError


def test_lists_tuples_and_arrays_of_texts() -> None:
    assert as_texts(["a", "b"]) == as_texts(("a", "b")) == as_texts(np.array(["a", "b"])) == ["a", "b"]
    assert as_texts(np.array(["a", "b"], dtype=object)) == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "what"),
    [("one text", "a str"), ({"column": ["a"]}, "a dict"), (["a", None], "number 2"), (np.ones((2, 3)), "number 1")],
)
def test_anything_else_is_refused(given: object, what: str) -> None:
    with pytest.raises(InputError, match=what):
        as_texts(given)  # type: ignore[arg-type]  # the mistake
