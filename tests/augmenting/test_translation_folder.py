"""Folders of translation models: where they are looked for, and what is refused."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from softmatch.augmenting.translation_folder import find_translator, translator_fingerprint
from softmatch.errors import InputError


def test_a_folder_is_found(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_translator(str(pair[0])) == pair[0]
    monkeypatch.chdir(pair[0].parent)
    assert find_translator("forth") == pair[0]


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/missing': there is no such folder.*hub"):
        find_translator(str(tmp_path / "missing"))
    with pytest.raises(InputError, match=r"no config\.json in it"):
        find_translator(str(tmp_path))


def test_pickled_weights_are_not_opened_and_the_way_to_convert_them_is_told(pair: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(pair[0], tmp_path / "old")
    (tmp_path / "old" / "model.safetensors").rename(tmp_path / "old" / "pytorch_model.bin")
    with pytest.raises(
        InputError, match=r"can run code.*AutoModelForSeq2SeqLM, t\.AutoTokenizer\)\]\".*--via FORTH\+BACK, such as old\+"
    ):
        find_translator(str(tmp_path / "old"))


def test_what_cannot_be_fetched_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=r"'nobody/nothing' is not a local folder .* hub: .*--via words"):
        find_translator("nobody/nothing")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"needs further libraries: pip install 'softmatch\[translate\]'"):
        find_translator("nobody/nothing-else")


def test_the_fingerprint_is_that_of_all_files_that_decide(pair: tuple[Path, Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(pair[0], copy)
    (copy / "README.md").write_text("of no importance")
    first = translator_fingerprint(pair[0])
    assert translator_fingerprint(copy) == first != translator_fingerprint(pair[1])
    (copy / "source.spm").write_bytes(b"a tokenizer of another kind")
    assert translator_fingerprint(copy) != first
