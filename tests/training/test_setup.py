"""What is decided before training: devices, data, momenta."""

from pathlib import Path
from typing import Any

import pytest
import torch

from softmatch.config import make_config
from softmatch.data import find_source
from softmatch.distributed import batch_norm as synchronised
from softmatch.distributed import processes
from softmatch.distributed.devices import choose_device
from softmatch.distributed.processes import World
from softmatch.errors import InputError
from softmatch.networks import build_network
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model, save_model
from softmatch.training.setup import build_method, effective
from softmatch.training.task import Task
from tests.prepared import prepare, small_task, trainer_of


def test_devices() -> None:
    assert choose_device("cpu").type == "cpu"
    assert choose_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(InputError, match="cannot be used here"):
        choose_device("warp-drive")


def test_prepare_decides_without_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    task = prepare("digits", make_config(find_source("digits").defaults))
    assert (len(task.split.labeled), len(task.test[1])) == (40, 539)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "passes"),
    [
        ({"batch_statistics": "joint"}, 1),
        ({"batch_statistics": "separate", "micro_batch": 0}, 3),
        ({"batch_statistics": "separate", "micro_batch": 0, "teacher": "average"}, 2),
        ({"batch_statistics": "separate", "micro_batch": 16}, 3 + 2 + 2),
        ({"batch_statistics": "separate", "micro_batch": 0, "method": "supervised"}, 1),
    ],
)
def test_running_statistics_move_as_far_in_a_step_of_many_passes(settings: dict[str, Any], passes: int) -> None:
    trainer = trainer_of(small_task("digits", steps=800, **settings))
    norm = next(m for m in trainer.network.modules() if isinstance(m, torch.nn.BatchNorm2d))
    assert norm.momentum is not None
    assert (1 - norm.momentum) ** passes == pytest.approx(0.95)
    trainer.advance()
    assert int(norm.num_batches_tracked or 0) == passes


def test_effective_settings_leave_nothing_open() -> None:
    found = effective(prepare("digits", make_config(find_source("digits").defaults, {"steps": 800})))
    assert (found["network"], found["labels"], found["split_seed"]) == ("small-conv", 40, 0)
    assert found["statistics_momentum"] == found["model_momentum"] == pytest.approx(0.95)
    assert found["batch_norm_momentum"] == pytest.approx(0.05)
    assert (found["evaluate_every"], found["checkpoint_every"], found["micro_batch"]) == (20, 80, 0)


def _together(monkeypatch: pytest.MonkeyPatch, size: int, **settings: Any) -> Task:
    """As the first of several processes prepares it."""
    for module in (processes, synchronised):
        monkeypatch.setattr(module, "world", lambda: World(0, size))
    return small_task("digits", **{"steps": 800, **settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labeled_batch": 4}, "--labeled-batch 4 has no row for each of 5 processes. Use 5 or more"),
        ({"unlabeled_batch": 3}, "--unlabeled-batch 3 has no row for each of 5 processes"),
        ({"unlabeled_batch": 3, "method": "supervised"}, None),
        ({"method": "meta_pseudo_labels"}, None),
        ({"method": "semireward", "labeled_batch": 5, "unlabeled_batch": 5}, None),
    ],
)
def test_every_process_must_get_a_row_of_each_batch(
    settings: dict[str, Any], message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = _together(monkeypatch, 5, **settings)
    if message is None:
        assert build_method(task, task.config.method).labeled_views
    else:
        with pytest.raises(InputError, match=message):
            build_method(task, task.config.method)


def test_labels_that_are_kept_out_must_be_enough_for_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    task = _together(monkeypatch, 11, method="influence", labels=20)
    with pytest.raises(InputError, match=r"here 10, and each of 11 processes needs one\. Use more --labels, or fewer"):
        build_method(task, "influence")
    task = _together(monkeypatch, 10, method="influence", labels=20)
    assert "validation" in build_method(task, "influence").streams


@pytest.mark.parametrize(("size", "passes"), [(1, 3 + 2 + 2), (2, 2 + 1 + 1), (3, 1 + 1 + 1)])
def test_running_statistics_count_the_passes_of_a_share(size: int, passes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 labelled and 24 unlabelled rows, at most 16 in a pass."""
    task = _together(monkeypatch, size, batch_statistics="separate", micro_batch=16, labeled_batch=40)
    assert (1 - effective(task)["batch_norm_momentum"]) ** passes == pytest.approx(0.95)
    network = trainer_of(task).network
    assert any(type(module) is torch.nn.BatchNorm2d for module in network.modules()), "each pass has statistics of its own"
    assert effective(task)["processes"] == size


@pytest.mark.parametrize("statistics", [{"batch_statistics": "joint"}, {"batch_statistics": "separate", "micro_batch": 0}])
def test_batch_normalisation_is_that_of_all_processes_and_the_model_a_plain_one(
    statistics: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task = _together(monkeypatch, 2, **statistics)
    trainer = trainer_of(task)
    for network in (trainer.network, trainer.average.network):
        assert not any(type(module) is torch.nn.BatchNorm2d for module in network.modules())
        assert list(network.state_dict()) == list(build_network("small-conv", task.shape, 10).state_dict())
    run = RunFolder.create(tmp_path / "run")
    save_model(run, task.model(trainer.result), task.network_name)
    found = load_model(run.path).network
    assert any(type(module) is torch.nn.BatchNorm2d for module in found.modules())
    items = task.views.plain(task.some_items(6))
    with torch.no_grad():
        assert torch.allclose(found.eval()(items), trainer.result.eval()(items), atol=1e-6)


def test_each_process_has_a_device_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "world", lambda: World(5, 8))
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert choose_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu"), "processes on MPS cannot reach each other"
    with pytest.raises(InputError, match="'mps' is for one process"):
        choose_device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InputError, match="process 2 of this machine has no GPU: there are 1"):
        choose_device("auto")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("auto") == torch.device("cuda:1")
    with pytest.raises(InputError, match="'cuda:0' is one GPU"):
        choose_device("cuda:0")
    monkeypatch.setattr(processes, "world", World)
    assert choose_device("auto") == torch.device("cuda")
