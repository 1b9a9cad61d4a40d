"""Needs of methods: heads, a survey, generations, a module of their own, streams; each used by a small method."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods.base import MakeOptimizer, Method
from softmatch.methods.forward import Forward
from softmatch.networks.heads import Headed
from softmatch.step import Batch, Output
from softmatch.training.loop import Trainer
from softmatch.training.refusals import refuse_unfit
from softmatch.training.setup import make_trainer
from softmatch.training.task import Task
from tests.prepared import copied_state, same_state, small_task


def make_task(**settings: Any) -> Task:
    return small_task(**{"labels": 20, **settings})


def steps(trainer: Trainer, number: int) -> Trainer:
    for _ in range(number):
        trainer.advance()
    return trainer


class Plain(Method):
    """The labelled loss, for methods that add to it."""

    def step(self, forward: Forward, batch: Batch) -> Output:
        (logits,) = forward(batch.labeled["weak"])
        loss = F.cross_entropy(logits, batch.labels)
        return Output(loss, loss.detach())


class TwoHeads(Plain):
    """A second head is trained on shuffled classes; its predictions are the final ones."""

    needs_features, final_head = True, "second"

    def heads(self, num_features: int) -> dict[str, nn.Module]:
        return {"second": nn.Linear(num_features, 2)}

    def step(self, forward: Forward, batch: Batch) -> Output:
        (encoded,) = forward.encode(batch.labeled["weak"])
        second = F.cross_entropy(forward.head(encoded.features.detach(), "second"), 1 - batch.labels)
        loss = F.cross_entropy(encoded.logits, batch.labels) + second
        return Output(loss, loss.detach())


def test_a_second_head_is_trained_averaged_saved_and_ends_in_the_place_of_the_first() -> None:
    task = make_task(optimizer="adam", lr=0.05, model_momentum=0.0)
    trainer = steps(make_trainer(task, TwoHeads()), 12)
    assert isinstance(trainer.network, Headed)
    assert {"network.heads.second.weight", "average.heads.second.weight"} <= trainer.state().keys()
    items = task.views.plain(task.examples.items[task.split.labeled])
    with torch.no_grad():
        own, final = (network(items).argmax(-1) for network in (trainer.network, trainer.result))
    assert float((own != final).float().mean()) > 0.9, "the second head was taught the other class"
    assert trainer.result.state_dict().keys() == trainer.network.network.state_dict().keys()


class Surveyed(Plain):
    unlabeled_views, survey_every = ("weak",), 5

    def __init__(self) -> None:
        super().__init__()
        self.surveys: list[Tensor] = []

    def survey(self, probs: Tensor) -> None:
        self.surveys.append(probs)


def test_a_survey_shows_the_averaged_networks_predictions_on_the_whole_pool() -> None:
    task, method = make_task(), Surveyed()
    trainer = steps(make_trainer(task, method), 11)
    assert len(method.surveys) == 2, "before steps 5 and 10, not before the first"
    assert method.surveys[0].shape == (len(task.split.unlabeled), 2)
    steps(trainer, 1)
    torch.testing.assert_close(trainer.predict_pool(trainer.result).sum(1), torch.ones(len(task.split.unlabeled)))


class Growing(Plain):
    """Three generations; each takes one more unlabelled sample in as labelled."""

    unlabeled_views, generations = ("weak",), 3
    added: Tensor

    def __init__(self, number: int) -> None:
        super().__init__()
        self.register_buffer("added", torch.full((number,), -1))
        self.begun: list[Tensor] = []

    def begin(self, network: nn.Module, make_optimizer: MakeOptimizer) -> None:
        self.begun.append(next(network.parameters()).detach().clone())

    def next_generation(self, probs: Tensor) -> None:
        self.added[int((self.added >= 0).sum())] = int(probs[0].argmax())

    def added_labels(self) -> Tensor | None:
        return self.added


def test_a_generation_begins_anew_with_more_labels_and_the_whole_schedule() -> None:
    task = make_task()
    method = Growing(len(task.split.unlabeled))
    trainer, rates, sizes = make_trainer(task, method), [], []
    for _ in range(12):
        trainer.advance()
        rates.append(trainer.optimizer.param_groups[0]["lr"])
        sizes.append(len(trainer.batches.roles["labeled"].items))  # type: ignore[union-attr]  # two moons need no workers
    assert sizes == [20] * 4 + [21] * 4 + [22] * 4
    assert rates[:4] == rates[4:8] == rates[8:]
    assert rates[0] > rates[3]
    first, second, third = method.begun
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)


def test_there_are_as_many_generations_as_were_asked_for_whatever_the_number_of_steps() -> None:
    task = make_task(steps=10)
    method = Growing(len(task.split.unlabeled))
    steps(make_trainer(task, method), 10)
    assert len(method.begun) == 3


@pytest.mark.parametrize("at", [3, 4, 7, 8])
def test_a_run_resumes_in_any_generation(at: int) -> None:
    task = make_task()
    whole = steps(make_trainer(task, Growing(len(task.split.unlabeled))), 12)
    first = steps(make_trainer(task, Growing(len(task.split.unlabeled))), at)
    state = copied_state(first)
    torch.manual_seed(99)
    second = make_trainer(task, Growing(len(task.split.unlabeled)))
    second.load_state(at, state)
    assert same_state(steps(second, 12 - at), whole)


class Companion(Plain):
    """Trains a copy of the network by itself, with an optimiser as the run's."""

    def begin(self, network: nn.Module, make_optimizer: MakeOptimizer) -> None:
        self.copy = copy.deepcopy(network)
        self.optimizers["copy"] = make_optimizer(self.copy)

    def after_step(self, forward: Forward, batch: Batch) -> None:
        self.optimizers["copy"].zero_grad()
        F.cross_entropy(self.copy(batch.labeled["weak"]), batch.labels).backward()
        self.optimizers["copy"].step()


def test_a_module_of_the_methods_own_follows_the_schedule_and_resumes() -> None:
    task = make_task(optimizer="adam", lr=0.01)
    whole = steps(make_trainer(task, Companion()), 12)
    for own, copied in zip(whole.network.parameters(), whole.method.copy.parameters(), strict=True):  # type: ignore[union-attr,operator]  # set in begin
        torch.testing.assert_close(own, copied)  # the same steps, so the same weights
    first = steps(make_trainer(task, Companion()), 5)
    state = copied_state(first)
    second = make_trainer(task, Companion())
    second.load_state(5, state)
    assert same_state(steps(second, 7), whole)


class Streamed(Plain):
    streams, validation_share = ("balanced", "validation"), 0.3


def test_validation_samples_are_of_every_class_and_never_trained_on() -> None:
    task = make_task()
    trainer = make_trainer(task, Streamed())
    roles = trainer.batches.roles  # type: ignore[union-attr]  # two moons need no workers
    assert len(roles["labeled"].items) == 14
    assert len(roles["validation"].items) == 6
    assert torch.bincount(roles["validation"].labels).tolist() == [3, 3]
    trained = {tuple(row) for row in roles["labeled"].items.tolist()} | {tuple(row) for row in roles["balanced"].items.tolist()}
    assert trained.isdisjoint(tuple(row) for row in roles["validation"].items.tolist())
    assert set(trainer.batches(0).streams) == {"balanced", "validation"}


def test_what_a_task_cannot_give_is_refused_before_training() -> None:
    class ForText(Plain):
        kinds = ("text",)

    with pytest.raises(InputError, match=r"'mine' cannot train on items of kind 'vector'; it is for text"):
        refuse_unfit(make_task(), ForText(), "mine")
    with pytest.raises(InputError, match=r"uses the features of the network; .*Sequential.* does not show them"):
        refuse_unfit(make_task(network=nn.Sequential(nn.Linear(2, 2))), TwoHeads(), "mine")
    with pytest.raises(InputError, match="two or more of a class"):
        refuse_unfit(make_task(labels=2), Streamed(), "mine")
    with pytest.raises(InputError, match="3 generations, more than --steps 2"):
        refuse_unfit(make_task(steps=2), Growing(4), "mine")
    refuse_unfit(make_task(), TwoHeads(), "mine")
