"""A maker that needs no torch: processes that load it start in no time."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softmatch.augmenting.working import work
from softmatch.errors import InputError


@dataclass(frozen=True)
class Echo:
    """Says who it is and how many threads it has; some words make it fail."""

    name: str = "echo"
    what: str = "texts"
    fingerprint: str = "0" * 64

    def split(self, text: str) -> list[str]:
        return ["", text, ""]

    def load(self, worker: int = 0, threads: int | None = None) -> Callable[[Sequence[str]], list[str]]:
        def make(texts: Sequence[str]) -> list[str]:
            if texts[0] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if texts[0] == "fail":
                raise InputError("this cannot work")
            if texts[0] == "sleep":
                time.sleep(60.0)
            return [f"{text} {worker} {threads}" for text in texts]

        return make


if __name__ == "__main__":  # sleeps in two processes until it is interrupted
    made = work(Echo(), [["a"], ["sleep"], ["sleep"]], processes=2)
    try:
        print(next(made)[1], flush=True)
        next(made)
    except KeyboardInterrupt:
        made.close()
        sys.exit(130)
