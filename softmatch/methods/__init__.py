"""Every method by name (METHODS), and `build`, which makes one for a problem."""

from __future__ import annotations

from softmatch.methods.adamatch import AdaMatch, adamatch
from softmatch.methods.base import Forward, Method, Supervised
from softmatch.methods.building import Problem, build, code_in
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
from softmatch.methods.registry import BASELINE, METHODS, Entry, proper_name, read_card, split_wrapper, supervised
from softmatch.methods.remixmatch import remixmatch
from softmatch.methods.semireward import semireward
from softmatch.methods.sequencematch import sequencematch
from softmatch.methods.simmatch import simmatch
from softmatch.methods.sinkhorn import sla
from softmatch.methods.vat import vat

__all__ = [
    "BASELINE", "METHODS", "AdaMatch", "Entry", "Forward", "Match", "Method", "Problem", "Supervised", "abc", "adamatch",
    "adsh", "build", "cgmatch", "code_in", "comatch", "cossl", "crest", "crest_plus", "darp", "dash", "debiaspl",
    "fixmatch", "flexmatch", "freematch", "influence", "mean_teacher", "meta_pseudo_labels", "mixmatch", "pi_model",
    "proper_name", "pseudo_label", "read_card", "remixmatch", "saw", "semireward", "sequencematch", "simmatch", "sla",
    "softmatch", "split_wrapper", "supervised", "temporal_ensembling", "uda", "vat",
]  # fmt: skip
