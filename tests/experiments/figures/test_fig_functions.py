import math
from pathlib import Path

import numpy as np

from softmatch.experiments.figures import draw
from softmatch.experiments.figures.fig_functions import MEAN, STD, figure
from softmatch.experiments.figures.style import FIXMATCH, SOFTMATCH
from softmatch.experiments.store import Store
from tests.experiments.figures.stored import legend


def test_functions_are_those_of_the_papers_table() -> None:
    found = {line.get_label().split(" (")[0]: line for line in figure().axes[0].get_lines()}
    scale, below = STD / math.sqrt(2), lambda x: np.minimum(x - MEAN, 0)
    expected = {
        "Linear": lambda x: x,
        "Quadratic": lambda x: 1 - (x - 1) ** 2,
        "Laplacian": lambda x: np.exp(-np.abs(x - 1) / 0.3),
        "Gaussian": lambda x: np.exp(-((x - 1) ** 2) / (2 * 0.3**2)),
        "Truncated Laplacian": lambda x: np.exp(2 * below(x) / scale),
        "Truncated Gaussian": lambda x: np.exp(-4 * below(x) ** 2 / (2 * STD**2)),
        "Threshold": lambda x: (x >= 0.95).astype(float),
    }
    assert list(found) == list(expected)
    for name, function in expected.items():
        x, weight = found[name].get_data()
        assert (round(x[0], 6), x[-1]) == (0.1, 1.0)
        at = np.abs(x - 0.95) > 1e-6  # where rounding decides
        np.testing.assert_allclose(weight[at], function(x)[at], rtol=1e-4, atol=1e-6, err_msg=name)


def test_lines_are_drawn_and_legends_name_parameters(tmp_path: Path) -> None:
    made = figure()
    (axes,) = made.axes
    assert [line.get_color() for line in axes.get_lines()][-2:] == [SOFTMATCH, FIXMATCH]
    assert legend(made)[3:6] == [
        "Gaussian (μ = 1, σ = 0.3)",
        "Truncated Laplacian (μ = 0.8, b = 0.14, 2 times narrower)",
        "Truncated Gaussian (μ = 0.8, σ = 0.2, 2 times narrower)",
    ]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("confidence max p (%)", "weight λ(p)")
    assert [path.name for path in draw("fig-functions", [], Store(tmp_path), tmp_path)] == [
        "fig-functions.png",
        "fig-functions.pdf",
    ]
