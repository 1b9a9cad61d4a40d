"""The verdict of a run: the one sentence that says whether the unlabelled data helped."""

from typing import Literal

from softmatch.formatting import signed

Kind = Literal["helped", "hurt", "open"]
FEW = 100
"""Samples below which the 95 % interval of an error may be wider than ± 10 points."""


def judge(difference: float, interval: tuple[float, float] | None) -> tuple[str, Kind]:
    """Say what the difference between the errors of the method and of its baseline means.

    Args:
        difference: error of the method minus error of the baseline, as a fraction.
    """
    if interval is None:
        return f"The difference is {signed(difference)} points. Without an interval it cannot be judged.", "open"
    low, high = interval
    figures = f"{signed(difference)} points (95 % interval {signed(low)} to {signed(high)})"
    if high < 0:
        return f"The unlabelled data helped: {figures}.", "helped"
    if low > 0:
        return f"The unlabelled data hurt: {figures}.", "hurt"
    return f"No clear difference: {figures} contains zero.", "open"


def rests_on(measured_on: object, samples: int) -> str:
    """Say which labels an error rests on where some samples were chosen to be labelled; nothing where none were.

    Args:
        measured_on: of the result of a run: "all", "random" or "chosen".
    """
    if measured_on == "random":
        wide = " They are few, so the interval is wide." if samples < FEW else ""
        return f"Only labels of random samples are measured; those that were chosen are trained on only.{wide}"
    if measured_on == "chosen":
        return (
            f"Measured on {samples:,} samples, most of them chosen to be labelled, which differ from other data: the error is "
            "probably too high if a model doubted them, too low if they are typical. Label 20 or more random samples, which "
            "`softmatch suggest` adds, or give test data with --test."
        )
    return ""
