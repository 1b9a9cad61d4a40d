"""The tables of the paper that have experiments."""

from collections.abc import Mapping, Sequence

from softmatch.experiments.paper import published_numbers as paper_numbers
from softmatch.experiments.paper.experiment import (
    C10_40,
    C10_250,
    FEW_STEPS,
    FUNCTIONS,
    IN_PLACES,
    LAPTOP_SEEDS,
    LOWER_ERROR,
    NO_CIFAR,
    PAPER_SEEDS,
    PLACES,
    SHORT,
    SMALL_C10_250,
    SMALL_DIGITS,
    SMALL_FASHION,
    SVHN_40,
    THREE,
    Experiment,
    Scale,
    close,
    laptop,
    laptop_long_tailed,
    lower,
    method,
    paper,
    paper_long_tailed,
    sheet,
    sheets,
)
from softmatch.experiments.sheet import Column, Row

ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
"""Text encoder at laptop scale: 22.7 million parameters, six layers, frozen; the paper trains BERT-Base."""
LAPTOP_TEXTS = [Column(str(labels), "agnews", {"labels": labels, "encoder": ENCODER}, "AG News") for labels in (40, 200)]

FIXMATCH, FLEXMATCH, SOFTMATCH = THREE
SUPERVISED = method("Labels alone", "supervised")
MAIN_ROWS = (
    SUPERVISED,
    method("PseudoLabel", "pseudo_label"),
    method("MeanTeacher", "mean_teacher"),
    method("MixMatch", "mixmatch"),
    method("ReMixMatch", "remixmatch"),
    method("UDA", "uda"),
    FIXMATCH,
    method("Influence", "influence"),
    FLEXMATCH,
    SOFTMATCH,
)
TEXT_ROWS = (SUPERVISED, method("UDA", "uda"), *THREE)
TARGETS = (
    method("p_L(y)", "softmatch", align="prior"),
    method("p̂_L(y)", "softmatch", align="predictions"),
    method("u(C)", "softmatch"),
)
RANGES = (method("σ", "softmatch", k=1), method("2σ", "softmatch"), method("3σ", "softmatch", k=3))
MOMENTA: Mapping[Scale, Sequence[Row]] = {
    "paper": (
        Row("m = 0.99", {"method": "softmatch", "statistics_momentum": 0.99}),
        Row("m = 0.999", {"method": "softmatch"}),
        Row("m = 0.9999", {"method": "softmatch", "statistics_momentum": 0.9999}),
    ),
    "laptop": (
        Row("one step", {"method": "softmatch", "statistics_momentum": 0.0}),
        Row("10 or 15 steps", {"method": "softmatch"}),
        Row("100 steps", {"method": "softmatch", "statistics_momentum": 0.99}),
    ),
}
"""At laptop scale, the statistics average over a fortieth of the run, 10 or 15 steps: 0.999 would outlast it."""
ABLATED = {SMALL_FASHION.title: C10_250.title}
"""The same for the paper's three small ablations."""
COMPARABLE = ("CIFAR-100, 2,500", "CIFAR-100, 10,000")
"""Columns in which the paper calls SoftMatch and FlexMatch comparable."""
SVHN = ("SVHN, 40", "SVHN, 1,000", SMALL_DIGITS.title)
"""Columns of SVHN, and the one that replaces them."""
SHARES = (4680, 18730)
"""Labels of Fashion-MNIST: the same shares as 100,000 and 400,000 of ImageNet, 7.8 % and 31.2 %."""


TABLES = (
    Experiment(
        name="table-main",
        where="Table 2",
        title="Top-1 error of balanced image classification",
        sheets=sheets(
            MAIN_ROWS,
            [
                *(paper("cifar10", labels) for labels in (40, 250, 4000)),
                *(paper("cifar100", labels) for labels in (400, 2500, 10_000)),
                *(paper("svhn", labels) for labels in (40, 1000)),
                *(paper("stl10", labels) for labels in (40, 1000)),
            ],
            [SMALL_C10_250, SMALL_FASHION, SMALL_DIGITS],
        ),
        published=paper_numbers.MAIN,
        beside={SMALL_C10_250.title: "CIFAR-10, 250", SMALL_DIGITS.title: "SVHN, 40"},
        claims=(
            lower("SoftMatch", "FixMatch", text="SoftMatch has a lower error than FixMatch", but=["SVHN, 1,000"]),
            lower("SoftMatch", "FlexMatch", text="SoftMatch has a lower error than FlexMatch", but=COMPARABLE),
            lower("SoftMatch", "UDA", text="SoftMatch has a lower error than UDA", but=["SVHN, 1,000"]),
            lower("FixMatch", "PseudoLabel", text="FixMatch has a lower error than PseudoLabel"),
            lower("FixMatch", "FlexMatch", text="On SVHN, FixMatch has a lower error than FlexMatch", columns=SVHN),
            lower("ReMixMatch", "SoftMatch", text="Here ReMixMatch has a lower error than SoftMatch", columns=COMPARABLE),
        ),
        open=("Labels alone are not in the paper's table.",),
        differs=(
            FEW_STEPS,
            SHORT,
            "CIFAR-100, SVHN and STL-10 are left out, and so is CIFAR-10 with 40 labels, from which so few steps learn next to "
            "nothing, and with 4,000, which they see four times. Fashion-MNIST and the embedded digits (beside the paper's "
            "SVHN) are added. All methods have the same batches; the paper's code takes fewer unlabelled samples for the older.",
        ),
    ),
    Experiment(
        name="table-imagenet",
        where="Table 3",
        title="Top-1 error on ImageNet",
        sheets=sheets(
            THREE,
            [paper("imagenet", 100_000), paper("imagenet", 400_000)],
            [*(laptop("fashion-mnist", labels) for labels in SHARES), *(laptop("digits", labels) for labels in (100, 390))],
            seeds=(0,),
            title="Top-1 error with 8 % and 31 % of all labels",
        ),
        published=paper_numbers.IMAGENET,
        beside={"Fashion-MNIST, 4,680": "ImageNet, 100,000", "Fashion-MNIST, 18,730": "ImageNet, 400,000"},
        claims=LOWER_ERROR,
        differs=(
            "ImageNet is not available: Fashion-MNIST and the embedded digits with the same shares of labels (8 % and 31 %) "
            "replace it, which says little about it and its ResNet-50. 600 steps of 16 labelled images see 9,600 of them: more "
            "labels than that cannot help.",
            FEW_STEPS,
            SHORT,
        ),
    ),
    Experiment(
        name="table-longtail",
        where="Table 4",
        title="Top-1 error on long-tailed images",
        sheets=sheets(
            THREE,
            [
                *(paper_long_tailed("cifar10", gamma) for gamma in (50, 100, 150)),
                *(paper_long_tailed("cifar100", gamma) for gamma in (20, 50, 100)),
            ],
            [*(laptop_long_tailed("cifar10", gamma) for gamma in (50, 100, 150)), laptop_long_tailed("digits", 10)],
            seeds=(0, 1, 2, 3, 4),
        ),
        published=paper_numbers.LONG_TAILED,
        beside={f"CIFAR-10-LT, γ = {gamma}": f"CIFAR-10-LT, γ = {gamma}" for gamma in (50, 100, 150)},
        claims=LOWER_ERROR,
        differs=(
            "The same long-tailed splits of CIFAR-10 and the same optimiser (Adam) as the paper, but small-conv-8 and 600 "
            "steps of 16 + 32 images instead of WRN-28-2 and batches of 64 + 128. CIFAR-100 is left out; the embedded digits are "
            "added, with the optimiser of their other tables.",
            SHORT,
        ),
        open=("The paper does not say how many steps it trains on long-tailed data: 250,000, at its scale, are those of CoSSL.",),
    ),
    Experiment(
        name="table-text",
        where="Table 5",
        title="Top-1 error on texts",
        sheets=sheets(
            TEXT_ROWS,
            [
                *(paper("agnews", labels) for labels in (40, 200)),
                *(paper("dbpedia", labels) for labels in (70, 280)),
                *(paper("imdb", 100), paper("amazon-5", 1000), paper("yelp-5", 1000)),
            ],
            LAPTOP_TEXTS,
        ),
        published=paper_numbers.TEXT,
        beside={"AG News, 40": "AG News, 40", "AG News, 200": "AG News, 200"},
        claims=(
            lower("SoftMatch", "UDA", text="SoftMatch has a lower error than UDA"),
            lower("SoftMatch", "FixMatch", text="SoftMatch has a lower error than FixMatch"),
            lower("SoftMatch", "FlexMatch", text="SoftMatch has a lower error than FlexMatch", but=["Yelp-5, 1,000"]),
        ),
        open=("Labels alone are not in the paper's table.",),
        differs=(
            "A frozen sentence encoder of 22.7 million parameters and a perceptron on its features (1,000 steps of Adam, 40 or "
            "64 labelled and 512 unlabelled texts), where the paper fine-tunes BERT-Base for 2^18 steps; strong views are the "
            "back-translations of the data. The error is on the test texts, the paper's on a validation set. The texts "
            "are encoded once, before the first run: some minutes more.",
        ),
    ),
    Experiment(
        name="table-functions",
        where="Table 9",
        title="Top-1 error of weighting functions",
        sheets=sheets(FUNCTIONS, [C10_40, C10_250, SVHN_40], [SMALL_FASHION, SMALL_DIGITS]),
        published=paper_numbers.FUNCTIONS,
        beside=PLACES,
        claims=(
            *(
                lower("Truncated Gaussian", name, text=f"The truncated Gaussian has a lower error than {words}")
                for name, words in (
                    ("Linear", "the linear function"),
                    ("Quadratic", "the quadratic function"),
                    ("Laplacian", "the fixed Laplacian"),
                    ("Gaussian", "the fixed Gaussian"),
                    ("Truncated Laplacian", "the truncated Laplacian"),
                )
            ),
            lower("Truncated Laplacian", "Laplacian", text="The truncated Laplacian has a lower error than the fixed one"),
        ),
        differs=(IN_PLACES, FEW_STEPS, SHORT),
        open=(
            "How the truncated Laplacian estimates b is not in the paper: here it is the mean absolute deviation of the "
            "confidence, halved as the 2σ range halves σ.",
        ),
    ),
    Experiment(
        name="ablate-momentum",
        where="Table 10",
        title="Momentum of the statistics",
        sheets={
            "paper": [sheet("", MOMENTA["paper"], [C10_250], PAPER_SEEDS)],
            "laptop": [sheet("What the statistics remember", MOMENTA["laptop"], [SMALL_FASHION, SMALL_DIGITS], LAPTOP_SEEDS)],
        },
        published=paper_numbers.MOMENTUM,
        claims=(
            close("m = 0.999", "m = 0.99", text="A shorter memory changes the error little"),
            close("m = 0.999", "m = 0.9999", text="A longer memory changes the error little"),
            close("10 or 15 steps", "one step", text="A shorter memory changes the error little"),
            close("10 or 15 steps", "100 steps", text="A longer memory changes the error little"),
        ),
        differs=(
            f"{NO_CIFAR}; the embedded digits are added.",
            "The paper's momenta 0.99, 0.999 and 0.9999 (errors of 4.92 ± 0.11, 4.82 ± 0.09 and 4.86 ± 0.12) remember 100, 1,000"
            " and 10,000 of 2^20 steps; here the statistics remember one step, 15 steps of Fashion-MNIST and 10 of the digits "
            "(the default for runs of this length), and 100 steps.",
            FEW_STEPS,
            SHORT,
        ),
    ),
    Experiment(
        name="ablate-range",
        where="Table 11",
        title="Range of the variance",
        sheets=sheets(RANGES, [C10_250], [SMALL_FASHION, SMALL_DIGITS]),
        published=paper_numbers.RANGE,
        beside=ABLATED,
        claims=(
            lower("2σ", "σ", text="2σ has a slightly lower error than σ"),
            close("2σ", "3σ", text="2σ and 3σ are about the same"),
        ),
        differs=(f"{NO_CIFAR}; the embedded digits are added.", FEW_STEPS, SHORT),
    ),
    Experiment(
        name="ablate-target",
        where="Table 12",
        title="Target distribution of uniform alignment, balanced classes",
        sheets=sheets(TARGETS, [C10_250], [SMALL_FASHION, SMALL_DIGITS], title="Target of uniform alignment"),
        published=paper_numbers.TARGET,
        beside=ABLATED,
        claims=(
            close("u(C)", "p_L(y)", text="The uniform distribution and that of the labels are the same on balanced classes"),
            lower("u(C)", "p̂_L(y)", text="The uniform distribution has a lower error than the estimated one"),
        ),
        differs=(
            f"{NO_CIFAR}; the embedded digits are added.",
            "p_L(y): the frequencies of the labelled samples, uniform here; p̂_L(y): the running mean of the predictions on them.",
            FEW_STEPS,
            SHORT,
        ),
    ),
)
