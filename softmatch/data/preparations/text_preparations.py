"""Texts as TF-IDF vectors, or as token ids for a pretrained encoder that is trained further (extra `text`)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.data.records import InputKind, Inputs
from softmatch.encoders.backbones import Tokenizer, load_tokenizer, padded
from softmatch.encoders.encoder_folder import find_encoder, read_text_settings
from softmatch.errors import InputError


def as_texts(inputs: Inputs) -> list[str]:
    """Give the texts as a list."""
    wanted = "a model of texts takes a list of texts"
    if isinstance(inputs, (Mapping, str)):
        raise InputError(f"{wanted}; this is a {type(inputs).__name__}.")
    found: list[Any] = inputs.tolist() if isinstance(inputs, np.ndarray) else list(inputs)
    for number, text in enumerate(found, 1):
        if not isinstance(text, str):
            raise InputError(f"{wanted}; number {number} is a {type(text).__name__}.")
    return found


def stored_text(stored: Tensor) -> str:
    """Decode the text in a tensor of bytes."""
    if stored.dtype != torch.uint8:
        raise InputError(f"the saved preparation of texts is damaged: a text is stored as {stored.dtype}.")
    return stored.numpy().tobytes().decode("utf-8", "surrogatepass")


LETTERS = (2, 4)
"""Lengths of the groups of letters, within words. They need no spaces between words, which many languages do not write. With
one draw of ten labels of a class, CLINC150 was classified four points better by them than by words and pairs of words (80 %
against 76 %), AG News about as well."""
MOST_TERMS = 20_000
RARE_FROM = 100
"""From this many texts on, groups of letters that occur in only one of them are left out."""
ITERATIONS = 2
"""Iterations of the randomised decomposition."""
FEWEST = 16
PER_DIRECTION = 12
"""Texts for each direction, where there are few: with nearly as many directions as texts each text is far from all others,
and pseudo-labels fell into one class (400 texts of AG News, 40 labels; benchmarks/LOG.md)."""
SMALLEST = 1e-4
"""Directions with a singular value below this share of the largest are noise of the arithmetic."""
ROWS = 8192


class TfidfPreparation:
    """Texts → float32 vectors (n, D) of length 1; a text without anything known is the zero vector.

    Args:
        terms: the groups of letters, in the order of `idf`.
        idf: (terms,) how rare each is.
        components: (D, terms) the directions.
    """

    takes: InputKind = "text"

    def __init__(self, column: str, terms: Sequence[str], idf: Tensor, components: Tensor) -> None:
        self.columns = (column,)
        self.terms, self.idf, self.components = tuple(terms), idf, components

    @classmethod
    def from_saved(cls, saved: Any, tensors: Mapping[str, Tensor]) -> "TfidfPreparation":
        """Invert `settings` and `tensors`."""
        terms = stored_text(tensors["terms"]).split("\n")
        found = cls(saved.column, terms, tensors["idf"], tensors["components"])
        numbers = found.idf.dtype in (torch.float32, torch.float64) and found.components.dtype == torch.float32
        fitting = found.components.shape[1:] == found.idf.shape == (len(set(terms)),) == (len(terms),)
        if not numbers or not fitting:
            shapes = f"{tuple(found.idf.shape)} and {tuple(found.components.shape)}"
            raise InputError(f"the saved preparation of texts is damaged: {len(terms)} terms for tensors of {shapes}.")
        return found

    def __call__(self, inputs: Inputs) -> Tensor:
        texts, directions = as_texts(inputs), self.components.numpy().T
        parts = [np.zeros((0, len(self.components)), np.float32)]
        parts += [self._vectorizer.transform(texts[start : start + ROWS]) @ directions for start in range(0, len(texts), ROWS)]
        return F.normalize(torch.from_numpy(np.concatenate(parts)), dim=1)

    @cached_property
    def _vectorizer(self) -> Any:
        vectorizer = _vectorizer(vocabulary={term: position for position, term in enumerate(self.terms)})
        vectorizer.idf_ = self.idf.numpy()
        return vectorizer

    def settings(self) -> dict[str, Any]:
        return {"kind": "tfidf", "column": self.columns[0]}

    def tensors(self) -> dict[str, Tensor]:
        """Give the terms as one text, since there may be too many for JSON, and the numbers."""
        terms = np.frombuffer("\n".join(self.terms).encode("utf-8", "surrogatepass"), np.uint8)
        return {"terms": torch.from_numpy(terms.copy()), "idf": self.idf, "components": self.components}

    def describe(self) -> str:
        return f"texts as {len(self.components)} directions of {len(self.terms):,} groups of letters (TF-IDF)"


def fit_tfidf(
    texts: Sequence[str], column: str, dimensions: int = 256, seed: int = 0, exactly: int | None = None
) -> TfidfPreparation:
    """Fit the preparation to these texts, labelled or not; labels are not used.

    Args:
        dimensions: maximum of directions; fewer where there are few texts or terms.
        exactly: number of directions; those that the texts do not have are zero.
    """
    from sklearn.decomposition import TruncatedSVD

    vectorizer = _vectorizer(min_df=2 if len(texts) >= RARE_FROM else 1, max_features=MOST_TERMS)
    try:
        counts = vectorizer.fit_transform(texts)
        alike = "" if (counts.max(axis=0) - counts.min(axis=0)).count_nonzero() else "are all the same"
    except ValueError:  # scikit-learn's way of saying that nothing was found
        alike = "are empty, or have nothing in common"
    if alike:
        text = f"the texts in column {column!r} {alike}: there is nothing to tell classes apart by."
        raise InputError(f"{text} If the texts are in another column, name it with --text.")
    most = min(dimensions, max(FEWEST, len(texts) // PER_DIRECTION)) if exactly is None else exactly
    size = min(most, len(texts) - 1, counts.shape[1] - 1)
    decomposed = TruncatedSVD(size, n_iter=ITERATIONS, random_state=seed).fit(counts)
    kept = decomposed.singular_values_ > SMALLEST * decomposed.singular_values_[0]
    components = torch.from_numpy(np.ascontiguousarray(decomposed.components_[kept], np.float32))
    components = F.pad(components, (0, 0, 0, max(0, (exactly or 0) - len(components))))
    return TfidfPreparation(column, vectorizer.get_feature_names_out().tolist(), torch.from_numpy(vectorizer.idf_), components)


def _vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer="char_wb", ngram_range=LETTERS, sublinear_tf=True, dtype=np.float32, **options)


MOST_TOKENS = 128
TEXTS = 4096
"""Texts at a time: the output of a tokenizer takes far more memory than the ids."""


class TokenPreparation:
    """Texts → int32 token ids (n, L), padded on the right. Its tokenizer is saved with the model: no encoder is needed again.

    Args:
        encoder: whose tokenizer it is.
        length: L; what is longer is cut off.
    """

    takes: InputKind = "text"

    def __init__(self, column: str, encoder: str, tokenizer: Tokenizer, length: int, lower: bool) -> None:
        self.columns = (column,)
        self.encoder, self.tokenizer, self.length, self.lower = encoder, tokenizer, length, lower
        self._ready: list[tuple[list[str], Tensor]] = []

    @classmethod
    def from_saved(cls, saved: Any, tensors: Mapping[str, Tensor]) -> "TokenPreparation":
        """Invert `settings` and `tensors`."""
        tokenizer = Tokenizer.from_saved(stored_text(tensors["tokenizer"]), saved.pad, saved.mask, saved.special)
        return cls(saved.column, saved.encoder, tokenizer, saved.length, saved.lower)

    def __call__(self, inputs: Inputs) -> Tensor:
        texts = as_texts(inputs)
        for place, (known, items) in enumerate(self._ready):
            if known == texts:
                del self._ready[place]
                return items
        none = torch.empty(0, self.length, dtype=torch.int32)
        return torch.cat([none, *(padded(ids, self.tokenizer.pad, self.length) for ids in self._ids(texts))])

    def _ids(self, texts: Sequence[str]) -> Iterator[list[list[int]]]:
        for start in range(0, len(texts), TEXTS):
            some = texts[start : start + TEXTS]
            yield self.tokenizer([text.lower() for text in some] if self.lower else some, self.length)

    @property
    def view_options(self) -> dict[str, Any]:
        """Give the options of `TextViews` that depend on the tokens."""
        return {"pad": self.tokenizer.pad, "mask": self.tokenizer.mask, "special": list(self.tokenizer.special)}

    def settings(self) -> dict[str, Any]:
        rest = {"encoder": self.encoder, "length": self.length, "lower": self.lower}
        return {"kind": "tokens", "column": self.columns[0], **rest, **self.view_options}

    def tensors(self) -> dict[str, Tensor]:
        return {"tokenizer": torch.from_numpy(np.frombuffer(self.tokenizer.rules.to_str().encode(), np.uint8).copy())}

    def describe(self) -> str:
        return f"up to {self.length} tokens of the pretrained encoder {self.encoder}"


def fit_tokens(columns: Sequence[Sequence[str]], column: str, encoder: str, most: int = MOST_TOKENS) -> TokenPreparation:
    """Fit the preparation of an encoder in a folder or on the hub: up to as many tokens as the longest text has.

    The ids are kept until the preparation is called with the same texts: everything is tokenised once.

    Args:
        columns: all texts that are trained on, and each column of their augmented versions.
        most: tokens that are kept of a text, and never more than the encoder takes.
    """
    folder = find_encoder(encoder)
    reading = read_text_settings(folder, most)
    found = TokenPreparation(column, encoder, load_tokenizer(folder), reading.length, reading.lower)
    parts = [[padded(ids, found.tokenizer.pad).int() for ids in found._ids(texts)] for texts in columns]
    found.length = max((part.shape[1] for each in parts for part in each), default=1)
    none = torch.empty(0, found.length, dtype=torch.int32)
    for texts in columns:
        wide = [F.pad(part, (0, found.length - part.shape[1]), value=found.tokenizer.pad) for part in parts.pop(0)]
        found._ready.append((list(texts), torch.cat([none, *wide])))
    return found
