"""The folder of a pretrained model: where it is, its settings, and the fingerprint of its files. Nothing in it is executed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from softmatch.errors import InputError
from softmatch.files.paths import expand_home
from softmatch.files.untrusted import parse_json, read_text

__all__ = ["FILES", "Kind", "find_model", "first_line", "model_fingerprint", "read_json", "read_settings"]

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
FILES = (
    "config.json",
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model"),
    *("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"),
    "preprocessor_config.json",
)
"""What decides what a model makes, besides the weights, as far as all kinds have it."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True)
class Kind:
    """What models are for, and how messages speak of them.

    Attributes:
        noun: what one is called.
        indefinite: the same with its article.
        extra: of softmatch, which has the libraries that they need.
        files: all that is fetched from the hub, and all that the fingerprint is of, besides the weights.
        absent: what is wrong with a place that has no config.json, and what to do.
        conversion: how weights of another format become safetensors, of the model of this name.
        copies: what to do without the hub.
        usable: which models to give instead of one that cannot be used.
    """

    noun: str
    indefinite: str
    extra: str
    files: tuple[str, ...]
    absent: Callable[[Path], str]
    conversion: Callable[[str], str]
    copies: str
    usable: str

    def missing(self, what: str) -> InputError:
        """`what` needs the libraries of the extra."""
        return InputError(f"{what} needs further libraries: pip install 'softmatch[{self.extra}]'.")

    def unusable(self, which: object, error: Exception) -> InputError:
        """This model has raised an error of the transformers library."""
        reason = first_line(error).rstrip(".")
        return InputError(f"{self.noun} {which} cannot be used: {reason}. {self.usable}")

    def incomplete(self, which: object, lost: Sequence[str]) -> InputError:
        """This model lacks weights of these names."""
        number = len(lost)
        return InputError(
            f"{self.noun} {which}: {number} of its weights are missing in model.safetensors, the first is {lost[0]}."
        )


def find_model(kind: Kind, name: str, revision: str | None = None) -> Path:
    """The folder of a model, which is fetched from the hub and kept in its library's cache where it is no folder here.

    Args:
        name: a folder, or an id of the Hugging Face hub.
        revision: the commit on the hub; by default the newest one.

    Raises:
        InputError: there is none, or its weights are pickled: those can execute anything when they are read.
    """
    folder = expand_home(name)
    if not folder.exists() and HUB_ID.fullmatch(name):
        folder = _fetch(kind, name, revision)
    if not (folder / "config.json").is_file():
        raise InputError(f"{kind.noun} {name!r}: {kind.absent(folder)}")
    if not any(folder.glob("model*.safetensors")):
        raise InputError(
            f"{kind.noun} {name!r} has no weights as model.safetensors; other formats can run code when they are read, and are "
            f"not opened. If you trust where it comes from, convert it{kind.conversion(name)}"
        )
    if (folder / "adapter_config.json").exists():  # transformers would load the adapter where PEFT is installed, and only there
        raise InputError(
            f"{kind.noun} {name!r} has an adapter beside its weights (adapter_config.json): merge the adapter into the weights, "
            "or take its files away."
        )
    return folder.resolve()


@cache  # once in a process: each time, the hub is asked whether there is a newer one
def _fetch(kind: Kind, name: str, revision: str | None) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise kind.missing(f"{kind.noun} {name!r} is no folder here; fetching it from the Hugging Face hub") from error
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=[*kind.files, *WEIGHTS]))
    except Exception as error:  # the network, the hub, its library: each has errors of its own
        reason = first_line(error).rstrip(".")
        raise InputError(
            f"{kind.noun} {name!r} is no folder here, and cannot be had from the Hugging Face hub: {reason}. Check the name and "
            f"the connection, or {kind.copies}"
        ) from error


def model_fingerprint(kind: Kind, folder: Path) -> str:
    """sha256 over all files that decide what a model makes; copies of one have the same wherever they lie."""
    found = [folder / name for name in kind.files if (folder / name).is_file()]
    found += sorted(path for pattern in WEIGHTS for path in folder.glob(pattern))
    total = hashlib.sha256()
    for path in found:
        with path.open("rb") as stream:
            total.update(f"{path.relative_to(folder).as_posix()} {hashlib.file_digest(stream, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()


def read_settings(folder: Path) -> dict[str, Any]:
    """What the model's own config.json says."""
    return read_json(folder, "config.json")


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """The content of a file of settings, {} where there is none; a list stands under "list"."""
    path = folder / name
    if not path.is_file():
        return {}
    found = parse_json(read_text(path), path)
    return found if isinstance(found, dict) else {"list": found}


def first_line(error: Exception) -> str:
    """Of what an error says; its kind, where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
