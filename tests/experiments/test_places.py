"""Which place options lead to, and what is said of options of another place and of the ends of attempts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from softmatch.distributed.launching import usable_cpus
from softmatch.errors import InputError
from softmatch.experiments import here
from softmatch.experiments.here import Here
from softmatch.experiments.on_ray import OnRay
from softmatch.experiments.on_slurm import OnSlurm
from softmatch.experiments.places import AT_ONCE, Ended, Where, open_place


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Ended(1), "ended with code 1"),
        (Ended(-9), "was ended by signal 9 (killed)"),
        (Ended(1, "its worker was lost"), "its worker was lost"),
    ],
    ids=["code", "signal", "message"],
)
def test_ends_in_words(ended: Ended, words: str) -> None:
    assert ended.describe() == words


def test_this_machine_shares_its_cores_among_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "usable_cpus", lambda: 8)
    assert Here(3).options == ["--threads", "2"]
    assert Here(2, processes=2).options == ["--threads", "2", "--processes", "2"]
    assert Here(20).options == ["--threads", "1"]
    assert Here(1, threads=5).options == ["--threads", "5"]
    place = open_place(Where(), tmp_path)
    assert isinstance(place, Here)
    assert place.slots == usable_cpus()


def test_each_run_gets_a_gpu_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Handle:
        ended: Ended | None = None

        def poll(self) -> Ended | None:
            return self.ended

    begun: list[tuple[Handle, str]] = []

    def start(arguments: list[str], log: Path, environment: dict[str, str]) -> Handle:
        begun.append((Handle(), environment["CUDA_VISIBLE_DEVICES"]))
        return begun[-1][0]

    monkeypatch.setattr(here, "start", start)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    place = open_place(Where(), tmp_path)
    assert place.slots == 2
    for _ in range(2):
        place.start([], tmp_path / "log")
    begun[1][0].ended = Ended(0)
    place.start([], tmp_path / "log")
    assert [gpu for _, gpu in begun] == ["4", "7", "7"]


def test_clusters_take_many_runs_and_have_options_of_their_own(tmp_path: Path) -> None:
    ray = open_place(Where(on="ray", cpus_per_run=2.0), tmp_path)
    assert isinstance(ray, OnRay)
    assert (ray.slots, ray.options) == (AT_ONCE, ["--threads", "2"])
    slurm = open_place(Where(on="slurm", slurm={"cpus": "6", "time": "1-0"}, processes_per_run=2, processes=7), tmp_path)
    assert isinstance(slurm, OnSlurm)
    assert (slurm.slots, slurm.options) == (7, ["--threads", "3", "--processes", "2"])
    assert open_place(Where(on="slurm"), tmp_path).options == []


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (Where(address="10.0.0.1:6379"), "--address is for --on ray"),
        (Where(on="slurm", gpus_per_run=1.0), "--gpus-per-run is for --on ray"),
        (Where(on="ray", slurm={"time": "5"}), "--slurm is for --on slurm"),
        (Where(on="slurm", slurm={"time": "an hour"}), "--slurm.time an hour: give minutes"),
    ],
    ids=["address", "gpus", "slurm", "time"],
)
def test_misplaced_options(where: Where, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        open_place(where, tmp_path)


def test_wrong_values() -> None:
    with pytest.raises(ValidationError):
        Where(processes=0)


@pytest.mark.parametrize(("place", "module"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_library_that_is_not_installed_is_named(
    place: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    opened = open_place(Where(on=place), tmp_path)  # type: ignore[arg-type]  # one of the names
    with pytest.raises(InputError, match=rf"pip install 'softmatch\[{place}\]'"), opened:
        pass
