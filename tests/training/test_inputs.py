"""The views of a run: statistics of what is trained on, and options that the kind of data has."""

from dataclasses import replace
from pathlib import Path

import pytest
import tokenizers
import torch

from softmatch.config import make_config
from softmatch.data import Examples, Split
from softmatch.data.evaluation import Evaluation
from softmatch.data.preparations.text_preparations import TokenPreparation
from softmatch.encoders.backbones import Tokenizer
from softmatch.errors import InputError
from softmatch.training.inputs import fold_task, make_views
from softmatch.training.opening import Job
from softmatch.training.setup import make_task
from softmatch.views import ImageViews, TextViews, VectorViews
from tests.own.sources import texts
from tests.prepared import prepare

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


def test_a_fold_counts_words_without_the_texts_that_it_holds_out(tmp_path: Path) -> None:
    source = texts(tmp_path / "t.csv")
    task = prepare(str(source), make_config({"folds": 3}))
    split = task.evaluation.folds[0]
    rows = source.read_text().splitlines()
    for position in split.test.tolist():  # other words, the same labels
        rows[position + 1] = f"quixotic zebras {position} jump,{rows[position + 1].rsplit(',', 1)[1]}"
    (tmp_path / "other.csv").write_text("\n".join(rows) + "\n")
    other = prepare(str(tmp_path / "other.csv"), make_config({"folds": 3}))
    assert torch.equal(other.evaluation.folds[0].test, split.test)
    assert not torch.allclose(task.examples.items[split.unlabeled], other.examples.items[split.unlabeled], atol=0.01)
    first, second = fold_task(task, split), fold_task(other, split)
    assert first.shape == second.shape == task.shape
    assert torch.equal(first.examples.items[split.unlabeled], second.examples.items[split.unlabeled])
    assert first.views.settings() == second.views.settings() != task.views.settings()
    assert fold_task(task, task.split).examples is task.examples, "nothing is held out"


def test_a_fold_counts_words_of_tokens_without_the_texts_that_it_holds_out() -> None:
    examples, _ = _texts()
    whole = replace(SPLIT, unlabeled=torch.arange(6), test=torch.arange(0))
    config = make_config({"views": {"replace": 0.2}})
    views, split = make_views(examples, whole, config.views), SPLIT
    task = make_task(
        Job("texts", config, examples), Evaluation("crossfit", whole, (split,)), views, "mlp-8", torch.nn.Linear(1, 1)
    )
    found, expected = fold_task(task, split).views, make_views(examples, split, config.views)
    assert isinstance(views, TextViews)
    assert isinstance(found, TextViews)
    assert isinstance(expected, TextViews)
    assert views.statistics is not None
    assert found.statistics is not None
    assert expected.statistics is not None
    assert torch.equal(found.statistics.idf, expected.statistics.idf)
    assert not torch.equal(found.statistics.idf, views.statistics.idf)
