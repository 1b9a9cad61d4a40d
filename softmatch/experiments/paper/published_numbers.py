"""The paper's own numbers: top-1 error in per cent, mean ± standard deviation over its seeds, by row and column.

From the tables of Chen et al., SoftMatch, ICLR 2023. A star marks numbers that the paper took from others.
"""

from collections.abc import Mapping, Sequence

Published = Mapping[tuple[str, str], str]
"""Numbers by the name of a row and the title of a column."""


def _table(columns: Sequence[str], rows: Mapping[str, str]) -> Published:
    """Cells from lines of text, separated by commas; a dash means none."""
    found: dict[tuple[str, str], str] = {}
    for row, line in rows.items():
        cells = [cell.strip().replace("+-", " ± ") for cell in line.split(",")]
        found |= {(row, column): cell for column, cell in zip(columns, cells, strict=True) if cell != "-"}
    return found


MAIN = _table(
    [
        *("CIFAR-10, 40", "CIFAR-10, 250", "CIFAR-10, 4,000", "CIFAR-100, 400", "CIFAR-100, 2,500", "CIFAR-100, 10,000"),
        *("SVHN, 40", "SVHN, 1,000", "STL-10, 40", "STL-10, 1,000"),
    ],
    {
        "PseudoLabel": "74.61+-0.26, 46.49+-2.20, 15.08+-0.19, 87.45+-0.85, 57.74+-0.28, 36.55+-0.24, "
        "64.61+-5.60, 9.40+-0.32, 74.68+-0.99, 32.64+-0.71",
        "MeanTeacher": "70.09+-1.60, 37.46+-3.30, 8.10+-0.21, 81.11+-1.44, 45.17+-1.06, 31.75+-0.23, "
        "36.09+-3.98, 3.27+-0.05, 71.72+-1.45, 33.90+-1.37",
        "MixMatch": "36.19+-6.48, 13.63+-0.59, 6.66+-0.26, 67.59+-0.66, 39.76+-0.48, 27.78+-0.29, "
        "30.60+-8.39, 3.69+-0.37, 54.93+-0.96, 21.70+-0.68",
        "ReMixMatch": "9.88+-1.03, 6.30+-0.05, 4.84+-0.01, 42.75+-1.05, 26.03+-0.35, 20.02+-0.27, "
        "24.04+-9.13, 5.16+-0.31, 32.12+-6.24, 6.74+-0.14",
        "UDA": "10.62+-3.75, 5.16+-0.06, 4.29+-0.07, 46.39+-1.59, 27.73+-0.21, 22.49+-0.23, "
        "5.12+-4.27, 1.89+-0.01, 37.42+-8.44, 6.64+-0.17",
        "FixMatch": "7.47+-0.28, 4.86+-0.05, 4.21+-0.08, 46.42+-0.82, 28.03+-0.16, 22.20+-0.12, "
        "3.81+-1.18, 1.96+-0.03, 35.97+-4.14, 6.25+-0.33",
        "Influence": "-, 5.05+-0.12*, 4.35+-0.06*, -, -, -, 2.63+-0.23*, 2.34+-0.15*, -, -",
        "FlexMatch": "4.97+-0.06, 4.98+-0.09, 4.19+-0.01, 39.94+-1.62, 26.49+-0.20, 21.90+-0.15, "
        "8.19+-3.20, 6.72+-0.30, 29.15+-4.16, 5.77+-0.18",
        "SoftMatch": "4.91+-0.12, 4.82+-0.09, 4.04+-0.02, 37.10+-0.77, 26.66+-0.25, 22.03+-0.03, "
        "2.33+-0.25, 2.01+-0.01, 21.42+-3.48, 5.73+-0.24",
    },
)
IMAGENET = _table(
    ["ImageNet, 100,000", "ImageNet, 400,000"],
    {"FixMatch": "43.66, 32.28", "FlexMatch": "41.85, 31.31", "SoftMatch": "40.52, 29.49"},
)
LONG_TAILED = _table(
    [*(f"CIFAR-10-LT, γ = {gamma}" for gamma in (50, 100, 150)), *(f"CIFAR-100-LT, γ = {gamma}" for gamma in (20, 50, 100))],
    {
        "FixMatch": "18.46+-0.30, 25.11+-1.20, 29.62+-0.88, 50.42+-0.78, 57.89+-0.33, 62.40+-0.48",
        "FlexMatch": "18.13+-0.19, 25.51+-0.92, 29.80+-0.36, 49.11+-0.60, 57.20+-0.39, 62.70+-0.47",
        "SoftMatch": "16.55+-0.29, 22.93+-0.37, 27.40+-0.46, 48.09+-0.55, 56.24+-0.51, 61.08+-0.81",
    },
)
TEXT = _table(
    ["AG News, 40", "AG News, 200", "DBpedia, 70", "DBpedia, 280", "IMDb, 100", "Amazon-5, 1,000", "Yelp-5, 1,000"],
    {
        "UDA": "16.83+-1.68, 14.34+-1.9, 4.11+-1.44, 6.93+-3.85, 18.33+-0.61, 50.29+-4.6, 47.49+-6.83",
        "FixMatch": "17.10+-3.13, 11.24+-1.43, 2.18+-0.92, 1.42+-0.18, 7.59+-0.28, 42.70+-0.53, 39.56+-0.7",
        "FlexMatch": "15.49+-1.97, 10.95+-0.56, 2.69+-0.34, 1.69+-0.02, 7.80+-0.23, 42.34+-0.62, 39.01+-0.17",
        "SoftMatch": "12.68+-0.23, 10.41+-0.13, 1.68+-0.34, 1.27+-0.1, 7.48+-0.12, 42.14+-0.92, 39.31+-0.45",
    },
)
FUNCTIONS = _table(
    ["CIFAR-10, 40", "CIFAR-10, 250", "SVHN, 40"],
    {
        "Linear": "11.38+-3.92, 5.41+-0.19, 15.27+-28.92",
        "Quadratic": "12.44+-5.67, 5.94+-0.22, 84.11+-1.84",
        "Laplacian": "13.29+-3.33, 5.24+-0.16, 12.77+-10.33",
        "Gaussian": "7.73+-1.44, 4.98+-0.02, 12.95+-8.79",
        "Truncated Laplacian": "5.30+-0.09, 5.14+-0.20, 3.12+-0.30",
        "Truncated Gaussian": "4.91+-0.12, 4.82+-0.09, 2.33+-0.25",
    },
)
MOMENTUM = _table(["CIFAR-10, 250"], {"m = 0.99": "4.92+-0.11", "m = 0.999": "4.82+-0.09", "m = 0.9999": "4.86+-0.12"})
RANGE = _table(["CIFAR-10, 250"], {"σ": "4.97+-0.13", "2σ": "4.82+-0.09", "3σ": "4.84+-0.15"})
TARGET = _table(["CIFAR-10, 250"], {"p_L(y)": "4.83+-0.12", "p̂_L(y)": "4.90+-0.23", "u(C)": "4.82+-0.09"})
ABLATION: Published = {
    **FUNCTIONS,
    **{(row, column): MAIN["SoftMatch", column] for row in ("All-class", "All-class with UA") for _, column in FUNCTIONS},
    **{("u(C)", column): cell for (row, column), cell in LONG_TAILED.items() if row == "SoftMatch" and "CIFAR-10-" in column},
}
"""Bars of figure 3 whose numbers are in a table too."""
