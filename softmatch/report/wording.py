"""Sentences and key figures of the report: title, verdict, evaluation, tiles, and what is missing."""

from softmatch.data.split import count_positions
from softmatch.formatting import duration, signed
from softmatch.methods import BASELINE, proper_name
from softmatch.report.pages import THIN, count, percent
from softmatch.report.run_contents import Contents, number, pair
from softmatch.runs.verdict import judge, rests_on

MOSTLY = 0.999  # a share from which on a part counts as all


def subtitle(contents: Contents) -> list[str]:
    """Parts of the line under the title: method, labels, steps, seed; unknown ones are left out."""
    pool, steps, seed = contents.split.get("unlabeled"), contents.setting("steps"), contents.setting("seed")
    parts = (
        proper_name(contents.method),
        count(contents.labels, "label", "labels") if contents.labels else "",
        count(count_positions("unlabeled", pool), "unlabelled sample", "unlabelled samples") if pool else "",
        count(steps, "step", "steps") if steps else "",
        "" if seed is None else f"seed {seed}",
    )
    return [part for part in parts if part]


def verdict(contents: Contents) -> tuple[str, str]:
    """Sum up the run in a few sentences; and the kind: helped, hurt, open, alone, unmeasured or unfinished."""
    result = contents.result
    if contents.unmeasured:
        advice = "To measure it, label a few more samples of each class, or give a labelled test set, and train again."
        return f"The accuracy of this model could not be measured. {contents.reason or advice}", "unmeasured"
    error = number(result.get("test_error"))
    if error is None:
        return _unfinished(contents), "unfinished"
    made = f"makes {percent(error)} errors on {_on_samples(contents)}"
    given = f"With {count(contents.labels, 'label', 'labels')}" if contents.labels else "In this run"
    interval = pair(result.get("test_error_interval"))
    around = f" (95{THIN}% interval {percent(interval[0])} to {percent(interval[1])})" if interval else ""
    if contents.method == BASELINE:
        return f"{given} and no unlabelled data the network {made}{around}. There is no pseudo-labelling to judge.", "alone"
    name = proper_name(contents.method)
    supervised, difference = number(result.get("supervised_test_error")), number(result.get("difference"))
    if supervised is None or difference is None:
        unknown = "No baseline was trained, so it is not known whether the unlabelled data helped."
        return f"{given} {name} {made}{around}. {unknown}", "alone"
    first = f"{given} {name} {made}; the baseline, trained on the labels only, makes {percent(supervised)}."
    sentence, kind = judge(difference, pair(result.get("difference_interval")))
    kept = ""
    if result.get("kept") == BASELINE:
        kept = " The saved model is the baseline, since it makes clearly fewer errors; it was chosen by the same samples."
    return f"{first} {sentence.replace(' %', f'{THIN}%')}{kept}", kind


def _unfinished(contents: Contents) -> str:
    if not contents.records:
        return "This run has no result and no records yet: there is nothing to judge."
    error = number(contents.last.get("test_error"))
    steps = count(contents.config.get("steps")) if contents.config.get("steps") else "an unknown number"
    seen = f"; at its last record the error was {percent(error)}" if error is not None else ""
    return f"This run has not finished: it was recorded up to step {count(contents.last['step'])} of {steps}{seen}."


def _on_samples(contents: Contents) -> str:
    """The samples that the error was measured on, to follow "makes 3 % errors on"."""
    samples = contents.measured_samples
    if contents.measured_by == "crossfit":
        return f"{count(samples, 'labelled sample', 'labelled samples')}, each left out of training in turn"
    kind = "test" if contents.measured_by == "test" else "held-out"
    return count(samples, f"{kind} sample", f"{kind} samples")


def how_measured(contents: Contents) -> str | None:
    """Explain the evaluation in a few sentences; None where nothing was measured or nothing is known of it."""
    how, samples = _how_measured(contents), contents.measured_samples
    if how is None or samples is None or contents.result.get("measured_on") != "random":
        return how
    return f"{how} {rests_on('random', samples)}"


def _how_measured(contents: Contents) -> str | None:
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
            some = f"{count(samples)} of the {count(contents.labels)}"
            some = some if (contents.labels or 0) > samples else f"The {count(samples)}"
            return (
                f"{some} labelled samples were divided into {count(folds, 'part', 'parts') if folds else 'parts'}. Each part was "
                "predicted by a network that was trained without it and saw neither its labels nor its samples. The saved "
                "model was then trained on all labels, so its own error is expected to be lower, the more so the fewer there are."
            )
        case _:
            return None


def tiles(contents: Contents) -> list[dict[str, str]]:
    """Key figures: name, value, note; a dash for a missing value. A run without any error has no tiles for errors."""
    result, last, last_baseline = contents.result, contents.last, (contents.baseline_records or [{}])[-1]
    finished = number(result.get("test_error")) is not None
    error = number(result.get("test_error") if finished else last.get("test_error"))
    interval, difference = pair(result.get("test_error_interval")), pair(result.get("difference_interval"))
    note = f"95{THIN}%: {percent(interval[0])} – {percent(interval[1])}" if interval else "" if finished else "last record"
    baseline = number(result.get("supervised_test_error") if finished else last_baseline.get("test_error"))
    rows: list[tuple[str, str, str]] = []
    if error is not None or baseline is not None:
        name = "Cross-fitted error" if contents.measured_by == "crossfit" else "Test error"
        rows.append((name, percent(error), note))
        if contents.method != BASELINE:
            note = f"95{THIN}%: {signed(difference[0])} to {signed(difference[1])}" if difference else "needs both errors"
            rows.append(("Baseline error", percent(baseline), "labels only" if baseline is not None else "not trained"))
            points = number(result.get("difference"))
            rows.append(("Difference in points", "–" if points is None else signed(points), note))
    if contents.method != BASELINE:
        weightless = "no sample has weight" if contents.known_share else "truth not known" if contents.records else ""
        judged = "weight on right labels" if (contents.known_share or 1) >= MOSTLY else "of those whose class is known"
        quality = number(result.get("quality", last.get("quality")))
        rows += [
            ("Quantity f", percent(number(result.get("quantity", last.get("quantity")))), "average weight, last record"),
            ("Quality g", percent(quality), weightless if quality is None else judged),
        ]
    seconds = number(result.get("seconds", last.get("seconds")))
    with_baseline = "with the baseline" if number(result.get("supervised_seconds")) else ""
    rows.append(("Time", "–" if seconds is None else duration(seconds).replace(" ", THIN), with_baseline))
    return [{"name": name, "value": value, "note": note} for name, value, note in rows]


def warnings(contents: Contents) -> list[str]:
    """Warnings of the run, without the one that is the headline already."""
    found, said = contents.result.get("warnings"), contents.reason if contents.unmeasured else None
    return [text for text in found if isinstance(text, str) and text.strip() != said] if isinstance(found, list) else []


def missing(contents: Contents) -> list[str]:
    """Explain what this page cannot show."""
    supervised, share = contents.method == BASELINE, contents.known_share
    pseudo = bool(contents.records) and not supervised
    recorded = pseudo and any("histogram" in record for record in contents.records)
    alone = not supervised and not contents.baseline_records
    compared = number(contents.result.get("supervised_test_error")) is not None
    notes = {
        "config.yaml is missing: the settings are not known.": not contents.config,
        "result.json is missing: the run was interrupted or is not finished. The figures are of its last record.": (
            not contents.result
        ),
        f"metrics.jsonl has no records: there are no charts of {proper_name(contents.method)}.": not contents.records,
        "The method is supervised: there are no pseudo-labels, weights or thresholds to show.": supervised,
        "twin/metrics.jsonl is missing: only the final error of the baseline is known.": alone and compared,
        "No baseline was trained, so there is nothing to compare with.": alone and not compared and not contents.unmeasured,
        "This method records no pseudo-labels: quantity, quality and confidence cannot be shown.": pseudo and not recorded,
        "The true classes of the unlabelled samples are not known: quality and wrong pseudo-labels cannot be shown.": (
            recorded and not share
        ),
        f"The true class is known for {percent(share)} of the pseudo-labels. Their quality is measured on those only, and they "
        "include labelled samples that were trained on: it is not an estimate for all.": recorded and 0 < (share or 0) < MOSTLY,
    }
    return [note for note, applies in notes.items() if applies]
