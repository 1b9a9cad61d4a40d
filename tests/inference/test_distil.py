"""Distillation: the loss by its equation, no test sample in either model, an ordinary run at the end, honest figures of both."""

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import softmatch
from softmatch.cli.app import main
from softmatch.config import read_file
from softmatch.data import Split
from softmatch.data.preparations.encoder_features import EncoderPreparation
from softmatch.errors import Stopped
from softmatch.inference import distil as module
from softmatch.inference.distil import DistilledModel, distil
from softmatch.inference.unlabeled_pool import Pool, open_pool
from softmatch.methods.base import Distilled
from softmatch.methods.forward import Forward
from softmatch.metrics import wilson_interval
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model
from softmatch.step import Batch
from softmatch.training.fit import Record
from softmatch.training.task import Task
from tests.inference.conftest import read_csv
from tests.own.sources import pictures, texts
from tests.refusals import refused
from tests.tiny_encoder import make_text_encoder, make_vit

QUICK: dict[str, Any] = {"steps": 6, "labeled_batch": 8, "unlabeled_batch": 16, "evaluate_every": 2, "baseline": False}
MACHINE: dict[str, Any] = {"device": "cpu", "threads": 1}
WORDS = ("please", "help", "card", "bank", "account", "money", "parcel", "post", "delivery", "courier")
STUDENT: dict[str, Any] = {**QUICK, **MACHINE}
MEASURED = ("test_samples", "test_error", "test_error_interval")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.0001)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """texts.csv, test.csv, encoder/, and two runs with it: tested/ on test.csv, and crossed/ by a cross-fit of two folds."""
    torch.set_num_threads(1)
    made = tmp_path_factory.mktemp("distil")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTMATCH_CACHE", str(made / "cache"))
        source, test = texts(made / "texts.csv"), texts(made / "test.csv", 40, 0, seed=1)
        given = {**QUICK, **MACHINE, "encoder": str(make_text_encoder(made / "encoder", words=WORDS))}
        softmatch.train(str(source), test=test, out=made / "tested", **given)
        softmatch.train(str(source), folds=2, out=made / "crossed", **given)
        yield made


def result_of(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = RunFolder(run).read_json("result.json")
    return found


def test_the_loss_is_that_of_the_equation() -> None:
    targets, weights = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]), torch.tensor([1.0, 0.5, 0.0])
    method = Distilled(lambda: (targets, weights))
    method.begin(nn.Identity(), lambda module: torch.optim.SGD(module.parameters()))
    labeled, strong = torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([[0.0, 0.0], [math.log(4.0), 0.0], [9.0, 0.0]])
    batch = Batch({"weak": labeled}, torch.tensor([1]), {"strong": strong}, torch.tensor([1, 0, 2]))
    found = method.step(Forward(nn.Identity(), "separate"), batch)
    supervised = math.log(4.0)
    unsupervised = (0.5 * math.log(2.0) - (0.9 * math.log(0.8) + 0.1 * math.log(0.2))) / 3
    assert float(found.supervised_loss) == pytest.approx(supervised)
    assert float(found.loss) == pytest.approx(supervised + unsupervised)
    assert found.pseudo is not None
    assert (found.pseudo.labels.tolist(), found.pseudo.weights.tolist()) == ([1, 0, 0], [0.5, 1.0, 0.0])
    assert not method.state_dict()  # checkpoints stay small


def test_a_student_of_an_encoder_is_an_ordinary_run(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed, compute = list[int](), EncoderPreparation._compute
    monkeypatch.setattr(
        EncoderPreparation, "_compute", lambda self, texts, *rest: (computed.append(len(texts)), compute(self, texts, *rest))[1]
    )
    found = distil(place / "tested", tmp_path / "small", **{**STUDENT, "baseline": True})
    assert computed == [64] * max(len(computed), 2)  # timed without the cache, which has all features
    teacher, student, run = load_model(place / "tested"), load_model(found.run), result_of(found.run)
    assert student.preparation.settings()["kind"] == "tfidf"
    assert student.classes == teacher.classes
    encoder = teacher.preparation.load()[0]  # type: ignore[attr-defined]  # of a frozen encoder
    assert found.teacher.parameters == sum(p.numel() for part in (encoder, teacher.network) for p in part.parameters())
    assert found.student.parameters == sum(p.numel() for p in student.network.parameters())
    tensors = [*student.network.state_dict().values(), *student.preparation.tensors().values()]
    assert found.student.megabytes == pytest.approx(sum(t.numel() * t.element_size() for t in tensors) / 1e6)
    for side, known in ((found.teacher, result_of(place / "tested")), (found.student, run)):
        assert side.error_interval is not None
        assert [known[key] for key in MEASURED] == [40, side.error, list(side.error_interval)]
    assert found.baseline_error == run["supervised_test_error"] is not None
    assert read_csv(found.run / "held_out.csv")[0].keys() == read_csv(place / "tested" / "held_out.csv")[0].keys()
    lines = found.describe().splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == ["teacher", "student", "student, labels only"]
    assert (found.teacher.network.split(" on ")[1], found.student.network.split(" on ")[1]) == ("encoder", "TF-IDF")
    assert "same 40 test samples" in lines[5]
    assert softmatch.predict(found.run, place / "test.csv", tmp_path / "p.csv").known == 40
    assert softmatch.export(found.run, "torchscript").difference < 1e-4
    assert (found.run / "report.html").is_file()
    assert read_file(found.run / "config.yaml")["method_options"] == {"teacher": str(place / "tested")}
    assert "a distilled model has no λ of its own" in softmatch.write_pseudo_labels(found.run).reason


def test_targets_are_the_soft_pseudo_labels_of_the_run(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that `pseudo-labels` writes: the same weights, and the probabilities before the temperature."""
    seen: list[tuple[Tensor, Tensor]] = []
    begin = Distilled.begin
    monkeypatch.setattr(
        Distilled, "begin", lambda self, *rest: (begin(self, *rest), seen.append((self.targets, self.weights)))[0]
    )
    found = distil(place / "tested", tmp_path / "small", **STUDENT)
    written = softmatch.write_pseudo_labels(place / "tested", tmp_path / "p.csv", order="source", device="cpu")
    ((targets, weights),) = seen
    assert weights.tolist() == pytest.approx([float(row["weight"]) for row in read_csv(tmp_path / "p.csv")], abs=1e-4)
    assert torch.equal(targets, open_pool(place / "tested", device="cpu").probabilities())
    assert found.weight == pytest.approx(written.weight)
    assert found.reason == ""


def test_no_model_of_a_fold_has_seen_its_samples(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[Split] = []
    judged: list[tuple[Split, int]] = []
    fit, judge = module.fit, module.judge_pool

    def watched_fit(task: Task, *rest: Any) -> Any:
        trained.append(task.split)
        return fit(task, *rest)

    def watched_judge(pool: Pool, run: Path, method: str | None, probs: Tensor) -> Any:
        judged.append((pool.task.split, len(probs)))
        return judge(pool, run, method, probs)

    monkeypatch.setattr(module, "fit", watched_fit)
    monkeypatch.setattr(module, "judge_pool", watched_judge)
    found = distil(place / "crossed", tmp_path / "small", **STUDENT)
    assert len(trained) == 2
    for split in trained:
        assert not torch.isin(split.test, torch.cat([split.labeled, split.unlabeled])).any()
    assert torch.cat([split.test for split in trained]).unique().numel() == 24
    assert [len(split.unlabeled) for split, _ in judged] == [number for _, number in judged] == [72, 72, 84]
    ours, theirs = result_of(found.run), result_of(place / "crossed")
    assert (ours["test_samples"], ours["evaluation"]) == (theirs["test_samples"], theirs["evaluation"])
    assert {row["name"] for row in read_csv(found.run / "held_out.csv")} == {str(k) for k in range(1, 25)}
    assert "each left out once by teacher and student (2 folds)" in found.describe()
    assert not list(found.run.rglob("teacher"))


def test_a_teacher_that_is_a_baseline(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may keep its baseline: then the error is that of the baseline, and so are the teachers of the folds."""
    run, methods, fit = shutil.copytree(place / "crossed", tmp_path / "run"), list[type](), module.fit
    RunFolder(run).write_json("result.json", {**result_of(run), "kept": "supervised", "supervised_test_error": 0.25})
    monkeypatch.setattr(module, "fit", lambda task, method, to: (methods.append(type(method)), fit(task, method, to))[1])
    found = distil(run, tmp_path / "small", **STUDENT)
    assert methods == [softmatch.Supervised] * 2
    assert (found.teacher.error, found.teacher.error_interval) == (0.25, wilson_interval(6, 24))
    assert (found.weight, "the saved model is the baseline" in found.reason) == (1.0, True)
    assert result_of(found.run)["kept"] == "distil"


class Ends:
    """A watcher that ends the run at the first record of a role."""

    def __init__(self, role: str) -> None:
        self.role = role

    def understood(self, task: Task, run: RunFolder) -> None: ...

    def note(self, text: str) -> None: ...

    def record(self, role: str, record: Record, steps: int) -> None:
        if role == self.role and record["step"] < steps:
            raise Stopped("stopped")


def test_an_interrupted_distillation_is_resumed(place: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", distil(place / "crossed", tmp_path / "whole", **STUDENT)
    for role in ("1/2 teacher", "2/2 distil", "distil"):
        with pytest.raises(Stopped, match=r"softmatch distil \S*crossed --out \S*out and the same options"):
            distil(place / "crossed", out, watcher=Ends(role), **STUDENT)
    refused("unfinished run with other settings: steps", distil, place / "crossed", out, **{**STUDENT, "steps": 7})
    refused("learns from a finished run: use softmatch distil", softmatch.train, str(place / "texts.csv"), resume=out)
    found = distil(place / "crossed", out, **STUDENT)
    assert found.student.error == whole.student.error
    ours, theirs = (load_model(each.run).network.state_dict() for each in (found, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_images_and_a_fine_tuned_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    photos, encoder = pictures(tmp_path / "photos", side=20), str(make_vit(tmp_path / "encoder"))
    for name, tuned in (("frozen", False), ("tuned", True)):
        given = {"encoder": encoder, "tune": "all" if tuned else "head", "evaluation": "holdout", "test_fraction": 0.9}
        softmatch.train(str(photos), out=tmp_path / name, **given, **QUICK, **MACHINE)
        found = distil(tmp_path / name, tmp_path / f"{name}-small", model="small-conv-4", measure=True, **STUDENT)
        model = load_model(found.run)
        assert (model.shape, found.student.network) == ((3, 20, 20), "small-conv-4")
        assert found.teacher.parameters > 5000 > found.student.parameters
        assert softmatch.export(found.run, "torchscript").difference < 1e-4
        ours, theirs = (RunFolder(each).read_json("split.json") for each in (found.run, tmp_path / name))
        assert [ours[part] for part in ("labeled", "unlabeled", "test")] == [
            theirs[part] for part in ("labeled", "unlabeled", "test")
        ]
        assert not {*ours["test"]} & {*ours["unlabeled"]}
        assert "held-out samples, which neither model was trained on" in found.describe()


def test_a_run_without_weights_or_files(tmp_path: Path) -> None:
    softmatch.train("digits", labels=20, method="supervised", network="mlp", out=tmp_path / "run", **QUICK, **MACHINE)
    found = distil(tmp_path / "run", tmp_path / "small", model="mlp-4", **STUDENT)
    assert (found.weight, found.reason) == (1.0, "no weights: supervised has no λ for each sample")
    assert "All pseudo-labels have the weight 1" in found.describe()
    assert result_of(found.run)["test_samples"] == result_of(tmp_path / "run")["test_samples"]


def test_what_cannot_be_distilled(place: Path, tmp_path: Path) -> None:
    crossed, used = place / "crossed", tmp_path / "used"
    used.mkdir()
    (used / "mine.txt").write_text("mine")
    refused("already exists and is never overwritten", distil, crossed, used)
    refused("already exists and is never overwritten", distil, crossed, crossed)
    assert [path.name for path in used.iterdir()] == ["mine.txt"]
    out = tmp_path / "out"
    refused("is not the folder of a finished run", distil, used, out)
    refused("a distilled model is one without", distil, crossed, out, model="encoder=x")
    refused("there is no network 'smal'", distil, crossed, out, model="smal", **STUDENT)
    refused("--no-measure is for runs that are measured by a cross-fit", distil, place / "tested", out, measure=False, **STUDENT)
    more = [line.replace(",\n", ",cards\n") for line in (place / "texts.csv").read_text().splitlines(keepends=True)]
    (tmp_path / "more.csv").write_text("".join(more))
    refused("has more labels now. Train again, then distil", distil, crossed, out, tmp_path / "more.csv", **STUDENT)
    own = shutil.copytree(crossed, tmp_path / "own")
    (own / "config.yaml").write_text((own / "config.yaml").read_text().replace("method: softmatch", "method: evil.py:Evil"))
    refused("evil.py:Evil, which is run only if you name it: add --method", distil, own, out, **STUDENT)
    refused("method 'distil' learns from a finished run", softmatch.train, "digits", method="distil", out=out)
    assert not out.exists()


def test_the_command(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(list(arguments)) == code
        found = capsys.readouterr()
        return found.err if code else found.out

    monkeypatch.chdir(tmp_path)
    crossed, options = str(place / "crossed"), ("--steps", "3", "--no-baseline", "--no-measure", "--device", "cpu")
    shown = said("distil", crossed, str(place / "texts.csv"), "--out", "small", *options)
    assert "samples/s" in shown
    assert "The error of the student was not measured (--no-measure)." in shown
    found = json.loads(said("distil", crossed, "--out", "again", "--model", "mlp-8", *options, "--json"))
    assert found.keys() == DistilledModel.__dataclass_fields__.keys()
    assert (found["student"]["network"], found["student"]["error"]) == ("mlp-8 on TF-IDF", None)
    assert "distil needs --out" in said("distil", crossed, code=2)
    assert "never overwritten" in said("distil", crossed, "--out", "small", code=2)
