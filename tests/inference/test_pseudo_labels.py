"""Pseudo-labels of the pool: λ by the method's final state, an order that is worth reading, reasons where there is no λ."""

import math
import shutil
from pathlib import Path

import pytest
import torch
import yaml

import softmatch
from softmatch.errors import InputError
from softmatch.inference.pseudo_labels import write_pseudo_labels
from softmatch.inference.unlabeled_pool import open_pool
from softmatch.methods import METHODS, Problem, build
from softmatch.networks.prediction import predict_probabilities
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model, set_temperature
from softmatch.training.checkpoint import list_checkpoints, load_checkpoint
from tests.inference.conftest import read_csv
from tests.refusals import refused


def test_weights_are_those_of_the_final_state(digits_run: Path, tmp_path: Path) -> None:
    """Computed once more by hand: aligned to uniform with the saved marginal, then the paper's truncated Gaussian."""
    found = write_pseudo_labels(digits_run, tmp_path / "p.csv", order="source", device="cpu")
    rows = read_csv(tmp_path / "p.csv")
    assert list(rows[0]) == ["name", "pseudo_label", "confidence", "weight", "given_label"]
    state = load_checkpoint(list_checkpoints(digits_run / "checkpoints")[-1]).tensors
    pool, model = open_pool(digits_run, device="cpu"), load_model(digits_run)
    items = pool.examples.items[pool.positions]
    probs = predict_probabilities(model.network, model.views, items, torch.device("cpu")).double()
    aligned = probs * (0.1 / state["method.alignment.marginal.value"].double())
    top = (aligned / aligned.sum(-1, keepdim=True)).max(-1).values
    mean, variance = (state[f"method.weighting.{part}.value"].double() for part in ("mean", "variance"))
    gap = (top - mean).clamp_max(0.0)
    expected = torch.exp(-(gap**2) / (2.0 * variance / 4.0))  # k = 2: σ²/k²
    weights = torch.tensor([float(row["weight"]) for row in rows])
    assert torch.allclose(weights.double(), expected, atol=1e-4)
    assert 0.01 < weights.mean() < 0.99
    assert torch.unique(weights).numel() > 500
    assert found.weight == pytest.approx(float(weights.mean()), abs=1e-4)
    assert [row["name"] for row in rows] == [str(k) for k in pool.positions.tolist()]
    confidences = model.predict_proba(items).max(-1).values.tolist()
    assert [float(row["confidence"]) for row in rows] == pytest.approx(confidences, abs=1e-5)
    assert [row["pseudo_label"] for row in rows] == [str(k) for k in probs.argmax(-1).tolist()]
    assert [row["given_label"] or None for row in rows] == pool.given
    assert (found.samples, found.labeled, found.reason) == (1258, 40, "")


def test_the_order_is_for_review(digits_run: Path, tmp_path: Path) -> None:
    found = write_pseudo_labels(digits_run, tmp_path / "a.csv")
    rows = read_csv(tmp_path / "a.csv")
    disputed = [bool(row["given_label"]) and row["given_label"] != row["pseudo_label"] for row in rows]
    assert 0 < found.disputed < 40
    assert disputed == [True] * found.disputed + [False] * (1258 - found.disputed)
    for part in (rows[: found.disputed], rows[found.disputed :]):
        sure = [float(row["confidence"]) for row in part]
        assert sure == sorted(sure)
    assert f"{found.disputed} labelled samples get another pseudo-label" in found.describe()
    write_pseudo_labels(digits_run, tmp_path / "b.csv", order="certain")
    sure = [float(row["confidence"]) for row in read_csv(tmp_path / "b.csv")]
    assert sure == sorted(sure, reverse=True)
    with pytest.raises(InputError, match="order must be"):
        write_pseudo_labels(digits_run, tmp_path / "c.csv", order="best")  # type: ignore[arg-type]  # the mistake


def test_texts_stand_beside_their_pseudo_labels_and_confidences_are_calibrated(text_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(text_folder / "run", tmp_path / "run")
    set_temperature(RunFolder(run), 3.0)
    found = write_pseudo_labels(run)
    assert found.file == run / "pseudo_labels.csv"
    source, rows = read_csv(text_folder / "texts.csv"), read_csv(found.file)
    assert [row["text"] for row in rows] == [source[int(row["name"]) - 1]["text"] for row in rows]
    assert [row["given_label"] for row in rows] == [source[int(row["name"]) - 1]["label"] for row in rows]
    model = load_model(run)
    probs = model.predict_proba(model.preparation([row["text"] for row in rows]))
    assert [float(row["confidence"]) for row in rows] == pytest.approx(probs.max(-1).values.tolist(), abs=1e-5)
    assert write_pseudo_labels(run).file == run / "pseudo_labels-2.csv"


def test_why_there_are_no_weights(tmp_path: Path) -> None:
    quick = {"steps": 2, "labeled_batch": 4, "unlabeled_batch": 8, "baseline": False}
    softmatch.train("two-moons", method="supervised", out=tmp_path / "plain", **quick)
    found = write_pseudo_labels(tmp_path / "plain")
    assert found.reason == "no weights: supervised has no λ for each sample"
    assert {row["weight"] for row in read_csv(found.file)} == {""}
    softmatch.train("two-moons", out=tmp_path / "soft", **quick)
    shutil.rmtree(tmp_path / "soft" / "checkpoints")
    assert "has no checkpoint any more" in write_pseudo_labels(tmp_path / "soft").describe()


def write_method(path: Path, before: str = "") -> str:
    code = "from softmatch import Threshold\nclass Mine(Threshold):\n    def __init__(self):\n        super().__init__(0.7)\n"
    path.write_text(before + code)
    return f"{path}:Mine"


def test_code_of_the_users_own_is_run_only_if_named(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    name = write_method(tmp_path / "mine.py", f"from pathlib import Path\nPath({str(trace)!r}).touch()\n")
    softmatch.train("two-moons", method=name, steps=2, labeled_batch=4, unlabeled_batch=8, baseline=False, out=tmp_path / "run")
    trace.unlink()
    assert f"--method {name}" in write_pseudo_labels(tmp_path / "run").reason
    assert not trace.exists()
    found = write_pseudo_labels(tmp_path / "run", method=name)
    assert trace.exists()
    assert found.weight is not None
    assert {row["weight"] for row in read_csv(found.file)} == {"0", "1"}


@pytest.mark.parametrize(
    ("method", "options", "full"),
    [
        ("evil:Evil", {}, "evil:Evil"),
        ("saw+evil:Evil", {}, "saw+evil:Evil"),
        ("evil:Evil+softmatch", {}, "evil:Evil+softmatch"),
        ("saw", {"base": "evil:Evil"}, "saw+evil:Evil"),
        ("semireward", {"base": "saw+evil:Evil"}, "semireward+saw+evil:Evil"),
    ],
)
def test_no_method_that_the_folder_names_is_run(
    method: str, options: dict[str, str], full: str, digits_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as the method, nor inside another one, nor as an option."""
    run, trace = shutil.copytree(digits_run, tmp_path / "run"), tmp_path / "ran"
    place = f"{run / 'evil.py'}:Evil"
    (run / "evil.py").write_text(f"from pathlib import Path\nPath({str(trace)!r}).touch()\nclass Evil: pass\n")
    monkeypatch.chdir(run)
    written = yaml.safe_load((run / "config.yaml").read_text())
    for name in (place, "evil:Evil"):
        given = {key: value.replace("evil:Evil", name) for key, value in options.items()}
        named = method.replace("evil:Evil", name)
        (run / "config.yaml").write_text(yaml.safe_dump({**written, "method": named, "method_options": given}))
        for said in (None, *([named] if ":" not in named else [])):
            found = write_pseudo_labels(run, method=said)
            wanted = f"no weights: {name} is code of your own, which is run only if you name it: --method "
            assert found.reason == wanted + full.replace("evil:Evil", name)
            assert {row["weight"] for row in read_csv(found.file)} == {""}
    assert not trace.exists()
    with pytest.raises(InputError):  # it is no method, but its code was run: the user has named it
        write_pseudo_labels(run, method=full.replace("evil:Evil", place))
    assert trace.exists()


def test_a_method_inside_another_is_found_again_with_its_options(tmp_path: Path) -> None:
    name = write_method(tmp_path / "mine.py")
    quick = {"steps": 2, "labeled_batch": 4, "unlabeled_batch": 8, "baseline": False, "out": tmp_path / "run"}
    softmatch.train("two-moons", method="influence", method_options={"base": name, "lr": 0.02}, **quick)
    assert write_pseudo_labels(tmp_path / "run").reason.endswith(f"--method influence+{name}")
    found = write_pseudo_labels(tmp_path / "run", method=f"influence+{name}")
    assert found.weight is not None
    assert {row["weight"] for row in read_csv(found.file)} == {"0", "0.98", "1", "1.02"}  # one step of ± 0.02 at most
    config = tmp_path / "run" / "config.yaml"
    written = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**written, "method_options": {"base": name, "speed": 1}}))
    refused("method 'influence' has no option 'speed'", write_pseudo_labels, tmp_path / "run", method=f"influence+{name}")


def test_a_state_of_another_method_is_refused(digits_run: Path) -> None:
    refused("is not that of this method", write_pseudo_labels, digits_run, digits_run / "never.csv", method="flexmatch")
    assert not (digits_run / "never.csv").exists()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_weighs_or_says_that_it_does_not(name: str) -> None:
    sizes = {"num_classes": 3, "num_unlabeled": 8, "num_labeled": 6, "labeled_batch": 2, "unlabeled_batch": 4, "total_steps": 10}
    problem = Problem(**sizes, class_counts=(2, 2, 2), kind="image", shape=(1, 8, 8), class_prior=(1 / 3,) * 3)
    method = build(name, problem).eval()
    state = {key: value.clone() for key, value in method.state_dict().items()}
    probs = torch.softmax(torch.randn(8, 3), -1)
    found = method.judge(probs, torch.arange(8))
    assert all(torch.equal(value, state[key]) for key, value in method.state_dict().items())
    if found is None:
        assert name in (
            "supervised", "pi_model", "mean_teacher", "temporal_ensembling", "vat", "mixmatch", "remixmatch", "comatch",
            "simmatch", "meta_pseudo_labels", "cgmatch",
        )  # fmt: skip
        return
    assert found.labels.shape == found.weights.shape == (8,)
    assert math.isfinite(float(found.weights.sum()))
    assert 0.0 <= float(found.weights.min()) <= float(found.weights.max()) <= 2.0
