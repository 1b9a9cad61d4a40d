"""METHODS: every method by name, with what it is in one line and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from softmatch.averages import PAPER_MOMENTUM, Start
from softmatch.errors import InputError, nearest
from softmatch.methods.adamatch import AdaMatch, adamatch
from softmatch.methods.base import Forward, Method, Supervised
from softmatch.methods.cgmatch import cgmatch
from softmatch.methods.comatch import comatch
from softmatch.methods.consistency import mean_teacher, pi_model, temporal_ensembling
from softmatch.methods.debias import debiaspl
from softmatch.methods.influence import influence
from softmatch.methods.longtail.abc import abc
from softmatch.methods.longtail.adsh import adsh
from softmatch.methods.longtail.cossl import cossl
from softmatch.methods.longtail.crest import crest, crest_plus
from softmatch.methods.longtail.darp import darp
from softmatch.methods.longtail.saw import saw
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
from softmatch.methods.meta import meta_pseudo_labels
from softmatch.methods.mixmatch import mixmatch
from softmatch.methods.remixmatch import remixmatch
from softmatch.methods.semireward import semireward
from softmatch.methods.sequencematch import sequencematch
from softmatch.methods.simmatch import simmatch
from softmatch.methods.sinkhorn import sla
from softmatch.methods.vat import vat
from softmatch.plugins import call_own, find_own
from softmatch.weightings import Weighting

__all__ = [
    "METHODS",
    "AdaMatch",
    "Entry",
    "Forward",
    "Match",
    "Method",
    "Problem",
    "Supervised",
    "abc",
    "adamatch",
    "adsh",
    "build",
    "cgmatch",
    "code_in",
    "comatch",
    "cossl",
    "crest",
    "crest_plus",
    "darp",
    "dash",
    "debiaspl",
    "fixmatch",
    "flexmatch",
    "freematch",
    "influence",
    "mean_teacher",
    "meta_pseudo_labels",
    "mixmatch",
    "pi_model",
    "pseudo_label",
    "read_card",
    "remixmatch",
    "saw",
    "semireward",
    "sequencematch",
    "simmatch",
    "sla",
    "softmatch",
    "split_wrapper",
    "supervised",
    "temporal_ensembling",
    "uda",
    "vat",
]

Builder = Callable[..., Method]
POSITIVE = ("k", "temperature")
"""Options that must be above zero, of whatever method: predictions or weights are divided by them, or mean nothing without."""
PLAIN = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
"""How values of options are looked at: as they are, and numbers are finite."""


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
    "pi_model": Entry(
        pi_model,
        "two weak views get the same prediction (Π-model)",
        "Laine, Aila: Temporal Ensembling for Semi-Supervised Learning. ICLR 2017",
    ),
    "temporal_ensembling": Entry(
        temporal_ensembling,
        "the prediction stays near the average of the sample's earlier ones",
        "Laine, Aila: Temporal Ensembling for Semi-Supervised Learning. ICLR 2017",
    ),
    "mean_teacher": Entry(
        mean_teacher,
        "the prediction follows that of the averaged weights",
        "Tarvainen, Valpola: Mean Teachers Are Better Role Models. NeurIPS 2017",
    ),
    "vat": Entry(
        vat,
        "the prediction withstands the perturbation that changes it most",
        "Miyato, Maeda, Koyama, Ishii: Virtual Adversarial Training. TPAMI 2019",
    ),
    "mixmatch": Entry(
        mixmatch,
        "sharpened guesses, mixed with the labelled samples; squared error",
        "Berthelot, Carlini, Goodfellow, Papernot, Oliver, Raffel: MixMatch. NeurIPS 2019",
    ),
    "remixmatch": Entry(
        remixmatch,
        "MixMatch with aligned guesses, strong views and a rotation task",
        "Berthelot, Carlini, Cubuk, Kurakin, Sohn, Zhang, Raffel: ReMixMatch. ICLR 2020",
    ),
    "influence": Entry(
        influence,
        "a weight for every sample, learned from labels kept out of training; around any match method",
        "Ren, Yeh, Schwing: Not All Unlabeled Data Are Equal. NeurIPS 2020",
    ),
    "comatch": Entry(
        comatch,
        "predictions smoothed by a memory, and a graph of samples that embeddings follow",
        "Li, Xiong, Hoi: CoMatch. ICCV 2021",
    ),
    "simmatch": Entry(
        simmatch,
        "predictions and similarities to the labelled samples correct each other",
        "Zheng, You, Huang, Wang, Qian, Xu: SimMatch. CVPR 2022",
    ),
    "sla": Entry(
        sla,
        "labels allocated to all samples by optimal transport, to classes of limited size",
        "Tai, Bailis, Valiant: Sinkhorn Label Allocation. ICML 2021",
    ),
    "meta_pseudo_labels": Entry(
        meta_pseudo_labels,
        "a teacher that learns from how its labels help a student",
        "Pham, Dai, Xie, Luong, Le: Meta Pseudo Labels. CVPR 2021",
    ),
    "debiaspl": Entry(
        debiaspl,
        "labels freed from the mean prediction, and margins by it",
        "Wang, Wu, Lian, Yu: Debiased Learning from Naturally Imbalanced Pseudo-Labels. CVPR 2022",
    ),
    "sequencematch": Entry(
        sequencematch,
        "FlexMatch, and agreement along weak, medium and strong views",
        "Nguyen: SequenceMatch. WACV 2024",
    ),
    "semireward": Entry(
        semireward,
        "pseudo-labels kept by a learned reward; around any match method",
        "Li, Jin, Wang, Wu, Liu, Tan, Li: SemiReward. ICLR 2024",
    ),
    "cgmatch": Entry(
        cgmatch,
        "confident samples, and less confident ones whose label has been steady",
        "Cheng, Lu, Tian, Zhao, Chang, Du: CGMatch. CVPR 2025",
    ),
    "darp": Entry(
        darp,
        "long-tailed: predictions refined to given class counts; around any match method",
        "Kim, Hur, Park, Yang, Hwang, Shin: Distribution Aligning Refinery of Pseudo-label. NeurIPS 2020",
    ),
    "crest": Entry(
        crest,
        "long-tailed: generations, each with the rarer classes' pseudo-labels added; around any match method",
        "Wei, Sohn, Mellina, Yuille, Yang: CReST. CVPR 2021",
    ),
    "crest_plus": Entry(
        crest_plus,
        "CReST with targets aligned to ever flatter class frequencies",
        "Wei, Sohn, Mellina, Yuille, Yang: CReST. CVPR 2021",
    ),
    "abc": Entry(
        abc,
        "long-tailed: a second head trained on classes of equal size; around any match method",
        "Lee, Shin, Kim: ABC, Auxiliary Balanced Classifier. NeurIPS 2021",
    ),
    "cossl": Entry(
        cossl,
        "long-tailed: a balanced head that later makes the labels; around any match method",
        "Fan, Dai, Kukleva, Schiele: CoSSL. CVPR 2022",
    ),
    "saw": Entry(
        saw,
        "long-tailed: losses weighted by the size of their class; around any match method",
        "Lai, Wang, Gunawan, Cheung, Chuah: Smoothed Adaptive Weighting. ICML 2022",
    ),
    "adsh": Entry(
        adsh,
        "long-tailed: thresholds that let through the same share of every class; around any match method",
        "Guo, Li: Class-Imbalanced Semi-Supervised Learning with Adaptive Thresholding. ICML 2022",
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
        context: dict[str, Any] = {field.name: getattr(problem, field.name) for field in fields(problem)}
        context["make"] = lambda name, options=None, **changes: build(name, replace(problem, **changes), options)
        built = _call(target, context, given, f"method {label!r}") if callable(target) else target
    if isinstance(built, Weighting):
        return softmatch(problem.num_classes, momentum=problem.momentum, start=problem.start, weighting=built)
    if not isinstance(built, Method):
        raise InputError(f"{label} must be or make a softmatch Method or Weighting; it is or made a {type(built).__name__}.")
    return built


def _call(target: Callable[..., Any], context: Mapping[str, Any], options: Mapping[str, Any], label: str) -> Any:
    """What a builder makes with these options. InputError, with the options and their values, where they do not fit."""
    if any(target is entry.builder for entry in METHODS.values()):
        _refuse_wrong(target, options, label)
    try:
        return call_own(target, context, options, label)
    except InputError as error:
        if not options or error.__cause__ is None:
            raise
        given = ", ".join(f"{name} = {value!r}" for name, value in options.items())
        raise InputError(f"{error} (options: {given})") from error


def _refuse_wrong(builder: Callable[..., Any], options: Mapping[str, Any], label: str) -> None:
    """Raise InputError for an option that is not what its parameter is said to be: it would be noticed while training only."""
    known = get_type_hints(builder)
    for name, value in options.items():
        if name not in known or name == "make":
            continue
        hint: Any = Annotated[known[name], Field(gt=0)] if name in POSITIVE else known[name]
        try:
            TypeAdapter(hint, config=PLAIN).validate_python(tuple(value) if isinstance(value, list) else value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise InputError(f"{label}: {name} = {value!r}: {reason[0].lower()}{reason[1:]}.") from error


def read_card(name: str) -> str:
    """The card of a method, as Markdown: installed with the package, and in docs/methods of the repository."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}. {nearest(name, METHODS)}")
    package = Path(__file__).parent.parent
    for folder in (package / "cards", package.parent / "docs" / "methods"):
        if (folder / f"{name}.md").is_file():
            return (folder / f"{name}.md").read_text(encoding="utf-8").replace("<!-- measured -->\n", "")
    raise InputError(f"the card of {name!r} is not installed; it stands in docs/methods/{name}.md of the repository.")


def split_wrapper(name: str) -> tuple[str | None, str]:
    """ "saw+softmatch" → "saw" and "softmatch"; None and the name itself where there is no wrapper, as in a path with a +."""
    wrapper, plus, base = name.partition("+")
    named = wrapper in METHODS or ":" in wrapper or (wrapper.isidentifier() and "/" not in base)
    return (wrapper, base) if plus and named else (None, name)


def code_in(named: Any) -> set[str]:
    """Everything in names of methods, or in their options, that would be taken for code: file.py:name or module:name."""
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


def _find(name: str) -> Any:
    if name in METHODS:
        return METHODS[name].builder
    if ":" not in name:
        raise InputError(f"there is no method {name!r}. {nearest(name, METHODS)} A method of your own is given as file.py:name.")
    return find_own(name)
