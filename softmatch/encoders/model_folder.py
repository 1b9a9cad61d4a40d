"""Pretrained models in folders: their place, settings, fingerprint and safe loading. Nothing in a folder is executed."""

import hashlib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from softmatch.encoders.downloads import WEIGHTS, fetch
from softmatch.errors import InputError, first_line
from softmatch.files.paths import expand_home
from softmatch.files.untrusted import parse_json, read_text

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True)
class Kind:
    """A kind of pretrained models, and the words for it in messages.

    Attributes:
        extra: softmatch's extra with the required libraries.
        files: files that are fetched from the hub and fingerprinted, in addition to the weights.
        absent: message about a folder without config.json.
        conversion: instructions for converting the named model's weights to safetensors.
        copies: advice when the hub cannot be reached.
        usable: advice when a model cannot be used.
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
        """An error: `what` needs the libraries of the extra."""
        return InputError(f"{what} needs further libraries: pip install 'softmatch[{self.extra}]'.")

    def unusable(self, which: object, error: Exception) -> InputError:
        """An error: the transformers library cannot use this model."""
        reason = first_line(error).rstrip(".")
        return InputError(f"{self.noun} {which} cannot be used: {reason}. {self.usable}")

    def incomplete(self, which: object, lost: Sequence[str]) -> InputError:
        """An error: weights of these names are missing."""
        there = f"{len(lost)} of its weights are missing in model.safetensors, the first is {lost[0]}"
        return InputError(f"{self.noun} {which}: {there}.")


def find_model(kind: Kind, name: str, revision: str | None = None) -> Path:
    """The folder of a model; one that is not a local folder is fetched from the hub into its library's cache.

    Args:
        revision: commit on the hub; by default the one that is on disk, else the newest.

    Raises:
        InputError: it does not exist, or its weights are pickled, which can run code when read.
    """
    folder = expand_home(name)
    if not folder.exists() and HUB_ID.fullmatch(name):
        try:
            folder = fetch(kind.noun, name, revision, kind.files, kind.copies)
        except ImportError as error:
            raise kind.missing(f"{kind.noun} {name!r} is not a local folder; fetching it from the Hugging Face hub") from error
    if not (folder / "config.json").is_file():
        raise InputError(f"{kind.noun} {name!r}: {kind.absent(folder)}")
    if not any(folder.glob("model*.safetensors")):
        raise InputError(
            f"{kind.noun} {name!r} has no model.safetensors; other formats can run code when they are read, and are not opened. "
            f"If you trust its source, convert it{kind.conversion(name)}"
        )
    if (folder / "adapter_config.json").exists():  # transformers would load it if PEFT is installed
        raise InputError(
            f"{kind.noun} {name!r} has an adapter in addition to its weights (adapter_config.json). Merge the adapter into the "
            "weights, or remove its files."
        )
    return folder.resolve()


def model_fingerprint(kind: Kind, folder: Path) -> str:
    """sha256 over all files that determine a model's output; it is the same for every copy of the model."""
    found = [folder / name for name in kind.files if (folder / name).is_file()]
    found += sorted(path for pattern in WEIGHTS for path in folder.glob(pattern))
    total = hashlib.sha256()
    for path in found:
        with path.open("rb") as stream:
            total.update(f"{path.relative_to(folder).as_posix()} {hashlib.file_digest(stream, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Content of a JSON file of settings, {} if there is none; a list is returned under "list"."""
    path = folder / name
    if not path.is_file():
        return {}
    found = parse_json(read_text(path), path)
    return found if isinstance(found, dict) else {"list": found}


SAFELY: Mapping[str, Any] = {"trust_remote_code": False, "local_files_only": True}
"""Arguments for reading anything from a folder."""
HARMLESS = {
    **dict.fromkeys(("attn_implementation", "_attn_implementation", "_attn_implementation_internal"), ("eager", "sdpa")),
    **dict.fromkeys(("experts_implementation", "_experts_implementation", "_experts_implementation_internal"), ("eager",)),
    **dict.fromkeys(("use_kernels", "kernel_config", "use_pretrained_backbone", "use_timm_backbone"), ()),
}
"""Settings with which a model could make the transformers library fetch weights or code, or run other libraries, with their
harmless values other than false ones."""


def import_transformers(kind: Kind) -> Any:
    """Import the library, which models of this kind need."""
    try:
        import transformers
    except ImportError as error:
        raise kind.missing(kind.indefinite) from error
    return transformers


def load_pretrained(kind: Kind, loader: str, folder: Path, dtype: torch.dtype) -> tuple[Any, set[str]]:
    """The model in a folder, and the names of its missing weights."""
    transformers = import_transformers(kind)
    refuse_fetching(read_json(folder, "config.json"), f"{kind.noun} {folder}")
    try:
        with quiet():
            model, notes = getattr(transformers, loader).from_pretrained(
                folder, dtype=dtype, use_safetensors=True, output_loading_info=True, **SAFELY
            )
    except Exception as error:  # each model of the library has its own errors
        raise kind.unusable(folder, error) from error
    return model, set(notes["missing_keys"])


def refuse_fetching(settings: Any, what: str) -> None:
    """Raise InputError if a model's settings ask for anything but its own weights."""
    parts = list(settings.values()) if isinstance(settings, Mapping) else settings if isinstance(settings, list) else []
    for key, value in settings.items() if isinstance(settings, Mapping) else ():
        if value and key in HARMLESS and value not in HARMLESS[key]:
            raise InputError(
                f"{what} cannot be used: its setting {key}: {str(value)[:99]!r} asks for other code or weights. "
                "These are not fetched. If you trust its source, remove the setting from its config.json."
            )
    for part in parts:
        refuse_fetching(part, what)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the library's progress bars, warnings and recommendations."""
    import transformers

    logging: Any = transformers.utils.logging
    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()
