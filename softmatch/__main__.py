"""The command `softmatch`, and `python -m softmatch`."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def main() -> int:
    """Run the command line. An interruption is one at any moment, also where it breaks the import of a library."""
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        from softmatch.cli import main as run

        return run()
    except BaseException:
        if not interrupted:
            raise
        print("softmatch: interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
