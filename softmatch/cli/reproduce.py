"""The command reproduce. It imports torch, through other modules, when it runs: help must not wait for it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from softmatch.cli.options import (
    ALOUD,
    ARGUMENTS,
    OPTIONS,
    OUTPUT,
    WHERE,
    Flag,
    Talk,
    placed_model,
)
from softmatch.experiments.executors import Where
from softmatch.experiments.paper.experiment import Scale

if TYPE_CHECKING:
    Place = Where
else:
    Place = placed_model(Where, WHERE, processes="--parallel-runs")


def reproduce(
    name: Annotated[str | None, Parameter(group=ARGUMENTS)] = None,
    /,
    *,
    scale: Annotated[Scale, Parameter(group=OPTIONS)] = "laptop",
    data: Annotated[dict[str, Path] | None, Parameter(group=OPTIONS)] = None,
    encoder: Annotated[Path | None, Parameter(group=OPTIONS, show_default="from the Hugging Face hub")] = None,
    seeds: Annotated[int | None, Parameter(group=OPTIONS, show_default="by the scale")] = None,
    out: Annotated[Path, Parameter(group=OUTPUT)] = Path("reproduced"),
    publish: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    dry_run: Annotated[bool, Flag] = False,
    talk: Annotated[Talk, Parameter(name="*")] = ALOUD,
    where: Annotated[Place | None, Parameter(name="*")] = None,
) -> None:
    """Reproduce a table or figure of the paper; without a name, list them with the time they take.

    At laptop scale, an experiment is small enough for two cores: small networks, 300 to 1,000 steps and five seeds, on the
    built-in digits and two moons, and on CIFAR-10, Fashion-MNIST and AG News where their files are given (--data.cifar10 PATH) or
    can be downloaded. A column without data is left out and reported. At paper scale, every setting is the paper's, and a run
    takes a GPU for days (see `softmatch plan`). The paper's numbers are printed beside the measured ones, and its claims tested.

    Runs are kept in reproduced/runs, shared by all tables and figures, and never repeated; the same command resumes after an
    interruption. Results are in reproduced/NAME-SCALE: a document, tables as Markdown, LaTeX and CSV, figures as PNG and PDF
    (extra plots), and a page with all curves.

    For example:

    - softmatch reproduce
    - softmatch reproduce fig-two-moons
    - softmatch reproduce table-main --data.cifar10 cifar10.npz --data.fashion-mnist fashion_mnist.npz
    - softmatch reproduce table-text --data.agnews agnews/ --encoder all-MiniLM-L6-v2/
    - softmatch reproduce all --parallel-runs 2 --publish docs/results
    - softmatch reproduce table-longtail --scale paper --data.cifar10 cifar-10-python.tar.gz --on slurm --slurm.gpus 1

    Parameters
    ----------
    name:
        Name of the table or figure, or all.
    scale:
        Size of the experiments. laptop: minutes to an hour on two cores. paper: the paper's own settings.
    data:
        Files of a dataset, as --data of `softmatch train`: --data.cifar10 PATH, --data.agnews FOLDER.
    encoder:
        Folder of the text encoder: all-MiniLM-L6-v2 at laptop scale, BERT-Base at paper scale.
    seeds:
        Number of seeds.
    out:
        Folder of runs and results.
    publish:
        Folder to copy documents, pictures and the figures of every run to, under the name of the scale. With all, an overview of
        the claims is added.
    dry_run:
        Print what would be run and how long it takes. Nothing is written.
    """
    from softmatch.cli.reproducing import run_reproduce

    run_reproduce(name, scale, data or {}, encoder, seeds, out, publish, dry_run, talk, where or Where())
