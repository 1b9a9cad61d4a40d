"""TEXTS: the paper's five datasets of texts: classes, sizes, columns, hub ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from softmatch.data.sources.hub_datasets import Repository


@dataclass(frozen=True)
class Texts:
    """A dataset of texts that others have published.

    Attributes:
        classes: in the order of the labels.
        hub: where it is on the Hugging Face hub. A dataset that has moved is mended here.
        text: the columns there that make up a text, one after the other with a space between them.
        label: the column of the labels there.
        first: number of the first class there.
        defaults: settings (of `Config`) that differ from the general defaults.
    """

    name: str
    summary: str
    classes: tuple[str, ...]
    hub: Repository
    defaults: Mapping[str, Any]
    text: tuple[str, ...] = ("text",)
    label: str = "label"
    first: int = 0


STARS = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")

AG_NEWS = Texts(
    "agnews",
    "120,000 news in 4 topics, and 7,600 to test on",
    ("World", "Sports", "Business", "Sci/Tech"),
    Repository("fancyzhx/ag_news"),
    {"labels": 40},
)

DBPEDIA = Texts(
    "dbpedia",
    "560,000 first paragraphs of Wikipedia about 14 kinds of things, and 70,000 to test on",
    (
        *("Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder", "MeanOfTransportation", "Building"),
        *("NaturalPlace", "Village", "Animal", "Plant", "Album", "Film", "WrittenWork"),
    ),
    Repository("fancyzhx/dbpedia_14"),
    {"labels": 70},
    text=("title", "content"),
)

IMDB = Texts(
    "imdb",
    "25,000 reviews of films, negative or positive, and 25,000 to test on",
    ("neg", "pos"),
    Repository("stanfordnlp/imdb"),
    {"labels": 100},
)

AMAZON_5 = Texts(
    "amazon-5",
    "3 million reviews of products with 1 to 5 stars, and 650,000 to test on",
    STARS,
    Repository("yassiracharki/Amazon_Reviews_for_Sentiment_Analysis_fine_grained_5_classes"),
    {"labels": 1000},
    text=("review_title", "review_text"),
    label="class_index",
    first=1,
)

YELP_5 = Texts(
    "yelp-5",
    "650,000 reviews of businesses with 1 to 5 stars, and 50,000 to test on",
    STARS,
    Repository("Yelp/yelp_review_full"),
    {"labels": 1000},
)

TEXTS: dict[str, Texts] = {dataset.name: dataset for dataset in (AG_NEWS, DBPEDIA, IMDB, AMAZON_5, YELP_5)}
