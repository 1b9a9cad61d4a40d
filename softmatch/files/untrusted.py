"""JSON and YAML of unknown origin: parsed to plain values of limited depth and length; nothing is executed."""

import json
import math
from pathlib import Path
from typing import Any, ClassVar

import yaml

from softmatch.errors import InputError

DEEPEST = 60
"""Deepest nesting of lists and mappings; it bounds the recursion of code that walks through a value."""
LONGEST_YAML = 2**17
"""Longest YAML text in characters. Settings have a few thousand; parsing this many takes seconds."""
DIGITS = 20
"""Digits of the longest whole number. A longer one becomes a float, since many functions of Python refuse it."""

UNREAD = tuple(f"tag:yaml.org,2002:{name}" for name in ("binary", "omap", "pairs", "set"))
"""YAML tags that settings do not need."""


class _Loader(yaml.SafeLoader):
    """Loader of plain values without aliases: a few lines of them can expand to more values than memory holds."""

    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        tag: made for tag, made in yaml.SafeLoader.yaml_constructors.items() if tag not in UNREAD
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's own
            raise yaml.composer.ComposerError(None, None, f"aliases (*{event.anchor}) are not read", event.start_mark)
        return super().compose_node(parent, index)


def read_text(path: Path, errors: str = "strict") -> str:
    """Read a text file in UTF-8. Raises InputError for anything else, without waiting for a pipe or device."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} cannot be read: it is not a file.")
        return path.read_text(encoding="utf-8", errors=errors)
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} cannot be read: it is not UTF-8 ({error}).") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


def parse_json(text: str, where: object) -> Any:
    """Parse a JSON text of the file `where`. NaN and infinity, which are not JSON, become None."""
    try:
        found = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is damaged: {error}.") from error
    return _plain(found, where)


def parse_yaml(text: str, where: object) -> Any:
    """Parse a YAML text of the file `where`."""
    if len(text) > LONGEST_YAML:
        raise InputError(f"{where} is not valid YAML: it has {len(text):,} characters; {LONGEST_YAML:,} are allowed.")
    try:
        found = yaml.load(text, _Loader)  # a safe loader with fewer abilities
    except Exception as error:  # constructors of tags raise errors of any kind
        reason = error if isinstance(error, yaml.YAMLError) else f"{type(error).__name__}: {error}"
        raise InputError(f"{where} is not valid YAML: {reason}") from error
    return _plain(found, where)


def _plain(value: Any, where: object, room: int = DEEPEST) -> Any:
    """Replace lone surrogates, which cannot be written to a file, by "?", and refuse a value that is nested too deeply."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if not isinstance(value, dict | list):
        return value
    if not room:
        raise InputError(f"{where} is damaged: it has more than {DEEPEST} nested lists or mappings.")
    if isinstance(value, dict):
        return {_plain(key, where): _plain(item, where, room - 1) for key, item in value.items()}
    return [_plain(item, where, room - 1) for item in value]


def _number(digits: str) -> int | float | None:
    if len(digits) <= DIGITS and digits.lstrip("-").isdigit():
        return int(digits)
    return number if math.isfinite(number := float(digits)) else None
