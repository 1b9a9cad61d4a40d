"""The training loop: batch → loss → backward → step → average, with a record every few steps."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from softmatch.config import Config
from softmatch.data.batches import Batches
from softmatch.data.loading import LoadedBatches
from softmatch.distributed.gradients import GradientSum
from softmatch.distributed.processes import average_running_statistics, world
from softmatch.errors import InputError, OutOfMemory, TrainingError
from softmatch.methods.base import Method
from softmatch.methods.forward import Forward
from softmatch.methods.neighbours import Neighbours
from softmatch.metrics import PseudoLabelMeter
from softmatch.networks.heads import feature_size, trained
from softmatch.step import Batch, Output, whole_batches
from softmatch.training.arithmetic import HALF
from softmatch.training.checkpoint import flatten_optimizer, unflatten_optimizer
from softmatch.training.ema import ModelAverage
from softmatch.training.schedule import cosine_factor, set_learning_rate, triangular_factor
from softmatch.views.image import reduced

Record = dict[str, Any]
SAMPLES = 1000
"""Unlabelled samples that quantity and quality of a record rest on at least, once there were so many."""


class Clock:
    """Names the parts of a training step; this one measures nothing. See `bench.Stopwatch`."""

    def __call__(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()


@contextmanager
def _explained(number: int) -> Iterator[None]:
    """Explain failures of a step that the user can fix."""
    try:
        yield
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise InputError(
            f"step {number}: batch normalisation needs more than one value in a pass. Raise --labeled-batch or --micro-batch."
        ) from error
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if "out of memory" in text.lower() or "allocate memory" in text:
            raise OutOfMemory(
                f"step {number} needs more memory than available. Try smaller batches, --batch-statistics separate with "
                "--micro-batch, or --precision bf16."
            ) from error
        if type(error).__module__.startswith("torch._"):  # errors of the compiler, which is not imported for their sake
            raise InputError(f"torch.compile failed: {text} Leave out --compile, or install a C++ compiler.") from error
        raise


class Parts(NamedTuple):
    """Parts that each generation begins with."""

    network: nn.Module
    batches: Batches | LoadedBatches
    optimizer: torch.optim.Optimizer
    average: ModelAverage


class Trainer:
    """One network trained by one method.

    Args:
        make_parts: takes the number of a generation and the labels that the method has added to unlabelled samples, if any.
        make_optimizer: makes an optimiser like the network's for another module that the method trains.
        predict_pool: returns a network's predictions (N_U, C) on all unlabelled samples.
        truth: labels of the unlabelled samples where known, −1 elsewhere. Only the meter sees them.
        every: number of steps between two records.
        micro_batch: largest number of items in one pass; None for whole views.
    """

    forward: Forward
    neighbours: Neighbours | None

    def __init__(
        self,
        make_parts: Callable[[int, Tensor | None], Parts],
        method: Method,
        config: Config,
        *,
        make_optimizer: Callable[[nn.Module], torch.optim.Optimizer],
        predict_pool: Callable[[nn.Module], Tensor],
        num_classes: int,
        truth: Tensor,
        every: int,
        device: torch.device,
        micro_batch: int | None,
    ) -> None:
        self.method, self.config, self.predict_pool = method, config, predict_pool
        self.num_classes, self.steps, self.every, self.device = num_classes, config.steps, every, device
        self.clock = Clock()
        self._make_parts, self._make_optimizer, self._micro_batch = make_parts, make_optimizer, micro_batch
        self._followers: list[torch.optim.Optimizer] = []
        self._begin_generation(0)
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "fp16")
        self.step, self.seconds = 0, 0.0
        self._truth = truth.to(device)
        self._meter = PseudoLabelMeter(num_classes, device, SAMPLES)
        self._losses = torch.zeros(3, dtype=torch.float64 if device.type != "mps" else torch.float32, device=device)
        self._since = 0

    @property
    def result(self) -> nn.Module:
        """Network that is evaluated and saved: averaged weights, with the final head of the method."""
        return trained(self.average.network, self.method.final_head)

    def _begin_generation(self, number: int) -> None:
        self._followers.clear()
        self.network, self.batches, self.optimizer, self.average = self._make_parts(number, self.method.added_labels())
        passes = self.config.batch_statistics, self._micro_batch
        taught, sharded = self.config.teacher == "average", world().size > 1
        self.neighbours = None
        if self.config.neighbours and self.method.unlabeled_views:
            features = feature_size(self.network)
            assert features is not None, "refused before training"
            self.neighbours = Neighbours(features, self.num_classes, self.config.neighbours).to(self.device)
        shared: dict[str, Any] = {"sharded": sharded, "taught": taught, "neighbours": self.neighbours}
        shared["strong_share"] = self.config.strong_share
        self.forward = Forward(self.network, *passes, self.average.network, self.config.compile, **shared)
        self._gradients = GradientSum(self.network)
        self.method.begin(self.network, self._follow)
        self.method.to(self.device)
        self.network.train()
        self.method.train()

    def _follow(self, module: nn.Module) -> torch.optim.Optimizer:
        self._followers.append(self._make_optimizer(module.to(self.device)))
        return self._followers[-1]

    def _between_steps(self) -> None:
        """Run a survey of the unlabelled samples or start a new generation, where the method asks for it."""
        step, every = self.step, self.method.survey_every
        number, begun, _ = self._generation(step)
        if step and step == begun:
            self.method.next_generation(self.predict_pool(self.result).to(self.device))
            self.batches.close()
            self._begin_generation(number)
        elif step and every is not None and step % every == 0:
            self.method.survey(self.predict_pool(self.result).to(self.device))

    def factor(self, step: int) -> float:
        """Factor of the learning rate at a step; each generation has the whole schedule."""
        _, begun, end = self._generation(step)
        factor = triangular_factor if self.config.schedule == "triangular" else cosine_factor
        return factor(step - begun, end - begun, self.config.warmup)

    def on_small_images(self, step: int) -> bool:
        """True in the first share of each generation that the settings train on reduced images."""
        _, begun, end = self._generation(step)
        return step - begun < self.config.small_images * (end - begun)

    def _generation(self, step: int) -> tuple[int, int, int]:
        """Generation of a step: its number, its first step, and the first step of the next one."""
        parts = self.method.generations
        number = ((step + 1) * parts - 1) // self.steps
        return number, number * self.steps // parts, (number + 1) * self.steps // parts

    @property
    def due(self) -> bool:
        """True when a record of the steps since the last one is due."""
        return self._since > 0 and (self.step % self.every == 0 or self.step == self.steps)

    def run(self, after_step: Callable[[], None] | None = None) -> Iterator[Record]:
        """Train to the last step; yield a record every `every` steps and after the last.

        A record counts as made after `clear`, or when the next is requested; until then the state contains its figures.

        Args:
            after_step: called after each step, before its record. If it raises, the run can be resumed from the state.
        """
        self.network.train()
        self.method.train()
        while self.due or self.step < self.steps:
            if self.due:
                yield self._record()
                self.clear()
                continue
            started = time.perf_counter()
            self.advance()
            self.seconds += time.perf_counter() - started
            if after_step is not None:
                after_step()

    def advance(self) -> None:
        """Run one training step."""
        step, clock = self.step, self.clock
        with _explained(step + 1), whole_batches():
            self._between_steps()
            self.forward.begin(step)
            for optimizer in (self.optimizer, *self._followers):
                set_learning_rate(optimizer, self.config.lr * self.factor(step))
            with clock("data"):
                batch = self.batches(step)
                if self.on_small_images(step):
                    batch = batch.changed(reduced)
            with clock("weighting and loss"), self._autocast():
                output = self._loss(step, batch)
            with clock("backward"), self._gradients.during_backward():
                self.scaler.scale(output.loss).backward()  # type: ignore[no-untyped-call]  # torch's own signature
            if world().size > 1:
                with clock("processes"):
                    self._gradients.finish()
                    average_running_statistics(self.network)
            with clock("optimiser"):
                if self.config.clip is not None:
                    self.scaler.unscale_(self.optimizer)
                    nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()
            with clock("average of weights"):
                self.average.update(self.network, step - self._generation(step)[1])
            with clock("weighting and loss"), self._autocast():
                self.method.after_step(self.forward, batch)
            with clock("metrics"):
                self._measure(output, batch.index)
        self.step = step + 1

    def _loss(self, step: int, batch: Batch) -> Output:
        try:
            output = self.method.step(self.forward, batch)
        except InputError as error:
            raise TrainingError(f"training stopped at step {step + 1}: {error}") from error
        if self.device.type == "cpu" and not math.isfinite(loss := float(output.loss.detach())):
            raise TrainingError(f"training stopped at step {step + 1}: the loss is {loss}.")
        return output

    def _autocast(self) -> AbstractContextManager[None]:
        kind = HALF.get(self.config.precision)
        return nullcontext() if kind is None else torch.autocast(self.device.type, dtype=kind)

    def _measure(self, output: Output, index: Tensor) -> None:
        loss, unsupervised = output.loss.detach(), output.unsupervised_loss
        parts = [loss, output.supervised_loss, torch.zeros_like(loss) if unsupervised is None else unsupervised]
        self._losses += torch.stack(parts).to(self._losses.dtype)
        self._since += 1
        if output.pseudo is not None:
            positions, samples = (self.forward.own(index), len(index)) if output.own_rows else (index, None)
            self._meter.update(output.pseudo, self._truth[positions], samples)

    def _record(self) -> Record:
        """Figures since the last record, of pseudo-labels over enough samples. Only here does the host wait for the device."""
        self.settle()
        loss, supervised, unsupervised = (self._losses / max(self._since, 1)).tolist()
        if not math.isfinite(loss):
            raise TrainingError(f"training stopped at step {self.step}: the loss is {loss}.")
        record: Record = {
            "step": self.step,
            "seconds": self.seconds,
            "lr": self.config.lr * self.factor(self.step - 1),
            "loss": loss,
            "supervised_loss": supervised,
        }
        if self.method.unlabeled_views:
            record |= {"unsupervised_loss": unsupervised, **self._meter.read()}
        record["statistics"] = {name: value.tolist() for name, value in self.method.statistics().items()}
        curve = self.method.weight_curve(self.num_classes)
        if curve is not None:
            record["curve"] = {"confidence": curve[0].tolist(), "weight": curve[1].tolist()}
        return record

    def settle(self) -> None:
        """Add up the figures of all processes, which call this at the same step: before a record and before `state`."""
        if world().size > 1:
            self._meter.settle()

    def clear(self) -> None:
        """Reset the figures after a record."""
        self._losses.zero_()
        self._since = 0
        self._meter.reset()

    def state(self) -> dict[str, Tensor]:
        """All tensors that are needed to resume exactly; see `load_state`."""
        found: dict[str, Tensor] = {"rng.cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            found["rng.cuda"] = torch.cuda.get_rng_state(self.device)
        parts: dict[str, dict[str, Any]] = {
            "network": self.network.state_dict(),
            "average": self.average.state(),
            "method": self.method.state_dict(),
            "neighbours": {} if self.neighbours is None else self.neighbours.state_dict(),
            "meter": {**self._meter.state(), "losses": self._losses, "since": torch.tensor(self._since)},
            "optimizer": flatten_optimizer(self.optimizer),
            **{f"own.{name}": flatten_optimizer(optimizer) for name, optimizer in self.method.optimizers.items()},
        }
        if self.scaler.is_enabled():
            state = self.scaler.state_dict()
            parts["scaler"] = {key: torch.tensor(float(state[key])) for key in ("scale", "_growth_tracker")}
        for part, tensors in parts.items():
            found |= {f"{part}.{name}": tensor for name, tensor in tensors.items()}
        return found

    def load_state(self, step: int, tensors: dict[str, Tensor]) -> None:
        """Resume after `step` steps with the state of that moment."""

        def part(name: str) -> dict[str, Tensor]:
            return {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}

        self.method.load_state_dict(part("method"))
        generation, _, _ = self._generation(max(step - 1, 0))
        if generation:  # its batches contain samples that the method added
            self.batches.close()
            self._begin_generation(generation)
        self.network.load_state_dict(part("network"))
        self.average.load_state(part("average"))
        self.method.load_state_dict(part("method"))  # again: beginning a generation resets the method
        if self.neighbours is not None:
            self.neighbours.load_state_dict(part("neighbours"))
        unflatten_optimizer(self.optimizer, part("optimizer"))
        for name, optimizer in self.method.optimizers.items():
            unflatten_optimizer(optimizer, part(f"own.{name}"))
        rng = part("rng")
        torch.set_rng_state(rng["cpu"])
        if "cuda" in rng:
            torch.cuda.set_rng_state(rng["cuda"], self.device)
        if self.scaler.is_enabled():
            scale, tracker = (part("scaler")[key] for key in ("scale", "_growth_tracker"))
            fresh = {"scale": float(scale), "_growth_tracker": int(tracker)}
            self.scaler.load_state_dict({**self.scaler.state_dict(), **fresh})
        meter = part("meter")
        self._meter.load_state(meter)
        self._losses.copy_(meter["losses"])
        self._since = int(meter["since"])
        self.step = step
