"""The paper's experiments: their names, that every run can be made, and that the paper's settings and numbers are its own."""

import re
from pathlib import Path

import pytest

from softmatch.config import Config
from softmatch.data.sources import SOURCES
from softmatch.experiments.paper import EXPERIMENTS, Experiment
from softmatch.experiments.paper import published_numbers as published
from softmatch.experiments.paper.experiment import FEW_STEPS, Scale
from softmatch.experiments.sheet import Run
from softmatch.formatting import escape_markdown
from softmatch.methods import Match, Problem, build
from softmatch.recipes import complete
from softmatch.weightings import TruncatedLaplacian

NAMES = [
    *("table-main", "table-imagenet", "table-longtail", "table-text", "table-functions"),
    *("ablate-momentum", "ablate-range", "ablate-target"),
    *("fig-two-moons", "fig-qualitative", "fig-ablation", "fig-functions", "fig-confidence", "fig-ua"),
]
SCALES: list[Scale] = ["laptop", "paper"]


def effective(run: Run) -> Config:
    return complete(run.source, SOURCES[run.source].defaults, run.settings)


def runs_of(experiment: Experiment, scale: Scale) -> list[Run]:
    return [run for sheet in experiment.sheets[scale] for run in sheet.runs()]


def test_every_table_and_figure_is_there() -> None:
    assert list(EXPERIMENTS) == NAMES


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", NAMES)
def test_every_run_can_be_made(name: str, scale: Scale) -> None:
    seen = set()
    for run in runs_of(EXPERIMENTS[name], scale):
        if run.seed == 0 and run.key not in seen:
            seen.add(run.key)
            config = effective(run)
            problem = Problem(
                10, num_unlabeled=50, num_labeled=10, class_counts=(1,) * 10, class_prior=(0.1,) * 10, shape=(3, 32, 32)
            )
            build(config.method, problem, config.method_options)  # refuses unknown methods and options
            assert config.baseline is False


@pytest.mark.parametrize("name", NAMES)
def test_at_a_laptops_scale_there_are_five_seeds_and_a_column_that_needs_no_files(name: str) -> None:
    for sheet in EXPERIMENTS[name].sheets["laptop"]:
        assert len(sheet.seeds) == 5
        assert name == "table-text" or any(column.source in ("digits", "two-moons") for column in sheet.columns)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_and_claims_are_about_cells_that_exist(name: str) -> None:
    experiment = EXPERIMENTS[name]
    for scale in SCALES:
        rows = {row.name for sheet in experiment.sheets[scale] for row in sheet.rows}
        columns = {column.title for sheet in experiment.sheets[scale] for column in sheet.columns}
        for row, column in experiment.published_at(scale):
            assert row in rows
            assert column in columns
    rows = {row.name for scale in SCALES for sheet in experiment.sheets[scale] for row in sheet.rows}
    assert {name for claim in experiment.claims for name in (claim.row, claim.other)} <= rows
    assert set(experiment.beside) <= {column.title for sheet in experiment.sheets["laptop"] for column in sheet.columns}


def test_every_number_of_the_paper_is_an_error_with_its_spread() -> None:
    tables = (published.MAIN, published.LONG_TAILED, published.TEXT, published.FUNCTIONS, published.MOMENTUM, published.RANGE)
    for cell in [cell for table in (*tables, published.TARGET) for cell in table.values()]:
        assert re.fullmatch(r"\d{1,2}\.\d\d ± \d{1,2}\.\d\d?\*?", cell), cell
    assert [len(table) for table in tables] == [10 * 9 - 6, 18, 28, 18, 3, 3]
    assert published.MAIN["SoftMatch", "STL-10, 40"] == "21.42 ± 3.48"
    assert published.MAIN["Influence", "SVHN, 40"] == "2.63 ± 0.23*"
    assert ("Influence", "CIFAR-10, 40") not in published.MAIN
    assert published.IMAGENET["SoftMatch", "ImageNet, 400,000"] == "29.49"
    assert published.TEXT["FlexMatch", "Yelp-5, 1,000"] == "39.01 ± 0.17"
    assert published.FUNCTIONS["Quadratic", "SVHN, 40"] == "84.11 ± 1.84"
    assert published.LONG_TAILED["SoftMatch", "CIFAR-100-LT, γ = 100"] == "61.08 ± 0.81"


def test_the_papers_scale_is_its_exact_setting() -> None:
    main = {
        (run.method, run.source, run.settings["labels"]): effective(run) for run in runs_of(EXPERIMENTS["table-main"], "paper")
    }
    soft = main["softmatch", "cifar10", 40]
    assert (soft.steps, soft.network, soft.labeled_batch, soft.unlabeled_batch, soft.lr) == (2**20, "wrn-28-2", 64, 448, 0.03)
    assert (soft.statistics_momentum, soft.model_momentum, soft.weight_decay) == (0.999, 0.999, 5e-4)
    assert (main["softmatch", "cifar100", 400].network, main["softmatch", "stl10", 40].network) == ("wrn-28-8", "wrn-37-2")
    assert main["mean_teacher", "svhn", 40].unlabeled_batch == 64
    assert len(EXPERIMENTS["table-main"].sheets["paper"][0].seeds) == 3
    tails = [effective(run) for run in runs_of(EXPERIMENTS["table-longtail"], "paper")]
    assert {config.imbalance for config in tails} == {20, 50, 100, 150}
    assert all((config.optimizer, config.lr, config.unlabeled_batch) == ("adam", 0.002, 128) for config in tails)
    text = effective(runs_of(EXPERIMENTS["table-text"], "paper")[0])
    assert (text.steps, text.encoder, text.tune) == (2**18, "google-bert/bert-base-uncased", "all")
    momenta = {effective(run).statistics_momentum for run in runs_of(EXPERIMENTS["ablate-momentum"], "paper")}
    assert momenta == {0.99, 0.999, 0.9999}


def test_experiments_share_their_runs() -> None:
    main = {run.key for run in runs_of(EXPERIMENTS["table-main"], "laptop")}
    for name in ("fig-qualitative", "fig-confidence", "fig-ua"):
        assert {run.key for run in runs_of(EXPERIMENTS[name], "laptop")} <= main
    every = [run.key for name in NAMES for run in runs_of(EXPERIMENTS[name], "laptop")]
    assert (len(every), len(set(every))) == (740, 505)


def test_what_is_said_about_the_laptops_settings_is_so() -> None:
    """Of every run whose table says it."""
    for experiment in EXPERIMENTS.values():
        for run in runs_of(experiment, "laptop") if FEW_STEPS in experiment.differs else []:
            config = effective(run)
            shape = (config.network, config.steps, config.labeled_batch, config.unlabeled_batch, config.batch_statistics)
            if run.source == "digits":
                assert shape == ("small-conv-16", 300, 40, 96, "joint")
            else:
                steps = 960 if run.source == "cifar10" and config.imbalance is None else 600
                assert shape[:3] + shape[4:] == ("small-conv-8", steps, 16, "separate")
                assert config.unlabeled_batch == (48 if config.imbalance is None else 32)
    for number in ("960 and 600 steps of 16 + 48 images, separate", "300 steps of 40 + 96 images, joint"):
        assert number in FEW_STEPS


def test_a_claim_is_about_the_columns_that_the_paper_means() -> None:
    claims = {claim.text: claim for claim in EXPERIMENTS["table-main"].claims}
    flex = claims["SoftMatch has a lower error than FlexMatch"]
    assert flex.is_about("CIFAR-100, 400")
    assert not flex.is_about("CIFAR-100, 2,500")
    titles = {
        column.title for each in EXPERIMENTS.values() for s in SCALES for sheet in each.sheets[s] for column in sheet.columns
    }
    for experiment in EXPERIMENTS.values():
        for claim in experiment.claims:
            assert {*claim.columns, *claim.but} <= titles


def test_what_is_said_about_the_truncated_laplacian_is_so() -> None:
    run = next(r for r in runs_of(EXPERIMENTS["table-functions"], "laptop") if "TruncatedLaplacian" in r.method)
    method = build(run.method, Problem(10), {})
    assert isinstance(method, Match)
    assert isinstance(method.weighting, TruncatedLaplacian)
    assert (method.weighting.fit, method.weighting.k) == ("mad", 2.0)
    (sentence,) = EXPERIMENTS["table-functions"].open
    assert "mean absolute deviation of the confidence, halved" in sentence


def test_numbers_of_tables_stand_beside_the_bars_of_figure_3() -> None:
    beside = EXPERIMENTS["fig-ablation"].published_at("laptop")
    assert beside["Truncated Gaussian", "Digits, 40"] == beside["All-class with UA", "Digits, 40"] == "2.33 ± 0.25"
    assert beside["u(C)", "CIFAR-10-LT, γ = 100"] == "22.93 ± 0.37"
    assert ("u(C)", "Digits, 40") not in beside


@pytest.mark.parametrize("name", NAMES)
def test_results_are_published_as_the_experiment_is_now(name: str) -> None:
    """Whoever changes an experiment runs and publishes it again."""
    experiment, folder = EXPERIMENTS[name], Path(__file__).parents[3] / "docs" / "results" / "laptop"
    text = (folder / f"{name}.md").read_text()
    assert text.startswith(f"# {experiment.where}: ")
    for sheet in experiment.sheets["laptop"]:
        assert f"All {len(sheet.runs())} runs are finished." in text
        for column in sheet.columns:
            assert column.title in text
    for sentence in (*experiment.differs, *experiment.open):
        assert escape_markdown(sentence) in text
    for picture in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    assert f"[{name}]({name}.md)" in (folder / "README.md").read_text()
    assert f"(laptop/{name}.md)" in (folder.parent / "README.md").read_text()
