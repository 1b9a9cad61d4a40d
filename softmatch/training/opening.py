"""From a source and its settings to a job: examples, complete settings, and the split."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from softmatch.config import Config, merge, split_names
from softmatch.data import Examples, Split, make_long_tailed_split, make_split
from softmatch.data.checks import ALL_LABELED
from softmatch.data.defaults import suitable
from softmatch.data.evaluation import FEWEST, Evaluation, hold_out, measurable, plan_evaluation, without
from softmatch.data.examples import UNLABELED
from softmatch.data.preparations.images import ImagePreparation
from softmatch.data.readers.open_source import NotThere
from softmatch.data.records import Columns, Finding, Progress
from softmatch.data.shards.shard_source import shards_in
from softmatch.data.sources import SOURCES, Source, find_source
from softmatch.data.sources.open_texts import TextData, draw, read_texts
from softmatch.data.understanding import Reading, Understood, read_own, refuse_unused, understand
from softmatch.distributed.devices import choose_device
from softmatch.distributed.processes import world
from softmatch.encoders.named import is_named
from softmatch.errors import InputError, nearest
from softmatch.files.paths import expand_home
from softmatch.recipes import complete, require_versions
from softmatch.runs.folder import refuse_used
from softmatch.views.own_views import OWN

OWN_ONLY = (
    *("label_column", "text_column", "feature_columns", "series_column", "time_column", "unlabeled", "labels_from", "prefer"),
    *("test", "evaluation", "folds", "arrays", "image_size"),
)
"""Settings for a user's own files."""
ENCODED = ("encoder", "tune", "augmented", "max_tokens")
"""Settings for a user's own files and for named sources of texts."""
DRAWN = ("train_per_class", "validation_per_class")
"""Settings for named sources of texts."""
NO_COLUMNS = "none"
"""Value for `augmented`: use no such columns."""


@dataclass(frozen=True)
class Job:
    """A source that was read, with complete settings.

    Attributes:
        source: a name, the absolute path of a user's files, or a word such as "arrays"; as in config.yaml.
        teacher: soft targets (N_U, C) and weights (N_U,) of the unlabelled samples of a split, where a model is distilled.
    """

    source: str
    config: Config
    examples: Examples
    findings: tuple[Finding, ...] = ()
    teacher: Callable[[Split], tuple[Tensor, Tensor]] | None = None

    @property
    def name(self) -> str:
        """Short name for folders and headings: the source's name, or that of the file or folder."""
        if _is_named(self.source):
            return self.source
        return re.sub(r"[^\w.-]+", "-", Path(self.source).stem).strip("-.") or "own-data"


def open_again(source: Any, config: Config) -> Job:
    """Read the source of a run again, with its complete settings."""
    if _is_named(source) and not find_source(source).texts:
        return Job(source, config, find_source(source).load(split_seed(config), config.data))
    return replace(open_job(source, config.model_dump(exclude={"recipe", "out"})), config=config)


def open_job(
    source: Any, *given: Mapping[str, Any], where: str = "settings", progress: Progress | None = None, resuming: bool = False
) -> Job:
    """Read the source and complete the settings.

    Args:
        given: settings of the user, from a file and the command line; later ones win.
        resuming: allow a run folder that contains an unfinished run.
    """
    named = find_source(source) if _is_named(source) else None
    if named is not None and not named.texts:
        config = complete(source, named.defaults, *given, where=where)
        _refuse_unfit(named, config)
        return Job(source, config, named.load(split_seed(config), config.data))
    title, known = ("your data", {}) if named is None else (named.name, named.defaults)
    user = merge(*given, where=where)
    paths = ("test", "encoder", "labels_from") if named is None else ("data", "encoder")
    user |= {key: absolute(user[key]) for key in paths if user.get(key) is not None and not is_named(str(user[key]))}
    asked = complete(title, known, user, where=where)  # reports a wrong value before anything is read
    _refuse_unfit(named, asked)
    if asked.out is not None and world().size == 1 and not (resuming and (asked.out / "config.yaml").is_file()):
        refuse_used(asked.out)
    if asked.prefer is not None and asked.labels_from is None:
        raise InputError("--prefer chooses between the labels of the data and of a file: give the file with --labels-from.")
    device = choose_device(asked.device)
    if named is None:
        try:
            understood = read_own(absolute(source), reading_of(asked), progress)
        except NotThere as error:
            raise InputError(f"{error} {nearest(error.where, SOURCES)}") from error
    else:
        understood = _understand_texts(named.name, asked, progress)
    labeled = asked.labels or asked.largest_class_labels or int((understood.examples.labels != UNLABELED).sum())
    defaults = suitable(understood.examples, labeled, device, asked.encoder, asked.tune)
    config = complete(title, {**defaults, **known}, user, where=where)
    fixed: dict[str, Any] = {}
    if understood.examples.kind == "image" and isinstance(understood.examples.preparation, ImagePreparation):
        fixed["image_size"] = understood.examples.preparation.height  # another machine could choose another size
    chosen = config.labels is not None or config.imbalance is not None
    findings = tuple(f for f in understood.findings if f.text != ALL_LABELED) if chosen else understood.findings
    return Job(understood.where, config.model_copy(update=fixed), understood.examples, findings)


def texts_of(source: str, config: Config) -> TextData:
    """Read the texts of a named source that a run with these settings uses."""
    validating = config.validation_per_class is not None
    data = read_texts(source, config.data, reading_of(config).columns.augmented, validating)
    return draw(data, config.train_per_class, config.validation_per_class, split_seed(config))


def _understand_texts(source: str, config: Config, progress: Progress | None) -> Understood:
    reading = reading_of(config)
    refuse_unused("text", reading)
    data = texts_of(source, config)
    require_versions(source, config, bool(data.train.augmented))
    found = understand(source, data.train, data.tests, reading, "text", progress, data.classes)
    return replace(found, findings=(*data.findings, *found.findings))


def split_seed(config: Config) -> int:
    """Seed of the split."""
    return config.seed if config.split_seed is None else config.split_seed


def reading_of(config: Config) -> Reading:
    """Settings for reading a user's own files."""
    augmented = () if config.augmented == NO_COLUMNS else split_names(config.augmented)
    columns = Columns(
        *(config.label_column, config.text_column, split_names(config.feature_columns), config.unlabeled, augmented),
        series=config.series_column,
        time=config.time_column,
        series_rows=config.arrays == "series",
    )
    encoder = config.encoder, config.tune, config.device, config.max_tokens
    if OWN in config.views and config.arrays is not None:
        raise InputError(f"--arrays {config.arrays} is for built-in views, and --views names your own. Leave out one of them.")
    arrays = "any" if OWN in config.views else config.arrays
    half = config.precision != "float32"
    return Reading(columns, config.test, config.image_size, *encoder, config.labels_from, config.prefer, arrays, half)


def absolute(source: Any) -> Any:
    """Make an existing path absolute, so that a run finds its data from another folder."""
    if (pattern := shards_in(source)) is not None:
        return pattern
    if isinstance(source, (str, Path)) and expand_home(source).exists():
        path = expand_home(source).resolve()
        return path if isinstance(source, Path) else str(path)
    return source


def _is_named(source: Any) -> bool:
    return isinstance(source, str) and source in SOURCES


def _refuse_unfit(named: Source | None, config: Config) -> None:
    """Raise InputError for a setting for another kind of source; `named` is None for a user's own."""
    texts = ", ".join(source.name for source in SOURCES.values() if source.texts)
    unfit = dict.fromkeys(DRAWN, f"named sources of texts ({texts})") if named is None or not named.texts else {}
    if named is None:
        unfit["data"] = "named sources"
    if named is not None:
        unfit |= dict.fromkeys(OWN_ONLY, "data of your own")
        unfit |= dict.fromkeys(() if named.texts else ENCODED, "data of your own and for named sources of texts")
    this = "this is data of your own" if named is None else f"{named.name!r} is a named source"
    for key, what in unfit.items():
        if getattr(config, key) != Config.model_fields[key].default:
            raise InputError(f"--{key.replace('_', '-')} is for {what}; {this}.")


def choose_evaluation(job: Job) -> Evaluation:
    """Choose the samples for training and for measuring the error.

    All labels of a user's own data are used, unless their number is given; of other sources a sample is used.
    """
    config, examples, groups = job.config, job.examples, job.examples.groups
    seed = split_seed(config)
    drawn = examples.test is None or config.validation_per_class is not None  # from the training set
    kind: Literal["holdout", "test"] = "holdout" if drawn else "test"
    if groups is None or config.imbalance is not None:
        return Evaluation(kind, _split(job.source, config, examples, seed))
    if config.labels is None:
        return plan_evaluation(examples, groups, seed, config.evaluation, config.folds, config.test_fraction)
    if config.evaluation not in ("auto", "holdout"):
        raise InputError("--labels hides the other labels and measures the error on some of them. Leave out --evaluation.")
    parts, fair, measured_on = None, *measurable(examples)
    if examples.test is None:
        share = max(config.test_fraction, min(0.5, FEWEST / int(fair.sum())))  # the hidden labels cost nothing
        rest = Split(torch.arange(0), torch.arange(len(examples)), torch.arange(0), seed)
        held_out = without(rest, groups, hold_out(examples.labels, groups, share, seed, fair))
        parts = held_out.test, held_out.unlabeled
    split = make_split(examples, config.labels, seed, config.test_fraction, parts)
    return Evaluation(kind, split, measured_on="all" if parts is None else measured_on)


def _split(source: str, config: Config, examples: Examples, seed: int) -> Split:
    if config.imbalance is None:
        return make_split(examples, config.labels or len(examples.classes) * 4, seed, config.test_fraction)
    if config.largest_class_labels is None or config.largest_class_unlabeled is None:
        raise InputError(f"a long-tailed split of {source!r} needs --largest-class-labels and --largest-class-unlabeled.")
    return make_long_tailed_split(
        examples,
        head_labeled=config.largest_class_labels,
        head_unlabeled=config.largest_class_unlabeled,
        gamma=config.imbalance,
        gamma_unlabeled=config.unlabeled_imbalance,
        seed=seed,
        test_fraction=config.test_fraction,
    )
