"""The verdict sentence, by the interval of the difference."""

import pytest

from softmatch.runs.verdict import judge


@pytest.mark.parametrize(
    ("difference", "interval", "kind", "sentence"),
    [
        (-0.078, (-0.102, -0.056), "helped", "The unlabelled data helped: −7.8 points (95 % interval −10.2 to −5.6)."),
        (0.02, (0.01, 0.03), "hurt", "The unlabelled data hurt: +2.0 points (95 % interval +1.0 to +3.0)."),
        (-0.01, (-0.02, 0.0), "open", "No clear difference: −1.0 points (95 % interval −2.0 to 0.0) contains zero."),
        (0.0002, (-0.1, 0.1), "open", "No clear difference: +0.02 points (95 % interval −10.0 to +10.0) contains zero."),
        (0.0, None, "open", "The difference is 0.0 points. Without an interval it cannot be judged."),
    ],
)
def test_verdicts(difference: float, interval: tuple[float, float] | None, kind: str, sentence: str) -> None:
    assert judge(difference, interval) == (sentence, kind)
