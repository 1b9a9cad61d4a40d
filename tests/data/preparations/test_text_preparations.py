"""Texts as vectors and as tokens: values, saved files, and what may be given."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from softmatch.data.preparations import preparation_from
from softmatch.data.preparations import text_preparations as tokens
from softmatch.data.preparations.text_preparations import TfidfPreparation, TokenPreparation, as_texts, fit_tfidf, fit_tokens
from softmatch.errors import InputError
from softmatch.views import TextViews
from tests.tiny_encoder import make_text_encoder


def test_lists_tuples_and_arrays_of_texts() -> None:
    assert as_texts(["a", "b"]) == as_texts(("a", "b")) == as_texts(np.array(["a", "b"])) == ["a", "b"]
    assert as_texts(np.array(["a", "b"], dtype=object)) == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "what"),
    [("one text", "a str"), ({"column": ["a"]}, "a dict"), (["a", None], "number 2"), (np.ones((2, 3)), "number 1")],
)
def test_anything_else_is_refused(given: object, what: str) -> None:
    with pytest.raises(InputError, match=what):
        as_texts(given)  # type: ignore[arg-type]  # the mistake


REVIEWS = [
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


def test_an_exact_number_of_directions() -> None:
    assert fit_tfidf(REVIEWS, "t", exactly=5)(REVIEWS).shape == (9, 5)
    few = fit_tfidf(REVIEWS[:4], "t", exactly=5)(REVIEWS)
    assert few.shape == (9, 5)
    assert few[:, 3:].abs().sum() == 0 < few[:, :3].abs().sum()  # four texts have three directions


def test_texts_of_one_topic_are_close() -> None:
    vectors = fit_tfidf(REVIEWS, "t")(REVIEWS)
    assert vectors.dtype == torch.float32
    assert vectors.shape[1] < len(REVIEWS)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(len(REVIEWS)))
    similar = vectors @ vectors.T
    assert similar[0, 2] > similar[0, 3]
    assert similar[3, 4] > similar[3, 0]
    assert similar[7, 8] > 0.5, "a language without spaces"
    assert similar[7, 0] < 0.1


def test_what_is_unknown_or_empty_is_the_zero_vector() -> None:
    vectors = fit_tfidf(REVIEWS, "t")(["", " \n\t", "ЖЖЖЖ", "😀", REVIEWS[0]])
    assert not vectors[:4].any()
    assert float(vectors[4].norm()) == pytest.approx(1.0)


def test_saved_and_loaded_again_gives_the_same_numbers() -> None:
    prepared = fit_tfidf(REVIEWS, "Text of it")
    again = preparation_from(prepared.settings(), prepared.tensors())
    assert isinstance(again, TfidfPreparation)
    assert again.columns == ("Text of it",)
    assert again.takes == "text"
    assert again.terms == prepared.terms
    assert torch.equal(again([*REVIEWS, "", "cats 📉"]), prepared([*REVIEWS, "", "cats 📉"]))
    assert prepared.describe() == again.describe()
    assert f"{len(prepared.components)} directions" in prepared.describe()


def test_the_same_seed_gives_the_same_vectors_and_pieces_the_same_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = REVIEWS * 15  # more than are few: rare groups of letters are left out
    prepared = fit_tfidf(texts, "t", seed=3)
    assert torch.equal(fit_tfidf(texts, "t", seed=3)(texts), prepared(texts))
    whole = prepared(texts)
    assert torch.allclose(torch.cat([prepared(texts[:50]), prepared(texts[50:])]), whole, atol=1e-6)
    monkeypatch.setattr("softmatch.data.preparations.text_preparations.ROWS", 7)
    assert torch.allclose(prepared(texts), whole, atol=1e-6)
    assert prepared([]).shape == (0, whole.shape[1])


def test_dimensions_are_fewer_than_asked_for_or_than_there_can_be() -> None:
    assert fit_tfidf(REVIEWS, "t", dimensions=3)(REVIEWS).shape == (9, 3)
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
        fit_tfidf(REVIEWS, "t")(["fine", 2.5])  # type: ignore[list-item]  # the mistake


def test_damaged_saved_vectors_are_refused() -> None:
    prepared = fit_tfidf(REVIEWS, "t")
    with pytest.raises(InputError, match="damaged: KeyError 'idf'"):
        preparation_from(prepared.settings(), {"terms": prepared.tensors()["terms"]})
    with pytest.raises(InputError, match="terms for tensors of"):
        preparation_from(prepared.settings(), {**prepared.tensors(), "idf": torch.ones(3)})


TEXTS = ["the cats sat", "", "a bird", "zebra"]
IDS = [[2, 5, 7, 20, 10, 3], [2, 3, 0, 0, 0, 0], [2, 6, 9, 3, 0, 0], [2, 1, 3, 0, 0, 0]]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_text_encoder(tmp_path_factory.mktemp("bert"))


def test_ids_are_padded_to_the_longest(bert: Path) -> None:
    prepared = fit_tokens([TEXTS], "body", str(bert))
    ids = prepared(TEXTS)
    assert ids.dtype == torch.int32
    assert ids.tolist() == IDS
    assert (prepared.takes, prepared.columns) == ("text", ("body",))
    assert prepared(TEXTS[2:3]).tolist() == IDS[2:3], "one text has the same shape as all of them"
    assert prepared([]).shape == (0, 6)


def test_longer_texts_are_cut_at_the_end(bert: Path) -> None:
    assert fit_tokens([TEXTS], "body", str(bert))(["the cat sat on the mat on the tree"]).tolist() == [[2, 5, 7, 10, 12, 3]]
    assert fit_tokens([["cat " * 500]], "body", str(bert)).length == 64, "no more than the encoder takes"
    assert fit_tokens([["cat " * 500]], "body", str(bert), most=10).length == 10
    assert fit_tokens([TEXTS], "body", str(bert), most=10).length == 6


def test_more_tokens_than_usual_are_read_where_they_are_asked_for(tmp_path: Path) -> None:
    folder = make_text_encoder(tmp_path)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"max_position_embeddings": 512}))
    assert fit_tokens([["cat " * 500]], "body", str(folder), most=400).length == 400
    assert fit_tokens([["cat " * 900]], "body", str(folder), most=900).length == 512


def test_many_texts_are_read_a_part_at_a_time(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TEXTS", 3)
    prepared = fit_tokens([TEXTS], "body", str(bert))
    assert prepared.length == 6
    assert prepared(TEXTS * 2).tolist() == IDS * 2


def test_the_tokenizer_is_saved_with_it(tmp_path: Path) -> None:
    folder = make_text_encoder(tmp_path / "bert")
    prepared = fit_tokens([TEXTS], "body", str(folder))
    settings, tensors = json.loads(json.dumps(prepared.settings())), prepared.tensors()
    folder.rename(tmp_path / "gone")
    again = preparation_from(settings, tensors)
    assert isinstance(again, TokenPreparation)
    assert again(TEXTS).tolist() == IDS
    assert again.settings() == prepared.settings()
    assert again.describe() == prepared.describe()


def test_views_know_the_tokens(bert: Path, tmp_path: Path) -> None:
    views = TextViews(**fit_tokens([TEXTS], "body", str(bert)).view_options)
    assert (views.pad, views.mask, views.special) == (0, 4, (0, 1, 2, 3, 4))
    without = make_text_encoder(tmp_path / "no mask", mask=False)
    assert fit_tokens([TEXTS], "body", str(without)).view_options == {"pad": 0, "mask": None, "special": [0, 1, 2, 3]}


def test_damaged_saved_tokens_are_refused(bert: Path) -> None:
    prepared = fit_tokens([TEXTS], "body", str(bert))
    with pytest.raises(InputError, match="damaged: KeyError 'tokenizer'"):
        preparation_from(prepared.settings(), {})
    with pytest.raises(InputError, match="the saved tokenizer is damaged"):
        preparation_from(prepared.settings(), {"tokenizer": prepared.tensors()["tokenizer"][:50]})
