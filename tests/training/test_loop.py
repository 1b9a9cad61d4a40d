"""The loop: repeats bit for bit, resumes exactly from its state, never sees the truth, stops on NaN."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from softmatch import alignments, thresholds, weightings
from softmatch import step as seen
from softmatch.data import Batches
from softmatch.errors import InputError, TrainingError
from softmatch.methods import METHODS, match
from softmatch.training.loop import Record, Trainer
from tests.prepared import copied_state, same_state, small_task, trainer_of


def make(source: str = "two-moons", **settings: Any) -> Trainer:
    small = {"network": "small-conv-4"} if source == "digits" else {}
    return trainer_of(small_task(source, **small, **settings))


def finish(trainer: Trainer) -> list[Record]:
    records = []
    for record in trainer.run():
        record.pop("seconds")
        records.append(record)
    return records


@pytest.mark.parametrize("source", ["two-moons", "digits"])
def test_the_same_seed_repeats_bit_for_bit(source: str) -> None:
    first, again, other = make(source), make(source), make(source, seed=1)
    assert finish(first) == finish(again)
    assert same_state(first, again)
    finish(other)
    assert not same_state(first, other)


@pytest.mark.parametrize("method", METHODS)
def test_training_resumes_exactly_and_the_truth_reaches_metrics_only(method: str) -> None:
    """With the truth of unlabelled samples hidden, the run is the same but for its quality figures."""
    settings = {"source": "digits", "method": method, "optimizer": "adam", "lr": 0.01}
    whole = make(**settings)
    known = finish(whole)
    first = make(**settings)
    next(first.run())
    state = copied_state(first)
    torch.manual_seed(99)  # a restarted process has another global state
    second = make(**settings)
    second.load_state(4, state)
    assert finish(second) == known  # the record that was requested and not cleared is made once more
    assert same_state(whole, second)
    blind = make(**settings)
    blind._truth = torch.full((1258,), -1)
    unknown = finish(blind)
    ours, theirs = whole.state(), blind.state()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items() if not name.startswith("meter."))
    if "quality" in known[0] and known[-1]["quantity"]:
        assert known[-1]["quality"] is not None
        assert all(record["quality"] is None for record in unknown)
        assert [r["quantity"] for r in known] == [r["quantity"] for r in unknown]


def test_pseudo_labels_of_earlier_records_count_where_batches_are_small_also_after_a_resumption() -> None:
    settings = {"source": "digits", "unlabeled_batch": 200}
    whole = make(**settings)
    known = finish(whole)
    assert [record["samples"] for record in known] == [800, 1600, 2400]
    second = make(**settings)
    states = dict[int, dict[str, torch.Tensor]]()
    for _ in second.run(lambda: states.update({second.step: copied_state(second)})):
        pass
    for step in (4, 6, 9):  # before a record, and within the windows
        resumed = make(**settings)
        resumed.load_state(step, states[step])
        assert finish(resumed) == [record for record in known if record["step"] >= step]


def test_batches_carry_no_truth() -> None:
    trainer = make("digits")
    batch = trainer.batches(0)
    assert set(vars(batch)) == {"labeled", "labels", "unlabeled", "index", "labeled_index", "streams"}
    assert len(batch.labels) == 40  # labels of the labelled samples only


def test_an_infinite_input_stops_the_run_with_the_step() -> None:
    trainer = make()
    assert isinstance(trainer.batches, Batches)
    trainer.batches.roles["unlabeled"].items[:] = float("inf")  # type: ignore[index]  # a tensor, of vectors
    with pytest.raises(TrainingError, match=r"stopped at step 1: .*NaN or infinity"):
        finish(trainer)


def test_a_diverging_run_stops() -> None:
    with pytest.raises(TrainingError, match="stopped at step"):
        finish(make(lr=1e20, steps=200))


def test_records_say_what_happened() -> None:
    records = finish(make("digits"))
    assert [record["step"] for record in records] == [4, 8, 12]
    last = records[-1]
    assert last["samples"] == 12 * 24, "fewer than 1,000: all of them"
    assert 0 <= last["quantity"] <= 1
    assert last["loss"] == pytest.approx(last["supervised_loss"] + last["unsupervised_loss"], rel=1e-5)
    assert set(last["statistics"]) == {"mean", "variance", "marginal"}
    assert len(last["curve"]["weight"]) == 101
    assert sum(last["histogram"]["all"]) == last["samples"]
    assert "quantity" not in finish(make("digits", method="supervised"))[-1]


def test_gradient_clipping_limits_the_step() -> None:
    free, clipped = make(steps=1, optimizer="sgd", lr=1.0), make(steps=1, optimizer="sgd", lr=1.0, clip=1e-3)
    start = [p.detach().clone() for p in free.network.parameters()]
    finish(free)
    finish(clipped)

    def moved(trainer: Trainer) -> float:
        pairs = zip(trainer.network.parameters(), start, strict=True)
        return float(sum((p.detach() - s).square().sum() for p, s in pairs)) ** 0.5

    assert moved(clipped) < 0.003 < moved(free)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_trains_and_keeps_float32_state(precision: str) -> None:
    trainer = make("digits", precision=precision)
    records = finish(trainer)
    assert all(torch.isfinite(torch.tensor(record["loss"])) for record in records)
    assert {p.dtype for p in trainer.network.parameters()} == {torch.float32}
    assert trainer.scaler.is_enabled() == (precision == "fp16")


class Waits(TorchDispatchMode):
    """Operations whose result the host needs before it goes on, or whose shape depends on values."""

    NAMES = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "unique", "is_nonzero")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masks = [index for index in args[1] if index is not None and index.dtype == torch.bool] if name == "index" else []
        if masks or any(name.lstrip("_").startswith(each.lstrip("_")) for each in self.NAMES):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("method", ["softmatch", "fixmatch", "freematch"])
def test_the_host_never_waits_for_the_device_in_a_step(method: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sprint = {"network": "shallow-2", "optimizer": "muon", "schedule": "triangular", "teacher": "average"}
    trainer = trainer_of(small_task("digits", method=method, precision=precision, **sprint))
    trainer.advance()
    for module in (match, alignments, weightings, thresholds, seen):
        monkeypatch.setattr(module, "refuse_invalid", lambda name, value: None)  # as on a GPU
    with Waits() as waits:
        trainer.advance()
    assert waits.found == ["_local_scalar_dense"], "the loss, which is looked at on a CPU only"


def test_the_averages_follow_from_the_number_of_steps() -> None:
    short, paper = make("digits", steps=400), make("digits", steps=400, averages="paper")
    assert short.average.momentum == pytest.approx(0.9)
    assert paper.average.momentum == 0.999
    assert short.method.weighting.mean.momentum == pytest.approx(0.9)  # type: ignore[union-attr]  # a Match
    assert paper.method.weighting.mean.momentum == 0.999  # type: ignore[union-attr]  # a Match
    assert short.method.weighting.mean.start == "debiased"  # type: ignore[union-attr]  # a Match
    assert paper.method.weighting.mean.start == "paper"  # type: ignore[union-attr]  # a Match
    norms = [m.momentum for m in short.network.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert norms == pytest.approx([0.1] * len(norms))
    norms = [m.momentum for m in paper.network.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert norms == pytest.approx([0.001] * len(norms))


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compiled_network_learns_the_same() -> None:
    plain, compiled = make(steps=3), make(steps=3, compile=True)
    finish(plain)
    finish(compiled)
    assert plain.state().keys() == compiled.state().keys(), "a checkpoint of one can be resumed by the other"
    for ours, theirs in zip(plain.network.parameters(), compiled.network.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_without_a_compiler_the_message_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    from torch._inductor import config

    monkeypatch.setattr(config.cpp, "cxx", (None, "/nonexistent"))
    torch._dynamo.reset()
    with pytest.raises(InputError, match=r"torch\.compile failed.*Leave out --compile"):
        finish(make(steps=2, compile=True, network="mlp", batch_statistics="separate"))
    torch._dynamo.reset()


class Fails(torch.nn.Module):
    """Fails as torch does, once training has begun."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.error = error

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            raise self.error
        logits: Tensor = self.layer(inputs)
        return logits


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), TrainingError, "step 1 needs more memory"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:1] . can't allocate memory: you tried"), TrainingError, "--micro-batch"),
        (ValueError("Expected more than 1 value per channel when training, got [1, 8]"), InputError, "Raise --labeled-batch"),
        (RuntimeError("shapes cannot be multiplied"), RuntimeError, "shapes cannot be multiplied"),
    ],
)
def test_failures_that_a_user_can_fix_are_explained(error: Exception, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        trainer_of(small_task(network=Fails(error))).advance()


def test_the_first_share_of_a_run_trains_on_small_images() -> None:
    task = small_task("digits", steps=10, small_images=0.5, network="shallow-4")
    items = F.interpolate(task.examples.items.float(), 32).to(torch.uint8)
    task = replace(task, examples=replace(task.examples, items=items))
    trainer, sides = trainer_of(task), []
    trainer.network.register_forward_pre_hook(lambda _, inputs: sides.append(tuple(inputs[0].shape[-2:])))
    for _ in range(10):
        before = len(sides)
        trainer.advance()
        assert len(set(sides[before:])) == 1, "all views of a step"
    half = len(sides) // 2
    assert sides == [(20, 20)] * half + [(32, 32)] * half
    small = small_task("digits", steps=2, small_images=1.0)
    trainer = trainer_of(small)
    trainer.network.register_forward_pre_hook(lambda _, inputs: sides.append(tuple(inputs[0].shape[-2:])))
    trainer.advance()
    assert sides[-1] == (8, 8), "images of fewer than 24 pixels are not reduced"


@pytest.mark.parametrize("method", ["meta_pseudo_labels", "mean_teacher", "vat", "freematch"])
def test_methods_that_ask_for_views_without_a_gradient_have_an_averaged_teacher_too(method: str) -> None:
    trainer = trainer_of(
        small_task("digits", method=method, teacher="average", batch_statistics="separate", network="small-conv-4")
    )
    for _ in range(2):
        trainer.advance()
    assert trainer.step == 2
