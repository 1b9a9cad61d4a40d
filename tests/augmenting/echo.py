"""A maker without a model."""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softmatch.augmenting.worker_pool import make_batches
from softmatch.errors import InputError


@dataclass(frozen=True)
class Echo:
    """Returns the number of its process and its threads; some words make it fail."""

    unit: str = "texts"
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
    made = make_batches(Echo(), [["a"], ["sleep"], ["sleep"]], processes=2)
    try:
        print(next(made)[1], flush=True)
        next(made)
    except KeyboardInterrupt:
        made.close()
        sys.exit(130)
