"""METHODS: every method by name, with what it is in one line and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from softmatch.averages import PAPER_MOMENTUM, Start
from softmatch.errors import InputError, nearest
from softmatch.methods.adamatch import AdaMatch, adamatch
from softmatch.methods.base import Batch, Forward, Method, Output, Supervised
from softmatch.methods.match import (
    PAPER_STEPS,
    Match,
    dash,
    fixmatch,
    flexmatch,
    freematch,
    pseudo_label,
    softmatch,
    uda,
)
from softmatch.own_code import call_own, find_own
from softmatch.weightings import Weighting

__all__ = [
    "METHODS",
    "AdaMatch",
    "Batch",
    "Entry",
    "Forward",
    "Match",
    "Method",
    "Output",
    "Problem",
    "Supervised",
    "adamatch",
    "build",
    "dash",
    "fixmatch",
    "flexmatch",
    "freematch",
    "pseudo_label",
    "read_card",
    "softmatch",
    "supervised",
    "uda",
]

Builder = Callable[..., Method]


def supervised(num_classes: int) -> Supervised:
    """Supervised: the labelled samples alone."""
    del num_classes
    return Supervised()


@dataclass(frozen=True)
class Entry:
    """A method as `softmatch methods` lists it."""

    builder: Builder
    summary: str
    citation: str


METHODS: dict[str, Entry] = {
    "softmatch": Entry(
        softmatch,
        "soft weights: a truncated Gaussian fitted to the confidence, with uniform alignment",
        "Chen, Tao, Fan, Wang, Wang, Schiele, Xie, Raj, Savvides: SoftMatch. ICLR 2023",
    ),
    "freematch": Entry(
        freematch,
        "self-adaptive global and class thresholds, and a fairness term",
        "Wang, Chen, Heng, Hou, Fan, Wu, et al.: FreeMatch. ICLR 2023",
    ),
    "flexmatch": Entry(
        flexmatch,
        "class-wise thresholds that follow how well each class is learned",
        "Zhang, Wang, Hou, Wu, Wang, Okumura, Shinozaki: FlexMatch. NeurIPS 2021",
    ),
    "adamatch": Entry(
        adamatch,
        "threshold relative to the confidence on labels, aligned targets",
        "Berthelot, Roelofs, Sohn, Carlini, Kurakin: AdaMatch. ICLR 2022",
    ),
    "dash": Entry(
        dash,
        "a loss threshold that falls during training",
        "Xu, Shang, Ye, Qian, Li, Sun, Li, Jin: Dash. ICML 2021",
    ),
    "fixmatch": Entry(
        fixmatch,
        "hard labels above one fixed confidence threshold",
        "Sohn, Berthelot, Li, Zhang, Carlini, Cubuk, et al.: FixMatch. NeurIPS 2020",
    ),
    "uda": Entry(
        uda,
        "sharpened soft targets above a threshold; optional signal annealing",
        "Xie, Dai, Hovy, Luong, Le: Unsupervised Data Augmentation. NeurIPS 2020",
    ),
    "pseudo_label": Entry(
        pseudo_label,
        "every sample trained on its own argmax, with a weight that ramps up",
        "Lee: Pseudo-Label. ICML 2013 workshop",
    ),
    "supervised": Entry(
        supervised,
        "the labelled samples alone",
        "the baseline of every comparison",
    ),
}


@dataclass(frozen=True)
class Problem:
    """What a training run knows about its task; a builder is given the items it has parameters for.

    Attributes:
        class_prior, class_counts: of the labelled samples.
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
            a builder; a Weighting or its class, which takes the place of SoftMatch's λ; or a Method, which is returned as
            it is.
        options: keyword arguments of the builder; they win over the problem's.
    """
    given = dict(options or {})
    if isinstance(method, str) and "+" in method:
        wrapper, _, base = method.partition("+")
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
        context: dict[str, Any] = {field.name: getattr(problem, field.name) for field in fields(problem)}
        context["make"] = lambda name, options=None: build(name, problem, options)
        built = call_own(target, context, given, f"method {label!r}") if callable(target) else target
    if isinstance(built, Weighting):
        return softmatch(problem.num_classes, momentum=problem.momentum, start=problem.start, weighting=built)
    if not isinstance(built, Method):
        raise InputError(f"{label} must be or make a softmatch Method or Weighting; it is or made a {type(built).__name__}.")
    return built


def read_card(name: str) -> str:
    """The card of a method, as Markdown: installed with the package, and in docs/methods of the repository."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}. {nearest(name, METHODS)}")
    package = Path(__file__).parent.parent
    for folder in (package / "cards", package.parent / "docs" / "methods"):
        if (folder / f"{name}.md").is_file():
            return (folder / f"{name}.md").read_text(encoding="utf-8").replace("<!-- measured -->\n", "")
    raise InputError(f"the card of {name!r} is not installed; it stands in docs/methods/{name}.md of the repository.")


def _find(name: str) -> Any:
    if name in METHODS:
        return METHODS[name].builder
    if ":" not in name:
        raise InputError(f"there is no method {name!r}. {nearest(name, METHODS)} A method of your own is given as file.py:name.")
    return find_own(name)
