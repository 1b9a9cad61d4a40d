"""The model card of a run: README.md for a repository of the hub, made from files of the run folder only."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from softmatch.formatting import escape_markdown, percent
from softmatch.methods import BASELINE, proper_name
from softmatch.metrics import wilson_interval
from softmatch.report import wording
from softmatch.report.pages import THIN
from softmatch.report.run_contents import Contents, mapping, number, pair, read
from softmatch.runs.folder import RunFolder
from softmatch.runs.verdict import FEW

MOST_CLASSES = 100
"""Classes in the table of a card."""
TASKS = {"image": "image-classification", "text": "text-classification", "table": "tabular-classification"} | {
    "sound": "audio-classification"
}
"""The hub's names of tasks, by what a model takes; arrays of numbers have none."""
THINGS = {"image": "images", "sound": "recordings", "text": "texts", "table": "rows of a table", "array": "arrays of numbers"}
EXAMPLES = {"image": '["one.jpg", "two.jpg"]', "sound": '["one.wav"]', "text": '["a text"]', "table": "frame", "array": "array"}
WORDS = "The model contains words or categories of its training data: a reader of its files can see them."
_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters |= {"md": escape_markdown, "percent": lambda value: percent(number(value))}


def model_card(run: RunFolder, address: str, takes: str, described: str, encoder: str | None, licence: str | None) -> str:
    """Write the card of the model in a run.

    Args:
        address: of the model, for `softmatch.load_model`: hf://owner/name, or a folder.
        encoder: pretrained encoder that the model needs.
        licence: identifier such as "mit", if the owner has chosen one.
    """
    contents, name = read(run), address.rpartition("/")[2]
    source = str(contents.config.get("source") or "the owner's data")
    source = Path(source).name or source  # the folders above it are the owner's own business
    classes = contents.result.get("classes")
    samples, error, interval = contents.measured_samples, *_error(contents)
    made = {
        "front": _front(contents, name, source, takes, licence),
        "title": name,
        "verdict": wording.verdict(contents)[0],
        "version": str(mapping(contents.result.get("versions")).get("softmatch", "?")),
        "subtitle": wording.subtitle(contents),
        "address": address,
        "example": EXAMPLES[takes],
        "input": described,
        "encoder": encoder,
        "classes": classes if isinstance(classes, list) else [{"name": name} for name in contents.classes],
        "most": MOST_CLASSES,
        "measured": "test" if contents.measured_by == "test" else "held-out",
        "data": f"{source}: {', '.join(wording.subtitle(contents)[1:3]) or 'its size was not recorded'}.",
        "rows": [] if error is None else _rows(contents),
        "how": wording.how_measured(contents) or "",
        "reason": contents.reason or "",
        "calibration": _calibration(mapping(contents.result.get("calibration"))),
        "things": THINGS[takes],
        "limits": _limits(contents, takes, samples, interval),
    }
    return _ENVIRONMENT.get_template("model_card.md.jinja").render(made).replace(THIN, " ")


def _error(contents: Contents) -> tuple[float | None, tuple[float, float] | None]:
    """Error of the saved model, which may be the baseline, with its interval."""
    result, samples = contents.result, contents.measured_samples or 0
    kept = result.get("kept") == BASELINE != contents.method
    error = number(result.get("supervised_test_error" if kept else "test_error"))
    return error, _interval(error, samples) if kept else pair(result.get("test_error_interval"))


def _interval(error: float | None, samples: int) -> tuple[float, float] | None:
    return wilson_interval(round(error * samples), samples) if error is not None and samples else None


def _front(contents: Contents, name: str, source: str, takes: str, licence: str | None) -> str:
    """Write the YAML that the hub reads."""
    error, task = _error(contents)[0], TASKS.get(takes)
    front: dict[str, Any] = {} if licence is None else {"license": licence}
    front |= {"library_name": "softmatch", "tags": ["softmatch", "semi-supervised-learning"]}
    front |= {} if task is None else {"pipeline_tag": task}
    if error is not None:
        metrics = [{"type": "accuracy", "value": round(1 - error, 6), "name": f"Accuracy on {contents.measured_samples} samples"}]
        calibrated = number(mapping(contents.result.get("calibration")).get("ece"))
        if calibrated is not None:
            metrics.append({"type": "ece", "value": round(calibrated, 6), "name": "Expected calibration error"})
        about = {"type": task or "other"}, {"name": source, "type": source}
        front["model-index"] = [{"name": name, "results": [{"task": about[0], "dataset": about[1], "metrics": metrics}]}]
    return yaml.safe_dump(front, allow_unicode=True, sort_keys=False)


def _rows(contents: Contents) -> list[tuple[str, str, str]]:
    """Name, error and interval of the method, and of its baseline where there is one; the saved model is marked."""
    result, method = contents.result, contents.method
    found = [(method, proper_name(method), number(result.get("test_error")), pair(result.get("test_error_interval")))]
    baseline = number(result.get("supervised_test_error"))
    if baseline is not None and method != BASELINE:
        around = _interval(baseline, contents.measured_samples or 0)
        found.append((BASELINE, "baseline, the same network on the labels only", baseline, around))
    kept = str(result.get("kept") or method)
    return [
        (name + (" (this model)" if each == kept else ""), percent(error), " to ".join(map(percent, around or ())) or "–")
        for each, name, error, around in found
    ]


def _calibration(about: Mapping[str, Any]) -> str:
    ece, chance, scaled = (number(about.get(key)) for key in ("ece", "ece_by_chance", "ece_scaled"))
    temperature = number(about.get("temperature"))
    if ece is None:
        return "The calibration of the confidences was not measured."
    text = f"Expected calibration error: {percent(ece)}; a perfectly calibrated model has {percent(chance)} by chance."
    if temperature is None or temperature == 1.0:
        return f"{text} {about.get('reason') or ''}".strip()
    return f"{text} The logits are divided by {temperature:.3g}, after which the error is {percent(scaled)}."


def _limits(contents: Contents, takes: str, samples: int | None, interval: tuple[float, float] | None) -> list[str]:
    limits = [
        f"It knows {len(contents.classes):,} classes. A sample of any other kind is put into one of them.",
        f"Its error on {THINGS[takes]} from another source, place or time is not known.",
    ]
    if samples and samples < FEW and interval is not None:
        limits.append(f"Its error was measured on {samples:,} samples only, hence the wide interval.")
    if takes in ("text", "table"):
        limits.append(WORDS)
    return limits + wording.warnings(contents)
