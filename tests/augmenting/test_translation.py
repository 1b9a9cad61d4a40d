"""Translation by tiny models with real files: sampling, long sentences, folders, what is refused, which libraries are named."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from softmatch.augmenting.sentences import cut
from softmatch.augmenting.translation import TRANSLATOR, BackTranslation, Translator, _Sampling, load_translation_tokenizer
from softmatch.encoders.model_folder import find_model, model_fingerprint
from softmatch.errors import InputError
from tests.tiny_translator import WORDS, make_fsmt

CPU = torch.device("cpu")
SENTENCES = ["the cat sat on the mat.", "how much is it?", "a bird, a dog", "it ran on a tree, the dog sat."]


@pytest.fixture(scope="module")
def forth(pair: tuple[Path, Path]) -> Translator:
    return Translator(pair[0], CPU, 3)


def test_samples_have_the_probabilities_of_the_scores_over_the_temperature() -> None:
    scores = torch.log(torch.tensor([0.5, 0.3, 0.2, 0.0])).expand(4000, 4)
    draw = _Sampling(0.5, range(4000), CPU)
    drawn = draw(torch.empty(0), scores).argmax(-1)
    assert drawn.ne(draw(torch.empty(0), scores).argmax(-1)).float().mean() > 0.3  # the next ones are others
    shares = torch.bincount(drawn, minlength=4) / 4000
    expected = torch.tensor([0.25, 0.09, 0.04, 0.0]) / 0.38  # squares of the probabilities
    assert torch.allclose(shares, expected, atol=0.02)
    assert torch.equal(_Sampling(0.5, range(4000), CPU)(torch.empty(0), scores).argmax(-1), drawn)


def test_what_becomes_of_a_sentence_does_not_depend_on_the_others(forth: Translator) -> None:
    together = forth(SENTENCES, 0.9, seed=1)
    assert [forth([sentence], 0.9, seed=1)[0] for sentence in SENTENCES] == together
    assert forth(SENTENCES[::-1], 0.9, seed=1) == together[::-1]
    assert forth(SENTENCES, 0.9, seed=2) != together
    assert len(set(together)) == 4
    assert all(set(text.split()) <= {*WORDS, "<unk>"} for text in together)


def test_without_sampling_it_is_the_models_own_search(forth: Translator) -> None:
    given = forth.tokenizer(SENTENCES[:1], return_tensors="pt")
    ids = forth.model.generate(**given, max_new_tokens=23, do_sample=False)
    expected = forth.tokenizer.batch_decode(ids, skip_special_tokens=True)
    assert forth(SENTENCES[:1]) == forth(SENTENCES[:1], seed=5) == expected


def test_a_sentence_beyond_the_models_limit_is_translated_in_pieces(forth: Translator) -> None:
    long = ", ".join(["the cat sat on the mat"] * 9)  # 62 tokens, of 22 that it takes
    pieces = cut(long, lambda piece: len(forth.tokenizer(piece)["input_ids"]) <= 22)
    assert len(pieces) == 9
    made = dict(zip(pieces[1::2], forth(pieces[1::2], 0.9, 1), strict=True))
    assert forth([long], 0.9, 1) == ["".join(made.get(piece, piece) for piece in pieces)]


def test_a_pair_translates_forth_and_back_and_is_known_by_all_that_decides(pair: tuple[Path, Path], tmp_path: Path) -> None:
    maker = BackTranslation.find(str(pair[0]), str(pair[1]), 0.9, 0, 2, "cpu")
    there = Translator(pair[0], CPU, 2)(SENTENCES[:2])
    back = Translator(pair[1], CPU, 2)(there)
    assert replace(maker, temperature=0.0).load()(SENTENCES[:2]) == back
    first = maker.fingerprint
    assert replace(maker, device="cuda", batch=7).fingerprint == first
    changes: list[dict[str, Any]] = [{"seed": 1}, {"temperature": 0.5}, {"back": pair[0]}, {"temperature": 0.0}]
    others = [replace(maker, **change) for change in changes]
    assert len({first, *(other.fingerprint for other in others)}) == 5
    assert replace(maker, temperature=0.0, seed=1).fingerprint == others[-1].fingerprint
    assert maker.split("It rains. I stay.") == ["", "It rains.", " ", "I stay.", ""]
    with pytest.raises(InputError, match="device 'warp' cannot be used here"):
        BackTranslation.find(str(pair[0]), str(pair[1]), 0.9, 0, 2, "warp")


def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_what_cannot_be_used_is_explained(pair: tuple[Path, Path], tmp_path: Path) -> None:
    folder = copy(pair[0], tmp_path)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"encoder_layers": 2}))
    with pytest.raises(InputError, match=r"\d+ of its weights are missing in model.safetensors"):
        Translator(folder, CPU, 1)
    (folder / "config.json").write_text(json.dumps(settings | {"attn_implementation": "somebody/kernels"}))
    with pytest.raises(InputError, match="its setting attn_implementation: 'somebody/kernels' asks for other code"):
        Translator(folder, CPU, 1)
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_size": 16}))
    with pytest.raises(InputError, match=r"cannot be used: .*model of transformers that translates"):
        Translator(folder, CPU, 1)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be used"):
        load_translation_tokenizer(folder)


def test_code_in_a_folder_is_not_run(pair: tuple[Path, Path], tmp_path: Path) -> None:
    folder, trace = copy(pair[0], tmp_path), tmp_path / "was-run"
    (folder / "evil.py").write_text(f"open({str(trace)!r}, 'w').close()\nclass Evil: pass\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": ["evil.Evil", None]}}))
    settings = json.loads((folder / "config.json").read_text())
    changed = settings | {"auto_map": {"AutoModelForSeq2SeqLM": "evil.Evil"}, "model_type": "evil"}
    (folder / "config.json").write_text(json.dumps(changed))
    with pytest.raises(InputError):
        Translator(folder, CPU, 1)
    assert not trace.exists()


def test_missing_libraries_are_named(pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = r"the tokenizer of the translation model .* needs further libraries: pip install 'softmatch\[translate\]'"
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(InputError, match=message):
        load_translation_tokenizer(make_fsmt(tmp_path / "fsmt"))
    marian = copy(pair[0], tmp_path)
    (marian / "tokenizer.json").unlink()
    (marian / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "de"}')
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(InputError, match=message):
        load_translation_tokenizer(marian)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"a translation model needs further libraries"):
        load_translation_tokenizer(marian)


def test_a_model_of_the_papers_kind_with_its_own_tokenizer(tmp_path: Path) -> None:
    pytest.importorskip("sacremoses", reason="of the extra `translate`")
    translate = Translator(make_fsmt(tmp_path / "fsmt"), CPU, 2)
    made = translate(["the cat sat.", "a dog"], 0.9, 3)
    assert made == translate(["the cat sat.", "a dog"], 0.9, 3)
    assert len(set(made)) == 2
    assert translate(["the cat sat."]) != [""]


def test_a_marian_model_with_sentencepiece_files(pair: tuple[Path, Path], tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="of the extra `translate`")
    pytest.importorskip("sacremoses", reason="of the extra `translate`")
    folder = copy(pair[0], tmp_path)
    (folder / "tokenizer.json").unlink()
    (tmp_path / "texts.txt").write_text("\n".join(SENTENCES * 5))
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "texts.txt"), model_prefix=str(folder / "source"), model_type="char", vocab_size=20, minloglevel=2
    )
    (folder / "source.model").rename(folder / "source.spm")
    shutil.copy(folder / "source.spm", folder / "target.spm")
    pieces = ["<pad>", "</s>", "<unk>", *"▁ateohsnimbdr.,?uc"][: 3 + len(WORDS)]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}))
    (folder / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "de", "model_max_length": 512}')
    made = Translator(folder, CPU, 2)(["the cat sat.", "a dog"], 0.9, 3)
    assert len(made) == 2
    assert all(set(text) <= {*"ateohsnimbdr.,?uc ", *"<unk>"} for text in made)


def test_a_folder_is_found_and_what_is_not_a_model_is_refused(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pair[0].parent)
    assert find_model(TRANSLATOR, "forth") == find_model(TRANSLATOR, str(pair[0])) == pair[0]
    with pytest.raises(InputError, match=r"/missing': there is no such folder.*hub"):
        find_model(TRANSLATOR, str(tmp_path / "missing"))
    with pytest.raises(InputError, match=r"no config\.json in it"):
        find_model(TRANSLATOR, str(tmp_path))


def test_pickled_weights_are_not_opened_and_the_way_to_convert_them_is_shown(pair: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(pair[0], tmp_path / "old")
    (tmp_path / "old" / "model.safetensors").rename(tmp_path / "old" / "pytorch_model.bin")
    with pytest.raises(
        InputError, match=r"can run code.*AutoModelForSeq2SeqLM, t\.AutoTokenizer\)\]\".*--via FORTH\+BACK, such as old\+"
    ):
        find_model(TRANSLATOR, str(tmp_path / "old"))


def test_what_cannot_be_fetched_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=r"'nobody/nothing' is not on this disk .* hub: .*--via words"):
        find_model(TRANSLATOR, "nobody/nothing")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"needs further libraries: pip install 'softmatch\[translate\]'"):
        find_model(TRANSLATOR, "nobody/nothing-else")


def test_the_fingerprint_is_that_of_all_files_that_decide(pair: tuple[Path, Path], tmp_path: Path) -> None:
    folder = copy(pair[0], tmp_path)
    (folder / "README.md").write_text("of no importance")
    first = model_fingerprint(TRANSLATOR, pair[0])
    assert model_fingerprint(TRANSLATOR, folder) == first != model_fingerprint(TRANSLATOR, pair[1])
    (folder / "source.spm").write_bytes(b"a tokenizer of another kind")
    assert model_fingerprint(TRANSLATOR, folder) != first
