"""The folder of a translation model: where it is, and the fingerprint of its files. Nothing in it is executed."""

from __future__ import annotations

from pathlib import Path

from softmatch.encoders.model_folder import FILES, Kind, find_model, model_fingerprint

__all__ = ["TRANSLATOR", "find_translator", "translator_fingerprint"]

FURTHER = ("generation_config.json", "vocab-src.json", "vocab-tgt.json", "source.spm", "target.spm", "target_vocab.json")
"""Files that decide a translation, besides those that an encoder has too."""
CONVERT = (
    "import transformers as t; "
    "[part.from_pretrained('{name}').save_pretrained('{new}') for part in (t.AutoModelForSeq2SeqLM, t.AutoTokenizer)]"
)


def _absent(folder: Path) -> str:
    what = "there is no config.json in it" if folder.is_dir() else "there is no such folder"
    return f"{what}. Give the folder of one, or its id on the Hugging Face hub."


def _conversion(name: str) -> str:
    new = Path(name).name or "model"
    command = f'python -c "{CONVERT.format(name=name, new=new)}"'
    return f", {command}, and give the new folders: --via FORTH+BACK, such as {new}+…"


TRANSLATOR = Kind(
    noun="translation model",
    indefinite="a translation model",
    extra="translate",
    files=(*FILES, *FURTHER),
    absent=_absent,
    conversion=_conversion,
    copies="give folders of copies that you have: --via FORTH+BACK. Without any model: --via words.",
    usable="Give a model that transformers knows by itself and that translates without being told between which languages, such "
    "as those of opus-mt.",
)


def find_translator(name: str) -> Path:
    """The folder of a translation model; see `find_model`."""
    return find_model(TRANSLATOR, name)


def translator_fingerprint(folder: Path) -> str:
    """sha256 over all files that decide a translation; copies of a model have the same one wherever they lie."""
    return model_fingerprint(TRANSLATOR, folder)
