"""The exit code of the command, by what has ended it."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from softmatch import __main__
from softmatch.cli import app as cli
from softmatch.errors import HEARD
from softmatch.training.stop import Stop


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The command is the process's own; here it is not."""
    numbers = [getattr(signal, name) for name in __main__.SIGNALS]
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and the command leaves it so
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    HEARD.clear()


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 75), ("SIGUSR1", 75), ("SIGHUP", 75)])
def test_a_signal_before_there_is_anything_to_save(
    name: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "main", lambda: os.kill(os.getpid(), getattr(signal, name)) or signal.pause())
    assert __main__.main() == code
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 1, 2, 75, 130])
def test_other_codes_are_left_as_they_are(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """130 without a signal heard here: a second Ctrl-C, which training hears by itself."""
    monkeypatch.setattr(cli, "main", lambda: code)
    assert __main__.main() == code


def test_an_interruption_that_a_library_dropped_still_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = []

    def command() -> int:
        with suppress(BaseException):  # what a destructor does with it
            signal.raise_signal(signal.SIGINT)
        with Stop():
            entered.append(True)
        return 0

    monkeypatch.setattr(cli, "main", command)
    assert __main__.main() == 130
    assert not entered
