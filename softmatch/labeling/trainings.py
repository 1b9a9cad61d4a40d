"""Trainings of a project: `softmatch train` as a process of its own, of which only the run folder is read."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from softmatch.config import RUN_SETTINGS
from softmatch.data.cells import unguarded
from softmatch.data.evaluation import FEWEST
from softmatch.data.readers.csv_files import read_columns
from softmatch.errors import STOPPED, InputError
from softmatch.files.atomic import write_atomically
from softmatch.files.locks import is_locked
from softmatch.files.untrusted import parse_json, read_text
from softmatch.formatting import visible_lines
from softmatch.labeling.label_log import LabelLog
from softmatch.metrics import wilson_interval
from softmatch.report import wording
from softmatch.report.label_curve import curve_points
from softmatch.report.page_data import page_data
from softmatch.report.run_contents import Contents, mapping, number, read
from softmatch.runs.folder import LOCK, RunFolder, is_finished

BASELINE_COST = 0.4
"""Time of a step of the baseline, relative to one of the method, for the time that is left."""
TAIL = 2000
ENDED = [-getattr(signal, name) for name in ("SIGTERM", "SIGKILL") if hasattr(signal, name)]
"""Exit codes of a training that was ended from outside; Windows has no SIGKILL."""
"""Characters of a process's output that are shown."""
FORMATS = ("safetensors", "torchscript", "onnx")
FIGURES = (
    "test_error",
    "test_error_interval",
    "supervised_test_error",
    "labels",
    "test_samples",
    "quantity",
    "quality",
    "measured_on",
)


class Trainings:
    """Runs in runs/ of a project folder, or one run to look at.

    Beside the run folder 001/ are 001.csv, the labels it was started with, 001.json, its process, and 001.log, its output.

    Args:
        words: options of the command line for reading the source and for training.
        columns: those of them that `softmatch predict` reads too.
        only: a run to look at; nothing is started then.
    """

    def __init__(
        self, folder: Path, source: str, words: Sequence[str], columns: Sequence[str] = (), only: Path | None = None
    ) -> None:
        self.folder, self._source, self._words, self._columns, self._only = folder, source, [*words], [*columns], only
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._command: tuple[str, subprocess.Popen[bytes], Path, Path] | None = None
        self._results: dict[str, tuple[Path, subprocess.Popen[bytes]]] = {}
        self._guard = threading.Lock()

    def names(self) -> list[str]:
        """Names of the runs, the oldest first."""
        if self._only is not None:
            return [self._only.name]
        return sorted(path.stem for path in (self.folder / "runs").glob("*.json") if path.stem.isdecimal())

    def path(self, name: str) -> Path:
        """Folder of a run. Raises InputError for a name that is not one of `names`."""
        if name not in self.names():
            raise InputError(f"there is no training {name[:20]!r}.")
        return self._only or self.folder / "runs" / name

    def start(self, log: LabelLog, gone: Collection[str] = ()) -> str:
        """Start a training with the labels of this moment; they are kept, so that it can be resumed when there are more.

        Args:
            gone: names of samples that are not in the source any more; their labels are left out.
        """
        labels = log.labels().keys() - set(gone)
        self._refuse_second()
        number = max(map(int, self.names()), default=0) + 1
        name, runs = f"{number:03}", self.folder / "runs"
        runs.mkdir(exist_ok=True)
        log.write_table(runs / f"{name}.csv", gone)
        self._launch(name, {"labels": len(labels)})
        return name

    def resume(self, name: str) -> None:
        """Resume a training that was stopped or killed."""
        self._refuse_second()
        if is_finished(self.path(name)):
            raise InputError(f"training {name} is finished: there is nothing to resume.")
        self._launch(name, {"labels": self._about(name).get("labels"), "before": self._progress(name)[0]})

    def stop(self, name: str) -> None:
        """Ask a training to save its state and end."""
        path, process = self.path(name), self._processes.get(name)
        if process is not None and process.poll() is None:
            process.terminate()
        elif (pid := self._about(name).get("pid")) is not None and _is_process_of(pid, path):
            os.kill(pid, signal.SIGTERM)
        else:
            raise InputError(f"training {name} does not run.")

    def _refuse_second(self) -> None:
        if self._only is not None:
            raise InputError("this page only shows a run.")
        if any(self.is_running(name) for name in self.names()):
            raise InputError("a training is running already. Stop it first, or wait for its end.")

    def _launch(self, name: str, about: dict[str, Any]) -> None:
        runs = self.folder / "runs"
        words = ["train", self._source, "--labels-from", str(runs / f"{name}.csv"), "--prefer", "new"]
        words += ["--resume", "auto", "--out", str(runs / name), *self._words]
        with self._guard:
            self._processes[name] = process = _spawn(words, runs / f"{name}.log")
        about = {**about, "pid": process.pid, "started": time.time(), "command": shlex.join(["softmatch", *words])}
        write_atomically(runs / f"{name}.json", json.dumps(about).encode())

    def _about(self, name: str) -> dict[str, Any]:
        path = self.folder / "runs" / f"{name}.json"
        with suppress(InputError):
            return mapping(parse_json(read_text(path), path)) if self._only is None else {}
        return {}

    def is_running(self, name: str) -> bool:
        """True while a training's process is alive, whichever server has started it."""
        process, path = self._processes.get(name), self.path(name)
        if process is not None:
            return process.poll() is None
        pid = self._about(name).get("pid")
        return (isinstance(pid, int) and _is_process_of(pid, path)) or is_locked(path / LOCK)

    def state(self, name: str) -> str:
        """State in a word: running, finished, stopped or failed."""
        path, process = self.path(name), self._processes.get(name)
        if self.is_running(name):
            return "running"
        if is_finished(path):
            return "finished"
        if process is not None and process.returncode in (STOPPED, *ENDED):
            return "stopped"
        return "failed" if process is not None or not (path / RUN_SETTINGS).is_file() else "stopped"

    def summary(self, name: str) -> dict[str, Any]:
        """State and final figures of a training."""
        found = self._written(name, "result.json")
        figures = {key: found.get(key) for key in FIGURES}
        interval = _interval(found.get("supervised_test_error"), found.get("test_samples"))
        labels = found.get("labels") or self._about(name).get("labels")
        about = {"name": name, "state": self.state(name), "labels": labels, "baseline_interval": interval}
        return {**figures, **about, "path": str(self.path(name)), "curve": curve_points(self._written(name, "curve.json"))}

    def _written(self, name: str, file: str) -> dict[str, Any]:
        with suppress(InputError):
            return mapping(RunFolder(self.path(name)).read_json(file))
        return {}

    def details(self, name: str) -> dict[str, Any]:
        """Everything that the page draws about a training, while it runs or later."""
        path, about = self.path(name), self._about(name)
        share, part, active, figures_of = self._progress(name)
        contents = read(RunFolder(path))
        shown = contents
        if not contents.result and active is not None and active != path:
            shown = replace(read(RunFolder(active)), config=contents.config)
        data, summary = page_data(replace(shown, boundary={}, baseline_boundary={})), self.summary(name)
        sentence, kind = wording.verdict(contents) if contents.result else ("", "")
        left = None
        started, before = number(about.get("started")), number(about.get("before")) or 0.0
        if summary["state"] == "running" and started is not None and share > before + 0.01:
            left = (time.time() - started) * (1 - share) / (share - before)
        return {
            **summary,
            **{key: data[key] for key in ("charts", "confidence", "largest_weight", "truth")},
            "method": data["method"] if contents.config else "method",
            "live": None if contents.result else _live(shown),
            "measured_on": summary["measured_on"] if contents.result else _measured_on(contents),
            "moment": next((moment for moment in reversed(data["moments"]) if moment["all"]), None),
            "share": 1.0 if contents.result else share,
            "part": part,
            "figures_of": figures_of,
            "left": left,
            "verdict": sentence,
            "kind": kind,
            "measured": (wording.how_measured(contents) or "") if contents.result else "",
            "warnings": wording.warnings(contents) if contents.result else [],
            "output": _tail(self.folder / "runs" / f"{name}.log") if self._only is None and summary["state"] == "failed" else "",
            "command": about.get("command"),
            "report": (path / "report.html").is_file(),
        }

    def _progress(self, name: str) -> tuple[float, str, Path | None, str]:
        """Share of the work that is done, network that is trained now, folder of the newest figures, and whose they are."""
        path = self.path(name)
        if not (path / RUN_SETTINGS).is_file():
            return 0.0, "Reading the data", None, ""
        config = Contents(config=read(RunFolder(path)).config)
        steps, folds, compared = (
            number(config.setting("steps")),
            number(config.setting("folds")) or 5,
            config.setting("baseline") is not False,
        )
        parts = [(path / "twin", "Baseline"), (path, "Method")]  # in the order of their training
        if (path / "folds").is_dir():
            places = [(path / "folds" / str(fold), f"Fold {fold} of {int(folds)}") for fold in range(1, int(folds) + 1)]
            parts = [
                each for where, said in places for each in ((where / "twin", f"{said}: baseline"), (where, f"{said}: method"))
            ]
            parts += [(path, "Final model on all labels")]
        if not compared:
            parts = [(folder, said) for folder, said in parts if folder.name != "twin"]
        done = total = 0.0
        now, active, figures_of = "", None, ""
        for folder, said in parts:
            weight, share = BASELINE_COST if folder.name == "twin" else 1.0, 0.0
            if (folder / "metrics.jsonl").is_file() and (records := RunFolder(folder).records()):
                share = min(1.0, records[-1]["step"] / (steps or records[-1]["step"] or 1))
                active, figures_of = (folder.parent if folder.name == "twin" else folder), said
            now = said if share < 1.0 and not now else now
            done, total = done + weight * share, total + weight
        return done / total, now or "Last figures", active, figures_of

    def held_out(self, name: str) -> list[dict[str, str]]:
        """Rows of held_out.csv of a run, mistakes first; none where there is no such file."""
        path = self.path(name) / "held_out.csv"
        if not path.is_file():
            return []
        cells = read_columns(path)
        return [dict(zip(cells, map(unguarded, row), strict=True)) for row in zip(*cells.values(), strict=True)]

    def finished(self) -> list[str]:
        """Names of the finished trainings."""
        return [name for name in self.names() if is_finished(self.path(name))]

    def predict(self, name: str) -> None:
        """Predict the whole source with a run, into predictions/ of the project."""
        out = self.folder / "predictions" / f"{name}-{int(time.time())}.csv"
        self._order("predict", ["predict", str(self.path(name)), self._source, "--out", str(out), *self._columns], out, out)

    def export(self, name: str, to: str) -> None:
        """Export the model of a run, into exports/ of the project."""
        if to not in FORMATS:
            raise InputError(f"{to[:20]!r} is not a format: {', '.join(FORMATS)}.")
        folder = self.folder / "exports" / f"{name}-{int(time.time())}"
        out = {"onnx": folder / "model.onnx", "torchscript": folder / "model.pt"}.get(to, folder)
        self._order("export", ["export", str(self.path(name)), "--to", to, "--out", str(out)], out, folder)

    def _order(self, what: str, words: list[str], out: Path, result: Path) -> None:
        if self._only is not None:
            raise InputError("this page only shows a run.")
        with self._guard:
            if self._command is not None and self._command[1].poll() is None:
                raise InputError(f"{self._command[0]} is still at work: wait for its end.")
            out.parent.mkdir(parents=True, exist_ok=True)
            place = self.folder / "command.log"
            place.unlink(missing_ok=True)  # the page shows the output of the last command
            self._command = what, _spawn(words, place), place, out
            self._results[result.name] = result, self._command[1]

    def command(self) -> dict[str, Any] | None:
        """State and output of the last command."""
        if self._command is None:
            return None
        what, process, place, out = self._command
        code = process.poll()
        state = "running" if code is None else "finished" if code == 0 else "failed"
        result = next(reversed(self._results), None)
        return {"what": what, "state": state, "output": _tail(place), "file": str(out), "result": result}

    def download(self, name: str) -> Path:
        """File of a result, by its name; a folder is packed into a zip file beside it.

        Raises:
            InputError: it is not a finished result of this server.
        """
        path, process = self._results.get(name, (None, None))
        if path is None or process is None or process.poll() != 0:
            raise InputError(f"there is no result {name[:40]!r}.")
        if not path.is_dir():
            return path
        with self._guard:
            packed = path.with_name(f"{path.name}.zip")
            if not packed.exists():
                made = shutil.make_archive(str(path.with_name(f".{path.name}")), "zip", path)
                Path(made).replace(packed)
            return packed


def _interval(error: Any, samples: Any) -> tuple[float, float] | None:
    """Wilson's interval of an error rate; None without the rate or the number of samples."""
    rate, tested = number(error), int(number(samples) or 0)
    return wilson_interval(round(rate * tested), tested) if rate is not None and 0 <= rate <= 1 <= tested else None


def _live(contents: Contents) -> dict[str, Any]:
    """Newest error of a network and that of its baseline at the same step, with intervals and numbers of samples."""
    own, baseline = (
        {record["step"]: record for record in records if number(record.get("test_error")) is not None}
        for records in (contents.records, contents.baseline_records)
    )
    now = next(reversed(own.values()), {})
    found: dict[str, Any] = {}
    for key, record in (("method", now), ("baseline", baseline.get(now.get("step")) or next(reversed(baseline.values()), {}))):
        error, samples = record.get("test_error"), record.get("test_samples")
        found[key] = {"error": error, "interval": _interval(error, samples), "samples": samples}
    return found


def _measured_on(contents: Contents) -> str | None:
    """Return "chosen" if fewer labels are random ones than an error needs, which is how training decides it."""
    rows = {key: set(found) for key in ("labeled", "test", "chosen") if isinstance(found := contents.split.get(key), list)}
    given, chosen = rows.get("labeled", set()) | rows.get("test", set()), rows.get("chosen", set())
    few = given & chosen and len(given - chosen) < FEWEST
    return "chosen" if few and not contents.setting("test") else None


def _spawn(words: Sequence[str], output: Path) -> "subprocess.Popen[bytes]":
    """Start `softmatch …` behind the page: it gets the processor that the page leaves, and lives on if the page ends."""
    polite = ["nice", "-n", "5"] if shutil.which("nice") else []
    with output.open("ab") as file:
        return subprocess.Popen(
            [*polite, sys.executable, "-m", "softmatch", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _is_process_of(pid: int, run: Path) -> bool:
    """True if a process exists and trains in this folder: the number may belong to another process by now."""
    place = Path(f"/proc/{pid}/cmdline")
    try:
        if place.parent.parent.joinpath("self").exists():
            return str(run).encode() in place.read_bytes().split(b"\0")
        said = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return str(run) in said.stdout


def _tail(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        return visible_lines(file.read().decode("utf-8", "replace").replace("\r", "\n"))
