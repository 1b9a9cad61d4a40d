"""`build`: a method by its name, its options and the problem that it is for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from softmatch.averages import PAPER_MOMENTUM, Start
from softmatch.errors import InputError, nearest
from softmatch.methods.base import Method
from softmatch.methods.match import PAPER_STEPS, Match, softmatch
from softmatch.methods.options import require_types
from softmatch.methods.registry import METHODS, Builder, split_wrapper
from softmatch.plugins import call_own, find_own
from softmatch.weightings import Weighting


@dataclass(frozen=True)
class Problem:
    """The facts about a task that methods can use; a builder gets those for which it has parameters.

    Attributes:
        class_prior, class_counts: class frequencies and counts of the labelled samples.
        kind, shape: modality of the items, and the shape of one.
    """

    num_classes: int
    num_unlabeled: int = 0
    num_labeled: int = 0
    class_counts: tuple[int, ...] | None = None
    labeled_batch: int = 64
    unlabeled_batch: int = 448
    kind: str = "image"
    shape: tuple[int, ...] = ()
    total_steps: int = PAPER_STEPS
    momentum: float = PAPER_MOMENTUM
    start: Start = "paper"
    class_prior: tuple[float, ...] | None = None


def build(
    method: str | Builder | type[Weighting] | Weighting | Method, problem: Problem, options: Mapping[str, Any] | None = None
) -> Method:
    """The method for a problem.

    Args:
        method: a name of METHODS; "file.py:name" or "module:name"; "wrapper+base", a method around another ("saw+softmatch");
            a builder; a Weighting or its class, which replaces SoftMatch's λ; or a Method, which is returned unchanged.
        options: keyword arguments of the builder, which take precedence over the problem's. A method around another also
            takes `base`, the name of the inner one, and `base_options`.
    """
    given = dict(options or {})
    wrapper, base = split_wrapper(method) if isinstance(method, str) else (None, method)
    if wrapper is not None:
        if given.get("base") not in (None, base):
            raise InputError(f"method {method!r} is around {base!r}; leave the option base={given['base']!r} out.")
        return build(wrapper, problem, {**given, "base": base})
    target = _find(method) if isinstance(method, str) else method
    label = method if isinstance(method, str) else getattr(target, "__name__", repr(target))
    if isinstance(target, Method | Weighting):
        if given:
            raise InputError(f"a method object takes no options, got {sorted(given)}: build it with them instead.")
        built: Any = target
    else:
        built = _call(target, problem, given, f"method {label!r}") if callable(target) else target
    if isinstance(built, Weighting):
        return softmatch(problem.num_classes, momentum=problem.momentum, start=problem.start, weighting=built)
    if not isinstance(built, Method):
        raise InputError(f"{label} must be or make a softmatch Method or Weighting; it is or made a {type(built).__name__}.")
    return built


def _call(target: Callable[..., Any], problem: Problem, options: Mapping[str, Any], label: str) -> Any:
    """Call a builder. Raises InputError, with the options and their values, if they do not fit."""
    context: dict[str, Any] = {field.name: getattr(problem, field.name) for field in fields(problem)}
    chosen = dict(options)
    if (parameter := inspect.signature(target).parameters.get("base")) is not None:
        base, inner = chosen.pop("base", parameter.default), chosen.pop("base_options", None)
        context["base"] = base if isinstance(base, Match) else _base(base, problem, inner)
    if any(target is entry.builder for entry in METHODS.values()):
        require_types(target, chosen, label)
    try:
        return call_own(target, context, chosen, label)
    except InputError as error:
        if not options or error.__cause__ is None:
            raise
        given = ", ".join(f"{name} = {value!r}" for name, value in options.items())
        raise InputError(f"{error} (options: {given})") from error


def _base(name: Any, problem: Problem, options: Mapping[str, Any] | None) -> Callable[..., Method]:
    """A function that builds the inner method of a wrapper, for the problem with changes."""
    if not isinstance(options or {}, Mapping):
        raise InputError(f"base_options = {options!r}: give options of {name!r} by name.")
    return lambda **changes: build(name, replace(problem, **changes), options)


def _find(name: str) -> Any:
    if name in METHODS:
        return METHODS[name].builder
    if ":" not in name:
        raise InputError(f"there is no method {name!r}. {nearest(name, METHODS)} A method of your own is given as file.py:name.")
    return find_own(name)


def code_in(named: Any) -> set[str]:
    """Everything in names or options of methods that would be run as code: file.py:name or module:name."""
    if isinstance(named, Mapping):
        named = list(named.values())
    if isinstance(named, list):
        return {code for one in named for code in code_in(one)}
    if not isinstance(named, str):
        return set()
    wrapper, inside = split_wrapper(named)
    if wrapper is not None:
        return code_in([wrapper, inside])
    return {named} if ":" in named else set()
