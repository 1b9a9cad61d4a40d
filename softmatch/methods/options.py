"""Checks of the options that methods are built with."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from softmatch.errors import InputError

RULES: Mapping[str, Callable[[float], bool]] = {
    "lie in [0, 1]": lambda value: 0 <= value <= 1,
    "lie in [0, 1)": lambda value: 0 <= value < 1,
    "lie in (0, 1]": lambda value: 0 < value <= 1,
    "lie in (0, 1)": lambda value: 0 < value < 1,
    "be positive": lambda value: 0 < value < math.inf,
    "be 0 or more": lambda value: 0 <= value < math.inf,
    "be 1 or more": lambda value: value >= 1,
}
POSITIVE = ("k", "temperature")
"""Options of any method that must be above zero because predictions or weights are divided by them."""
STRICT = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)


def require(rule: str, **values: float | None) -> None:
    """Raise InputError unless every value that is not None follows the rule, one of `RULES`.

    Example:
        >>> require("lie in [0, 1]", threshold=0.95, ramp=None)
    """
    for name, value in values.items():
        if value is not None and not RULES[rule](value):
            raise InputError(f"{name} must {rule}, not {value!r}.")


def require_choice(literal: Any, **values: str) -> None:
    """Raise InputError unless every value is one of a Literal's."""
    for name, value in values.items():
        if value not in get_args(literal):
            *others, last = (f'"{choice}"' for choice in get_args(literal))
            raise InputError(f"{name} must be {', '.join(others)} or {last}, not {value!r}.")


def require_types(builder: Callable[..., Any], options: Mapping[str, Any], label: str) -> None:
    """Raise InputError for an option whose value does not fit its annotation; else training would be the first to notice."""
    known = get_type_hints(builder.__init__ if inspect.isclass(builder) else builder)
    for name, value in options.items():
        if name not in known:
            continue
        hint: Any = Annotated[known[name], Field(gt=0)] if name in POSITIVE else known[name]
        try:
            TypeAdapter(hint, config=STRICT).validate_python(tuple(value) if isinstance(value, list) else value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise InputError(f"{label}: {name} = {value!r}: {reason[0].lower()}{reason[1:]}.") from error
