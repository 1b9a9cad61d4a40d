"""A user's mistakes, which are explained."""

from collections.abc import Callable
from typing import Any

import pytest

from softmatch.errors import InputError


def refused(words: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """The call raises an InputError whose message matches these words, a regular expression."""
    with pytest.raises(InputError, match=words):
        call(*arguments, **options)
