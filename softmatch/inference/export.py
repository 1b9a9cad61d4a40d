"""Export of a trained model as ONNX, TorchScript or plain weights; each copy is compared with the original."""

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
from typing import Any, Literal, cast, get_args

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from softmatch.data.records import Columns
from softmatch.errors import InputError, SoftmatchError, nearest
from softmatch.files.tensors import read_tensors, write_checked
from softmatch.inference.model_inputs import about_inputs, begins
from softmatch.inference.predict import open_records, use_encoder
from softmatch.inference.writing import explained, free_path, refuse_existing
from softmatch.networks import Network
from softmatch.networks.prediction import predict_logits
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


@dataclass(frozen=True)
class Exported:
    """An exported model that was compared with the original.

    Attributes:
        path: the file, or the folder for safetensors.
        files: all files that were written.
        samples: number of real samples in the comparison, in batches of one, three and all.
        difference: largest difference of a probability.
        begins: description of its input.
    """

    path: Path
    files: tuple[Path, ...]
    samples: int
    difference: float
    begins: str

    def describe(self) -> str:
        """Summarise the export."""
        compared = f"compared on {self.samples:,} real samples: probabilities differ by up to {self.difference:.1g}"
        return "\n".join([*map(str, self.files), compared, self.begins])


class Whole(nn.Module):
    """Prepared items → probabilities: normalisation, network, temperature and softmax."""

    def __init__(self, network: nn.Module, views: Views, temperature: float) -> None:
        super().__init__()
        self.network, self.views, self.temperature = network, views, temperature

    def forward(self, items: Tensor) -> Tensor:
        return torch.softmax(predict_logits(self.network, self.views, items).float() / self.temperature, -1)


def export(
    run: Path | str,
    to: Format,
    out: Path | None = None,
    source: Any = None,
    *,
    columns: Columns | None = None,
    network: Network | None = None,
    encoder_path: Path | str | None = None,
) -> Exported:
    """Write the model of a run for another runtime, load it there, and compare it with the original on real samples.

    ONNX and TorchScript contain a graph from prepared items (uint8 images, float features; any batch size) to the calibrated
    probabilities of all classes. A JSON with classes, preparation, names and shapes is written next to it and into the file,
    with the tensors of the preparation, if any. "safetensors" is a folder for `softmatch.load_model` and for any reader of
    safetensors and JSON, without training data.

    Args:
        run: folder of a finished run.
        out: file or, for safetensors, folder to create. Default: model.onnx, model.pt or model in export/ of the run.
        source: samples for the comparison, if the run has saved none.
        columns: columns of the source.
        network: your own network, for a run with one; see `load_model`.
        encoder_path: new place of the frozen encoder of the run, for `source`.

    Raises:
        InputError: the network cannot be exported in this format.
        SoftmatchError: the exported model computes something else. It is deleted.
    """
    if to not in get_args(Format):
        raise InputError(f"--to {to} is not a format. {nearest(to, get_args(Format))}")
    model = load_model(run, network)
    use_encoder(model, encoder_path, run)
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
    whole = "Load it with softmatch.load_model, which includes the preparation."
    return Exported(path, written, len(items), difference, whole if to == "safetensors" else begins(model.preparation))


def _write(to: Format, path: Path, run: Path, model: Model, items: Tensor, network: Network | None) -> Call:
    """Write all files of the format under this name; return a function that computes probabilities with them."""
    if to == "safetensors":
        return _write_safetensors(path, run, network)
    about = json.dumps(describe_graph(model, items, path.name), ensure_ascii=False, indent=1)
    # Copies: views keep tensors, and those of an exporter's dry run have no values.
    whole = Whole(copy.deepcopy(model.network), copy.deepcopy(model.views), model.temperature).eval()
    two = torch.cat([items[:2], items[:2]])[:2]  # a graph traced with a single item may fix the batch size
    call = (_write_onnx if to == "onnx" else _write_torchscript)(path, whole, two, about)
    path.with_name(f"{path.name}.json").write_text(about + "\n", encoding="utf-8")
    if tensors := {name: each.contiguous() for name, each in model.preparation.tensors().items()}:
        save_file(tensors, path.with_name(f"{path.name}.preparation.safetensors"))
    return call


def describe_graph(model: Model, items: Tensor, name: str) -> dict[str, Any]:
    """JSON of a graph in a file of this name: its input and output, the classes, and the preparation."""
    kind = str(items.dtype).removeprefix("torch.")
    return {
        "format": 1,
        "classes": list(model.classes),
        "input": {"name": INPUT, "type": kind, "shape": ["batch", *items.shape[1:]], "is": begins(model.preparation)},
        "output": {"name": OUTPUT, "type": "float32", "shape": ["batch", len(model.classes)]},
        "temperature": model.temperature,
        "preparation": model.preparation.settings(),
        **about_inputs(model.preparation, name),
    }


def _write_onnx(path: Path, whole: Whole, two: Tensor, about: str) -> Call:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # disables its telemetry
    try:
        import onnx  # noqa: F401  # the exporter needs it
        import onnxruntime
        import onnxscript  # noqa: F401  # the exporter needs it
    except ImportError as error:
        raise InputError(f"ONNX needs {error.name}: pip install 'softmatch[onnx]'.") from error
    with _exporting("ONNX"):
        program = torch.onnx.export(
            whole,
            (two,),
            dynamo=True,
            verbose=False,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
        )
        assert program is not None
        program.model.metadata_props["softmatch"] = about
        program.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda some: torch.from_numpy(session.run([OUTPUT], {INPUT: some.numpy()})[0])


def _write_torchscript(path: Path, whole: Whole, two: Tensor, about: str) -> Call:
    with _exporting("TorchScript"), torch.no_grad():
        traced = torch.jit.trace(whole, (two,), check_trace=False)  # type: ignore[no-untyped-call]  # torch's own
        torch.jit.save(traced, path, _extra_files={EXTRA: about})
        loaded = torch.jit.load(path)  # type: ignore[no-untyped-call]  # torch's own

    return cast(Call, torch.no_grad()(loaded))


def _write_safetensors(path: Path, run: Path, network: Network | None) -> Call:
    """Write the model of the run without its samples, which are training data.

    Files are read and written anew, not copied: a link in a folder from elsewhere could lead to any file.
    """
    (path / "model").mkdir(parents=True)
    RunFolder(path).write_json(ABOUT, RunFolder(run).read_json(ABOUT))
    for name in WEIGHTS:
        if (run / "model" / name).exists():
            write_checked(path / "model" / name, read_tensors(run / "model" / name), {})
    return load_model(path, network).predict_proba


@contextmanager
def _exporting(what: str) -> Iterator[None]:
    """Explain failures of an exporter, and silence its harmless warnings."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.WARNING))  # such as that torchvision is not installed
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`torch\.jit\.", DeprecationWarning)
            warnings.filterwarnings("ignore", category=FutureWarning)  # of torch and transformers about themselves
            warnings.filterwarnings("ignore", category=torch.jit._trace.TracerWarning)  # the result is compared afterwards
            yield
    except OSError:
        raise
    except Exception as error:  # exporters run the network, which may raise any error
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(f"this network cannot be exported as {what}: {reason}") from error
    finally:
        logging.disable(disabled)


def _compare(call: Call, items: Tensor, expected: Mapping[int, Tensor], to: Format) -> float:
    """Largest difference of a probability from the predictions of the original, by the number of first items.

    Raises:
        SoftmatchError: it is too large, or a label differs.
    """
    largest = 0.0
    for number, wanted in expected.items():
        try:
            found = call(items[:number])
        except Exception as error:  # runtimes raise their own errors, for example for another batch size
            raise InputError(f"the model exported as {to} does not run on {number} samples: {error}") from error
        if found.shape != wanted.shape:
            shapes = f"{tuple(found.shape)}, not {tuple(wanted.shape)}"
            raise SoftmatchError(f"the model exported as {to} returns shape {shapes}. It was deleted.")
        difference, best = float((found - wanted).abs().max()), wanted.topk(2).values
        other = (found.argmax(-1) != wanted.argmax(-1)) & (best[:, 0] - best[:, 1] > TIE)
        if not difference <= TOLERANCE or bool(other.any()):
            raise SoftmatchError(
                f"the model exported as {to} does not match the original: in a batch of {number}, a probability differs by "
                f"{difference:.2g} and {int(other.sum())} labels differ. It was deleted."
            )
        largest = max(largest, difference)
    return largest


def _samples(model: Model, run: Path | str, source: Any, columns: Columns | None) -> Tensor:
    """Real items for the comparison."""
    if source is None:
        if model.samples is None or not len(model.samples):
            raise InputError(f"{run} has no saved samples for the comparison. Give some with --source.")
        return model.samples[:MOST_SAMPLES]
    for records in open_records(model, source, columns, MOST_SAMPLES, str(run)):
        items = model.preparation(records.inputs)
        assert isinstance(items, Tensor)
        return items.long() if model.preparation.settings()["kind"] == "tokens" else items  # as the samples are saved
    raise InputError(f"{source} has no samples for the comparison. Give another --source.")


def _move(folder: Path, path: Path) -> tuple[Path, ...]:
    """Move all files from the temporary folder to their place, the main one last; return their paths."""
    made = {each: path.with_name(each.name) for each in sorted(folder.iterdir(), key=lambda each: each.name == path.name)}
    with explained(path):
        for to in made.values():
            refuse_existing(to)
        for each, to in made.items():
            each.rename(to)
    return tuple(reversed(made.values()))
