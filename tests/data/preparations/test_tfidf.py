"""TF-IDF vectors: what they are of, that they survive saving, and texts with nothing in them."""

from __future__ import annotations

import math

import pytest
import torch

from softmatch.data.preparations import preparation_from
from softmatch.data.preparations.text_preparations import TfidfPreparation, fit_tfidf
from softmatch.errors import InputError

TEXTS = [
    "the cat sat on the mat",
    "the cat ran up the tree",
    "a dog sat on the mat",
    "stock prices fell sharply",
    "stock prices rose again",
    "shares and stock markets fell",
    "la bourse a chuté 📉\nhier",
    "猫坐在垫子上",
    "狗坐在垫子上",
]


def test_vectors_by_hand() -> None:
    """Of a word x of one letter the groups are ' x', 'x ' and ' x '; all of them occur in two of three texts."""
    prepared = fit_tfidf(["a", "b", "a b"], "t", dimensions=2)
    assert sorted(prepared.terms) == [" a", " a ", " b", " b ", "a ", "b "]
    assert torch.allclose(prepared.idf, torch.full((6,), math.log(4 / 3) + 1))
    one, other, both = prepared(["a", "b", "a b"])
    assert one.shape == (2,)
    assert float(one @ other) == pytest.approx(0.0, abs=1e-6)
    assert float(one @ both) == pytest.approx(math.sqrt(0.5), abs=1e-6)


def test_texts_of_one_topic_are_close() -> None:
    vectors = fit_tfidf(TEXTS, "t")(TEXTS)
    assert vectors.dtype == torch.float32
    assert vectors.shape[1] < len(TEXTS)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(len(TEXTS)))
    similar = vectors @ vectors.T
    assert similar[0, 2] > similar[0, 3]
    assert similar[3, 4] > similar[3, 0]
    assert similar[7, 8] > 0.5, "a language without spaces"
    assert similar[7, 0] < 0.1


def test_what_is_unknown_or_empty_is_the_zero_vector() -> None:
    vectors = fit_tfidf(TEXTS, "t")(["", " \n\t", "ЖЖЖЖ", "😀", TEXTS[0]])
    assert not vectors[:4].any()
    assert float(vectors[4].norm()) == pytest.approx(1.0)


def test_saved_and_loaded_again_gives_the_same_numbers() -> None:
    prepared = fit_tfidf(TEXTS, "Text of it")
    again = preparation_from(prepared.settings(), prepared.tensors())
    assert isinstance(again, TfidfPreparation)
    assert again.columns == ("Text of it",)
    assert again.takes == "text"
    assert again.terms == prepared.terms
    assert torch.equal(again([*TEXTS, "", "cats 📉"]), prepared([*TEXTS, "", "cats 📉"]))
    assert prepared.describe() == again.describe()
    assert f"{len(prepared.components)} directions" in prepared.describe()


def test_the_same_seed_gives_the_same_vectors_and_pieces_the_same_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = TEXTS * 15  # more than are few: rare groups of letters are left out
    prepared = fit_tfidf(texts, "t", seed=3)
    assert torch.equal(fit_tfidf(texts, "t", seed=3)(texts), prepared(texts))
    whole = prepared(texts)
    assert torch.allclose(torch.cat([prepared(texts[:50]), prepared(texts[50:])]), whole, atol=1e-6)
    monkeypatch.setattr("softmatch.data.preparations.text_preparations.ROWS", 7)
    assert torch.allclose(prepared(texts), whole, atol=1e-6)
    assert prepared([]).shape == (0, whole.shape[1])


def test_dimensions_are_fewer_than_asked_for_or_than_there_can_be() -> None:
    assert fit_tfidf(TEXTS, "t", dimensions=3)(TEXTS).shape == (9, 3)
    repeated = fit_tfidf(["one", "two"] * 10, "t")
    assert len(repeated.components) == 2, "two different texts span two directions, the others would be noise"


def test_rare_groups_of_letters_are_left_out_of_many_texts() -> None:
    texts = [f"common{number % 2}" for number in range(120)] + ["unique"]
    assert "uniq" not in fit_tfidf(texts, "t").terms
    assert "uniq" in fit_tfidf(texts[-10:], "t").terms


@pytest.mark.parametrize("texts", [["same"] * 5, ["same", "SAME "], ["", " ", "\n"], [""] * 200])
def test_texts_that_cannot_be_told_apart_are_refused(texts: list[str]) -> None:
    with pytest.raises(InputError, match=r"column 'body' (are all the same|are empty).*--text"):
        fit_tfidf(texts, "body")


def test_other_inputs_than_texts_are_refused() -> None:
    with pytest.raises(InputError, match="list of texts; number 2 is a float"):
        fit_tfidf(TEXTS, "t")(["fine", 2.5])  # type: ignore[list-item]  # the mistake


def test_damaged_saved_files_are_refused() -> None:
    prepared = fit_tfidf(TEXTS, "t")
    with pytest.raises(InputError, match="damaged: KeyError 'idf'"):
        preparation_from(prepared.settings(), {"terms": prepared.tensors()["terms"]})
    with pytest.raises(InputError, match="terms for tensors of"):
        preparation_from(prepared.settings(), {**prepared.tensors(), "idf": torch.ones(3)})
