"""Safe use of the transformers library: nothing is fetched, and no code that comes with a model is run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from softmatch.encoders.model_folder import Kind, read_settings
from softmatch.errors import InputError

__all__ = ["SAFELY", "import_transformers", "load_pretrained", "quiet", "refuse_fetching"]

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
    """The model in a folder, and the names of its missing weights.

    Args:
        loader: name of the library's class for such models.

    Raises:
        InputError: the library cannot load it, or it asks for anything but its own weights.
    """
    transformers = import_transformers(kind)
    refuse_fetching(read_settings(folder), f"{kind.noun} {folder}")
    try:
        with quiet():
            model, notes = getattr(transformers, loader).from_pretrained(
                folder, dtype=dtype, use_safetensors=True, output_loading_info=True, **SAFELY
            )
    except Exception as error:  # each model of the library has its own errors
        raise kind.unusable(folder, error) from error
    return model, set(notes["missing_keys"])


def refuse_fetching(settings: Any, what: str) -> None:
    """Raise InputError if a model's settings ask for anything but its own weights.

    Args:
        what: name of the model in the message.
    """
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
