"""Named encoders: one table of pretrained models for `--encoder NAME`, with size, licence and the evidence for each choice.

Sizes, licences and commits are those of the model pages on the Hugging Face hub; figures are their authors' own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from softmatch.files.paths import expand_home

TIMM = "timm:"
"""Prefix of a model of the library timm: timm:NAME is timm/NAME on the hub."""
_LVD = "LVD-142M, 142 million photos chosen from the web without labels; ImageNet's photos are among them"
_PAIRS = "over 1 billion pairs of English sentences: questions and answers, titles, citations, captions"
_DINOV2 = "(accuracy by DINOv2's model card)"
_SBERT = "(sentence-transformers' documentation)"


@dataclass(frozen=True)
class NamedEncoder:
    """A pretrained encoder on the Hugging Face hub.

    Attributes:
        hub: id on the hub. It is not gated, has safetensors weights, and needs no code of its own.
        revision: commit on the hub.
        input: side of the images in pixels, or number of tokens of a text.
        evidence: published figure for the choice, with its source.
        prefix: put before each text, as in its training.
    """

    name: str
    of: Literal["image", "text"]
    purpose: str
    hub: str
    revision: str
    megabytes: int
    licence: str
    commercial: bool
    dimension: int
    input: int
    trained_on: str
    evidence: str
    prefix: str = ""


_TABLE = (
    NamedEncoder(
        name="images-small",
        of="image",
        purpose="photos, on a CPU",
        hub="facebook/dinov2-small",
        revision="ed25f3a31f01632728cabb09d1542f84ab7b0056",
        megabytes=88,
        licence="Apache-2.0",
        commercial=True,
        dimension=384,
        input=224,
        trained_on=_LVD,
        evidence=f"ImageNet: k-NN 79.0 %, linear 81.1 %; iNaturalist 2018: linear 69.5 % {_DINOV2}",
    ),
    NamedEncoder(
        name="images",
        of="image",
        purpose="photos",
        hub="facebook/dinov2-base",
        revision="f9e44c814b77203eaa57a6bdbbd535f21ede1415",
        megabytes=346,
        licence="Apache-2.0",
        commercial=True,
        dimension=768,
        input=224,
        trained_on=_LVD,
        evidence=f"ImageNet: k-NN 82.1 %, linear 84.5 %; iNaturalist 2018: linear 76.3 % {_DINOV2}",
    ),
    NamedEncoder(
        name="images-large",
        of="image",
        purpose="photos, on a GPU",
        hub="facebook/dinov2-large",
        revision="47b73eefe95e8d44ec3623f8890bd894b6ea2d6c",
        megabytes=1218,
        licence="Apache-2.0",
        commercial=True,
        dimension=1024,
        input=224,
        trained_on=_LVD,
        evidence=f"ImageNet: k-NN 83.5 %, linear 86.3 %; iNaturalist 2018: linear 79.8 % {_DINOV2}",
    ),
    NamedEncoder(
        name="texts-small",
        of="text",
        purpose="English texts, on a CPU",
        hub="sentence-transformers/all-MiniLM-L6-v2",
        revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
        megabytes=92,
        licence="Apache-2.0",
        commercial=True,
        dimension=384,
        input=256,
        trained_on=_PAIRS,
        evidence=f"mean of 14 sentence tasks 68.06, five times as fast as all-mpnet-base-v2 {_SBERT}",
    ),
    NamedEncoder(
        name="texts",
        of="text",
        purpose="English texts",
        hub="sentence-transformers/all-mpnet-base-v2",
        revision="9a3225965996d404b775526de6dbfe85d3368642",
        megabytes=439,
        licence="Apache-2.0",
        commercial=True,
        dimension=768,
        input=384,
        trained_on=_PAIRS,
        evidence=f"mean of 14 sentence tasks 69.57, of 6 search tasks 57.02 {_SBERT}",
    ),
    NamedEncoder(
        name="texts-multilingual",
        of="text",
        purpose="texts in 94 languages",
        hub="intfloat/multilingual-e5-small",
        revision="fd1525a9fd15316a2d503bf26ab031a61d056e98",
        megabytes=493,
        licence="MIT",
        commercial=True,
        dimension=384,
        input=512,
        trained_on="1 billion pairs of texts in many languages, then labelled question answering",
        evidence="the small model of a family whose large one is the best public model of MMTEB (Enevoldsen et al. 2025)",
        prefix="query: ",
    ),
)
NAMED: Mapping[str, NamedEncoder] = {each.name: each for each in _TABLE}
"""All of them by name."""


def is_named(encoder: str) -> bool:
    """Tell whether this is a name of the table; the folder of an encoder that is called so takes precedence."""
    return encoder in NAMED and not (expand_home(encoder) / "config.json").is_file()


def resolve(encoder: str) -> tuple[str, str | None]:
    """Give the folder or the id on the hub of an encoder, and the commit if the table has one."""
    if is_named(encoder):
        return NAMED[encoder].hub, NAMED[encoder].revision
    if encoder.startswith(TIMM):
        name = encoder.removeprefix(TIMM)
        return (name if "/" in name or expand_home(name).exists() else f"timm/{name}"), None
    return encoder, None


def prefix_of(encoder: str) -> str:
    """Give what an encoder expects before each text, given by its name or its id on the hub."""
    hub = resolve(encoder)[0]
    return next((each.prefix for each in _TABLE if each.hub == hub), "")
