"""Memory by part, beside numbers computed by hand."""

from __future__ import annotations

from typing import Any

from softmatch.config import Config
from softmatch.planning.memory import PATH, device_memory, host_memory
from softmatch.planning.methods import MethodState
from softmatch.planning.networks import NetworkCost
from softmatch.planning.probe import Tally
from softmatch.planning.setting import Data

COST = NetworkCost(
    100, 90, 480, 1.0, 2.0, saved=1000.0, largest=50.0, forward_operations=1, backward_operations=1, norms=(), features=7
)
DATA = Data("image", (3, 4, 4), 10, 500, 400, (2,) * 10, 5)
TALLY = Tally(steps=2, forward=4, forward_rows=120, backward=2, backward_rows=80, learned_rows=80, heads=5)
STATE = MethodState(saved=64, held=100, trained=40)
VIEWS = ("weak",), ("weak", "strong")


def parts(processes: int = 1, **options: Any) -> dict[str, float]:
    config = Config(labeled_batch=8, unlabeled_batch=16, **options)
    return device_memory(config, DATA, COST, TALLY, STATE, VIEWS, processes)


def test_one_process_by_hand() -> None:
    assert parts() == {
        "weights": 480 + 20,
        "gradients": 4 * 95,
        "optimiser": 4 * 95,
        "averaged weights": 480 - 40 + 20,  # what is not trained is not averaged
        "activations": 1000 * 40,
        "work on the largest layer": 5 * 50 * 30,
        "views of the batch": (8 + 32) * 4 * 48,
        "data": 500 * 48 + 8 * 400 + 20 * 48,
        "the method's state": 100 + 40 + 40,
    }


def test_two_moments_of_adam_and_all_views_once_more_where_statistics_are_joint() -> None:
    assert parts(optimizer="adamw")["optimiser"] == 2 * parts()["optimiser"]
    assert parts(batch_statistics="joint")["views of the batch"] == 2 * parts()["views of the batch"]


def test_several_processes_share_batches_and_nothing_else() -> None:
    one, four = parts(), parts(4)
    assert four["activations"] == one["activations"] / 4
    assert four["views of the batch"] == one["views of the batch"] / 4
    assert four["gradients as one message"] == 4 * 95
    for name in ("weights", "gradients", "optimiser", "averaged weights", "data", "the method's state"):
        assert four[name] == one[name]


def test_half_precision_halves_what_is_kept_of_activations() -> None:
    assert parts(precision="bf16")["activations"] == parts()["activations"] / 2
    assert parts(precision="bf16")["weights"] == parts()["weights"]


def test_files_are_paths_on_the_host() -> None:
    held = host_memory(DATA)
    assert held == {
        "shuffles of two epochs": 16 * 400,
        "positions of the unlabelled set": 8 * 400,
        "labels": 8 * 500,
        "data": 24_000,
    }
    assert "data" not in host_memory(DATA, device_is_host=True)
    files = Data("image", (3, 4, 4), 10, 500, 400, (2,) * 10, 5, files=1)
    assert host_memory(files)["paths of files"] == PATH * 500
