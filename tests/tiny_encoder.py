"""Pretrained encoders small enough for tests: random weights, real files, nothing fetched."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

WORDS = ("the", "a", "cat", "dog", "bird", "sat", "ran", "on", "mat", "tree", "how", "much", "is", "it", "?", "##s", "##ing")
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SPREAD = 0.5
"""Of initial weights: with it, features of different inputs differ clearly."""


def make_text_encoder(folder: Path, seed: int = 0, words: Sequence[str] = WORDS, mask: bool = True) -> Path:
    """A BERT of two layers and 16 features, with the tokenizer of these words."""
    from transformers import BertConfig, BertModel, BertTokenizer

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(["[MASK]"] if mask else []), *words]
    torch.manual_seed(seed)
    config = BertConfig(vocab_size=len(names), max_position_embeddings=64, initializer_range=SPREAD, **SIZES)
    BertModel(config).save_pretrained(folder)
    vocabulary = {name: number for number, name in enumerate(names)}
    BertTokenizer(vocab=vocabulary, **({} if mask else {"mask_token": None})).save_pretrained(folder)
    return folder


def add_sentence_settings(folder: Path, pooling: str = "cls", length: int = 8, normalize: bool = True) -> None:
    """Files as sentence-transformers writes them beside an encoder."""
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{name}": name == f"{pooling}_token" for name in ("cls_token", "mean_tokens")}
    _write(folder / "1_Pooling" / "config.json", modes)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})
    types = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    _write(folder / "modules.json", [{"idx": n, "type": f"sentence_transformers.models.{name}"} for n, name in enumerate(types)])


def make_vit(folder: Path, seed: int = 0, pooler: bool = True) -> Path:
    """A vision transformer for 16×16 images, with 16 features."""
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(seed)
    config = ViTConfig(image_size=16, patch_size=8, initializer_range=SPREAD, **SIZES)
    ViTModel(config, add_pooling_layer=pooler).save_pretrained(folder)
    _write_image_settings(folder, {"size": {"height": 16, "width": 16}, "image_mean": [0.5] * 3, "image_std": [0.25] * 3})
    return folder


def make_resnet(folder: Path, seed: int = 0) -> Path:
    """A residual network with batch normalisation and 16 features."""
    from transformers import ResNetConfig, ResNetModel

    torch.manual_seed(seed)
    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    ResNetModel(config).save_pretrained(folder)
    _write_image_settings(folder, {"size": {"shortest_edge": 40}, "crop_size": 32, "do_center_crop": True})
    return folder


def make_clip(folder: Path, seed: int = 0) -> Path:
    """A model of images and texts, with 16 features of each."""
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(seed)
    sizes = {**SIZES, "num_hidden_layers": 1}
    text = {**sizes, "vocab_size": 32, "max_position_embeddings": 16}
    CLIPModel(CLIPConfig(text_config=text, vision_config={**sizes, "image_size": 16, "patch_size": 8})).save_pretrained(folder)
    crop = {"crop_size": {"height": 16, "width": 16}, "do_center_crop": True}
    _write_image_settings(folder, {"size": {"shortest_edge": 16}, **crop})
    return folder


def make_sound_encoder(folder: Path, kind: str, seed: int = 0) -> Path:
    """A wav2vec2 or hubert, which takes samples, or an audio-spectrogram-transformer (ast), with 16 features."""
    import transformers

    torch.manual_seed(seed)
    if kind == "ast":
        shape = {"max_length": 64, "num_mel_bins": 32}
        transformers.ASTModel(transformers.ASTConfig(initializer_range=SPREAD, **SIZES, **shape)).save_pretrained(folder)
        transformers.ASTFeatureExtractor(**shape).save_pretrained(folder)
        return folder
    name = {"wav2vec2": "Wav2Vec2", "hubert": "Hubert"}[kind]
    sizes = {**SIZES, "conv_dim": [8] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}
    config = getattr(transformers, f"{name}Config")(initializer_range=SPREAD, **sizes)
    getattr(transformers, f"{name}Model")(config).save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(return_attention_mask=False).save_pretrained(folder)
    return folder


def _write_image_settings(folder: Path, settings: dict[str, Any]) -> None:
    _write(folder / "preprocessor_config.json", {"do_resize": True, "do_rescale": True, "do_normalize": True, **settings})


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))
