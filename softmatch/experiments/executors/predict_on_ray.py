"""Predictions by workers of a Ray cluster, each with the model in its memory: resumable, with every row exactly once.

The source is read here, piece by piece. A worker predicts a piece; the result becomes a file beside the table, under a name that
depends on the model and on the samples. When there is one for every piece, the table is written from them, in their order. A
worker that is lost is started again by Ray, and its piece is predicted again. The same command resumes with the files.

Ray Data also maps batches with a model per worker, but keeps nothing of a run that failed, and has no files of its own for
blocks that are done: these two are what this module is for.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from softmatch.data.records import Columns, Records
from softmatch.distributed.devices import choose_device
from softmatch.errors import InputError, TrainingError
from softmatch.experiments.executors.on_ray import connected, passed_on, reason
from softmatch.files.locks import held
from softmatch.files.tensors import read_checked, write_checked
from softmatch.inference.predict import Progress, predict, predict_records, use_device, use_encoder
from softmatch.inference.prediction_summary import Predicted, Predictions
from softmatch.runs.model import load_model

AHEAD = 2
"""Pieces that a worker has: one that it predicts, and those that wait for it."""
RETRIES = 20
"""How often a piece whose worker is lost is predicted again; one that always ends its worker is an error."""


class Predictor:
    """A worker; the arguments are those of `predict`."""

    def __init__(self, run: Path | str, device: str, network: Any, views: Any, encoder_path: Path | str | None) -> None:
        self.model = load_model(run, network, views)
        use_encoder(self.model, encoder_path, run)
        use_device(self.model, choose_device(device))

    def predict(self, records: Records) -> Predicted:
        """Predict a piece."""
        return predict_records(self.model, records)


@dataclass(frozen=True)
class RayWorkers:
    """Predicts the pieces of a source on a Ray cluster; see `softmatch.inference.predict.Spread`.

    Attributes:
        run: folder of the run, at the same path on all machines.
        loading: further arguments of a `Predictor`.
        workers: their number; by default one for each GPU, or for each CPU of a cluster without GPUs.
        address: a running cluster; by default RAY_ADDRESS, or a new one on this machine.
    """

    run: Path
    loading: Mapping[str, Any]
    workers: int | None = None
    address: str | None = None
    progress: Progress | None = None

    def __call__(self, table: Path, pieces: Iterator[Records]) -> Iterator[Predicted]:
        folder = parts_of(table)
        folder.mkdir(parents=True, exist_ok=True)
        with held(folder / "lock", 0.0, f"another command writes {table}: wait for it, or choose another --out."):
            try:
                parts = self._predict(folder, pieces)
            except TrainingError as error:
                raise TrainingError(f"{error} What is done is in {folder}: the same command continues from there.") from error
            yield from map(_read, parts)

    def _predict(self, folder: Path, pieces: Iterator[Records]) -> list[Path]:
        """Files of all pieces, in their order. Those that are there already are not predicted again."""
        parts, done, model = list[Path](), 0, _digest_of_files(self.run / "model")
        with connected(self.address) as (ray, machines):
            running: dict[Any, tuple[Path, int]] = {}
            workers = self._start(ray, machines)

            def settle() -> None:
                nonlocal done
                (ended,), _ = ray.wait([*running], num_returns=1)
                path, _ = running.pop(ended)
                done += _write(path, _result(ray, ended))
                if self.progress is not None:
                    self.progress(done)

            for number, records in enumerate(pieces):
                path = folder / f"{number:08d}-{_digest(model, records)}.safetensors"
                parts.append(path)
                if _is_good(path):
                    done += len(records)
                    continue
                while len(running) >= AHEAD * len(workers):
                    settle()
                busy = Counter(worker for _, worker in running.values())
                free = min(range(len(workers)), key=lambda worker: busy[worker])
                running[workers[free].predict.remote(records)] = path, free
            while running:
                settle()
        return parts

    def _start(self, ray: Any, machines: list[dict[str, float]]) -> list[Any]:
        gpus = int(sum(has.get("GPU", 0) for has in machines))
        room = gpus or int(sum(has.get("CPU", 0) for has in machines))
        number = self.workers or max(room, 1)
        if number > room:
            kind = "GPUs" if gpus else "CPUs"
            raise InputError(f"--workers {number}: this Ray cluster has {room} {kind}, one for each worker. Lower --workers.")
        options: dict[str, Any] = {"num_cpus": 1, "num_gpus": int(gpus > 0), "max_restarts": -1, "max_task_retries": RETRIES}
        if passed_on():
            options["runtime_env"] = {"env_vars": passed_on()}
        worker = ray.remote(**options)(Predictor)
        return [worker.remote(self.run.resolve(), **self.loading) for _ in range(number)]


def parts_of(table: Path) -> Path:
    """Folder of the pieces of a table until it is complete."""
    return table.with_name(f".{table.name}.parts")


def predict_on_ray(
    run: Path | str,
    source: Any,
    out: Path | None = None,
    columns: Columns | None = None,
    *,
    workers: int | None,
    address: str | None,
    device: str = "auto",
    network: Any = None,
    views: Any = None,
    encoder_path: Path | str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Predictions:
    """`softmatch.inference.predict.predict`, with workers of a Ray cluster."""
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers}: give 1 or more.")
    loading: dict[str, Any] = {"device": device, "network": network, "views": views, "encoder_path": encoder_path}
    spread = RayWorkers(Path(run), loading, workers, address, progress)
    found = predict(run, source, out, columns, **loading, **options, spread=spread)
    if found.file is not None:
        shutil.rmtree(parts_of(found.file))  # the table has all of it
    return found


def _result(ray: Any, ended: Any) -> Predicted:
    try:
        found: Predicted = ray.get(ended)
        return found
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise TrainingError(
            f"a piece ended its worker {RETRIES + 1} times, or no worker can load the model: {reason(error)} Lower --rows if "
            "memory is short, and see that all machines have the run at the same path."
        ) from error


def _write(path: Path, found: Predicted) -> int:
    """Keep a piece, completely or not at all; the number of its samples."""
    kept = {name: [*cells] for name, cells in found.kept.items()}
    notes = {"names": found.names, "labels": found.labels, "problems": found.problems, "kept": kept, "unseen": found.unseen}
    write_checked(path, {"probs": found.probs}, {**notes, "other_lengths": found.other_lengths})
    return len(found.names)


def _read(path: Path) -> Predicted:
    tensors, notes = read_checked(path)
    unseen = {name: Counter(counts) for name, counts in notes.pop("unseen").items()}
    return Predicted(probs=tensors["probs"], **{**notes, "unseen": unseen, "other_lengths": tuple(notes["other_lengths"])})


def _is_good(path: Path) -> bool:
    """True if there is a whole file, and not one that a full disk or a lost machine has left damaged."""
    try:
        return path.exists() and bool(read_checked(path))
    except InputError:
        return False


def _digest(model: str, records: Records) -> str:
    """Key of a model and of everything that decides its predictions on a piece; files count by size and time."""
    digest = hashlib.sha256(model.encode())

    def add(value: Any) -> None:
        if isinstance(value, np.ndarray) and value.dtype != object:
            digest.update(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
        elif isinstance(value, Mapping):
            for name in value:
                add(name)
                add(value[name])
        elif isinstance(value, Path):
            stat = value.stat() if value.exists() else None
            digest.update(repr((str(value), stat and (stat.st_size, stat.st_mtime_ns))).encode())
        elif isinstance(value, str) or value is None:
            digest.update(f"{value!r},".encode())
        else:
            digest.update(f"[{len(value)}".encode())
            for each in value:
                add(each)

    add([records.kind, records.inputs, records.names, records.labels, records.kept])
    return digest.hexdigest()[:32]


def _digest_of_files(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
