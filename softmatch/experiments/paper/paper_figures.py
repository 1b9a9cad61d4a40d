"""The figures of the paper that have experiments."""

from softmatch.experiments.paper import published_numbers as paper_numbers
from softmatch.experiments.paper.experiment import (
    C10_40,
    C10_250,
    FEW_STEPS,
    FUNCTIONS,
    IN_PLACES,
    LAPTOP_SEEDS,
    LOWER_ERROR,
    PAPER_SEEDS,
    PLACES,
    SHORT,
    SMALL_C10_250,
    SMALL_DIGITS,
    SMALL_FASHION,
    SVHN_40,
    THREE,
    Experiment,
    against_both,
    close,
    laptop_long_tailed,
    lower,
    method,
    paper_long_tailed,
    sheet,
    sheets,
)
from softmatch.experiments.sheet import Column, Sheet

MOONS = Column("4", "two-moons", {"lr": 0.01, "unlabeled_batch": 512, "views": {"strong_noise": 0.15}}, "Two moons")
"""Small enough for every machine. The published page was made with it; the source's defaults were changed later."""
ESTIMATIONS = (
    method("All-class", "softmatch"),
    method("Fixed", "softmatch", estimation="fixed"),
    method("Per-class", "softmatch", estimation="per_class"),
)
ALIGNMENTS = (
    method("All-class with UA", "softmatch"),
    method("All-class without UA", "softmatch", align="none"),
    method("Per-class without UA", "softmatch", estimation="per_class", align="none"),
)
LONG_TAILED_TARGETS = (
    method("u(C)", "softmatch"),
    method("p_L(y)", "softmatch", align="prior"),
    method("p̂_L(y)", "softmatch", align="labels"),
)

FORTY = (C10_40.title, SVHN_40.title, SMALL_FASHION.title, SMALL_DIGITS.title)
EARLY = against_both("lower", "Early on, SoftMatch has a lower error than {}", "early error")


def _panels(long_tailed: list[Column], columns: list[Column], seeds: tuple[int, ...]) -> list[Sheet]:
    """Sheets of the figure of ablations."""
    return [
        sheet("Target of UA, long-tailed", LONG_TAILED_TARGETS, long_tailed, LAPTOP_SEEDS, "target"),
        sheet("Weighting function", FUNCTIONS, columns, seeds, "functions"),
        sheet("Estimation of the Gaussian", ESTIMATIONS, columns, seeds, "estimation"),
        sheet("Uniform alignment", ALIGNMENTS, columns, seeds, "alignment"),
    ]


FIGURES = (
    Experiment(
        name="fig-two-moons",
        where="Figure 1",
        title="Two moons: confidence, quantity and quality of pseudo-labels, decision boundary",
        sheets=sheets(THREE, [MOONS], [MOONS], LAPTOP_SEEDS),
        claims=(
            *LOWER_ERROR,
            *against_both("higher", "SoftMatch uses more unlabelled samples over training than {}", "mean quantity"),
            *against_both("higher", "SoftMatch's pseudo-labels are better over training than those of {}", "mean quality"),
        ),
        open=(
            "The paper does not give the details of this training: it is the same at both scales.",
            "The paper has one histogram with the lines of all methods, at a moment that it does not give, where FixMatch leaves"
            " out 71 % of the right pseudo-labels and 16 % of those that FlexMatch uses are wrong. Here each method has its own,"
            " at the record between a quarter and three quarters of the run at which the qualities of the methods differ most.",
        ),
    ),
    Experiment(
        name="fig-qualitative",
        where="Figure 2",
        title="Error, quantity and quality of pseudo-labels over training",
        sheets=sheets(THREE, [C10_250], [SMALL_C10_250, SMALL_FASHION, SMALL_DIGITS]),
        claims=(
            *against_both("higher", "SoftMatch's quantity f is higher over training than that of {}", "mean quantity"),
            *against_both("higher", "SoftMatch's quality g is higher over training than that of {}", "mean quality"),
            *against_both("higher", "The quality of SoftMatch's best class is higher than that of {}", "best class quality"),
            *against_both("higher", "The quality of SoftMatch's worst class is higher than that of {}", "worst class quality"),
            *EARLY,
            *LOWER_ERROR,
        ),
        differs=(FEW_STEPS, SHORT),
        open=(
            "The best and the worst class are chosen anew for every record and seed, by the quality of the pseudo-labels that "
            "name them.",
        ),
    ),
    Experiment(
        name="fig-ablation",
        where="Figure 3",
        title="Ablations of uniform alignment, weighting function and estimation",
        sheets={
            "paper": _panels(
                [paper_long_tailed("cifar10", gamma) for gamma in (50, 100, 150)], [C10_40, C10_250, SVHN_40], PAPER_SEEDS
            ),
            "laptop": _panels(
                [laptop_long_tailed("cifar10", 100), laptop_long_tailed("digits", 10)],
                [SMALL_FASHION, SMALL_DIGITS],
                LAPTOP_SEEDS,
            ),
        },
        published=paper_numbers.ABLATION,
        beside={**PLACES, "CIFAR-10-LT, γ = 100": "CIFAR-10-LT, γ = 100"},
        claims=(
            lower("u(C)", "p_L(y)", text="Long-tailed: the uniform target has a lower error than that of the labels"),
            lower("u(C)", "p̂_L(y)", text="Long-tailed: the uniform target has a lower error than the estimated one"),
            lower("Truncated Gaussian", "Linear", text="The truncated Gaussian has a lower error than the linear function"),
            lower("Truncated Gaussian", "Quadratic", text="The truncated Gaussian has a lower error than the quadratic one"),
            lower("All-class", "Fixed", text="An estimated Gaussian has a lower error than a fixed one"),
            lower("All-class", "Per-class", text="With 40 labels, one Gaussian is better than one a class", columns=FORTY),
            close("All-class", "Per-class", text="With 250 labels, the two are comparable", columns=[C10_250.title]),
            lower("All-class with UA", "All-class without UA", text="Uniform alignment lowers the error"),
            lower(
                "All-class with UA",
                "Per-class without UA",
                text="On SVHN, it has a lower error than per-class estimation without it",
                columns=[SVHN_40.title, SMALL_DIGITS.title],
            ),
        ),
        differs=(IN_PLACES, FEW_STEPS, SHORT, "The long-tailed panel has the settings of table-longtail."),
        open=(
            "The paper shows bars without numbers; those beside the weighting functions are of its Table 9, those of SoftMatch "
            "as it is of its Tables 2 and 4. Which γ the long-tailed bars are of is not said. Long-tailed, p̂_L(y) is the "
            "running frequency of the labels that were seen, as the paper says there; in ablate-target it is that of "
            "predictions. *Fixed* has the mean and variance that the paper gives, and the 2σ range of its other experiments.",
        ),
    ),
    Experiment(
        name="fig-functions",
        where="Figure 4",
        title="The weighting functions",
        sheets={"paper": [], "laptop": []},
        open=("Nothing is trained: the functions are drawn.",),
    ),
    Experiment(
        name="fig-confidence",
        where="Figure 5",
        title="Confidence of pseudo-labels and their weights, early in training",
        sheets=sheets(THREE, [C10_250], [SMALL_C10_250, SMALL_FASHION, SMALL_DIGITS], title="Confidence of pseudo-labels"),
        claims=(
            *against_both("higher", "Early on, SoftMatch's pseudo-labels are better than those of {}", "early quality"),
            EARLY[0],
        ),
        differs=("The paper shows the first six epochs; here it is the six sixths of a short run.", FEW_STEPS, SHORT),
        open=(
            "The paper does not say with how many labels, nor what an epoch is: 250, as in its other figure, and 1,024 steps. "
            "A panel has all pseudo-labels since the one before it, of all seeds.",
        ),
    ),
    Experiment(
        name="fig-ua",
        where="Figure 6",
        title="Average weight of each class before and after uniform alignment",
        sheets=sheets(THREE[2:], [C10_250], [SMALL_C10_250, SMALL_FASHION, SMALL_DIGITS], title="Weights of classes"),
        claims=(
            lower(
                "SoftMatch",
                "SoftMatch",
                measure="spread of weights",
                against="spread without alignment",
                text="Uniform alignment makes the average weights of the classes more alike",
            ),
        ),
        differs=("At the first of six records, after a sixth of a short run.", FEW_STEPS, SHORT),
        open=("The paper does not say with how many labels: 250, as in its other figure; nor at which step.",),
    ),
)
