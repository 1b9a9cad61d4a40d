"""A listener of your own: it writes the error at each record to a table, and adds the final error of a run to a list of all runs.

    softmatch train digits --track own_listener.py:ErrorTable
    softmatch.train("digits", listeners=[ErrorTable("errors.csv")])

The methods are called in a thread of their own. A listener that fails or hangs is reported once; training continues.
"""

import csv
from pathlib import Path
from typing import Any

import softmatch


class ErrorTable(softmatch.Listener):
    """Writes errors to a CSV file: one row per record of the method and of its baseline, and one for the result."""

    def __init__(self, path: str | Path = "errors.csv") -> None:
        self.path = Path(path)
        self.run = ""

    def start(self, run: softmatch.TrackedRun) -> None:
        self.run = run.name
        if not self.path.exists():
            self.add("run", "network", "step", "error")

    def record(self, record: dict[str, Any]) -> None:
        self.add(self.run, record["role"], record["step"], record.get("test_error"))

    def end(self, result: dict[str, Any] | None) -> None:
        if result is not None:  # the run was not stopped
            self.add(self.run, "final", result["steps"], result["test_error"])

    def add(self, *cells: Any) -> None:
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(cells)


if __name__ == "__main__":
    softmatch.train("digits", labels=40, listeners=[ErrorTable()])
