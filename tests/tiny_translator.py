"""Translation models small enough for tests: random weights, real files, nothing fetched."""

import json
from pathlib import Path

import torch

WORDS = ("the", "a", "cat", "dog", "bird", "sat", "ran", "on", "mat", "tree", "how", "much", "is", "it", ".", ",", "?")
SIZES = {
    "d_model": 16,
    **{f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in (("layers", 1), ("ffn_dim", 16))},
    **{f"{part}_attention_heads": 2 for part in ("encoder", "decoder")},
    "max_position_embeddings": 24,
    "init_std": 0.5,  # translations of different sentences differ
}


def make_marian(folder: Path, seed: int = 0) -> Path:
    """A Marian model of one layer with the tokenizer of a few words, as the tokenizers library saves it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

    names = ["<pad>", "</s>", "<unk>", *WORDS]
    rules = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    rules.pre_tokenizer = pre_tokenizers.Whitespace()
    rules.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=rules, **special, model_max_length=512).save_pretrained(folder)
    torch.manual_seed(seed)
    ids = {"pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 1, "forced_eos_token_id": 1, "bos_token_id": None}
    MarianMTModel(MarianConfig(vocab_size=len(names), **SIZES, **ids)).save_pretrained(folder)
    return folder


def make_fsmt(folder: Path, seed: int = 0) -> Path:
    """A model of the kind of facebook/wmt19-en-de, with the files that its own tokenizer reads."""
    from transformers import FSMTConfig, FSMTForConditionalGeneration

    letters = "abcdefghijklmnopqrstuvwxyz.,"
    names = ["<s>", "<pad>", "</s>", "<unk>", *letters, *(f"{letter}</w>" for letter in letters)]
    folder.mkdir(parents=True)
    for name in ("vocab-src.json", "vocab-tgt.json"):
        (folder / name).write_text(json.dumps({each: number for number, each in enumerate(names)}))
    (folder / "merges.txt").write_text("t h\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"langs": ["en", "de"], "tokenizer_class": "FSMTTokenizer"}))
    torch.manual_seed(seed)
    config = FSMTConfig(langs=["en", "de"], src_vocab_size=len(names), tgt_vocab_size=len(names), **SIZES)
    FSMTForConditionalGeneration(config).save_pretrained(folder)
    return folder
