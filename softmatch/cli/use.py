"""The commands export, distil, curve, report and runs. They import torch, through other modules, when they run."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from softmatch.cli.options import (
    ALOUD,
    ARGUMENTS,
    IN_FOLDER,
    OUTPUT,
    Device,
    Flag,
    Json,
    Method,
    Moved,
    OutFile,
    Parts,
    Run,
    Talk,
    TalkOrJson,
    given,
    settings_model,
    tell,
)
from softmatch.cli.train import Settings
from softmatch.config import RUN_SETTINGS, Config, split_names
from softmatch.errors import InputError
from softmatch.formatting import aligned, as_json, percent, visible_lines
from softmatch.runs.listing import list_runs

if TYPE_CHECKING:
    StudentSettings = Config
else:
    StudentSettings = settings_model(("steps", "minutes", "baseline", "image_size"))


def export(
    run: Run,
    /,
    *,
    to: Literal["onnx", "torchscript", "safetensors", "hub"],
    repo: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    private: Annotated[bool, Flag] = False,
    license: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    include: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    source: str | None = None,
    parts: Annotated[Parts, Parameter(name="*")] = IN_FOLDER,
    out: OutFile = None,
    talk: Annotated[Talk, Parameter(name="*")] = ALOUD,
) -> None:
    """Export the model with its preparation and class names to another format, and compare it with the original.

    ONNX and TorchScript get a graph from uint8 images, token ids or features to calibrated probabilities. It includes the
    encoder, frozen or fine-tuned, whose tokenizer is written next to it. It is loaded in its own runtime and compared on training
    samples before the command succeeds.

    For example:

    - softmatch export runs/photos --to onnx
    - softmatch export runs/tickets --to safetensors --out tickets-model
    - softmatch export runs/photos --to hub --repo owner/photos --private --license mit

    Parameters
    ----------
    to:
        Format: onnx (needs softmatch[onnx]), torchscript or safetensors; or hub, a folder for the Hugging Face hub with a model
        card made from the run.
    repo:
        Repository owner/name to upload to; it is created if it does not exist. Default: only the folder is written, nothing is
        sent. Samples of your data are never uploaded.
    private:
        Create a repository that only its owners see.
    license:
        Licence for the model card, by the hub's names, such as mit or apache-2.0. Default: none is stated.
    include:
        Further files of the run to upload, separated by commas: result.json; or held_out.csv, pictures.json and report.html,
        which may show samples of your data.
    source:
        Samples to compare on. Default: samples in the run folder, or with a frozen encoder the data of the run.
    out:
        File to write, or a folder for safetensors. Default: a new name in export/ of the run.
    """
    from softmatch.inference.export import export as run_export

    sharing: dict[str, Any] = {"repo": repo, "private": private, "license": license, "include": split_names(include) or ()}
    found = run_export(run, to, out, source, **sharing, **vars(parts))
    tell(found, talk)


def distil(
    run: Run,
    /,
    source: Moved = None,
    *,
    model: str = "small",
    measure: Annotated[bool, Parameter(show_default="--measure")] = True,
    settings: Annotated[StudentSettings | None, Parameter(name="*")] = None,
    method: Method = None,
    parts: Annotated[Parts, Parameter(name="*")] = IN_FOLDER,
    device: Device = "auto",
    out: Annotated[Path, Parameter(name=["--out", "-o"], group=OUTPUT)],
    talk: Annotated[TalkOrJson, Parameter(name="*")] = ALOUD,
) -> None:
    """Train a small model without the encoder on the pseudo-labels of a run, and compare both.

    The student learns from the labels of the run, and from the soft pseudo-labels of its unlabelled samples, each with its weight
    λ. It is measured on the same samples as the run, which neither was trained on. The result is a run folder for predict, export
    and report. A table shows size, speed and error of both.

    For example:

    - softmatch distil runs/tickets --out runs/tickets-small
    - softmatch distil runs/photos --out runs/photos-small --model wrn-10-2 --steps 5000
    - softmatch export runs/tickets-small --to onnx

    Parameters
    ----------
    model:
        Network of the student. small: the one that `softmatch train` chooses for the data without an encoder; for texts, a
        perceptron on TF-IDF features.
    measure:
        Measure the error of the student. If the run was measured by a cross-fit, this trains the teacher again for each fold.
    out:
        Run folder to create. An unfinished one of the same command is resumed; nothing is overwritten.
    """
    from softmatch.cli.display import Display, make_console
    from softmatch.inference.distil import distil as run_distil

    further = {"method": method, "device": device, **vars(parts), **given(settings)}
    with Display(make_console(talk)) as display:
        found = run_distil(run, out, source, model=model, measure=measure, watcher=display, **further)
    tell(found, talk)


def curve(
    run: Annotated[str, Parameter(group=ARGUMENTS, help="Folder of a finished run; or data to train on first.")],
    /,
    source: Moved = None,
    *,
    settings: Annotated[Settings | None, Parameter(name="*")] = None,
    talk: Annotated[TalkOrJson, Parameter(name="*")] = ALOUD,
) -> None:
    """Measure the error of a run with fewer labels, and predict it for more: would more labels help?

    Twelve trainings use a quarter, half and three quarters of the labels; the others are tested. A power law through these errors
    gives the error with two and four times the labels. The curve is added to the report of the run. An interrupted curve goes on
    where it was stopped when the command is repeated.

    With data instead of a run, a new run is trained first, by the options of `softmatch train`. For a run, --method, --network
    and --views name code of your own that it used; it keeps its other settings.

    For example:

    - softmatch curve runs/photos
    - softmatch curve photos/ --encoder images --out runs/photos
    """
    from softmatch.cli.display import Display, make_console
    from softmatch.cli.running import train_first
    from softmatch.training.learning_curve import learning_curve

    asked, folder = given(settings), Path(run)
    own = {key: asked.pop(key, None) for key in ("method", "network", "views")} if (folder / RUN_SETTINGS).is_file() else {}
    if own and own["views"] is not None:
        own["views"] = own["views"].get("own")
    if own and asked:
        raise InputError(f"{run} keeps its own settings: leave out {', '.join('--' + key.replace('_', '-') for key in asked)}.")
    if not own:
        if source is not None:
            raise InputError(f"{run} is not a run folder, and {source} is a second source: give one of them.")
        folder = train_first(run, asked, talk)
    with Display(make_console(talk), lines=1) as display:
        found = learning_curve(folder, source, **own, watcher=display)
    tell(found, talk)


def report(run: Annotated[Path, Parameter(group=ARGUMENTS, help="Run folder, finished or not.")], /) -> None:
    """Write report.html of a run folder again."""
    from softmatch.report import write_report
    from softmatch.runs.folder import RunFolder

    if not (run / RUN_SETTINGS).is_file():
        raise InputError(f"{run} is not a run folder: it has no {RUN_SETTINGS}.")
    print(write_report(RunFolder(run)))


def runs(
    folder: Annotated[Path, Parameter(group=ARGUMENTS, help="Folder of runs, or one run folder.")] = Path("runs"),
    /,
    *,
    json: Json = False,
) -> None:
    """List the run folders in a folder with data, method, labels, error and state, the newest first.

    For example:

    - softmatch runs
    - softmatch runs comparisons/runs --json
    """
    found = list_runs(folder)
    if json:
        print(as_json([asdict(run) for run in found]))
        return
    rows: list[tuple[str, ...]] = [("date", "data", "method", "labels", "error", "baseline", "state")]
    for run in found:
        labels = "–" if run.labels is None else f"{run.labels:,}"
        errors = percent(run.error), percent(run.baseline)
        named = Path(run.source or "–").name, run.method or "–"
        rows.append((f"{run.date:%Y-%m-%d %H:%M}", *map(visible_lines, named), labels, *errors, run.state))
    for line, path in zip(
        aligned(rows, "<<<>>><"), ["", *(f"\n    {visible_lines(str(run.run))}" for run in found)], strict=True
    ):
        print(line + path)
    if not found:
        print(f"There are no runs in {folder}.")
