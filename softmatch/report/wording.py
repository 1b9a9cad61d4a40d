"""The report in words and figures: title, verdict, tiles, and what is missing."""

from __future__ import annotations

from typing import Any

from softmatch.data.split import count_positions
from softmatch.formatting import signed
from softmatch.methods import BASELINE, proper_name
from softmatch.report.measured import error_name, on_samples, why_not_measured
from softmatch.report.numbers import THIN, count, duration, pair, percent
from softmatch.report.run_contents import Contents, number
from softmatch.runs.verdict import judge

MOSTLY = 0.999  # a share from which on a part counts as all


def subtitle(contents: Contents) -> list[str]:
    """The line under the title: method, labels, steps, seed; what is not known is left out."""
    parts = [proper_name(contents.method)]
    if contents.labels:
        parts.append(count(contents.labels, "label", "labels"))
    if contents.split.get("unlabeled"):
        pool = count_positions("unlabeled", contents.split["unlabeled"])
        parts.append(count(pool, "unlabelled sample", "unlabelled samples"))
    if contents.setting("steps"):
        parts.append(count(contents.setting("steps"), "step", "steps"))
    if contents.setting("seed") is not None:
        parts.append(f"seed {contents.setting('seed')}")
    return parts


def verdict(contents: Contents) -> tuple[str, str]:
    """What the run shows, in a few sentences, and its kind: helped, hurt, open, alone, unmeasured or unfinished."""
    result = contents.result
    if contents.unmeasured:
        return why_not_measured(contents), "unmeasured"
    error = number(result.get("test_error"))
    if error is None:
        return _unfinished(contents), "unfinished"
    made = f"makes {percent(error)} errors on {on_samples(contents)}"
    given = f"With {count(contents.labels, 'label', 'labels')}" if contents.labels else "In this run"
    interval = pair(result.get("test_error_interval"))
    around = f" (95{THIN}% interval {percent(interval[0])} to {percent(interval[1])})" if interval else ""
    if contents.method == BASELINE:
        return f"{given} and no unlabelled data the network {made}{around}. There is no pseudo-labelling to judge.", "alone"
    name = proper_name(contents.method)
    supervised, difference = number(result.get("supervised_test_error")), number(result.get("difference"))
    if supervised is None or difference is None:
        return (
            f"{given} {name} {made}{around}. No network was trained on the labels alone, "
            "so whether the unlabelled data helped is not known."
        ), "alone"
    first = f"{given} {name} {made}; trained on the labels alone the same network makes {percent(supervised)}."
    sentence, kind = judge(difference, pair(result.get("difference_interval")))
    return f"{first} {sentence.replace(' %', f'{THIN}%')}", kind


def _unfinished(contents: Contents) -> str:
    if not contents.records:
        return "This run has no result and no records yet: there is nothing to judge."
    error = number(contents.last.get("test_error"))
    steps = count(contents.config.get("steps")) if contents.config.get("steps") else "an unknown number"
    seen = f"; at its last record the error was {percent(error)}" if error is not None else ""
    return f"This run has not finished: it was recorded up to step {count(contents.last['step'])} of {steps}{seen}."


def tiles(contents: Contents) -> list[dict[str, str]]:
    """Key figures: name, value, note; a dash where there is none. Of a run without any error, none of the errors."""
    result, last, last_twin = contents.result, contents.last, (contents.twin_records or [{}])[-1]
    finished = number(result.get("test_error")) is not None
    error = number(result.get("test_error") if finished else last.get("test_error"))
    interval, difference = pair(result.get("test_error_interval")), pair(result.get("difference_interval"))
    note = f"95{THIN}%: {percent(interval[0])} – {percent(interval[1])}" if interval else "" if finished else "last record"
    twin = number(result.get("supervised_test_error") if finished else last_twin.get("test_error"))
    rows: list[tuple[str, str, str]] = []
    if error is not None or twin is not None:
        rows.append((error_name(contents), _or_dash(error, percent), note))
        if contents.method != BASELINE:
            note = f"95{THIN}%: {signed(difference[0])} to {signed(difference[1])}" if difference else "needs both errors"
            trained = "same network, same steps" if twin is not None else "not trained"
            rows.append(("Error, labels alone", _or_dash(twin, percent), trained))
            rows.append(("Difference in points", _or_dash(number(result.get("difference")), signed), note))
    if contents.method != BASELINE:
        weightless = "nothing has weight" if contents.known_share else "truth not known" if contents.records else ""
        judged = "weight on right labels" if (contents.known_share or 1) >= MOSTLY else "of those whose class is known"
        quantity = number(result.get("quantity", last.get("quantity")))
        quality = number(result.get("quality", last.get("quality")))
        rows += [
            ("Quantity f", _or_dash(quantity, percent), "average weight, last record"),
            ("Quality g", _or_dash(quality, percent), weightless if quality is None else judged),
        ]
    seconds = number(result.get("seconds", last.get("seconds")))
    rows.append(("Time", _or_dash(seconds, duration), "with the comparison" if number(result.get("supervised_seconds")) else ""))
    return [{"name": name, "value": value, "note": note} for name, value, note in rows]


def _or_dash(value: float | None, style: Any) -> str:
    return "–" if value is None else str(style(value))


def warnings(contents: Contents) -> list[str]:
    """What training has found worth a warning; not what the headline says already."""
    found, said = contents.result.get("warnings"), contents.reason if contents.unmeasured else None
    return [text for text in found if isinstance(text, str) and text.strip() != said] if isinstance(found, list) else []


def missing(contents: Contents) -> list[str]:
    """What this page cannot show, and why."""
    notes = []
    if not contents.config:
        notes.append("config.yaml is missing: the settings are not known.")
    if not contents.result:
        notes.append("result.json is missing: the run was interrupted or is still going. The figures are of its last record.")
    if not contents.records:
        notes.append(f"metrics.jsonl has no records: there are no charts of {proper_name(contents.method)}.")
    supervised = contents.method == BASELINE
    if supervised:
        notes.append("The method is supervised: there are no pseudo-labels, weights or thresholds to show.")
    elif number(contents.result.get("supervised_test_error")) is not None and not contents.twin_records:
        notes.append("twin/metrics.jsonl is missing: how the network did on the labels alone is known at the end only.")
    elif not contents.twin_records and not contents.unmeasured:
        notes.append("No network was trained on the labels alone, so there is nothing to compare with.")
    if contents.records and not supervised:
        if not any("histogram" in r for r in contents.records):
            notes.append("This method records no pseudo-labels: quantity, quality and confidence cannot be shown.")
        elif not contents.known_share:
            notes.append(
                "The true classes of the unlabelled samples are not known: quality and wrong pseudo-labels cannot be shown."
            )
        elif contents.known_share < MOSTLY:
            notes.append(
                f"The true class is known of {percent(contents.known_share)} of the pseudo-labels. Their quality is measured on "
                "those alone, and labelled samples that were trained on are among them: it is no estimate for all."
            )
    return notes
