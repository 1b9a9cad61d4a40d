"""python -m softmatch."""

import sys

from softmatch.cli import main

sys.exit(main())
