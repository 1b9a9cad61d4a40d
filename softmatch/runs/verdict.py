"""The verdict of a run: the one sentence that says whether the unlabelled data helped."""

from typing import Literal

from softmatch.formatting import signed

Kind = Literal["helped", "hurt", "open"]


def judge(difference: float, interval: tuple[float, float] | None) -> tuple[str, Kind]:
    """Say what the difference between the errors of the method and of its baseline means.

    Args:
        difference: error of the method minus error of the baseline, as a fraction.
        interval: 95 % interval of the difference.
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
