"""The main job: what a run folder holds, what its figures mean, what happens when it fails."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import softmatch
from softmatch.config import FormerName, read_file
from softmatch.data import find_source
from softmatch.errors import InputError, TrainingError
from softmatch.methods import METHODS
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model
from softmatch.training.checkpoint import list_checkpoints, load_checkpoint
from softmatch.training.job import _file_name, train

QUICK: dict[str, Any] = {"steps": 20, "threads": 1, "unlabeled_batch": 32}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, softmatch.Result]:
    folder = tmp_path_factory.mktemp("job") / "run"
    result = train("digits", out=folder, **QUICK)
    return RunFolder(folder), result


def test_the_run_folder_holds_its_contract(run: tuple[RunFolder, softmatch.Result]) -> None:
    folder = run[0].path
    names = {"config.yaml", "split.json", "metrics.jsonl", "checkpoints", "model", "result.json", "report.html", "twin"}
    assert {path.name for path in folder.iterdir()} == names
    assert {path.name for path in (folder / "model").iterdir()} == {"model.json", "model.safetensors", "samples.safetensors"}
    assert {path.name for path in (folder / "twin").iterdir()} == {"metrics.jsonl", "checkpoints", "model"}


def test_result_json_has_the_figures_as_fractions(run: tuple[RunFolder, softmatch.Result]) -> None:
    folder, result = run
    saved = folder.read_json("result.json")
    for key in ("test_error", "supervised_test_error", "quantity", "quality"):
        assert 0 <= saved[key] <= 1
        assert saved[key] == getattr(result, key)
    assert saved["difference"] == pytest.approx(saved["test_error"] - saved["supervised_test_error"])
    low, high = saved["difference_interval"]
    assert low <= saved["difference"] <= high
    assert saved["seconds"] > 0
    assert saved["test_samples"] == 539
    assert saved["versions"]["torch"] == torch.__version__


def error_of(model: softmatch.Model, run: RunFolder) -> float:
    """Error of a model on the held-out digits of a run."""
    held_out, digits = run.read_json("split.json")["test"], find_source("digits").load(0)
    return float((model.predict_proba(digits.items[held_out]).argmax(-1) != digits.labels[held_out]).double().mean())


def test_the_saved_model_has_the_reported_error(run: tuple[RunFolder, softmatch.Result]) -> None:
    folder, result = run
    assert error_of(load_model(folder.path), folder) == result.test_error
    assert error_of(load_model(folder.path / "twin"), folder) == result.supervised_test_error


def test_config_yaml_repeats_the_run(run: tuple[RunFolder, softmatch.Result], tmp_path: Path) -> None:
    folder, result = run
    layer = read_file(folder.path / "config.yaml")
    again = train(layer.pop("source"), **{**layer, "out": tmp_path / "again"})
    assert again.test_error == result.test_error
    first, second = (path / "model" / "model.safetensors" for path in (folder.path, tmp_path / "again"))
    assert first.read_bytes() == second.read_bytes()


def test_the_baseline_changes_nothing_but_the_comparison(run: tuple[RunFolder, softmatch.Result], tmp_path: Path) -> None:
    alone = train("digits", out=tmp_path / "alone", baseline=False, **QUICK)
    assert alone.test_error == run[1].test_error
    assert alone.supervised_test_error is None
    assert alone.difference_interval is None
    assert not (tmp_path / "alone" / "twin").exists()


def test_the_baseline_is_the_supervised_method(run: tuple[RunFolder, softmatch.Result], tmp_path: Path) -> None:
    supervised = train("digits", out=tmp_path / "run", method="supervised", **QUICK)
    assert supervised.test_error == run[1].supervised_test_error
    assert supervised.quantity is None


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_from_its_name(method: str, tmp_path: Path) -> None:
    result = train("two-moons", out=tmp_path / "run", method=method, baseline=False, **{**QUICK, "steps": 6})
    assert 0 <= result.test_error <= 1
    assert json.loads((tmp_path / "run" / "boundary.json").read_text())["points"]


def test_a_weighting_of_ones_own_needs_one_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom softmatch import Weighting\n\n\nclass Root(Weighting):\n"
        "    def forward(self, probs, pseudo_labels=None):\n        return probs.max(-1).values.sqrt()\n"
    )
    result = train("digits", out=tmp_path / "run", method=f"{tmp_path}/mine.py:Root", baseline=False, **QUICK)
    assert result.quantity is not None


def test_nothing_is_written_when_the_settings_are_wrong(tmp_path: Path) -> None:
    for wrong in ({"labels": 41}, {"method": "softmach"}, {"method_options": {"kk": 3}}, {"network": "resnet"}):
        with pytest.raises(InputError):
            train("digits", out=tmp_path / "run", **{**QUICK, **wrong})
    with pytest.raises(InputError, match="views"):
        train("digits", out=tmp_path / "run", **QUICK, views={"colour": 3})
    assert not (tmp_path / "run").exists()


def test_divergence_names_the_step_the_checkpoint_and_what_to_try(tmp_path: Path) -> None:
    often = {"steps": 40, "evaluate_every": 1, "checkpoint_every": 1}
    with pytest.raises(TrainingError) as caught:
        train("two-moons", out=tmp_path / "run", baseline=False, lr=1e18, optimizer="sgd", **often)
    message = str(caught.value)
    assert "stopped at step" in message
    assert "--lr" in message
    saved = list_checkpoints(tmp_path / "run" / "checkpoints")
    assert (str(saved[-1]) in message) if saved else ("no checkpoint yet" in message)
    for path in saved:
        tensors = load_checkpoint(path).tensors
        assert all(torch.isfinite(value).all() for name, value in tensors.items() if name.startswith("network."))


class Reshapes(nn.Module):
    """As in many a tutorial: `view`, which only the usual memory layout allows."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.layer = nn.Linear(4 * 8 * 8, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.layer(torch.relu(self.conv(inputs)).view(-1, 4 * 8 * 8))
        return logits


def test_a_network_of_ones_own_from_training_to_prediction(tmp_path: Path) -> None:
    result = train("digits", network=Reshapes, out=tmp_path / "run", baseline=False, **QUICK)
    name = f"{Reshapes.__module__}:Reshapes"
    assert read_file(result.run / "config.yaml")["network"] == name, "the run cannot be repeated with another network by mistake"
    with pytest.raises(InputError, match="network of your own"):
        load_model(result.run)
    model = load_model(result.run, network=Reshapes)
    assert error_of(model, RunFolder(result.run)) == pytest.approx(result.test_error)


def test_a_network_object_is_not_changed_by_training(tmp_path: Path) -> None:
    given = Reshapes(10)
    before = given.layer.weight.detach().clone()
    train("digits", network=given, out=tmp_path / "run", baseline=False, **QUICK)
    assert torch.equal(given.layer.weight, before)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Linear(3, 10), "cannot process items of 1×8×8"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 9)), "a logit for each class"),
    ],
)
def test_networks_that_do_not_fit_are_refused_before_anything_is_written(
    tmp_path: Path, network: nn.Module, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train("digits", network=network, out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


def test_a_network_and_a_name_exclude_each_other() -> None:
    with pytest.warns(FormerName, match="model is now called network"), pytest.raises(InputError, match="former name of network"):
        train("digits", network=nn.Identity(), model="mlp")


def test_a_network_may_be_a_name(tmp_path: Path) -> None:
    run = train("digits", network="mlp-8", baseline=False, out=tmp_path / "run", **QUICK).run
    assert read_file(run / "config.yaml")["network"] == "mlp-8"


def test_a_long_tailed_run(tmp_path: Path) -> None:
    given = {"imbalance": 10, "unlabeled_imbalance": -10, "largest_class_labels": 20, "largest_class_unlabeled": 60}
    result = train("digits", out=tmp_path / "run", baseline=False, **given, **QUICK)
    split, labels = RunFolder(result.run).read_json("split.json"), find_source("digits").load(0).labels
    counts = torch.bincount(labels[split["labeled"]], minlength=10).tolist()
    assert (counts[0], counts[-1]) == (20, 2)
    pool = torch.bincount(labels[split["unlabeled"]], minlength=10).tolist()
    assert (pool[0], pool[-1]) == (20 + 6, 2 + 60)


def test_a_long_tail_needs_the_sizes_of_its_head(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs --largest-class-labels and --largest-class-unlabeled"):
        train("digits", imbalance=10, out=tmp_path / "run", **QUICK)


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("softmatch", "softmatch"),
        ("saw+softmatch", "saw+softmatch"),
        ("dir/mine.py:Power", "mine-Power"),
        ("c++/mine.py:Power", "mine-Power"),
        ("saw+dir/mine.py:Power", "saw+mine-Power"),
    ],
)
def test_a_run_folder_is_named_after_its_method(method: str, name: str) -> None:
    assert _file_name(method) == name
