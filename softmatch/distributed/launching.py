"""Start and supervise several training processes on this machine: `softmatch train --processes N`.

Like torchrun, but without its agent: the processes find each other by the same environment variables, receive signals, and are
ended when one of them is lost. Nothing here imports torch, which takes seconds.
"""

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType

from softmatch.errors import STOPPED

GRACE = 10.0
"""Seconds until SIGKILL after SIGTERM."""
SETTLE = 5.0
"""Seconds in which the first process may still report an error itself after another process has failed."""
PAUSE = 0.05
WINDOWS = os.name == "nt"
PASSED_ON = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")
PR_SET_PDEATHSIG = 1


def usable_cpus() -> int:
    """Number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def neighbours() -> int:
    """Number of training processes on this machine, this one included."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def launch(processes: int, arguments: Sequence[str], module: str = "softmatch") -> int:
    """Run `python -m softmatch` with these arguments in several processes, and wait for them.

    The first process has this one's terminal; of the others only the error output is shown. SIGINT, SIGTERM, SIGUSR1 and SIGHUP
    are passed on to all. When one fails, the others are ended. On Linux they also end with this process, however it ends.

    Args:
        module: the module to run.

    Returns:
        0 if all ended with 0, else the exit code of the process that failed first, 128 + n if signal n ended it. If a process
        other than the first was stopped (75), any other failure takes precedence.
    """
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}  # as torchrun sets them
    environment = {**os.environ, **meeting, **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(processes))}
    environment.setdefault("OMP_NUM_THREADS", str(max(usable_cpus() // processes, 1)))
    group = _Group()
    with listening(group.heard.append):
        try:
            for rank in map(str, range(processes)):
                group.start([sys.executable, "-m", module, *arguments], environment | {"RANK": rank, "LOCAL_RANK": rank})
            return group.wait()
        finally:
            group.kill()


def free_port() -> int:
    """A free port of this machine, none of those that the system hands out: it could give one away before it is used."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port


@contextmanager
def listening(hear: Callable[[int], None]) -> Iterator[None]:
    """In this block, signals are recorded instead of ending this process. Ignored ones, as with nohup, stay ignored."""

    def listen(number: int, frame: FrameType | None) -> None:
        hear(number)

    numbers = [getattr(signal, name) for name in PASSED_ON if hasattr(signal, name)]
    before = {number: signal.signal(number, listen) for number in numbers if signal.getsignal(number) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Group:
    """The processes, from the start of the first to the end of the last.

    Attributes:
        heard: signals to pass on to all processes.
    """

    def __init__(self) -> None:
        self.heard: deque[int] = deque()
        self._children: list[subprocess.Popen[bytes]] = []
        self._codes: dict[int, int] = {}  # by rank, in the order of ending
        self._passed_on: set[int] = set()
        self._plan: list[tuple[float, Callable[[], None]]] = []  # when and how to end the remaining ones

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a process in its own session: an interrupt at the terminal reaches only this process, which passes it on."""
        quiet = subprocess.DEVNULL if self._children else None
        end = ending_with(os.getpid(), signal.SIGKILL) if sys.platform == "linux" else None
        self._children.append(
            subprocess.Popen(command, env=environment, stdin=quiet, stdout=quiet, start_new_session=True, preexec_fn=end)
        )

    def wait(self) -> int:
        """Wait until all have ended, and return the common exit code."""
        decisive: int | None = None
        while len(self._codes) < len(self._children):
            while self.heard:
                self._passed_on.add(self.heard[0])
                self._send(self.heard.popleft())
            self._look()
            if decisive is None and (decisive := self._failed()) is not None:
                self._end_others(decisive)
            while self._plan and time.monotonic() >= self._plan[0][0]:
                self._plan.pop(0)[1]()
            time.sleep(PAUSE)
        if decisive is None:
            return STOPPED if STOPPED in self._codes.values() else 0
        code = self._codes[decisive]
        if 0 < code != self._codes[0]:  # the first reports errors of all, but not of one
            self._say(decisive, f"code {code}")
        return code if code > 0 else 128 - code

    def kill(self) -> None:
        """Kill the remaining processes."""
        for child in self._children:
            child.kill()
            child.wait()

    def _send(self, number: int) -> None:
        if number == signal.SIGINT and WINDOWS:
            return  # Windows gives Ctrl-C to all processes of a terminal, and knows no other way to send it
        for child in self._children:
            child.send_signal(number)

    def _look(self) -> None:
        """Record ended processes, those ended by a signal first: others may have failed because of them."""
        ended = [(rank, code) for rank, child in enumerate(self._children) if (code := child.poll()) is not None]
        for rank, code in sorted(ended, key=lambda each: each[1] >= 0):
            self._codes.setdefault(rank, code)

    def _failed(self) -> int | None:
        """Rank of the first process that failed. If one was only stopped, the first process may still be saving."""
        return next((rank for rank, code in self._codes.items() if code not in (0, STOPPED) or (rank == 0 and code)), None)

    def _end_others(self, failed: int) -> None:
        """Plan SIGTERM and later SIGKILL for the others. A killed process is reported at once."""
        code, first = self._codes[failed], time.monotonic()
        if code > 0 and failed > 0:
            first += SETTLE
        elif code < 0 and -code not in self._passed_on:
            self._say(failed, f"signal {-code} ({(signal.strsignal(-code) or 'unknown').lower()})")
        self._plan = [(first, partial(self._send, signal.SIGTERM)), (first + GRACE, self.kill)]

    def _say(self, rank: int, how: str) -> None:
        text = f"softmatch: process {rank + 1} of {len(self._children)} (rank {rank}) ended with {how}; all are ended."
        print(text, file=sys.stderr, flush=True)


def ending_with(parent: int, number: int) -> Callable[[], None]:
    """A function for a child to call first: it asks the kernel for a signal when the parent has ended, however."""
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:  # it has already ended
            os._exit(1)

    return ask
