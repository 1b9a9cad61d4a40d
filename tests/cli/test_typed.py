"""The words of a command: former names of options, and what is left without one."""

import pytest

from softmatch.cli.app import option_names
from softmatch.cli.options import RENAMED, arguments, command_line, remember, without_option


@pytest.mark.parametrize(
    ("typed", "current", "told"),
    [
        (
            "train x.csv --label kind --labels 4",
            "train x.csv --label-column kind --labels 4",
            ["--label is now called --label-column."],
        ),
        ("train --no-twin --model=mlp", "train --no-baseline --network=mlp", ["--no-twin", "--model"]),
        ("compare --measure seconds --processes 2", "compare --metric seconds --parallel-runs 2", ["--measure", "--processes"]),
        ("train --processes 2", "train --processes 2", []),
        ("train --fine-tune --steps 3", "train --tune=all --steps 3", ["--fine-tune is now called --tune=all."]),
        ("check x.csv --no-fine-tune", "check x.csv --tune=head", ["--no-fine-tune is now called --tune=head."]),
        ("augment t.csv --text a", "augment t.csv --text-column a", ["--text"]),
        ("predict run x.csv --features a,b", "predict run x.csv --feature-columns a,b", ["--features"]),
        ("predict run -- --label", "predict run -- --label", []),
    ],
)
def test_former_names_become_current_ones(typed: str, current: str, told: list[str]) -> None:
    said: list[str] = []
    assert remember(typed.split(), said.append) == current.split() == arguments()
    assert command_line() == f"softmatch {current}"
    assert [line.startswith(start) for line, start in zip(said, told, strict=True)] == [True] * len(told)


@pytest.mark.parametrize("command", RENAMED)
def test_every_former_name_leads_to_an_option(command: str) -> None:
    options = set(option_names(command))
    assert not options & set(RENAMED[command]), "a former name means something else now"
    if command not in ("bench", "plan"):  # which read some settings only
        assert set(RENAMED[command].values()) <= options


def test_options_are_taken_out_of_a_command() -> None:
    assert without_option(["train", "--processes", "2", "x", "--steps=3"], "--processes") == ["train", "x", "--steps=3"]
    assert without_option(["train", "--processes=2", "--processes-not", "2"], "--processes") == ["train", "--processes-not", "2"]
