"""A source and what the user says about it become a job: examples that were read, and all settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from softmatch.config import Config, merge, split_names
from softmatch.data.checks import ALL_LABELED
from softmatch.data.defaults import suitable
from softmatch.data.examples import UNLABELED, Examples
from softmatch.data.preparations.images import ImagePreparation
from softmatch.data.readers.open_source import NotThere
from softmatch.data.records import Columns, Finding, Progress
from softmatch.data.sources import SOURCES, Source, find_source
from softmatch.data.sources.open_texts import TextData, draw, read_texts
from softmatch.data.understanding import Reading, Understood, read_own, refuse_unused, understand
from softmatch.distributed.devices import choose_device
from softmatch.distributed.processes import world
from softmatch.errors import InputError, nearest
from softmatch.files.paths import expand_home
from softmatch.recipes import complete, require_versions
from softmatch.runs.folder import refuse_used

OWN_ONLY = ("label_column", "text_column", "feature_columns", "unlabeled", "test", "evaluation", "folds", "image_size")
"""Settings that are about a user's own files."""
ENCODED = ("encoder", "fine_tune", "augmented", "max_tokens")
"""Settings that are about these, or about the texts of a named source."""
DRAWN = ("train_per_class", "validation_per_class")
"""Settings that are about the texts of a named source."""
NO_COLUMNS = "none"
"""Instead of names of columns: do not use those that are there."""


@dataclass(frozen=True)
class Job:
    """Everything that a run needs.

    Attributes:
        source: a name, the absolute path of a user's files, or what else it was; config.yaml has it.
        findings: what was noticed about a user's own data.
    """

    source: str
    config: Config
    examples: Examples
    findings: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """A word for folders and headings: the source's name, or that of the file or folder."""
        if _is_named(self.source):
            return self.source
        return re.sub(r"[^\w.-]+", "-", Path(self.source).stem).strip("-.") or "own-data"


def open_again(source: Any, config: Config) -> Job:
    """Read the source of a run again, by its complete settings."""
    if _is_named(source) and not find_source(source).texts:
        return Job(source, config, find_source(source).load(split_seed(config), config.data))
    return replace(open_job(source, config.model_dump(exclude={"recipe", "out"})), config=config)


def open_job(
    source: Any,
    *given: Mapping[str, Any],
    where: str = "settings",
    progress: Progress | None = None,
    resuming: bool = False,
) -> Job:
    """Read the source and complete the settings.

    Args:
        given: what the user said, in a file and on the command line; the later wins.
        where: the file, for messages.
        resuming: the run folder that is asked for may hold an unfinished run.
    """
    named = find_source(source) if _is_named(source) else None
    if named is not None and not named.texts:
        config = complete(source, named.defaults, *given, where=where)
        _refuse_unfit(named, config)
        return Job(source, config, named.load(split_seed(config), config.data))
    title, known = ("your data", {}) if named is None else (named.name, named.defaults)
    user = merge(*given, where=where)
    paths = ("test", "encoder") if named is None else ("data", "encoder")
    user |= {key: _absolute(user[key]) for key in paths if user.get(key) is not None}
    asked = complete(title, known, user, where=where)  # a wrong value is told before anything is read
    _refuse_unfit(named, asked)
    if asked.out is not None and world().size == 1 and not (resuming and (asked.out / "config.yaml").is_file()):
        refuse_used(asked.out)
    device = choose_device(asked.device)
    if named is None:
        try:
            understood = read_own(_absolute(source), reading_of(asked), progress)
        except NotThere as error:
            raise InputError(f"{error} {nearest(error.where, SOURCES)}") from error
    else:
        understood = _understand_texts(named.name, asked, progress)
    labeled = asked.labels or asked.largest_class_labels or int((understood.examples.labels != UNLABELED).sum())
    defaults = suitable(understood.examples, labeled, device, encoder=asked.encoder if asked.fine_tune else None)
    config = complete(title, {**defaults, **known}, user, where=where)
    fixed: dict[str, Any] = {}
    if understood.examples.kind == "image" and isinstance(understood.examples.preparation, ImagePreparation):
        fixed["image_size"] = understood.examples.preparation.height  # another machine would choose another
    chosen = config.labels is not None or config.imbalance is not None
    findings = tuple(f for f in understood.findings if f.text != ALL_LABELED) if chosen else understood.findings
    return Job(understood.where, config.model_copy(update=fixed), understood.examples, findings)


def texts_of(source: str, config: Config) -> TextData:
    """The texts of a named source that a run with these settings trains on and measures its error on."""
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
    """Seed of what is drawn of the data."""
    return config.seed if config.split_seed is None else config.split_seed


def reading_of(config: Config) -> Reading:
    """What the settings say about a user's own files."""
    augmented = () if config.augmented == NO_COLUMNS else split_names(config.augmented)
    columns = Columns(config.label_column, config.text_column, split_names(config.feature_columns), config.unlabeled, augmented)
    return Reading(columns, config.test, config.image_size, config.encoder, config.fine_tune, config.device, config.max_tokens)


def _absolute(source: Any) -> Any:
    """The path of something that is there, from the root: a run must find its data again from another folder."""
    if isinstance(source, (str, Path)) and expand_home(source).exists():
        path = expand_home(source).resolve()
        return path if isinstance(source, Path) else str(path)
    return source


def _is_named(source: Any) -> bool:
    return isinstance(source, str) and source in SOURCES


def _refuse_unfit(named: Source | None, config: Config) -> None:
    """Raise InputError for a setting that is about another kind of source.

    Args:
        named: the source; None: a user's own.
    """
    texts = ", ".join(source.name for source in SOURCES.values() if source.texts)
    unfit = dict.fromkeys(DRAWN, f"the sources of texts ({texts})") if named is None or not named.texts else {}
    if named is None:
        unfit["data"] = "the sources that softmatch knows by name"
    if named is not None:
        unfit |= dict.fromkeys(OWN_ONLY, "data of your own")
        unfit |= dict.fromkeys(() if named.texts else ENCODED, "data of your own and for the sources of texts")
    this = "this is data of your own" if named is None else f"{named.name!r} is a source that softmatch knows"
    for key, what in unfit.items():
        if getattr(config, key) != Config.model_fields[key].default:
            raise InputError(f"--{key.replace('_', '-')} is for {what}; {this}.")
