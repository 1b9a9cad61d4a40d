"""The views of a run: statistics of what is trained on, and options that the kind of data has."""

import pytest
import tokenizers
import torch

from softmatch.data import Examples, Split
from softmatch.data.preparations.text_preparations import TokenPreparation
from softmatch.encoders.backbones import Tokenizer
from softmatch.errors import InputError
from softmatch.training.inputs import make_views
from softmatch.views import ImageViews, TextViews, VectorViews

LABELS = torch.tensor([0, 1, 0, 1, 0, 1])
SPLIT = Split(labeled=torch.tensor([0, 1]), unlabeled=torch.arange(4), test=torch.tensor([4, 5]), seed=0)


def test_vectors_are_standardised_by_what_is_trained_on() -> None:
    items = torch.tensor([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0], [6.0, 5.0], [90.0, 70.0], [-70.0, 80.0]])
    views = make_views(Examples(items, LABELS, ("a", "b"), "vector"), SPLIT, {"swap": 0.2})
    assert isinstance(views, VectorViews)
    assert views.swap == 0.2
    assert views.mean.tolist() == [3.0, 5.0]
    assert views.std.tolist() == pytest.approx([float(items[:4, 0].std()), 1.0]), "what never varied has no scale"


def test_images_are_normalised_by_what_is_trained_on_unless_it_is_known() -> None:
    items = torch.tensor([0, 0, 255, 255, 9, 9], dtype=torch.uint8)[:, None, None, None].expand(6, 1, 2, 2)
    views = make_views(Examples(items, LABELS, ("a", "b"), "image"), SPLIT, {})
    assert isinstance(views, ImageViews)
    assert views.mean == pytest.approx((0.5,))
    known = make_views(Examples(items, LABELS, ("a", "b"), "image", statistics=((0.3,), (0.2,))), SPLIT, {"pad": 1})
    assert isinstance(known, ImageViews)
    assert (known.mean, known.std, known.pad) == ((0.3,), (0.2,), 1)


@pytest.mark.parametrize("option", ["cutout", "mean"])
def test_an_option_of_other_data_is_refused(option: str) -> None:
    with pytest.raises(InputError, match=f"views: this kind of data has no option '{option}'"):
        make_views(Examples(torch.randn(6, 2), LABELS, ("a", "b"), "vector"), SPLIT, {option: 0.1})


TEXTS = ["the cats sat", "the dog ran", "the birds", "the tree is it", "much mat", "how much"]


def _texts() -> tuple[Examples, dict[str, int]]:
    names = [
        "[PAD]",
        "[UNK]",
        "[MASK]",
        "the",
        "cat",
        "sat",
        "dog",
        "ran",
        "bird",
        "tree",
        "is",
        "it",
        "much",
        "mat",
        "how",
        "##s",
        "##ing",
    ]
    vocabulary = {name: number for number, name in enumerate(names)}
    rules = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    rules.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    prepared = TokenPreparation("body", "bert", Tokenizer(rules, 0, 2, (0, 1, 2)), 4, False)
    return Examples(prepared(TEXTS), LABELS, ("a", "b"), "text", preparation=prepared), vocabulary


def test_views_of_texts_know_words_and_count_those_that_are_trained_on_where_they_replace_some() -> None:
    examples, vocabulary = _texts()
    views = make_views(examples, SPLIT, {"replace": 0.2, "drop": 0.1})
    assert isinstance(views, TextViews)
    assert (views.shares["replace"], views.shares["drop"], views.shares["strong"]) == (0.2, 0.1, 0.15)
    assert views.continues is not None
    assert {name for name, number in vocabulary.items() if views.continues[number]} == {"##s", "##ing"}
    assert views.statistics is not None
    words = {name for name, number in vocabulary.items() if number in views.statistics.words[0]}
    assert words == {"the", "cat", "sat", "dog", "ran", "bird", "tree", "is", "it"}
    the, cat, mat = views.statistics.idf_of(torch.tensor([vocabulary[name] for name in ("the", "cat", "mat")])).exp().tolist()
    assert (the, cat, mat) == pytest.approx((1.0, 4.0, 4.0), abs=1e-5), "four texts are trained on"
    assert views.strong(examples.items, torch.Generator().manual_seed(0)).shape == examples.items.shape

    plain = make_views(examples, SPLIT, {"swap": 0.2})
    assert isinstance(plain, TextViews)
    assert plain.statistics is None
    for name, wrong in (("replace", -0.1), ("span", 2)):
        with pytest.raises(InputError, match=f"{name} must be a share of words from 0 to below 1, not {wrong}"):
            make_views(examples, SPLIT, {name: wrong})
    for name in ("continues", "statistics", "pad", "spans"):
        with pytest.raises(InputError, match=f"views: this kind of data has no option '{name}'"):
            make_views(examples, SPLIT, {name: 1})
