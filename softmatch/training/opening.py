"""A source and what the user says about it become a job: examples that were read, and all settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmatch.config import Config, merge, split_names
from softmatch.data.examples import UNLABELED, Examples
from softmatch.data.places import expand_home
from softmatch.data.preparations.images import ImagePreparation
from softmatch.data.records import Columns, Finding
from softmatch.data.sources import SOURCES, find_source
from softmatch.errors import InputError
from softmatch.processes import world
from softmatch.recipes import complete
from softmatch.runs import refuse_used
from softmatch.training.devices import choose_device

if TYPE_CHECKING:
    from softmatch.data.own.reading import Progress, Reading

OWN_ONLY = ("label", "text", "features", "unlabeled", "test", "evaluation", "folds", "image_size", "encoder", "fine_tune")
"""Settings that are about a user's own files."""


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
        if self.source in SOURCES:
            return self.source
        return re.sub(r"[^\w.-]+", "-", Path(self.source).stem).strip("-.") or "own-data"


def open_again(source: Any, config: Config) -> Job:
    """Read the source of a run again, by its complete settings."""
    if isinstance(source, str) and source in SOURCES:
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
    if isinstance(source, str) and source in SOURCES:
        entry = find_source(source)
        config = complete(source, entry.defaults, *given, where=where)
        _refuse_own_settings(source, config)
        return Job(source, config, entry.load(split_seed(config), config.data))
    from softmatch.data.own.checking import ALL_LABELED
    from softmatch.data.own.defaults import suitable
    from softmatch.data.own.reading import read_own

    user = merge(*given, where=where)
    user |= {key: _absolute(user[key]) for key in ("test", "encoder") if user.get(key) is not None}
    asked = complete("your data", {}, user, where=where)  # a wrong value is told before anything is read
    if asked.out is not None and world().size == 1 and not (resuming and (asked.out / "config.yaml").is_file()):
        refuse_used(asked.out)
    device = choose_device(asked.device)
    understood = read_own(_absolute(source), reading_of(asked), progress)
    labeled = asked.labels or int((understood.examples.labels != UNLABELED).sum())
    defaults = suitable(understood.examples, labeled, device, encoder=asked.encoder if asked.fine_tune else None)
    config = complete("your data", defaults, user, where=where)
    fixed: dict[str, Any] = {}
    if understood.examples.kind == "image" and isinstance(understood.examples.preparation, ImagePreparation):
        fixed["image_size"] = understood.examples.preparation.height  # another machine would choose another
    findings = understood.findings if config.labels is None else tuple(f for f in understood.findings if f.text != ALL_LABELED)
    return Job(understood.where, config.model_copy(update=fixed), understood.examples, findings)


def split_seed(config: Config) -> int:
    """Seed of what is drawn of the data."""
    return config.seed if config.split_seed is None else config.split_seed


def reading_of(config: Config) -> Reading:
    """What the settings say about a user's own files."""
    from softmatch.data.own.reading import Reading

    columns = Columns(config.label, config.text, split_names(config.features), config.unlabeled)
    return Reading(columns, config.test, config.image_size, config.encoder, config.fine_tune, config.device)


def _absolute(source: Any) -> Any:
    """The path of something that is there, from the root: a run must find its data again from another folder."""
    if isinstance(source, (str, Path)) and expand_home(source).exists():
        path = expand_home(source).resolve()
        return path if isinstance(source, Path) else str(path)
    return source


def _refuse_own_settings(source: str, config: Config) -> None:
    for key in OWN_ONLY:
        if getattr(config, key) != Config.model_fields[key].default:
            raise InputError(f"--{key.replace('_', '-')} is for data of your own; {source!r} is a source that softmatch knows.")
