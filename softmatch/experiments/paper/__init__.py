"""Every table and figure of the paper with its experiments, as data: rows and columns that say what differs from the defaults.

    softmatch reproduce table-main --scale laptop

A scale has its own columns; the rows are the same. Where a laptop's column takes the place of one of the paper's, `beside` says
which: the paper's number is shown beside the measured one.
"""

from __future__ import annotations

from collections.abc import Mapping

from softmatch.experiments.paper.experiment import Experiment
from softmatch.experiments.paper.paper_figures import FIGURES
from softmatch.experiments.paper.paper_tables import TABLES

__all__ = ["EXPERIMENTS", "Experiment"]

EXPERIMENTS: Mapping[str, Experiment] = {experiment.name: experiment for experiment in (*TABLES, *FIGURES)}
