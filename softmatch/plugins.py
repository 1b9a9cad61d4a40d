"""Objects from the user's own code, named file.py:name or module:name."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from softmatch.errors import InputError, nearest
from softmatch.files.paths import expand_home


def find_own(name: str) -> Any:
    """The object called `file.py:name` or `module:name`. This runs the file or imports the module."""
    place, _, attribute = name.rpartition(":")
    module = _load(place)
    if not hasattr(module, attribute):
        names = [key for key in vars(module) if not key.startswith("_")]
        raise InputError(f"{place} has no {attribute!r}. {nearest(attribute, names)}")
    return getattr(module, attribute)


def call_own(target: Callable[..., Any], context: Mapping[str, Any], options: Mapping[str, Any], label: str) -> Any:
    """Call with the options, and with those items of the context that it has parameters for.

    Args:
        label: what the target is, for messages: "method 'uda'".
    """
    parameters = inspect.signature(target).parameters
    unknown = [key for key in options if key not in parameters]
    if unknown:
        raise InputError(f"{label} has no option {unknown[0]!r}. {nearest(unknown[0], parameters)}")
    fitting = {key: value for key, value in context.items() if key in parameters}
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if takes_any and "num_classes" in context and not inspect.isclass(target):  # a class without __init__ only seems to
        fitting["num_classes"] = context["num_classes"]  # other people's factories take it among their **options
    try:
        return target(**(fitting | dict(options)))
    except Exception as error:
        kind = "" if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: "  # a KeyError's text says little
        raise InputError(f"{label} cannot be built: {kind}{error}") from error


def _load(place: str) -> ModuleType:
    if not place.endswith(".py"):
        sys.path.insert(0, here := str(Path.cwd()))  # modules of the current folder can be imported, as by `python -m`
        try:
            return importlib.import_module(place)
        except Exception as error:
            raise InputError(f"module {place!r} cannot be imported: {type(error).__name__}: {error}") from error
        finally:
            sys.path.remove(here)
    path = expand_home(place)
    if not path.is_file():
        raise InputError(f"there is no file {place}")
    spec = importlib.util.spec_from_file_location(f"softmatch_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{place} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[spec.name]
        raise InputError(f"{place} cannot be run: {type(error).__name__}: {error}") from error
    return module
