"""How the error of a run was measured, in words: a test set, held-out labels, a cross-fit, or not at all."""

from __future__ import annotations

from softmatch.report.numbers import count, percent
from softmatch.report.run_contents import Contents, number


def on_samples(contents: Contents) -> str:
    """What the error was measured on, to follow "makes 3 % errors on"."""
    samples = contents.measured_samples
    match contents.measured_by:
        case "test":
            return count(samples, "test sample", "test samples")
        case "crossfit":
            return f"{count(samples, 'labelled sample', 'labelled samples')}, each left out of training in turn"
        case _:
            return count(samples, "held-out sample", "held-out samples")


def error_name(contents: Contents) -> str:
    """What to call the error over a figure."""
    return "Cross-fitted error" if contents.measured_by == "crossfit" else "Test error"


def share_caption(contents: Contents) -> str:
    """What an error is a share of."""
    if contents.measured_by == "crossfit":
        return (
            "The share of the labelled samples that are classified wrongly by the network that has not seen them, "
            "over all parts of the cross-fit"
        )
    return f"The share of {'test' if contents.measured_by == 'test' else 'held-out'} samples that are classified wrongly"


def how_measured(contents: Contents) -> str | None:
    """One to three sentences; None where nothing was measured or nothing is known of it."""
    samples, folds = contents.measured_samples, number(contents.evaluation.get("folds"))
    if samples is None:
        return None
    match contents.measured_by:
        case "test":
            return f"A test set of {count(samples, 'sample', 'samples')} was given. None of them was trained on."
        case "holdout":
            return (
                f"{count(samples, 'labelled sample was', 'labelled samples were')} held out: the networks were trained on "
                "neither the samples nor their labels, and the error is measured on them."
            )
        case "crossfit":
            some = (
                f"{count(samples)} of the {count(contents.labels)}"
                if (contents.labels or 0) > samples
                else f"The {count(samples)}"
            )
            return (
                f"{some} labelled samples were divided into {count(folds, 'part', 'parts') if folds else 'parts'}. Each part was "
                "predicted by a network that was trained without it and saw neither its labels nor its samples. The saved "
                "model was then trained on all labels, so its own error is expected to be slightly lower."
            )
        case None:
            return _of_an_older_run(contents, samples)
        case _:
            return None


def _of_an_older_run(contents: Contents, samples: int) -> str:
    """Before `evaluation` was written, a run had the source's test set or a share of its samples."""
    if not contents.split.get("test"):
        return f"The source has a test set of {count(samples, 'sample', 'samples')}. None of them was trained on."
    share = number(contents.config.get("test_fraction"))
    part = f", {percent(share)} of the data," if share else ""
    return (
        f"{count(samples, 'sample', 'samples')}{part} {'was' if samples == 1 else 'were'} held out "
        "before training, and the error is measured on them."
    )


def why_not_measured(contents: Contents) -> str:
    """The headline of a finished run without an error: that, why, and what to do."""
    advice = "To have it measured, label a few more samples of each class, or give a labelled test set, and train again."
    return f"How accurate this model is could not be measured. {contents.reason or advice}"
