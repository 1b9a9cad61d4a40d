"""A trained model for other runtimes: ONNX, TorchScript, or plain weights; tried against the original before it counts."""

from __future__ import annotations

import copy
import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from softmatch.data.records import Columns
from softmatch.errors import InputError, SoftmatchError, nearest
from softmatch.files.tensors import read_tensors, write_checked
from softmatch.inference.model_inputs import about_inputs, begins
from softmatch.inference.predict import open_records
from softmatch.inference.writing import explained, free_path, refuse_existing
from softmatch.networks import Network
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import Model, load_model
from softmatch.views import Views

Format = Literal["onnx", "torchscript", "safetensors"]
Call = Callable[[Tensor], Tensor]

NAMES: dict[Format, str] = {"onnx": "model.onnx", "torchscript": "model.pt", "safetensors": "model"}
INPUT, OUTPUT = "items", "probabilities"
EXTRA = "softmatch.json"
"""Name of the JSON inside a TorchScript file."""
ABOUT, WEIGHTS = "model/model.json", ("model.safetensors", "preparation.safetensors")
TOLERANCE = 1e-4
TIE = 1e-6
MOST_SAMPLES = 256
NEWS = ("torch.onnx._internal.exporter._registration", "onnxscript.optimizer._constant_folding")
"""Loggers that warn of what is no fault: that torchvision is not installed, that something could not be simplified."""


@dataclass(frozen=True)
class Exported:
    """An exported model that was tried.

    Attributes:
        path: the file, or for safetensors the folder.
        files: all that was written.
        samples: real ones that original and copy were compared on, alone, three and all at a time.
        difference: the largest of a probability between the two.
        begins: what its input is.
    """

    path: Path
    files: tuple[Path, ...]
    samples: int
    difference: float
    begins: str

    def describe(self) -> str:
        """All of it in words."""
        lines = [str(path) for path in self.files]
        lines.append(f"compared on {self.samples:,} real samples: probabilities differ by {self.difference:.1g} at most")
        lines.append(self.begins)
        return "\n".join(lines)


class Whole(nn.Module):
    """Prepared items → probabilities: normalisation, network, temperature and softmax in one."""

    def __init__(self, network: nn.Module, views: Views, temperature: float) -> None:
        super().__init__()
        self.network, self.views, self.temperature = network, views, temperature

    def forward(self, items: Tensor) -> Tensor:
        return torch.softmax(self.network(self.views.plain(items)).float() / self.temperature, -1)


def export(
    run: Path | str,
    to: Format,
    out: Path | None = None,
    source: Any = None,
    *,
    columns: Columns | None = None,
    network: Network | None = None,
) -> Exported:
    """Write the model of a run for another runtime, load it there, and compare it with the original on real samples.

    ONNX and TorchScript are a graph from prepared items (uint8 images, float features; any number at a time) to the calibrated
    probabilities of all classes. Beside it stand a JSON with classes, preparation, names and shapes, which is in the file too,
    and what the preparation needs besides. "safetensors" is a folder that `softmatch.load_model` reads, and any reader of
    safetensors and JSON; it has no training data in it.

    Args:
        run: folder of a finished run.
        out: file or, for safetensors, folder to make. Default: model.onnx, model.pt or model in export/ of the run.
        source: samples to compare on, where the run has saved none; any that the model can predict.
        columns: of the source.
        network: of your own, for a run with one; see `load_model`.

    Raises:
        InputError: the network cannot be exported in that way.
        SoftmatchError: the exported model does not compute the same. It is removed.
    """
    if to not in get_args(Format):
        raise InputError(f"--to {to}: there is no such format. {nearest(to, get_args(Format))}")
    model = load_model(run, network)
    items = _samples(model, run, source, columns)
    expected = {number: model.predict_proba(items[:number]) for number in sorted({1, min(3, len(items)), len(items)})}
    path = free_path(Path(run) / "export", NAMES[to]) if out is None else out
    with explained(path):
        refuse_existing(path)
        folder = Path(tempfile.mkdtemp(prefix=".export-", dir=path.absolute().parent))
    try:
        with explained(path):
            call = _write(to, folder / path.name, Path(run), model, items, network)
        difference = _compare(call, items, expected, to)
        written = _move(folder, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    whole = "softmatch.load_model reads it, and it does all of the preparation"
    return Exported(path, written, len(items), difference, whole if to == "safetensors" else begins(model.preparation))


def _write(to: Format, path: Path, run: Path, model: Model, items: Tensor, network: Network | None) -> Call:
    """Everything that belongs to the format, under this name; returns what computes probabilities from it."""
    if to == "safetensors":
        return _write_safetensors(path, run, network)
    about = json.dumps(describe_graph(model, items, path.name), ensure_ascii=False, indent=1)
    # Of copies: views keep tensors, and those of an exporter's dry run are no numbers.
    whole = Whole(copy.deepcopy(model.network), copy.deepcopy(model.views), model.temperature).eval()
    call = _write_onnx(path, whole, items, about) if to == "onnx" else _write_torchscript(path, whole, items, about)
    path.with_name(f"{path.name}.json").write_text(about + "\n", encoding="utf-8")
    if tensors := model.preparation.tensors():
        save_file(
            {name: each.contiguous() for name, each in tensors.items()}, path.with_name(f"{path.name}.preparation.safetensors")
        )
    return call


def describe_graph(model: Model, items: Tensor, name: str) -> dict[str, Any]:
    """The JSON of a graph in a file of this name: what goes in and out, the classes, and how items are made."""
    return {
        "format": 1,
        "classes": list(model.classes),
        "input": {
            "name": INPUT,
            "type": str(items.dtype).removeprefix("torch."),
            "shape": ["batch", *items.shape[1:]],
            "is": begins(model.preparation),
        },
        "output": {"name": OUTPUT, "type": "float32", "shape": ["batch", len(model.classes)]},
        "temperature": model.temperature,
        "preparation": model.preparation.settings(),
        **about_inputs(model.preparation, name),
    }


def _write_onnx(path: Path, whole: Whole, items: Tensor, about: str) -> Call:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # else importing onnxruntime reports to its makers
    try:
        import onnx  # noqa: F401  # the exporter needs it
        import onnxruntime
        import onnxscript  # noqa: F401  # the exporter needs it
    except ImportError as error:
        raise InputError(f"ONNX needs {error.name}: pip install 'softmatch[onnx]'.") from error
    batch = torch.export.Dim("batch")
    with _exporting("ONNX"):
        program = torch.onnx.export(
            whole,
            (_several(items),),
            dynamo=True,
            verbose=False,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: batch},),
        )
        assert program is not None
        program.model.metadata_props["softmatch"] = about
        program.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda some: torch.from_numpy(session.run([OUTPUT], {INPUT: some.numpy()})[0])


def _write_torchscript(path: Path, whole: Whole, items: Tensor, about: str) -> Call:
    with _exporting("TorchScript"), torch.no_grad():
        traced = torch.jit.trace(whole, (_several(items),), check_trace=False)  # type: ignore[no-untyped-call]  # torch's own
        torch.jit.save(traced, path, _extra_files={EXTRA: about})
        loaded = torch.jit.load(path)  # type: ignore[no-untyped-call]  # torch's own

    @torch.no_grad()
    def call(some: Tensor) -> Tensor:
        found: Tensor = loaded(some)
        return found

    return call


def _write_safetensors(path: Path, run: Path, network: Network | None) -> Call:
    """The model of the run, but for the samples: whoever gets the model need not get the data.

    Written anew of what was read: a link in a folder of others may lead to any file, and that would be copied.
    """
    (path / "model").mkdir(parents=True)
    RunFolder(path).write_json(ABOUT, RunFolder(run).read_json(ABOUT))
    for name in WEIGHTS:
        if (run / "model" / name).exists():
            write_checked(path / "model" / name, read_tensors(run / "model" / name), {})
    return load_model(path, network).predict_proba


@contextmanager
def _exporting(what: str) -> Iterator[None]:
    """Failures of an exporter in words, without its news about itself."""
    levels = {name: logging.getLogger(name).level for name in NEWS}
    for name in NEWS:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`torch\.jit\.", DeprecationWarning)
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)
            warnings.filterwarnings("ignore", category=torch.jit._trace.TracerWarning)  # what it warns of is compared afterwards
            yield
    except OSError:
        raise
    except Exception as error:  # exporters run the network, which may be anybody's, and raise whatever it or they do
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(f"this network cannot be exported as {what}: {reason}") from error
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _several(items: Tensor) -> Tensor:
    """At least two items: a graph traced with a single one may take that number for granted."""
    return items[:2] if len(items) > 1 else torch.cat([items, items])


def _compare(call: Call, items: Tensor, expected: Mapping[int, Tensor], to: Format) -> float:
    """The largest difference of a probability, on one, three and all samples at a time.

    Args:
        expected: what the original says about so many of the first items.

    Raises:
        SoftmatchError: it is too large, or a label is another one.
    """
    largest = 0.0
    for number, wanted in expected.items():
        try:
            found = call(items[:number])
        except Exception as error:  # runtimes have errors of their own, and a graph for one batch size meets others here
            raise InputError(f"the model exported as {to} does not run on {number} samples: {error}") from error
        if found.shape != wanted.shape:
            raise SoftmatchError(
                f"the model exported as {to} gives {tuple(found.shape)} for {tuple(wanted.shape)}. It was removed."
            )
        difference, best = float((found - wanted).abs().max()), wanted.topk(2).values
        other = (found.argmax(-1) != wanted.argmax(-1)) & (best[:, 0] - best[:, 1] > TIE)
        if not difference <= TOLERANCE or bool(other.any()):
            raise SoftmatchError(
                f"the model exported as {to} does not compute what the original does: with {number} samples at a time, a "
                f"probability differs by {difference:.2g} and {int(other.sum())} labels are others. It was removed."
            )
        largest = max(largest, difference)
    return largest


def _samples(model: Model, run: Path | str, source: Any, columns: Columns | None) -> Tensor:
    """Real items to compare on."""
    if source is None:
        if model.samples is None or not len(model.samples):
            raise InputError(f"{run} has saved no samples to compare on: give some with --source.")
        return model.samples[:MOST_SAMPLES]
    for records in open_records(model, source, columns, MOST_SAMPLES, str(run)):
        items = model.preparation(records.inputs)
        assert isinstance(items, Tensor)
        return items.long() if model.preparation.settings()["kind"] == "tokens" else items  # as the samples are saved
    raise InputError(f"{source} holds no samples to compare on.")


def _move(folder: Path, path: Path) -> tuple[Path, ...]:
    """From the temporary folder to where they belong, what the path names at last; returns all of it."""
    made = sorted(folder.iterdir(), key=lambda each: each.name == path.name)
    with explained(path):
        for each in made:
            refuse_existing(path.with_name(each.name))
        for each in made:
            each.rename(path.with_name(each.name))
    return tuple(path.with_name(each.name) for each in reversed(made))
