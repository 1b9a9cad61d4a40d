"""Predictions of a trained model on files, rows, arrays or a single text, in pieces for data larger than memory."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softmatch.config import read_file
from softmatch.data.preparations.encoder_features import EncoderPreparation
from softmatch.data.preparations.numeric_arrays import ArrayPreparation
from softmatch.data.preparations.table import TablePreparation
from softmatch.data.readers.array_files import is_frame
from softmatch.data.readers.class_folders import media_kind
from softmatch.data.readers.columns import NoColumn
from softmatch.data.readers.open_source import HUB, HUB_ID, open_source
from softmatch.data.readers.table_source import OpenedTable, is_table
from softmatch.data.records import Columns, Found, Inputs, Opened, Records, UnreadableFile
from softmatch.distributed.devices import choose_device
from softmatch.errors import InputError
from softmatch.files.paths import expand_home
from softmatch.inference.prediction_summary import Predicted, Predictions, Tally
from softmatch.inference.writing import STDOUT, Cell, Values, choose_path, write_table
from softmatch.networks import Network
from softmatch.runs.hub_models import outputs
from softmatch.runs.model import Model, load_model
from softmatch.views.own_views import OwnCode

Progress = Callable[[int], None]
"""Called with the number of samples done."""
Spread = Callable[[Path, Iterator[Records]], Iterator[Predicted]]
"""Predicts pieces elsewhere, for a table of that name, and gives them in their order."""

PIECE_VALUES = 2**25
FEWEST_ROWS, MOST_FILES, MOST_ROWS = 64, 512, 4096
"""Samples in a piece; fewer images, since a piece is repeated if one of them cannot be read."""
ARRAYS = (".npy", ".npz", ".ts", ".arff")
TEXT = "text:"
"""Prefix that makes it clear that owner/name is a text."""
OWN = ("name", "label", "confidence", "problem")
"""Columns of the predictions, in addition to p_… of each class."""
WHAT = {"image": "images", "sound": "recordings", "text": "texts", "table": "tables of features", "array": "arrays of numbers"}


def predict(
    run: Path | str,
    source: Any,
    out: Path | None = None,
    columns: Columns | None = None,
    *,
    probabilities: bool = True,
    rows: int | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    network: Network | None = None,
    views: OwnCode | None = None,
    raw: bool = False,
    keep: Sequence[str] = (),
    encoder_path: Path | str | None = None,
    spread: Spread | None = None,
) -> Predictions:
    """Predict all samples of a source, and write name, label, confidence, `p_…` of each class and problem as a table.

    A sample that cannot be read gets a row with the reason in the column `problem`. The table appears when it is complete,
    and nothing is ever overwritten.

    Args:
        run: folder of a finished run, or a model on the hub: hf://owner/name.
        source: a folder or file, an id of the hub, a frame, array or dataset. For a model of texts, a string that is not a path
            and does not end like a table is a text itself; a word like owner/name must be hub:owner/name or text:owner/name.
        out: a name in .csv, .tsv, .jsonl or .parquet, or `-` for CSV on standard output. Default: a new file in predictions/ of
            the run, or of the current folder for a model on the hub; a single image, recording or text is only returned.
        columns: columns of the source, if their names differ from those in training. Labels, if any, are compared with the
            predictions.
        probabilities: write `p_…` of each class.
        rows: number of samples in memory at a time.
        device: "auto", "cpu", "cuda", …
        progress: called with the number of samples predicted.
        network, views: your own, for a run with such; see `load_model`.
        raw: write CSV without a leading ' in cells that a spreadsheet would run as formulas.
        keep: columns of the source, a table, to write in addition; one called like a column of the predictions gets the prefix
            `source_`.
        encoder_path: new place of the frozen encoder of the run.
        spread: predicts the pieces, instead of this process.

    Returns:
        Number of samples, classes and errors, and the table.

    Raises:
        InputError: run or source cannot be used, or `out` exists.

    Example:
        >>> predict("runs/mine", "digits.npz").file.name
        'digits.csv'
    """
    model = load_model(run, network, views)
    use_encoder(model, encoder_path, run)
    use_device(model, choose_device(device))
    file = isinstance(source, (str, Path)) and media_kind(str(source)) == model.preparation.takes
    single = _is_text(model, source) or (file and expand_home(source).is_file())
    columns = replace(columns or Columns(), kept=tuple(keep))
    try:
        records = open_pieces(model, source, columns, rows, str(run), _trained_columns(Path(run)))
    except NoColumn as error:
        if model.preparation.takes != "text" or columns.text is not None or error.name in keep:
            raise
        raise InputError(f"{error.plain}. The texts of the training data were in {error.name!r}: give --text.") from error
    tally, path = Tally(model.classes), out
    if out != STDOUT and not (out is None and single):
        path = choose_path(out, outputs(run) / "predictions", f"{_stem(source)}.csv")
    if spread is not None and (path is None or path == STDOUT):
        raise InputError("workers write a table: give a file with --out, or leave out --on.")
    pieces = map(partial(predict_records, model), records) if spread is None or path is None else spread(path, records)
    shares: dict[str, Cell] = {f"p_{name}": "number" for name in model.classes} if probabilities else {}
    kept = {name: f"source_{name}" if name in (*OWN, *shares) else name for name in keep}
    carried: dict[str, Cell] = dict.fromkeys(kept.values(), "text")
    header: dict[str, Cell] = {"name": "text", **carried, "label": "text", "confidence": "number", **shares, "problem": "text"}
    with ExitStack() as stack:
        write = None if path is None else stack.enter_context(write_table(path, header, raw))
        for piece in pieces:
            tally.add(piece)
            if write is not None:
                write(_table(piece, model.classes) | {kept[name]: cells for name, cells in piece.kept.items()})
            if progress is not None:
                progress(tally.samples)
        if not tally.samples:
            raise InputError(f"there is nothing to predict: {_stem(source)} has no samples.")
    return tally.result(None if path == STDOUT else path)


def use_device(model: Model, device: torch.device) -> None:
    """Move the network, and the encoder of its preparation, to a device."""
    model.network.to(device)
    if hasattr(model.preparation, "device"):
        model.preparation.device = device


def use_encoder(model: Model, place: Path | str | None, run: Path | str) -> None:
    """Use the frozen encoder of a model in another place, if one is given."""
    if place is None:
        return
    if not isinstance(model.preparation, EncoderPreparation):
        raise InputError(f"--encoder-path {place} is not read: the model of {run} needs no encoder. Leave it out.")
    model.preparation.move(str(place))


def predict_pieces(
    model: Model,
    source: Any,
    columns: Columns | None = None,
    rows: int | None = None,
    where: str = "the run",
    trained: Columns | None = None,
) -> Iterator[Predicted]:
    """Predict a source piece by piece; for `where` and `trained` see `open_records`."""
    return map(partial(predict_records, model), open_pieces(model, source, columns, rows, where, trained))


def open_pieces(
    model: Model, source: Any, columns: Columns | None, rows: int | None, where: str, trained: Columns | None = None
) -> Iterator[Records]:
    """`open_records`, by default in pieces of a size that fits the samples."""
    most = MOST_FILES if model.preparation.takes in ("image", "sound") else MOST_ROWS
    usual = min(max(PIECE_VALUES // prod(model.shape), FEWEST_ROWS), most)
    return open_records(model, source, columns, rows or usual, where, trained)


def predict_records(model: Model, each: Records) -> Predicted:
    """Predict the samples of a piece."""
    unseen = model.preparation.unseen(each.inputs) if isinstance(model.preparation, TablePreparation) else {}
    lengths = model.preparation.other_lengths(each.inputs) if isinstance(model.preparation, ArrayPreparation) else (0, 0)
    probs, problems = _try_inputs(model, each.inputs, len(each))
    return Predicted(list(each.names), list(each.labels), probs, problems, each.kept, unseen, lengths)


def columns_for(model: Model, given: Columns | None, source: Any) -> Columns:
    """Columns of this source that the model needs, unless the user gives others."""
    given, wanted = given or Columns(), model.preparation.columns
    if isinstance(model.preparation, ArrayPreparation):
        given, grid = replace(given, series_rows=len(model.shape) == 2), model.preparation.grid
        if grid is None or not (is_frame(source) or (isinstance(source, (str, Path)) and is_table(Path(source)))):
            return given
        series, time, features = given.series or grid.series, given.time or grid.time, given.features or wanted
        return replace(given, series=series, time=time, step=grid.step, features=features)
    if model.preparation.takes == "text":
        return replace(given, text=given.text if given.text is not None or not wanted else wanted[0], augmented=())
    if model.preparation.takes == "table" and given.features is None:
        return replace(given, features=wanted)
    return given


def open_records(
    model: Model, source: Any, columns: Columns | None, rows: int, where: str, trained: Columns | None = None
) -> Iterator[Records]:
    """Read the samples of a source piece by piece.

    Args:
        where: name of the model's run, for messages.
        trained: column of the labels in training, and the word for none; the default for `columns`.
    """
    takes, columns = model.preparation.takes, columns_for(model, columns, source)
    if _is_text(model, source):
        opened: Opened = Found("the text", Records("text", [_text(source)], ["1"], [None]))
    else:
        opened = _open(source, columns, trained or Columns())
    if opened.kind != takes:
        raise InputError(
            f"{opened.where} contains {WHAT[opened.kind]}; the model of {where} was trained on {WHAT[takes]} "
            f"({model.preparation.describe()})."
        )
    if columns.kept and not isinstance(opened, OpenedTable):
        raise InputError(f"--keep names columns of a table, and {opened.where} has none. Leave it out.")
    if isinstance(opened, Found) and opened.kind in ("image", "sound") and opened.test is not None:
        # The test folder is predicted too.
        return chain(opened.stream(rows), opened.test.stream(rows))
    return opened.stream(rows)


def _open(source: Any, columns: Columns, trained: Columns) -> Opened:
    if columns.unlabeled is None:
        columns = replace(columns, unlabeled=trained.unlabeled)
    if columns.label is None and trained.label not in (None, columns.text, *(columns.features or ())):
        with suppress(InputError):  # there may be no such column; any other problem is reported below
            opened = open_source(source, replace(columns, label=trained.label), need_label=False)
            if opened.columns.label is not None:
                return opened
    return open_source(source, columns, need_label=False)


def _trained_columns(run: Path) -> Columns:
    """Settings of the run about labels; none if they cannot be read: they are not essential."""
    try:
        settings = read_file(run / "config.yaml")
    except InputError:
        return Columns()
    label, unlabeled = (value if isinstance(value := settings.get(key), str) else None for key in ("label_column", "unlabeled"))
    return Columns(label=label, unlabeled=unlabeled)


def _is_text(model: Model, source: Any) -> bool:
    """Return whether the source is a text itself: not an existing path, and not a single word that ends like a table."""
    if model.preparation.takes != "text" or not isinstance(source, str):
        return False
    if os.path.exists(os.path.expanduser(source)):  # noqa: PTH110, PTH111  # a text may be too long to be a Path
        return False
    if len(source.split()) != 1 or source != _text(source):
        return True
    if HUB_ID.fullmatch(source):
        raise InputError(
            f"{source} is not a file or folder here. Give {HUB}{source} for a dataset of the Hugging Face hub, or {TEXT}{source} "
            "if this is the text to predict."
        )
    if source.startswith(HUB) and HUB_ID.fullmatch(source.removeprefix(HUB)):
        return False
    return not (is_table(Path(source)) or source.lower().endswith(ARRAYS))


def _text(source: Any) -> str:
    """Return a text that is given as such, without the prefix that makes it one."""
    text = str(source)
    return text.removeprefix(TEXT) if HUB_ID.fullmatch(text.removeprefix(TEXT)) else text


def _try_inputs(model: Model, inputs: Inputs, number: int, single: bool = False) -> tuple[Tensor, list[str]]:
    """Probabilities (n, C) of all inputs, and the reasons for those that cannot be used; found by halving.

    Args:
        single: it is known that single inputs are the problem.

    Raises:
        InputError: the problem is not in the inputs, for example changed files of an encoder.
    """
    try:
        return model.predict_proba(model.preparation(inputs)), [""] * number
    except InputError as error:
        if not single and not isinstance(error, UnreadableFile):
            model.preparation(_cut(inputs, 0, 0))  # raises a problem that is not in the inputs
        if number == 1:
            return torch.full((1, len(model.classes)), torch.nan), [str(error)]
    middle = number // 2
    halves = ((0, middle), (middle, number))
    first, second = (_try_inputs(model, _cut(inputs, *half), half[1] - half[0], single=True) for half in halves)
    return torch.cat([first[0], second[0]]), first[1] + second[1]


def _cut(inputs: Inputs, start: int, stop: int) -> Inputs:
    if isinstance(inputs, Mapping):
        return {name: column[start:stop] for name, column in inputs.items()}
    return inputs[start:stop]


def _table(piece: Predicted, classes: tuple[str, ...]) -> dict[str, Values]:
    confidence, chosen = piece.probs.max(-1)
    return {
        "name": piece.names,
        "label": [None if problem else classes[k] for k, problem in zip(chosen.tolist(), piece.problems, strict=True)],
        "confidence": confidence,
        "problem": [problem or None for problem in piece.problems],
        **{f"p_{name}": piece.probs[:, k] for k, name in enumerate(classes)},
    }


def _stem(source: Any) -> str:
    """Name for the predictions on a source."""
    if not isinstance(source, (str, Path)):
        return "predictions"
    path = expand_home(source)
    return (path.resolve().stem if path.exists() else path.name) or "predictions"
