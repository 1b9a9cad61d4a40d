"""Back-translation by two models of the transformers library (extra `translate`).

No code of a model is run, and weights are read as safetensors only. The translation of a sentence depends on the models, the
temperature, the seed and the sentence, but not on the other sentences of its batch, except for rounding.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softmatch.augmenting.makers import Make
from softmatch.augmenting.sentences import Parts, cut, each_sentence, split
from softmatch.distributed.devices import choose_device
from softmatch.encoders import model_folder as models
from softmatch.encoders.downloads import FILES
from softmatch.errors import OutOfMemory, first_line
from softmatch.seeds import derive

MOST_TOKENS = 200
"""Most tokens of a piece. Models are trained on sentences, and lose the thread of anything much longer."""
SMALLEST = 2.0**-24
"""Stands for a random number that is drawn as 0."""
CONVERSION = (
    ", python -c \"import transformers as t; [part.from_pretrained('{old}').save_pretrained('{new}') for part in "
    '(t.AutoModelForSeq2SeqLM, t.AutoTokenizer)]", and give the new folders: --via FORTH+BACK, such as {new}+…'
)
TRANSLATOR = models.Kind(
    noun="translation model",
    indefinite="a translation model",
    extra="translate",
    files=(
        *(*FILES, "generation_config.json", "vocab-src.json", "vocab-tgt.json"),
        *("source.spm", "target.spm", "target_vocab.json"),
    ),
    absent=lambda folder: (
        f"there is no {'config.json in it' if folder.is_dir() else 'such folder'}. Give the folder of a model, or its id on the "
        "Hugging Face hub."
    ),
    conversion=lambda name: CONVERSION.format(old=name, new=Path(name).name or "model"),
    copies="give folders of your own copies: --via FORTH+BACK. Without a model: --via words.",
    usable="Give a model of transformers that translates between two fixed languages, such as those of opus-mt.",
)


@dataclass(frozen=True)
class BackTranslation:
    """A `Maker` that translates sentences forth and back by the models in two folders."""

    forth: Path
    back: Path
    temperature: float  # 0: no sampling, the models' own search
    seed: int
    batch: int
    device: str = "auto"
    unit = "sentences"

    @classmethod
    def find(cls, forth: str, back: str, temperature: float, seed: int, batch: int, device: str = "auto") -> "BackTranslation":
        """Find the models, from the hub if necessary, and try their tokenizers."""
        folders = [models.find_model(TRANSLATOR, name) for name in (forth, back)]
        choose_device(device)
        for folder in folders:
            load_translation_tokenizer(folder)
        return cls(folders[0], folders[1], temperature, seed, batch, device)

    @property
    def fingerprint(self) -> str:
        pair = [models.model_fingerprint(TRANSLATOR, folder) for folder in (self.forth, self.back)]
        sampling = [self.temperature, self.seed] if self.temperature else []
        return hashlib.sha256(json.dumps([*pair, MOST_TOKENS, *sampling]).encode()).hexdigest()

    def split(self, text: str) -> Parts:
        return split(text)

    def load(self) -> Make:
        """Load both models."""
        device = choose_device(self.device)
        forth, back = (Translator(folder, device, self.batch) for folder in (self.forth, self.back))

        def make(sentences: Sequence[str]) -> list[str]:
            there = forth(sentences, self.temperature, derive(self.seed, "forth"))
            return back(there, self.temperature, derive(self.seed, "back"))

        return make


class Translator:
    """One model, which translates sentences of any length, up to `batch` pieces of them at a time."""

    def __init__(self, folder: Path, device: torch.device, batch: int) -> None:
        self.folder, self.device, self.batch = folder, device, batch
        self.tokenizer = load_translation_tokenizer(folder)
        dtype = torch.float16 if device.type == "cuda" else torch.float32
        model, missing = models.load_pretrained(TRANSLATOR, "AutoModelForSeq2SeqLM", folder, dtype)
        if missing:
            raise TRANSLATOR.incomplete(folder, sorted(missing))
        self.model = model.to(device).eval()
        known = (self.tokenizer.model_max_length, getattr(self.model.config, "max_position_embeddings", None))
        self.most = min([MOST_TOKENS, *(int(most) - 2 for most in known if isinstance(most, int | float) and most > 4)])

    def __call__(self, sentences: Sequence[str], temperature: float = 0.0, seed: int = 0) -> list[str]:
        """Translate each sentence; where the model returns nothing, it stays as it is."""

        def fits(piece: str) -> bool:
            return len(self.tokenizer(piece)["input_ids"]) <= self.most

        def translate(pieces: list[str]) -> list[str]:
            batches = (pieces[start : start + self.batch] for start in range(0, len(pieces), self.batch))
            return [made for batch in batches for made in self._translate(batch, temperature, seed)]

        return each_sentence(sentences, translate, partial(cut, fits=fits))

    @torch.inference_mode()
    def _translate(self, pieces: Sequence[str], temperature: float, seed: int) -> list[str]:
        given = self.tokenizer(list(pieces), return_tensors="pt", padding=True).to(self.device)
        room = getattr(self.model.config, "max_position_embeddings", None) or 2 * MOST_TOKENS + 20
        options: dict[str, Any] = {"max_new_tokens": min(2 * given["input_ids"].shape[1] + 20, room - 1), "do_sample": False}
        if temperature:
            sampling = _Sampling(temperature, [derive(seed, piece) for piece in pieces], self.device)
            options |= {"num_beams": 1, "logits_processor": [sampling]}
        try:
            with models.quiet():
                found = self.model.generate(given["input_ids"], attention_mask=given["attention_mask"], **options)
                return [str(text) for text in self.tokenizer.batch_decode(found, skip_special_tokens=True)]
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError) as error:  # torch.OutOfMemoryError is a RuntimeError
            text = first_line(error)
            if "out of memory" in text.lower() or "allocate memory" in text:
                raise OutOfMemory("not enough memory to translate: give a smaller --batch.") from error
            raise TRANSLATOR.unusable(self.folder, error) from error


class _Sampling:
    """Adds noise to scores so that the largest one is a sample: log p_k/T − log e_k, with exponential e_k, is largest at k with a
    probability in proportion to p_k^(1/T).

    Unlike the library's own sampling, each row has its own random stream, so that it does not depend on the other rows.
    """

    def __init__(self, temperature: float, seeds: Sequence[int], device: torch.device) -> None:
        self.temperature = temperature
        self.streams = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        noise = torch.empty(scores.shape, device=scores.device)
        for row, stream in zip(noise, self.streams, strict=True):
            row.exponential_(generator=stream)
        return scores.float() / self.temperature - noise.clamp_min_(SMALLEST).log_()


def load_translation_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a translation model."""
    transformers = models.import_transformers(TRANSLATOR)
    try:
        with models.quiet():
            return transformers.AutoTokenizer.from_pretrained(folder, **models.SAFELY)
    except ImportError as error:
        raise TRANSLATOR.missing(f"the tokenizer of the translation model {folder}") from error
    except Exception as error:  # each tokenizer of the library has errors of its own
        raise TRANSLATOR.unusable(folder, error) from error
