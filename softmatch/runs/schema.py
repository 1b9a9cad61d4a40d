"""Schema of model.json, and a check of the saved weights against it before memory is allocated."""

import json
import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from softmatch.errors import InputError, explain
from softmatch.files.tensors import Header
from softmatch.networks import ENCODER, build_network, shapes_only

FORMAT = 1
LARGEST_ITEM = 2**26
"""Numbers in an item; the largest photographs have fewer."""
DIMENSIONS = {"image": 3, "series": 2, "text": 1, "vector": 1}
"""Number of dimensions of an item, by the kind of its views."""
MANY_LAYERS = 256
LAYERS = re.compile(r"layer|depth|block|stage|expert", re.IGNORECASE)
"""Names of settings that repeat a part of a network."""

Count = Annotated[int, Field(ge=1, le=LARGEST_ITEM)]


class Architecture(BaseModel):
    """Architecture of a network with a pretrained encoder; see its `architecture()`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    config: dict[str, Any]
    of: Literal["text", "image"]
    pooler: bool
    features: Count
    side: Annotated[int, Field(ge=1, le=2**13)] | None = None
    pad: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    pooling: Literal["mean", "cls"] | None = None
    head: Literal["linear", "gelu"] = "linear"


class Description(BaseModel):
    """Content of model.json. Views and preparations check their own settings."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    format: int
    network: str = Field(max_length=1000)
    architecture: Any = None
    shape: list[Count] = Field(min_length=1, max_length=8)
    classes: list[str] = Field(min_length=1, max_length=2**20)
    views: dict[str, Any]
    preparation: dict[str, Any] | None = None
    temperature: Annotated[FiniteFloat, Field(ge=1e-6, le=1e6)] = 1.0


def describe(about: Any, where: object) -> Description:
    """Check the content of model.json; `where` is the run, for messages."""
    if not isinstance(about, dict):
        raise InputError(f"the model in {where} cannot be read: model.json is a {type(about).__name__}, not an object.")
    if about.get("format") != FORMAT:
        raise InputError(f"{where}/model has format {str(about.get('format'))[:99]}; this version reads {FORMAT}.")
    try:
        found = Description.model_validate_json(json.dumps(about))
        if found.network.startswith(ENCODER):
            Architecture.model_validate_json(json.dumps(found.architecture))
    except ValidationError as error:
        raise InputError(f"the model in {where} cannot be read: model.json: {explain(error)}") from error
    if prod(found.shape) > LARGEST_ITEM:
        raise InputError(f"the model in {where} cannot be read: items of {'×'.join(map(str, found.shape))} are too large.")
    if wrong := _misfit(found):
        raise InputError(f"the model in {where} cannot be read: {wrong}.")
    return found


def _misfit(found: Description) -> str | None:
    """Explain where the views or the preparation do not match the shape of the items."""
    kind, shape, mean = found.views.get("kind"), found.shape, found.views.get("mean")
    if kind in DIMENSIONS and len(shape) != DIMENSIONS[kind]:
        return f"views of kind {kind!r} do not fit items of shape {shape}"
    channels = shape[0]
    if kind != "text" and isinstance(mean, list) and len(mean) not in (1, channels) and (kind != "image" or channels != 1):
        return f"there are {len(mean)} means for {channels} channels or features"
    made = found.preparation or {}
    if made.get("kind") == "image" and [made.get(key) for key in ("channels", "height", "width")] != shape:
        return f"its images are not prepared as {'×'.join(map(str, shape))}"
    if made.get("kind") == "array" and made.get("shape") != shape:
        return f"its arrays are not prepared as {'×'.join(map(str, shape))}"
    return None


def refuse_other_weights(found: Description, header: Header, where: object) -> None:
    """Raise InputError unless a file holds exactly the weights of the described network. The network is built without memory."""
    if found.network.startswith(ENCODER):
        most = max(MANY_LAYERS, len(header.shapes))
        for name, number in _whole_numbers(found.architecture["config"]):
            if LAYERS.search(name) and number > most:
                said = f"{name[:99]} is {number}, and there are {len(header.shapes)} weights"
                raise InputError(f"the model in {where} cannot be read: {said}.")
    depth = re.match(r"wrn-(\d+)-", found.network)
    if depth is not None and int(depth[1]) > len(header.shapes):
        raise InputError(f"the model in {where} cannot be read: {len(header.shapes)} weights are not those of {found.network}.")
    with shapes_only():
        network = build_network(found.network, found.shape, len(found.classes), architecture=found.architecture)
    wanted = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    for name in sorted(wanted.keys() | header.shapes.keys()):
        ours, theirs = wanted.get(name), header.shapes.get(name)
        if ours != theirs:
            said = f"{found.network!r} has {name[:99]!r} of shape {ours}, the file {theirs}".replace("None", "none")
            raise InputError(f"the model in {where} cannot be read: its weights are of another network: {said}.")


def _whole_numbers(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Yield every whole number in settings with its name; for a list, its sum or its length if larger."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _whole_numbers(item, str(key))
    elif isinstance(value, list):
        numbers = [item for item in value if type(item) is int]
        yield name, max(len(value), sum(numbers))
        for item in value:
            yield from _whole_numbers(item, name)
    elif type(value) is int:
        yield name, value
