"""How far `softmatch augment` has come: a live bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from softmatch.augmenting.via import WORDS
from softmatch.cli.display import say
from softmatch.formatting import duration

__all__ = ["Showing"]

LINES = 10
"""For each column, where there is no terminal."""


class Showing:
    """Told by `augment_texts` how far it is; see `Progress`.

    Attributes:
        made: how many "sentences" and "texts" were made and kept, besides those made before.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, emoji=False)  # a name may hold :boom:
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[figures]}", markup=False),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.made = Counter[str]()
        self._bar: TaskID | None = None
        self._started, self._next, self._last = 0.0, 0, 0

    def __enter__(self) -> Showing:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bars.stop()

    def kept(self) -> str:
        """'96 new sentences and 12 new texts', or nothing."""
        return " and ".join(f"{number:,} new {what}" for what, number in self.made.items() if number)

    def note(self, text: str) -> None:
        """What was noticed about the table."""
        say(self.console, f"Note: {text}", style="dim")

    def __call__(self, name: str, what: str, done: int, total: int, before: int) -> None:
        if done == before:  # a new column
            self._started, self._next, self._last = time.monotonic(), 0, before
            self._bar = self._bars.add_task(name, total=total, figures="")
        if name != WORDS:  # which are made anew every time
            self.made[what] += done - self._last
        self._last = done
        figures = _figures(what, done, total, before, time.monotonic() - self._started)
        if self.console.is_terminal:
            assert self._bar is not None
            self._bars.update(self._bar, completed=done, figures=figures)
        elif done >= self._next or done == total:
            self._next = done + max(total // LINES, 1)
            say(self.console, f"{name}: {figures}")


def _figures(what: str, done: int, total: int, before: int, seconds: float) -> str:
    """'1,200/12,000 sentences, 35.2 per second, 5.1 min left, 300 from the cache'."""
    parts = [f"{done:,}/{total:,} {what}"]
    if done > before and seconds > 0:
        rate = (done - before) / seconds
        parts.append(f"{rate:,.{0 if rate >= 100 else 1}f} per second")
        if done < total:
            parts.append(f"{duration((total - done) / rate)} left")
    if before:
        parts.append(f"{before:,} from the cache")
    return ", ".join(parts)
