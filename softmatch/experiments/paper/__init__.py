"""All tables and figures of the paper as data: rows and columns with the settings that differ from the defaults."""

from collections.abc import Mapping

from softmatch.experiments.paper.experiment import Experiment
from softmatch.experiments.paper.paper_figures import FIGURES
from softmatch.experiments.paper.paper_tables import TABLES

__all__ = ["EXPERIMENTS", "Experiment"]

EXPERIMENTS: Mapping[str, Experiment] = {experiment.name: experiment for experiment in (*TABLES, *FIGURES)}
