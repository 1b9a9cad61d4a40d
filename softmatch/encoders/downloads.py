"""Pretrained models from the Hugging Face hub: what is on disk is used without asking, the rest is downloaded once.

The hub's own library downloads, with its progress bars, its cache and the proxies of HTTP_PROXY and HTTPS_PROXY. Only settings,
tokenizers and safetensors are fetched, never pickles or code.
"""

import errno
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from softmatch.errors import InputError, first_line

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
FILES = (
    "config.json",
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model"),
    *("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"),
    "preprocessor_config.json",
)
"""Files that determine the output of a model together with its weights, as far as all kinds have them."""
SECONDS = 10.0
"""Seconds to wait for an answer of the hub."""
LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNREACHABLE = frozenset({"ConnectError", "ConnectTimeout", "ProxyError", "LocalEntryNotFoundError"})
CUT = frozenset({"RemoteProtocolError", "ReadError", "ReadTimeout", "IncompleteSnapshotError"})
"""Errors of the libraries for the network, by name: which library it is depends on the version of huggingface_hub."""


@cache  # once per process
def fetch(noun: str, name: str, revision: str | None, files: tuple[str, ...], copies: str) -> Path:
    """Give the folder of a model of the hub; what is missing on disk is downloaded.

    Args:
        revision: commit, branch or tag; None: the one that is on disk, else the newest.
        files: names or patterns of the files, in addition to the weights.
        copies: advice when the hub cannot be reached.

    Raises:
        ImportError: the hub's library is not installed.
        InputError: it cannot be downloaded. What has arrived is not used.
    """
    found = on_disk(name, revision, files)
    return download(noun, name, revision, (*files, *WEIGHTS), copies) if found is None else found


def on_disk(name: str, revision: str | None, files: Sequence[str] = FILES) -> Path | None:
    """Give the folder of a model that was downloaded completely; None if there is none. Nothing is sent."""
    from huggingface_hub import snapshot_download

    with suppress(Exception):  # the library has several errors for files that are not there
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=[*files, *WEIGHTS], local_files_only=True))
        if (folder / "config.json").is_file() and any(folder.glob("model*.safetensors")):
            return folder
    return None


def download(
    noun: str, name: str, revision: str | None, patterns: Sequence[str], copies: str, limits: Mapping[str, int] | None = None
) -> Path:
    """Download what is missing on disk, after asking the hub for the newest commit; see `fetch`.

    Args:
        limits: largest sizes in bytes of the files, by name; a larger one is refused, and a model without any of them.
    """
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.utils import are_progress_bars_disabled  # type: ignore[attr-defined]  # exported without saying so

    place = Path(constants.HF_HUB_CACHE).expanduser()
    try:
        info = HfApi().model_info(name, revision=revision, files_metadata=True, timeout=SECONDS)
        listed = [each for each in info.siblings or [] if any(fnmatch(each.rfilename, pattern) for pattern in patterns)]
        size = sum(each.size or 0 for each in listed)
        if limits and not listed:
            raise InputError(f"{noun} {name!r} has no {next(iter(limits))}: softmatch has not written it.")
        for each in listed:
            if (each.size or 0) > (limits or {}).get(each.rfilename, sys.maxsize):
                raise InputError(f"{noun} {name!r}: {each.rfilename} has {_shown(each.size or 0)}, more than any model has.")
        there = place / f"models--{name.replace('/', '--')}" / "snapshots" / str(info.sha)
        if listed and all((there / each.rfilename).is_file() for each in listed):
            return there
        _refuse_full(place, size)
        if not are_progress_bars_disabled():
            text = f"Downloading {noun} {name} ({_shown(size)}) from {constants.ENDPOINT} to {place}."
            print(text, file=sys.stderr, flush=True)
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(patterns)))
    except InputError:
        raise
    except Exception as error:  # the network, the hub and its library have their own errors
        said = f"{noun} {name!r} is not on this disk and cannot be fetched from the Hugging Face hub"
        raise InputError(f"{said}: {_explain(error, name, revision, place, copies)}") from error


def _refuse_full(place: Path, size: int) -> None:
    existing = next(folder for folder in (place, *place.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(existing).free
    if size > free:
        raise OSError(errno.ENOSPC, f"{_shown(size)} are needed, and {_shown(free)} are free")


def _explain(error: Exception, name: str, revision: str | None, place: Path, copies: str) -> str:
    """Say what is wrong and what to do."""
    from huggingface_hub import constants, errors

    reason, kinds = first_line(error).rstrip("."), {each.__name__ for each in type(error).__mro__}
    if isinstance(error, errors.GatedRepoError):
        return f"it is gated. Accept its conditions on {constants.ENDPOINT}/{name}, then {LOG_IN}."
    if isinstance(error, errors.RevisionNotFoundError):
        return f"it has no revision {revision!r}. Check the name."
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"there is no model of this name, or it is private. Check the name; for a private one, {LOG_IN}."
    if isinstance(error, OSError) and error.errno in FULL:
        detail = f" ({error.strerror})" if error.strerror else ""
        return f"there is no room in {place}{detail}. Free some, or set HF_HOME to a folder on another disk."
    if "OfflineModeIsEnabled" in kinds:
        return f"HF_HUB_OFFLINE is set. Unset it once, or {copies}"
    if kinds & CUT:
        return f"the connection was cut ({reason}). Run the command again."
    if kinds & UNREACHABLE:
        return f"{constants.ENDPOINT} cannot be reached ({reason}). Check the connection and HTTPS_PROXY, or {copies}"
    return f"{reason}. Check the name and the connection, or {copies}"


def is_out_of_reach(error: BaseException | None) -> bool:
    """Tell whether an error means that the hub does not answer, or must not be asked."""
    return bool({each.__name__ for each in type(error).__mro__} & {*UNREACHABLE, "OfflineModeIsEnabled"})


def _shown(size: float) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"


def hub_cache() -> Path | None:
    """Give the folder of downloaded models; None if the hub's library is not installed."""
    try:
        from huggingface_hub import constants
    except ImportError:
        return None
    return Path(constants.HF_HUB_CACHE).expanduser()
