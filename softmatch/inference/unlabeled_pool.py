"""The unlabelled pool of a run: its data read again, and the predictions of its model."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softmatch.config import Config, make_config, read_file
from softmatch.data import Examples, Split
from softmatch.data.evaluation import Evaluation
from softmatch.data.examples import UNLABELED
from softmatch.data.fingerprint import fingerprint
from softmatch.data.pictures import ImageFiles
from softmatch.data.preparations import Preparation
from softmatch.data.preparations.encoder_features import EncoderPreparation
from softmatch.data.readers.open_source import HUB_ID, open_source
from softmatch.data.records import Columns, Inputs, Records, select_inputs
from softmatch.data.shards.remote import is_remote
from softmatch.data.shards.shard_source import refuse_shards, shards_in
from softmatch.data.sources import SOURCES
from softmatch.errors import InputError
from softmatch.files.paths import expand_home
from softmatch.formatting import quoted
from softmatch.inference.predict import WHAT, Progress, columns_for, use_device, use_encoder
from softmatch.networks import Network
from softmatch.networks.prediction import predict_probabilities
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import Model, load_model
from softmatch.training.opening import NO_COLUMNS, open_job, reading_of, texts_of
from softmatch.training.setup import POOL_PART, make_task
from softmatch.training.task import Task
from softmatch.views.own_views import OwnCode

ROWS = 4096
READING = (
    *("data", "seed", "split_seed", "unlabeled", "arrays", "image_size", "encoder", "tune", "device"),
    *("label_column", "text_column", "feature_columns", "series_column", "time_column", "max_tokens"),
    *("train_per_class", "validation_per_class", "labels_from", "prefer", "views"),
)
"""Settings for reading the data; no other setting of a run folder is used here."""


@dataclass(frozen=True)
class Pool:
    """The unlabelled pool of a run; the labelled samples are part of it, as in training."""

    model: Model
    task: Task
    source: Any

    @property
    def examples(self) -> Examples:
        """All samples of the source."""
        return self.task.examples

    @property
    def positions(self) -> Tensor:
        """Positions of the pool's samples among all examples, (N_U,)."""
        return self.task.split.unlabeled

    @property
    def given(self) -> list[str | None]:
        """Label of each sample of the pool in training; None for unlabelled ones."""
        labeled = self.task.split.labeled
        known: dict[int, int] = dict(zip(labeled.tolist(), self.examples.labels[labeled].tolist(), strict=True))
        return [self.model.classes[known[k]] if k in known else None for k in self.positions.tolist()]

    def names(self, positions: Tensor) -> list[str]:
        """Names of examples: files or rows of a user's own data, else positions from 0."""
        return [self.examples.names[k] if self.examples.names else str(k) for k in positions.tolist()]

    def probabilities(self, progress: Progress | None = None) -> Tensor:
        """Predict p(y | x) of the whole pool (N_U, C), before temperature scaling."""
        found, done = [], 0
        for part in torch.split(self.positions, POOL_PART):
            items = self.examples.items[part]
            found.append(predict_probabilities(self.model.network, self.model.views, items, self.task.device))
            done += len(part)
            if progress is not None:
                progress(done)
        return torch.cat(found)

    def inputs(self, most: int) -> Inputs | Tensor | ImageFiles:
        """Return samples as the source has them, to time predictions on; items for a source without files or rows."""
        if self.examples.preparation is None:
            return self.examples.items[torch.arange(min(most, len(self.examples)))]
        piece, known = next(read_again(self.source, self.model, self.task.config)), set(self.examples.names)
        kept = [position for position, name in enumerate(piece.names) if name in known][:most]
        return select_inputs(piece.inputs, kept)

    def texts(self, names: Sequence[str]) -> list[str] | None:
        """Texts of samples, so that a user can judge them; None for other kinds of data."""
        if self.model.preparation.takes != "text":
            return None
        wanted = dict.fromkeys(names, "")
        for piece in read_again(self.source, self.model, self.task.config):
            wanted |= {name: str(text) for name, text in zip(piece.names, piece.inputs, strict=True) if name in wanted}
        return [wanted[name] for name in names]

    def records(self) -> Records | None:
        """Read the samples as the source has them now; None for a source without files or rows."""
        if self.examples.preparation is None:
            return None
        if isinstance(self.source, str) and self.source in SOURCES:
            return next(read_again(self.source, self.model, self.task.config))
        columns = replace(reading_of(self.task.config).columns, augmented=())  # as in training: a model may use fewer columns
        return open_source(self.source, columns, need_label=False).read()


def open_pool(
    run: Path | str,
    source: Any = None,
    device: str = "auto",
    network: Network | None = None,
    encoder_path: Path | str | None = None,
    views: OwnCode | None = None,
) -> Pool:
    """Read the data of a run again. Code that its settings name is not run.

    Args:
        source: new place of the data, if they have moved; the arrays or the frame, if they were not a file.

    Raises:
        InputError: the data do not exist any more, or are not those of the run.
    """
    folder = RunFolder(Path(run))
    model = load_model(run, network, views)
    settings = read_file(folder.path / "config.yaml")
    found, written = folder.read_json("split.json"), settings.pop("source", None)
    where = written if source is None else source
    if where is None or not isinstance(found, Mapping) or (source is None and not isinstance(where, str)):
        raise InputError(f"{run} does not name its data: config.yaml needs a source, split.json the positions.")
    refuse_shards(shards_in(where), "a command that looks at all samples of a run")
    moved = {} if encoder_path is None else {"encoder": str(encoder_path)}
    if moved and (settings.get("encoder") is None or isinstance(model.preparation, EncoderPreparation)):
        use_encoder(model, encoder_path, run)
    config = make_config(settings, {"device": device, **moved}, where=f"{run}/config.yaml")
    online = isinstance(where, str) and (where in SOURCES or HUB_ID.fullmatch(where) or is_remote(where))
    if isinstance(where, (str, Path)) and not online and not expand_home(where).exists():
        raise InputError(f"the data of {run} do not exist: {where}. If they have moved, give their new place with --source.")
    unused = {"augmented": NO_COLUMNS} if model.preparation.takes == "text" else {}  # strong views are not needed here
    job = open_job(where, config.model_dump(include={*READING}), unused, where=f"{run}/config.yaml")
    job = replace(job, examples=_with_classes(job.examples, model.classes))
    split = Split.from_dict(found, len(job.examples))
    # With the trained network: a name in the settings would let the folder choose which code runs.
    task = make_task(replace(job, config=config), Evaluation("none", split), model.views, model.network, model.network)
    use_device(model, task.device)
    pool = Pool(model, task, where)
    if (reason := _other(pool)) is not None:
        raise InputError(f"{task.source} is not what {run} was trained on: {reason}. Give those data with --source.")
    if (reason := _changed(pool, found.get("data"))) is not None:
        said = f"{task.source} has changed since {run} was trained on it: {reason}"
        raise InputError(f"{said}. Give the original data with --source, or train again.")
    examples = _prepared_as(model, task, where)
    if tuple(examples.items.shape[1:]) != model.shape:
        reason = f"it takes {'×'.join(map(str, model.shape))}, but prepares {'×'.join(map(str, examples.items.shape[1:]))}"
        raise InputError(f"the model of {run} cannot be used: {reason}.")
    return replace(pool, task=replace(task, examples=examples))


def _with_classes(examples: Examples, classes: Sequence[str]) -> Examples:
    """Take away the labels of classes that the data got after the training; other data stay as they are."""
    if not set(classes) < set(examples.classes):
        return examples
    number = torch.tensor([classes.index(name) if name in classes else UNLABELED for name in examples.classes] + [UNLABELED])
    return replace(examples, labels=number[examples.labels], classes=tuple(classes))  # −1 is the last of the numbers


def read_again(where: Any, model: Model, config: Config) -> Iterator[Records]:
    """Read the records of the run's source piece by piece."""
    if isinstance(where, str) and where in SOURCES:
        return iter([texts_of(where, config.model_copy(update={"augmented": NO_COLUMNS})).train])
    columns = columns_for(model, Columns(label=config.label_column, unlabeled=config.unlabeled), where)
    return open_source(where, columns, need_label=False).stream(ROWS)


def _other(pool: Pool) -> str | None:
    """Reason why samples, classes or shapes cannot be those that the run was trained on, if any."""
    split, examples, task, model = pool.task.split, pool.examples, pool.task, pool.model
    positions, number = torch.cat([split.labeled, split.unlabeled, split.test]), len(examples)
    first, last = (int(positions.min()), int(positions.max())) if len(positions) else (0, -1)
    takes, wanted = task.preparation.takes, model.preparation.takes
    if first < 0:
        return f"split.json has the position {first}"
    if last >= number:
        return f"it has {number:,} samples, and the run used number {last + 1:,}"
    if examples.classes != model.classes:
        return f"its classes are {quoted(examples.classes)}, those of the run {quoted(model.classes)}"
    if takes != wanted:
        return f"it contains {WHAT[takes]}; the run was trained on {WHAT[wanted]}"
    if task.shape != model.shape and takes == "image":
        return f"its images are {'×'.join(map(str, task.shape))}, those of the run {'×'.join(map(str, model.shape))}"
    return None


def _changed(pool: Pool, data: Any) -> str | None:
    """Reason why labels or order are not those of the run, if any; `data` is their fingerprint, None in earlier versions."""
    examples, labeled = pool.examples, pool.task.split.labeled
    lost = labeled[examples.labels[labeled] == UNLABELED]
    if len(lost):
        return f"sample {pool.names(lost)[0]!r} has lost its label"
    if data is not None and data != fingerprint(examples.names, examples.labels, labeled):
        return "samples were added, removed or moved, or labels have changed"
    return None


def _prepared_as(model: Model, task: Task, where: Any) -> Examples:
    """Examples with items as the model prepares them.

    Reading fits a new preparation, which equals the model's unless data, libraries or machine differ.
    """
    examples = task.examples
    if examples.preparation is None or _same(examples.preparation, model.preparation) or model.preparation.takes == "image":
        return examples
    number = {name: position for position, name in enumerate(examples.names)}
    parts, order = list[Tensor](), list[int]()
    for records in read_again(where, model, task.config):
        kept = [position for position, name in enumerate(records.names) if name in number]
        if kept:
            parts.append(model.preparation(select_inputs(records.inputs, kept)))
            order += [number[records.names[position]] for position in kept]
    items = torch.cat(parts)
    return replace(examples, items=items[torch.tensor(order).argsort()], augmented=None)


def _same(one: Preparation, other: Preparation) -> bool:
    ours, theirs = one.tensors(), other.tensors()
    if json.loads(json.dumps(one.settings())) != json.loads(json.dumps(other.settings())) or ours.keys() != theirs.keys():
        return False
    return all(ours[name].shape == theirs[name].shape and torch.allclose(ours[name], theirs[name]) for name in ours)
