"""METHODS: every method by name, with its builder, its proper name and its traits; and `build`, which makes one for a problem.

The formula and the options of each method are in its card, docs/methods/NAME.md.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from softmatch.averages import PAPER_MOMENTUM, Start
from softmatch.errors import InputError, nearest
from softmatch.methods.base import Method, Supervised
from softmatch.methods.cgmatch import CGMatch
from softmatch.methods.consistency import VAT, MeanTeacher, PiModel, TemporalEnsembling
from softmatch.methods.embeddings import CoMatch, SimMatch
from softmatch.methods.forward import Forward
from softmatch.methods.influence import Influence
from softmatch.methods.longtail_heads import AuxiliaryBalanced, CoLearning
from softmatch.methods.longtail_labels import CReST, CReSTPlus, darp
from softmatch.methods.longtail_weights import adsh, saw
from softmatch.methods.match import PAPER_STEPS, Match, dash, fixmatch, flexmatch, freematch, pseudo_label, softmatch, uda
from softmatch.methods.match_variants import AdaMatch, adamatch, debiaspl, sequencematch
from softmatch.methods.meta import MetaPseudoLabels
from softmatch.methods.mixmatch import MixMatch, ReMixMatch
from softmatch.methods.semireward import SemiReward
from softmatch.methods.sinkhorn import sla
from softmatch.plugins import call_own, find_own
from softmatch.weightings import Weighting

__all__ = [
    "BASELINE", "METHODS", "AdaMatch", "Entry", "Forward", "Match", "Method", "Problem", "Supervised", "abc", "adamatch",
    "adsh", "build", "cgmatch", "code_in", "comatch", "cossl", "crest", "crest_plus", "darp", "dash", "debiaspl",
    "fixmatch", "flexmatch", "freematch", "influence", "mean_teacher", "meta_pseudo_labels", "mixmatch", "pi_model",
    "proper_name", "pseudo_label", "read_card", "remixmatch", "saw", "semireward", "sequencematch", "simmatch", "sla",
    "softmatch", "split_wrapper", "supervised", "temporal_ensembling", "uda", "vat",
]  # fmt: skip

POSITIVE = ("k", "temperature")
"""Options of any method that must be above zero because predictions or weights are divided by them."""
STRICT = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
Builder = Callable[..., Method]
Family = Literal["match", "weak views", "mixing", "memory", "learned", "long-tailed", "baseline"]
BASELINE = "supervised"
"""The method that every run is compared with."""
abc, cgmatch, comatch, cossl = AuxiliaryBalanced, CGMatch, CoMatch, CoLearning
crest, crest_plus, influence, mean_teacher = CReST, CReSTPlus, Influence, MeanTeacher
meta_pseudo_labels, mixmatch, pi_model, remixmatch = MetaPseudoLabels, MixMatch, PiModel, ReMixMatch
semireward, simmatch, temporal_ensembling, vat = SemiReward, SimMatch, TemporalEnsembling, VAT


@dataclass(frozen=True)
class Entry:
    """A method as `softmatch methods` lists it; no other module knows a method by name.

    Attributes:
        family: the group in which docs/methods.md lists it.
        remembers: its state grows with the number of unlabelled samples.
        strong: it uses strong views.
        equal_batches: the paper's code base gives it labelled and unlabelled batches of equal size.
    """

    builder: Builder
    name: str
    family: Family
    summary: str
    citation: str
    remembers: bool = False
    strong: bool = True
    equal_batches: bool = False

    @property
    def wraps(self) -> bool:
        """It goes around a match method."""
        return "base" in inspect.signature(self.builder).parameters

    @property
    def match(self) -> bool:
        """It is of the form alignment × weighting × target, so that others can go around it."""
        made = self.builder if inspect.isclass(self.builder) else get_type_hints(self.builder)["return"]
        return issubclass(made, Match)

    def _repr_html_(self) -> str:
        """Show the card of the method in a notebook."""
        from markdown_it import MarkdownIt

        name = next(name for name, entry in METHODS.items() if entry is self)
        return str(MarkdownIt("js-default").render(read_card(name)))  # in which HTML is text


def supervised(num_classes: int) -> Supervised:
    """Supervised: the labelled samples only."""
    del num_classes
    return Supervised()


# fmt: off
METHODS: dict[str, Entry] = {
    "softmatch": Entry(softmatch, "SoftMatch", "match",
        "soft weights: a truncated Gaussian fitted to the confidence, with uniform alignment",
        "Chen, Tao, Fan, Wang, Wang, Schiele, Xie, Raj, Savvides: SoftMatch. ICLR 2023"),
    "freematch": Entry(freematch, "FreeMatch", "match", "self-adaptive global and class thresholds, and a fairness term",
        "Wang, Chen, Heng, Hou, Fan, Wu, et al.: FreeMatch. ICLR 2023"),
    "flexmatch": Entry(flexmatch, "FlexMatch", "match", "class-wise thresholds that follow how well each class is learned",
        "Zhang, Wang, Hou, Wu, Wang, Okumura, Shinozaki: FlexMatch. NeurIPS 2021", remembers=True),
    "adamatch": Entry(adamatch, "AdaMatch", "match", "threshold relative to the confidence on labels, aligned targets",
        "Berthelot, Roelofs, Sohn, Carlini, Kurakin: AdaMatch. ICLR 2022"),
    "dash": Entry(dash, "Dash", "match", "a loss threshold that falls during training",
        "Xu, Shang, Ye, Qian, Li, Sun, Li, Jin: Dash. ICML 2021"),
    "fixmatch": Entry(fixmatch, "FixMatch", "match", "hard labels above one fixed confidence threshold",
        "Sohn, Berthelot, Li, Zhang, Carlini, Cubuk, et al.: FixMatch. NeurIPS 2020"),
    "uda": Entry(uda, "UDA", "match", "sharpened soft targets above a threshold; optional signal annealing",
        "Xie, Dai, Hovy, Luong, Le: Unsupervised Data Augmentation. NeurIPS 2020"),
    "pseudo_label": Entry(pseudo_label, "Pseudo-Label", "weak views",
        "every sample trained on its own argmax, with a weight that ramps up",
        "Lee: Pseudo-Label. ICML 2013 workshop", strong=False, equal_batches=True),
    "pi_model": Entry(pi_model, "Π-model", "weak views", "two weak views get the same prediction (Π-model)",
        "Laine, Aila: Temporal Ensembling for Semi-Supervised Learning. ICLR 2017", strong=False, equal_batches=True),
    "temporal_ensembling": Entry(temporal_ensembling, "Temporal Ensembling", "weak views",
        "the prediction stays near the average of the sample's earlier ones",
        "Laine, Aila: Temporal Ensembling for Semi-Supervised Learning. ICLR 2017",
        remembers=True, strong=False, equal_batches=True),
    "mean_teacher": Entry(mean_teacher, "Mean Teacher", "weak views", "the prediction follows that of the averaged weights",
        "Tarvainen, Valpola: Mean Teachers Are Better Role Models. NeurIPS 2017", strong=False, equal_batches=True),
    "vat": Entry(vat, "VAT", "weak views", "the prediction withstands the perturbation that changes it most",
        "Miyato, Maeda, Koyama, Ishii: Virtual Adversarial Training. TPAMI 2019", strong=False, equal_batches=True),
    "mixmatch": Entry(mixmatch, "MixMatch", "mixing", "sharpened guesses, mixed with the labelled samples; squared error",
        "Berthelot, Carlini, Goodfellow, Papernot, Oliver, Raffel: MixMatch. NeurIPS 2019", strong=False, equal_batches=True),
    "remixmatch": Entry(remixmatch, "ReMixMatch", "mixing", "MixMatch with aligned guesses, strong views and a rotation task",
        "Berthelot, Carlini, Cubuk, Kurakin, Sohn, Zhang, Raffel: ReMixMatch. ICLR 2020", equal_batches=True),
    "influence": Entry(influence, "Influence", "learned",
        "a weight for every sample, learned from held-out labels; around any match method",
        "Ren, Yeh, Schwing: Not All Unlabeled Data Are Equal. NeurIPS 2020", remembers=True),
    "comatch": Entry(comatch, "CoMatch", "memory",
        "predictions smoothed by a memory, and a graph of samples that embeddings follow", "Li, Xiong, Hoi: CoMatch. ICCV 2021"),
    "simmatch": Entry(simmatch, "SimMatch", "memory", "predictions and similarities to the labelled samples correct each other",
        "Zheng, You, Huang, Wang, Qian, Xu: SimMatch. CVPR 2022"),
    "sla": Entry(sla, "SLA", "match", "labels allocated to all samples by optimal transport, to classes of limited size",
        "Tai, Bailis, Valiant: Sinkhorn Label Allocation. ICML 2021", remembers=True),
    "meta_pseudo_labels": Entry(meta_pseudo_labels, "Meta Pseudo Labels", "learned",
        "a teacher that learns from how its labels help a student", "Pham, Dai, Xie, Luong, Le: Meta Pseudo Labels. CVPR 2021"),
    "debiaspl": Entry(debiaspl, "DebiasPL", "match", "labels corrected by the mean prediction, and margins by it",
        "Wang, Wu, Lian, Yu: Debiased Learning from Naturally Imbalanced Pseudo-Labels. CVPR 2022"),
    "sequencematch": Entry(sequencematch, "SequenceMatch", "match",
        "FlexMatch, and agreement along weak, medium and strong views", "Nguyen: SequenceMatch. WACV 2024", remembers=True),
    "semireward": Entry(semireward, "SemiReward", "learned",
        "pseudo-labels selected by a learned reward; around any match method",
        "Li, Jin, Wang, Wu, Liu, Tan, Li: SemiReward. ICLR 2024"),
    "cgmatch": Entry(cgmatch, "CGMatch", "memory", "confident samples, and less confident ones whose label has been steady",
        "Cheng, Lu, Tian, Zhao, Chang, Du: CGMatch. CVPR 2025", remembers=True),
    "darp": Entry(darp, "DARP", "long-tailed", "long-tailed: predictions refined to given class counts; around any match method",
        "Kim, Hur, Park, Yang, Hwang, Shin: Distribution Aligning Refinery of Pseudo-label. NeurIPS 2020", remembers=True),
    "crest": Entry(crest, "CReST", "long-tailed",
        "long-tailed: generations, each with the rarer classes' pseudo-labels added; around any match method",
        "Wei, Sohn, Mellina, Yuille, Yang: CReST. CVPR 2021", remembers=True),
    "crest_plus": Entry(crest_plus, "CReST+", "long-tailed", "CReST with targets aligned to ever flatter class frequencies",
        "Wei, Sohn, Mellina, Yuille, Yang: CReST. CVPR 2021", remembers=True),
    "abc": Entry(abc, "ABC", "long-tailed",
        "long-tailed: a second head trained on classes of equal size; around any match method",
        "Lee, Shin, Kim: ABC, Auxiliary Balanced Classifier. NeurIPS 2021"),
    "cossl": Entry(cossl, "CoSSL", "long-tailed",
        "long-tailed: a balanced head that later makes the labels; around any match method",
        "Fan, Dai, Kukleva, Schiele: CoSSL. CVPR 2022"),
    "saw": Entry(saw, "SAW", "long-tailed", "long-tailed: losses weighted by the size of their class; around any match method",
        "Lai, Wang, Gunawan, Cheung, Chuah: Smoothed Adaptive Weighting. ICML 2022", remembers=True),
    "adsh": Entry(adsh, "Adsh", "long-tailed",
        "long-tailed: thresholds that pass the same share of every class; around any match method",
        "Guo, Li: Class-Imbalanced Semi-Supervised Learning with Adaptive Thresholding. ICML 2022"),
    "supervised": Entry(supervised, "Baseline (labels only)", "baseline", "the labelled samples only",
        "the baseline of every comparison", strong=False),
}
# fmt: on


def split_wrapper(name: str) -> tuple[str | None, str]:
    """ "saw+softmatch" → "saw" and "softmatch"; None and the name itself if there is no wrapper, as in a path with a +."""
    wrapper, plus, base = name.partition("+")
    named = wrapper in METHODS or ":" in wrapper or (wrapper.isidentifier() and "/" not in base)
    return (wrapper, base) if plus and named else (None, name)


def proper_name(method: str) -> str:
    """The name as the method's authors write it; the given name itself for a method of the user's own."""
    wrapper, base = split_wrapper(method)
    if wrapper is not None:
        return f"{proper_name(wrapper)} around {proper_name(base)}"
    return METHODS[method].name if method in METHODS else method


def read_card(name: str) -> str:
    """The card of a method, as Markdown: installed with the package, and in docs/methods of the repository."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}. {nearest(name, METHODS)}")
    package = Path(__file__).parent.parent
    for folder in (package / "cards", package.parent / "docs" / "methods"):
        if (folder / f"{name}.md").is_file():
            return (folder / f"{name}.md").read_text(encoding="utf-8").replace("<!-- measured -->\n", "")
    raise InputError(f"the card of {name!r} is not installed; it is docs/methods/{name}.md in the repository.")


@dataclass(frozen=True)
class Problem:
    """The facts about a task that methods can use; a builder gets those for which it has parameters.

    Attributes:
        num_classes: C.
        num_unlabeled, num_labeled: N_U and N_L.
        class_prior, class_counts: class frequencies and counts of the labelled samples.
        labeled_batch, unlabeled_batch: B_L and B_U.
        kind, shape: modality of the items, and the shape of one.
        total_steps: length of the run.
        momentum, start: of running averages; see `softmatch.RunningAverage`.

    Example:
        >>> Problem(num_classes=10).unlabeled_batch
        448
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
        problem: facts about the task.
        options: keyword arguments of the builder, which take precedence over the problem's. A method around another also
            takes `base`, the name of the inner one, and `base_options`.

    Returns:
        The method, with its state at the beginning.

    Raises:
        InputError: there is no such method or option, or a value cannot be used.

    Example:
        >>> build("softmatch", Problem(num_classes=10), {"k": 3.0}).weighting.k
        3.0
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
        _require_types(target, chosen, label)
    try:
        return call_own(target, context, chosen, label)
    except InputError as error:
        if not options or error.__cause__ is None:
            raise
        given = ", ".join(f"{name} = {value!r}" for name, value in options.items())
        raise InputError(f"{error} (options: {given})") from error


def _require_types(builder: Callable[..., Any], options: Mapping[str, Any], label: str) -> None:
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
