"""A modality of the user's own, views and network in one file: from the check to what comes after training."""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

import softmatch
from softmatch.cli.app import main
from softmatch.config import make_config, read_file
from softmatch.data.preparations.numeric_arrays import fit_array
from softmatch.distributed.launching import free_port
from softmatch.experiments.sheet import Run
from softmatch.inference.export import export
from softmatch.runs.model import load_model
from softmatch.training.resume import reopen, resume_command
from tests.forked import Forked
from tests.refusals import refused

CODE = """
import torch

class Views:
    def __init__(self, noise=0.5):
        self.noise = noise

    def weak(self, items, generator):
        return items + 0.1 * torch.randn(items.shape, generator=generator).to(items)

    def strong(self, items, generator):
        return items + self.noise * torch.randn(items.shape, generator=generator).to(items)

def net(num_classes, shape):
    assert shape == (3, 10, 4)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(120, 16), torch.nn.ReLU(), torch.nn.Linear(16, num_classes))
"""
OWN = {"views": "mine.py:Views", "network": "mine.py:net"}
WORDS = ["--views", "mine.py:Views", "--network", "mine.py:net"]
TINY = {"steps": 6, "labeled_batch": 6, "unlabeled_batch": 12, "threads": 1}
SHORT = ["--steps", "6", "--labeled-batch", "6", "--unlabeled-batch", "12", "--threads", "1"]


def spectra(number: int, seed: int = 0) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.str_]]:
    """Items (3, 10, 4); the class is the channel that is higher."""
    drawn, kinds = np.random.default_rng(seed), np.arange(number) % 3
    higher = (kinds[:, None] == np.arange(3))[:, :, None, None]
    return (7 + drawn.normal(size=(number, 3, 10, 4)) + higher).astype(np.float32), np.array(["a", "b", "c"])[kinds]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(CODE)
    x, y = spectra(90)
    np.savez("spectra.npz", x=x, y=np.where(np.arange(90) < 30, y, ""))
    return tmp_path / "spectra.npz"


def test_the_command_line_from_check_to_prediction(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "spectra.npz", *WORDS, *SHORT]) == 0
    said = capsys.readouterr().out
    assert "90 arrays of 3×10×4" in said
    assert "mine.py:Views: weak, strong of items standardised per channel" in said
    assert main(["train", "spectra.npz", *WORDS, "--views.noise", "0.3", *SHORT, "--out", "run", "--folds", "2"]) == 0
    assert read_file(Path("run/config.yaml"))["views"] == {"own": "mine.py:Views", "noise": 0.3}
    assert json.loads(Path("run/result.json").read_text())["evaluation"]["kind"] == "crossfit"
    for command in (["predict", "run", "spectra.npz"], ["suggest", "run"], ["pseudo-labels", "run"]):
        capsys.readouterr()
        assert main([*command, "--network", "mine.py:net"]) == 2
        assert "views of your own, mine.py:Views" in capsys.readouterr().err
        assert main([*command, *WORDS]) == 0
    assert len(Path("run/predictions/spectra.csv").read_text().splitlines()) == 91
    assert main(["distil", "run", *WORDS, "--no-measure", *SHORT[:2], "--no-baseline", "--out", "small"]) == 0
    assert main(["curve", "run", "--network", "mine.py:net"]) == 2
    assert "add --views mine.py:Views" in capsys.readouterr().err


def test_a_loaded_model_and_its_exported_copies_predict_the_same(source: Path) -> None:
    result = softmatch.train(source, out=Path("run"), baseline=False, evaluation="none", **OWN, **TINY)
    model, x = load_model(result.run, **OWN), spectra(20, 1)[0]  # type: ignore[arg-type]  # both are names
    assert model.views.options == {}  # type: ignore[attr-defined]  # the user's
    probs = model.predict_proba(x)
    assert probs.shape == (20, 3)
    for to in ("onnx", "safetensors"):
        assert export(result.run, to, **OWN).difference < 1e-5  # type: ignore[arg-type]  # both are names
    refused("views of your own", load_model, result.run, network="mine.py:net")
    digits = softmatch.train("digits", steps=1, network="mlp", out=Path("digits"))
    refused("no views of your own", load_model, digits.run, None, "mine.py:Views")


def test_a_run_resumes_only_if_its_code_is_named(source: Path) -> None:
    settings = {**TINY, "baseline": False, "evaluation": "none"}
    softmatch.train(source, out=Path("run"), **OWN, **settings)
    Path("run/result.json").unlink()
    refused("code of your own, mine.py:Views, .* add --views", reopen, Path("run"), None, {"network": "mine.py:net"})
    job, _ = reopen(Path("run"), None, OWN)
    assert resume_command(Path("run"), job).endswith("--network mine.py:net --views mine.py:Views")
    assert softmatch.train(resume=Path("run"), **OWN).steps == 6


@pytest.mark.parametrize("method", ["mixmatch", "vat", "flexmatch", "mean_teacher"])
def test_other_methods_train_and_one_that_needs_a_medium_view_says_so(source: Path, method: str) -> None:
    assert softmatch.train(source, method=method, out=Path("run"), baseline=False, evaluation="none", **OWN, **TINY).steps == 6
    refused("a method medium", softmatch.train, source, method="sequencematch", out=Path("other"), **OWN, **TINY)


def test_two_processes_train_the_network_of_one(source: Path) -> None:
    quick = ["--evaluation", "none", "--no-baseline", *WORDS, *SHORT]
    assert main(["train", "spectra.npz", *quick, "--out", "one"]) == 0
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    both = Forked([*launch, "-m", "softmatch", "train", "spectra.npz", *quick, "--out", "two"], source.parent)
    told = both.communicate(timeout=300)
    assert both.returncode == 0, told
    one, two = (load_model(Path(run), **OWN).network.state_dict() for run in ("one", "two"))  # type: ignore[arg-type]  # both are names
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=1e-6, rtol=1e-5)


def test_a_classifier_and_its_folder(source: Path) -> None:
    x, y = spectra(60)
    fitted = softmatch.Classifier(steps=60, **OWN).fit(x, np.where(np.arange(60) < 15, y, ""))  # type: ignore[arg-type]  # names
    assert np.mean(fitted.predict(x) == y) > 0.6
    fitted.save("saved")
    refused("views of your own", softmatch.Classifier.load, "saved", network="mine.py:net")
    loaded = softmatch.Classifier.load("saved", **OWN)  # type: ignore[arg-type]  # both are names
    assert (loaded.predict_proba(x) == fitted.predict_proba(x)).all()


def test_the_runs_of_a_comparison_know_the_code(source: Path) -> None:
    before = Run("spectra.npz", {"views": {"own": "mine.py:Views"}}).key
    Path("mine.py").write_text(f"{CODE}\n")
    assert Run("spectra.npz", {"views": {"own": "mine.py:Views"}}).key != before
    words = ["compare", "spectra.npz", "--methods", "softmatch,fixmatch", "--seeds", "1", "--labels", "12", *WORDS, *SHORT]
    assert main([*words, "--out", "compared"]) == 0


def test_what_does_not_fit_is_refused(source: Path) -> None:
    refused("named file.py:name", make_config, {"views": "mine.py"})
    refused("--arrays series is for built-in views", softmatch.train, source, arrays="series", **OWN)
    refused("is for arrays of your own", softmatch.train, "digits", views="mine.py:Views", steps=1)
    Path("table.csv").write_text("a,label\n" + "".join(f"{n},{n % 2}\n" for n in range(40)))
    refused("--views with code of your own is for arrays of numbers", softmatch.train, "table.csv", views="mine.py:Views")
    refused(r"item 2 holds nan at \(1, 0\)", fit_array, np.array([[[1.0], [2]], [[3], [np.nan]]]), "any")
    refused("holds complex128: give real numbers", fit_array, np.zeros((4, 2, 3), complex), "any")
    refused("name --views of your own", fit_array, np.zeros((4, 2, 3, 5, 2)))
