"""The command `softmatch`, and `python -m softmatch`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; an interruption while it is still being imported is no traceback either."""
    try:
        from softmatch.cli import main as run
    except KeyboardInterrupt:
        print("softmatch: interrupted.", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
