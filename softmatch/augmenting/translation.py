"""Translation models of the transformers library: forth into another language and back again (extra `translate`).

No code that comes with a model is ever run, and weights are read as safetensors only. What becomes of a sentence follows from the
models, the temperature, the seed and the sentence: not from the other sentences of its batch, but for rounding.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softmatch.augmenting.sentences import Parts, cut, put_together, split
from softmatch.augmenting.translation_folder import TRANSLATOR, find_translator, translator_fingerprint
from softmatch.distributed.devices import choose_device
from softmatch.encoders.model_folder import first_line, read_settings
from softmatch.encoders.safe_transformers import SAFELY, import_transformers, load_pretrained, quiet
from softmatch.errors import OutOfMemory
from softmatch.seeds import derive

__all__ = ["BackTranslation", "Translator", "load_translation_tokenizer"]

MOST_TOKENS = 200
"""Of a piece that is translated as a whole. Models are trained on sentences, and lose the thread of anything much longer."""
LIBRARIES = {"fsmt": "sacremoses", "marian": "sentencepiece"}
"""That the tokenizers of some kinds of models need, as far as they are not saved as tokenizer.json."""
SMALLEST = 2.0**-24
"""A random number that is drawn as 0 stands for one below the steps in which they are drawn."""


@dataclass(frozen=True)
class BackTranslation:
    """A pair of models; see `working.Maker`. Sentences are what is translated.

    Attributes:
        forth, back: folders.
        temperature: of the words' probabilities, of which one is drawn; 0: none is drawn, the models' own search is used.
        seed: of the draws.
        batch: most pieces at a time.
        device: see `choose_device`.
    """

    name: str
    forth: Path
    back: Path
    temperature: float
    seed: int
    batch: int
    device: str = "auto"
    what = "sentences"

    @classmethod
    def find(
        cls, name: str, forth: str, back: str, temperature: float, seed: int, batch: int, device: str = "auto"
    ) -> BackTranslation:
        """The models of these names, fetched if they must be; their tokenizers are tried.

        Raises:
            InputError: one cannot be had or used.
        """
        made = cls(name, find_translator(forth), find_translator(back), temperature, seed, batch, device)
        choose_device(device)
        for folder in (made.forth, made.back):
            load_translation_tokenizer(folder)
        return made

    @property
    def fingerprint(self) -> str:
        """Of all that decides what becomes of a sentence."""
        drawn = [self.temperature, self.seed] if self.temperature else []
        made_by = [translator_fingerprint(self.forth), translator_fingerprint(self.back), MOST_TOKENS, *drawn]
        return hashlib.sha256(json.dumps(made_by).encode()).hexdigest()

    def split(self, text: str) -> Parts:
        """Sentences, and what lies between them."""
        return split(text)

    def load(self, worker: int = 0, threads: int | None = None) -> Callable[[Sequence[str]], list[str]]:
        """What translates sentences forth and back.

        Args:
            worker: number of the process that it is for; of several GPUs each has its own.
            threads: of that process; None: as many as it has.
        """
        if threads is not None:
            torch.set_num_threads(threads)
        device = choose_device(self.device)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", worker % torch.cuda.device_count())
        forth, back = (Translator(folder, device, self.batch) for folder in (self.forth, self.back))

        def make(sentences: Sequence[str]) -> list[str]:
            there = forth(sentences, self.temperature, derive(self.seed, "forth"))
            return back(there, self.temperature, derive(self.seed, "back"))

        return make


class Translator:
    """One model, which translates sentences of any length.

    Args:
        batch: most pieces of sentences at a time.
    """

    def __init__(self, folder: Path, device: torch.device, batch: int) -> None:
        self.folder, self.device, self.batch = folder, device, batch
        self.tokenizer = load_translation_tokenizer(folder)
        self.model = _load_model(folder, device)

    def __call__(self, sentences: Sequence[str], temperature: float = 0.0, seed: int = 0) -> list[str]:
        """The translation of each; what the model leaves empty stays as it is.

        Args:
            temperature, seed: see `BackTranslation`.
        """
        parts = [cut(sentence, self._fits) for sentence in sentences]
        pieces = list(dict.fromkeys(chain.from_iterable(each[1::2] for each in parts)))
        made: dict[str, str] = {}
        for start in range(0, len(pieces), self.batch):
            some = pieces[start : start + self.batch]
            made.update(zip(some, self._translate(some, temperature, seed), strict=True))
        return [put_together(each, made) for each in parts]

    def _fits(self, piece: str) -> bool:
        return len(piece) <= 1 or len(self.tokenizer(piece)["input_ids"]) <= self._most

    @cached_property
    def _most(self) -> int:
        """Tokens of a piece."""
        known = (self.tokenizer.model_max_length, getattr(self.model.config, "max_position_embeddings", None))
        return min([MOST_TOKENS, *(int(most) - 2 for most in known if isinstance(most, int | float) and most > 4)])

    @torch.inference_mode()
    def _translate(self, pieces: Sequence[str], temperature: float, seed: int) -> list[str]:
        given = self.tokenizer(list(pieces), return_tensors="pt", padding=True).to(self.device)
        room = getattr(self.model.config, "max_position_embeddings", None) or 2 * MOST_TOKENS + 20
        options: dict[str, Any] = {"max_new_tokens": min(2 * given["input_ids"].shape[1] + 20, room - 1), "do_sample": False}
        if temperature:
            seeds = [derive(seed, piece) for piece in pieces]
            options |= {"num_beams": 1, "logits_processor": [_Draw(temperature, seeds, self.device)]}
        with _explained(self.folder), quiet():
            found = self.model.generate(given["input_ids"], attention_mask=given["attention_mask"], **options)
            return [str(text) for text in self.tokenizer.batch_decode(found, skip_special_tokens=True)]


class _Draw:
    """Adds noise to scores so that the largest one is a draw.

    log p_k/T − log e_k, with exponential e_k, is largest at k with a probability in proportion to p_k^(1/T).

    Each row has a stream of its own, so that what is drawn for it does not depend on the other rows, as it would with the
    library's own sampling.
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
    """The tokenizer in the folder of a translation model."""
    transformers = import_transformers(TRANSLATOR)
    missing = TRANSLATOR.missing(f"the tokenizer of the translation model {folder}")
    library = LIBRARIES.get(str(read_settings(folder).get("model_type")))
    if library is not None and not (folder / "tokenizer.json").is_file() and find_spec(library) is None:
        raise missing
    try:
        with quiet():
            return transformers.AutoTokenizer.from_pretrained(folder, **SAFELY)
    except ImportError as error:
        raise missing from error
    except Exception as error:  # each tokenizer of the library has errors of its own
        raise TRANSLATOR.unusable(folder, error) from error


def _load_model(folder: Path, device: torch.device) -> Any:
    """With its weights as float32, as float16 on CUDA, in evaluation mode."""
    half = device.type == "cuda"
    model, missing = load_pretrained(TRANSLATOR, "AutoModelForSeq2SeqLM", folder, torch.float16 if half else torch.float32)
    if missing:
        raise TRANSLATOR.incomplete(folder, sorted(missing))
    return model.to(device).eval()


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Failures while translating, in words."""
    try:
        yield
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        text = first_line(error)
        if "out of memory" in text.lower() or "allocate memory" in text:
            raise OutOfMemory(
                "translating needs more memory than there is: give a smaller --batch or fewer --processes."
            ) from error
        raise TRANSLATOR.unusable(folder, error) from error
    except (ValueError, TypeError, IndexError, KeyError) as error:  # what models say that need further arguments
        raise TRANSLATOR.unusable(folder, error) from error
