"""Export of a trained model as ONNX, TorchScript or plain weights, or to the hub; each copy is compared with the original."""

import json
import logging
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch
from safetensors.torch import save_file
from torch import Tensor

from softmatch.config import RUN_SETTINGS, make_config, read_file
from softmatch.data.preparations.encoder_features import EncoderPreparation
from softmatch.data.records import Columns, Records
from softmatch.errors import InputError, SoftmatchError, nearest
from softmatch.files.tensors import read_tensors, write_checked
from softmatch.inference.graphs import ITEMS, TOKENS, Samples, Tokens, Whole, WholeText, about_inputs, begins
from softmatch.inference.predict import open_records, use_device, use_encoder
from softmatch.inference.unlabeled_pool import read_again
from softmatch.inference.writing import explained, free_path, refuse_existing
from softmatch.networks import Network
from softmatch.report.model_card import model_card
from softmatch.runs.folder import RunFolder
from softmatch.runs.hub_models import find_run, outputs, upload
from softmatch.runs.model import Model, load_model
from softmatch.views.own_views import OwnCode

Format = Literal["onnx", "torchscript", "safetensors", "hub"]
Call = Callable[..., Tensor]
"""From the inputs of a graph to probabilities."""

NAMES: dict[Format, str] = {"onnx": "model.onnx", "torchscript": "model.pt", "safetensors": "model", "hub": "hub"}
FOLDERS = ("safetensors", "hub")
SHARED = ("held_out.csv", "pictures.json", "report.html", "result.json")
"""Files of a run that are uploaded if the user names them; the first three may show samples."""
OUTPUT = "probabilities"
EXTRA = "softmatch.json"
"""Name of the JSON inside a TorchScript file."""
ABOUT, WEIGHTS = "model/model.json", ("model.safetensors", "preparation.safetensors")
TOLERANCE = 1e-4
TIE = 1e-6
MOST_SAMPLES, MOST_ENCODED = 256, 64
"""Samples in the comparison; fewer through a frozen encoder, which may need a second for each."""
LARGEST = 1500 * 2**20
"""Bytes of weights above which they have a file of their own: an ONNX file cannot exceed 2 GB."""


@dataclass(frozen=True)
class Exported:
    """An exported model that was compared with the original.

    Attributes:
        samples: number of real samples in the comparison, in batches of one, three and all.
        begins: description of its input.
    """

    path: Path
    files: tuple[Path, ...]
    samples: int
    difference: float
    begins: str
    url: str | None = None

    def describe(self) -> str:
        """Summarise the export."""
        compared = f"compared on {self.samples:,} real samples: probabilities differ by up to {self.difference:.1g}"
        uploaded = [f"uploaded to {self.url}"] if self.url else []
        return "\n".join([*map(str, self.files), compared, self.begins, *uploaded])


@dataclass(frozen=True)
class Sharing:
    """Instructions for a model on the hub.

    Attributes:
        repo: owner/name; None: only write the folder that would be uploaded.
        include: further files of the run, of `SHARED`.
    """

    repo: str | None = None
    private: bool = False
    licence: str | None = None
    include: tuple[str, ...] = ()

    def check(self, to: Format, run: Path) -> None:
        """Raise InputError for instructions that cannot be followed."""
        if to != "hub" and self != Sharing():
            raise InputError(f"--repo, --private, --license and --include are for --to hub, not for --to {to}.")
        if self.private and self.repo is None:
            raise InputError("--private is for an upload: name the repository with --repo owner/name.")
        if self.repo is not None and not re.fullmatch(r"[\w.-]+/[\w.-]+", self.repo):
            raise InputError(f"--repo {self.repo}: give a repository as owner/name.")
        for name in self.include:
            if name not in SHARED:
                raise InputError(f"--include {name}: it is not a file to share. {nearest(name, SHARED)}")
            if not (run / name).is_file() or (run / name).is_symlink():
                raise InputError(f"--include {name}: {run} has no such file.")


def export(
    run: Path | str,
    to: Format,
    out: Path | None = None,
    source: Any = None,
    *,
    columns: Columns | None = None,
    network: Network | None = None,
    views: OwnCode | None = None,
    encoder_path: Path | str | None = None,
    repo: str | None = None,
    private: bool = False,
    license: str | None = None,
    include: Sequence[str] = (),
) -> Exported:
    """Write the model of a run for another runtime, load it there, and compare it with the original on real samples.

    ONNX and TorchScript contain a graph from uint8 images, token ids or float features to the calibrated probabilities of all
    classes, for any batch size and length of texts. An encoder, frozen or fine-tuned, is part of it. A JSON with classes,
    preparation, names and shapes is written next to it and into the file, with the tokenizer of an encoder or the tensors of
    the preparation, if any. "safetensors" is a folder for `softmatch.load_model` and for any reader of safetensors and JSON,
    without training data and without a frozen encoder. "hub" is this folder with a model card, uploaded to `repo` if it is given.

    Args:
        run: folder of a finished run.
        to: the format.
        out: file or, for safetensors, folder to create. Default: model.onnx, model.pt or model in export/ of the run.
        source: samples for the comparison, if the run has saved none. By default, a run with a frozen encoder reads its training
            data again.
        columns: columns of the source.
        network, views: your own, for a run with such; see `load_model`.
        encoder_path: new place of the frozen encoder of the run.
        repo, private, license, include: for "hub"; see `Sharing`.

    Returns:
        The files that were written, and how far they are from the original.

    Raises:
        InputError: the network cannot be exported in this format, or not be uploaded.
        SoftmatchError: the exported model computes something else. It is deleted.

    Example:
        >>> export("runs/mine", to="safetensors").difference
        0.0
    """
    if to not in get_args(Format):
        raise InputError(f"--to {to} is not a format. {nearest(to, get_args(Format))}")
    share = Sharing(repo, private, license, tuple(include))
    share.check(to, Path(run))
    model = load_model(run, network, views)
    use_encoder(model, encoder_path, run)
    use_device(model, torch.device("cpu"))
    samples = _samples(model, find_run(run), source, columns, to)
    total = len(samples.items)
    expected = {number: model.predict_proba(samples.items[:number]) for number in sorted({1, min(3, total), total})}
    path = free_path(outputs(run) / "export", NAMES[to]) if out is None else out
    with explained(path):
        refuse_existing(path)
        folder = Path(tempfile.mkdtemp(prefix=".export-", dir=path.absolute().parent))
    try:
        with explained(path):
            call = _write(
                to, folder / path.name, find_run(run), model, samples, partial(load_model, network=network, views=views)
            )
            if to == "hub":
                _add_card(folder / path.name, path, Path(run), model, share)
        difference = _compare(call, samples, expected, to)
        written = _move(folder, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    whole = "Load it with softmatch.load_model, which includes the preparation."
    if to == "hub":
        written = tuple(sorted(each for each in path.rglob("*") if each.is_file()))
    url = None if repo is None else upload(path, repo, private)
    return Exported(path, written, total, difference, whole if to in FOLDERS else begins(model.preparation), url)


def _add_card(folder: Path, path: Path, run: Path, model: Model, share: Sharing) -> None:
    """Add the model card, and the files of the run that the user has named."""
    made, address = model.preparation, str(path) if share.repo is None else f"hf://{share.repo}"
    encoder = made.encoder if isinstance(made, EncoderPreparation) else None
    encoder = Path(encoder).name if encoder is not None and Path(encoder).is_absolute() else encoder
    card = model_card(RunFolder(run), address, made.takes, made.describe(), encoder, share.licence)
    (folder / "README.md").write_text(card, encoding="utf-8")
    for name in share.include:
        shutil.copyfile(run / name, folder / name)


def _write(to: Format, path: Path, run: Path, model: Model, samples: Samples, load: Callable[[Path], Model]) -> Call:
    """Write all files of the format under this name; return a function that computes probabilities with them."""
    if to in FOLDERS:
        return _write_safetensors(path, run, load)
    tokens = Tokens.of(model.preparation)
    about = json.dumps(describe_graph(model, samples, path.name), ensure_ascii=False, indent=1)
    whole = (Whole(model) if tokens is None else WholeText(model, tokens.tokenizer.pad)).eval()
    call = (_write_onnx if to == "onnx" else _write_torchscript)(path, whole, samples.two(), about)
    path.with_name(f"{path.name}.json").write_text(about + "\n", encoding="utf-8")
    if tokens is not None:
        path.with_name(f"{path.name}.tokenizer.json").write_text(tokens.rules.to_str(pretty=True), encoding="utf-8")
    elif whole.encoder is None and (tensors := model.preparation.tensors()):
        contiguous = {name: each.contiguous() for name, each in tensors.items()}
        save_file(contiguous, path.with_name(f"{path.name}.preparation.safetensors"))
    return call


def describe_graph(model: Model, samples: Samples, name: str) -> dict[str, Any]:
    """JSON of a graph in a file of this name: its inputs and output, the classes, and the preparation."""
    given, texts = samples.inputs[0], len(samples.inputs) == len(TOKENS)
    shape = ["batch", *(["length"] if texts else given.shape[1:])]
    mask = {"name": TOKENS[1], "type": "int64", "shape": shape, "is": "1 for tokens, 0 for padding"}
    kind = str(given.dtype).removeprefix("torch.")
    return {
        "format": 1,
        "classes": list(model.classes),
        "input": {"name": (TOKENS if texts else ITEMS)[0], "type": kind, "shape": shape, "is": begins(model.preparation)},
        **({"mask": mask} if texts else {}),
        "output": {"name": OUTPUT, "type": "float32", "shape": ["batch", len(model.classes)]},
        "temperature": model.temperature,
        "preparation": model.preparation.settings(),
        **about_inputs(model.preparation, name),
    }


def _write_onnx(path: Path, whole: Whole, two: tuple[Tensor, ...], about: str) -> Call:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # disables its telemetry
    try:
        import onnx  # noqa: F401  # the exporter needs it
        import onnxruntime
        import onnxscript  # noqa: F401  # the exporter needs it
    except ImportError as error:
        raise InputError(f"ONNX needs {error.name}: pip install 'softmatch[onnx]'.") from error
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    names, dynamic = (ITEMS, {0: batch}) if len(two) == 1 else (TOKENS, {0: batch, 1: length})
    with _exporting("ONNX"):
        program = torch.onnx.export(
            whole,
            two,
            dynamo=True,
            verbose=False,
            input_names=names,
            output_names=[OUTPUT],
            dynamic_shapes=(dynamic,) * len(two),
        )
        assert program is not None
        program.model.metadata_props["softmatch"] = about
        large = sum(each.nbytes for each in whole.state_dict().values()) > LARGEST
        program.save(path, external_data=large)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def call(*inputs: Tensor) -> Tensor:
        given = {name: each.numpy() for name, each in zip(names, inputs, strict=True)}
        return torch.from_numpy(session.run([OUTPUT], given)[0])

    return call


def _write_torchscript(path: Path, whole: Whole, two: tuple[Tensor, ...], about: str) -> Call:
    with _exporting("TorchScript"), torch.no_grad():
        traced = torch.jit.trace(whole, two, check_trace=False)  # type: ignore[no-untyped-call]  # torch's own
        torch.jit.save(traced, path, _extra_files={EXTRA: about})
        loaded = torch.jit.load(path)  # type: ignore[no-untyped-call]  # torch's own

    return cast(Call, torch.no_grad()(loaded))


def _write_safetensors(path: Path, run: Path, load: Callable[[Path], Model]) -> Call:
    """Write the model of the run without its samples, which are training data.

    Files are read and written anew, not copied: a link in a folder from elsewhere could lead to any file.
    """
    (path / "model").mkdir(parents=True)
    RunFolder(path).write_json(ABOUT, RunFolder(run).read_json(ABOUT))
    for name in WEIGHTS:
        if (run / "model" / name).exists():
            write_checked(path / "model" / name, read_tensors(run / "model" / name), {})
    return load(path).predict_proba


@contextmanager
def _exporting(what: str) -> Iterator[None]:
    """Explain failures of an exporter, and silence its harmless warnings."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.WARNING))  # such as that torchvision is not installed
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`torch\.jit\.", DeprecationWarning)
            warnings.filterwarnings("ignore", "# The axis name")  # ids and mask share their axes
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


def _compare(call: Call, samples: Samples, expected: Mapping[int, Tensor], to: Format) -> float:
    """Largest difference of a probability from the predictions of the original, by the number of first samples."""
    largest = 0.0
    for number, wanted in expected.items():
        try:
            found = call(*samples.first(number))
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


def _samples(model: Model, run: Path, source: Any, columns: Columns | None, to: Format) -> Samples:
    """Real samples for the comparison: of the source, else saved ones, else those that the run was trained on."""
    graph, frozen = to not in FOLDERS, isinstance(model.preparation, EncoderPreparation)
    if graph and frozen and model.preparation.takes == "sound":
        raise InputError(f"--to {to} has no place for an encoder of recordings. Use --to safetensors.")
    if graph and isinstance(model.preparation, EncoderPreparation):
        model.preparation.half = False  # as the graph computes
    if source is None and not (graph and frozen):  # saved samples of a frozen encoder are its features
        if model.samples is None or not len(model.samples):
            raise InputError(f"{run} has no saved samples for the comparison. Give some with --source.")
        found = Samples.of_items(model.preparation, model.samples[:MOST_SAMPLES])
    else:
        most = MOST_ENCODED if frozen else MOST_SAMPLES
        pieces = _trained_on(model, run) if source is None else open_records(model, source, columns, most, str(run))
        piece = next(iter(pieces), None)
        chosen = None if piece is None else piece.select(range(min(len(piece), most)))
        if not chosen or not len((found := Samples.of_inputs(model.preparation, chosen.inputs)).items):
            raise InputError(f"{run if source is None else source} has no samples for the comparison. Give another --source.")
    return found if graph else Samples(found.items, (found.items,))


def _trained_on(model: Model, run: Path) -> Iterator[Records]:
    """Read the data of a run again."""
    try:
        settings = read_file(run / RUN_SETTINGS)
        if not isinstance(where := settings.pop("source", None), str):
            raise InputError(f"{RUN_SETTINGS} does not name them.")
        yield from read_again(where, model, make_config(settings, where=f"{run}/{RUN_SETTINGS}"))
    except InputError as error:
        raise InputError(f"the data of {run} cannot be read for the comparison: {error} Give samples with --source.") from error


def _move(folder: Path, path: Path) -> tuple[Path, ...]:
    """Move all files from the temporary folder to their place, the main one last; return their paths."""
    made = {each: path.with_name(each.name) for each in sorted(folder.iterdir(), key=lambda each: each.name == path.name)}
    with explained(path):
        for to in made.values():
            refuse_existing(to)
        for each, to in made.items():
            each.rename(to)
    return tuple(reversed(made.values()))
