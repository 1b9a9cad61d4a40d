"""Tasks prepared from a source, or from examples, with complete settings."""

from __future__ import annotations

from softmatch.config import Config
from softmatch.data import Examples
from softmatch.networks import Network
from softmatch.training.opening import Job, open_again
from softmatch.training.setup import prepare_job
from softmatch.training.task import Task


def prepare(source: str, config: Config, network: Network | None = None) -> Task:
    """Read a source with complete settings, as of a run folder."""
    return prepare_job(open_again(source, config), network)


def prepare_examples(source: str, config: Config, examples: Examples, network: Network | None = None) -> Task:
    """Prepare examples that have been read; `source` names them."""
    return prepare_job(Job(source, config, examples), network)
