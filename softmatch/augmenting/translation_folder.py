"""The folder of a translation model: where it is, and the fingerprint of its files. Nothing in it is executed."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from softmatch.data.places import expand_home
from softmatch.errors import InputError
from softmatch.networks.encoder_folder import FILES, HUB_ID, WEIGHTS, take_fingerprint

__all__ = ["find_translator", "missing_library", "translator_fingerprint"]

FURTHER = ("generation_config.json", "vocab-src.json", "vocab-tgt.json", "source.spm", "target.spm", "target_vocab.json")
"""Files that decide a translation, besides those that an encoder has too."""
CONVERT = (
    "import transformers as t; "
    "[part.from_pretrained('{name}').save_pretrained('{new}') for part in (t.AutoModelForSeq2SeqLM, t.AutoTokenizer)]"
)


def find_translator(name: str) -> Path:
    """The folder of a translation model, fetched from the hub and kept in its library's cache where it is no folder here.

    Args:
        name: a folder, or an id of the Hugging Face hub.

    Raises:
        InputError: there is none, or its weights are pickled: those can execute anything when they are read.
    """
    folder = expand_home(name)
    if not folder.exists() and HUB_ID.fullmatch(name):
        folder = _fetch(name)
    if not (folder / "config.json").is_file():
        what = "there is no config.json in it" if folder.is_dir() else "there is no such folder"
        raise InputError(f"translation model {name!r}: {what}. Give the folder of one, or its id on the Hugging Face hub.")
    if not any(folder.glob("model*.safetensors")):
        new = Path(name).name or "model"
        raise InputError(
            f"translation model {name!r} has no weights as model.safetensors; other formats can run code when they are read, and "
            f'are not opened. If you trust where it comes from, convert it, python -c "{CONVERT.format(name=name, new=new)}", '
            f"and give the new folders: --via FORTH+BACK, such as {new}+…"
        )
    return folder.resolve()


@cache  # once in a process: each time, the hub is asked whether there is a newer one
def _fetch(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise missing_library(f"translation model {name!r} is no folder here; fetching it from the Hugging Face hub") from error
    try:
        return Path(snapshot_download(name, allow_patterns=[*FILES, *FURTHER, *WEIGHTS]))
    except Exception as error:  # the network, the hub, its library: each has errors of its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"translation model {name!r} is no folder here, and cannot be had from the Hugging Face hub: {reason}. Check the "
            "name and the connection, or give folders of copies that you have: --via FORTH+BACK. Without any model: --via words."
        ) from error


def missing_library(what: str) -> InputError:
    """`what` needs the libraries of the extra `translate`."""
    return InputError(f"{what} needs further libraries: pip install 'softmatch[translate]'.")


def translator_fingerprint(folder: Path) -> str:
    """sha256 over all files that decide a translation; copies of a model have the same one wherever they lie."""
    total = hashlib.sha256(take_fingerprint(folder).encode())
    for name in FURTHER:
        if (folder / name).is_file():
            total.update(name.encode() + hashlib.sha256((folder / name).read_bytes()).digest())
    return total.hexdigest()
