"""The command `softmatch`, and `python -m softmatch`."""

import io
import os
import signal
import sys
from types import FrameType

from softmatch.errors import HEARD, INTERRUPTED, STOPPED

SIGNALS = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")


def main() -> int:
    """Run the command line, which can be interrupted at any moment, also while it imports a library.

    Signals other than SIGINT give the exit code "try again", also when there is nothing to save yet.
    """
    HEARD.clear()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(encoding="utf-8")  # others, as of pipes on Windows, have no λ and not all class names
    if {"-q", "--quiet"} & set(sys.argv):
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # before the hub's library is imported

    def interrupt(number: int, frame: FrameType | None) -> None:
        HEARD.append(number)
        raise KeyboardInterrupt

    for name in SIGNALS:
        number = getattr(signal, name, None)  # Windows has no SIGUSR1
        if number is not None and not (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):  # by nohup
            signal.signal(number, interrupt)
    try:
        from softmatch.cli.app import main as run

        code = run()
    except BaseException:
        if not HEARD:
            raise
        print("softmatch: interrupted.", file=sys.stderr)
        code = INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, and an interruption while torch ends changes nothing
    return STOPPED if code == INTERRUPTED and HEARD and HEARD[-1] != signal.SIGINT else code


if __name__ == "__main__":
    sys.exit(main())
