"""How long the paper says that its runs took, and what that makes of a V100: the one calibration from the authors' own code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from softmatch.planning.devices import DEVICES
from softmatch.planning.plans import count
from softmatch.planning.setting import named_setting

HOUR, DAY = 3600.0, 86_400.0

CLASSIC: Mapping[str, float] = {"cifar10": 3 * DAY, "svhn": 3 * DAY, "cifar100": 7 * DAY, "stl10": 7 * DAY}
"""Appendix, "Classic Image Classification": "We use NVIDIA V100 […]. The training time for CIFAR-10 and SVHN on a single GPU is
around 3 days, whereas the training time for CIFAR-100 and STL-10 is around 7 days." """
LONG_TAILED: Mapping[str, float] = {"cifar10": 1 * DAY, "cifar100": 1 * DAY}
"""Appendix, "Long-Tailed Image Classification": "NVIDIA V100 is used […], and the training time is around 1 day." """
TEXTS = 20 * HOUR
"""Appendix, "Text Classification": "We use NVIDIA V100 to train all text classification models, the total training time is around
20 hours." """


@dataclass(frozen=True)
class Stated:
    """A time of the paper, and what it means.

    Attributes:
        flops: of a run, without evaluations and twin.
        upper: the FLOPs are an upper bound: the lengths of the texts are not known.
    """

    name: str
    seconds: float
    steps: int
    flops: float
    upper: bool = False

    @property
    def rate(self) -> float:
        """FLOP/s, everything included."""
        return self.flops / self.seconds

    @property
    def share(self) -> float:
        """Of a V100's peak in float32."""
        return self.rate / DEVICES["v100"].float32


def stated_seconds(source: str, long_tailed: bool) -> float | None:
    """What the paper says of a source; None: nothing."""
    if long_tailed:
        return LONG_TAILED.get(source)
    return CLASSIC.get(source, TEXTS if source in ("agnews", "dbpedia", "imdb", "amazon-5", "yelp-5") else None)


def stated() -> list[Stated]:
    """Every time that the paper gives, with the FLOPs of the recipe."""
    found = []
    settings: list[tuple[str, dict[str, Any]]] = [(source, {}) for source in CLASSIC] + [
        (source, {"imbalance": 100}) for source in LONG_TAILED
    ]
    settings += [(source, {}) for source in ("agnews", "imdb")]
    for source, more in settings:
        setting = named_setting(source, ({"recipe": "paper", "baseline": False, **more},), "cuda", "the paper")
        seconds = stated_seconds(source, bool(more))
        assert seconds is not None
        counted, lengths = count(setting), setting.data.lengths
        name = f"{source}, long-tailed" if more else source
        flops = counted.work.steps * counted.work.step
        found.append(Stated(name, seconds, setting.config.steps, flops, lengths is not None and not lengths.known))
    return found
