"""Hugging Face's Trainer: the loss in `compute_loss`, the batches in `get_train_dataloader`.

    python examples/hf_trainer.py

The model gives logits; for one of transformers write `model(input_ids=…).logits`. The method is a part of it, so
that checkpoints have its statistics. The Trainer takes dictionaries, and cannot skip batches of a loader that is not torch's own:
a callback sends the loader to the right step, for `trainer.train(resume_from_checkpoint=…)`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback, TrainingArguments

import softmatch
from softmatch.views import VectorViews


class Digits(nn.Module):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.method = softmatch.methods.softmatch(10, momentum=softmatch.momentum_for(steps), start="debiased")

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)  # type: ignore[no-any-return]  # a module's output


class Dictionaries(softmatch.PairLoader):
    def __iter__(self) -> Iterator[dict[str, Tensor]]:  # type: ignore[override]  # what the Trainer takes
        return (batch._asdict() for batch in super().__iter__())


class PairTrainer(Trainer):
    def __init__(self, *given: Any, loader: softmatch.PairLoader, method: softmatch.Match, **named: Any) -> None:
        super().__init__(*given, **named)
        self.loader, self.method = loader, method
        self.add_callback(Resumed(loader))

    def get_train_dataloader(self) -> softmatch.PairLoader:  # type: ignore[override]  # not torch's
        return self.loader

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], *given: Any, **named: Any) -> Tensor:  # type: ignore[override]
        x, y, weak, strong, index = inputs.values()
        logits = model(torch.cat([x, weak, strong]))  # one pass, as DDP needs
        on_x, on_weak, on_strong = logits.split([len(x), len(weak), len(strong)])
        loss: Tensor = self.method(on_x, y, on_weak.detach(), on_strong, index)
        return loss


class Resumed(TrainerCallback):
    def __init__(self, loader: softmatch.PairLoader) -> None:
        self.loader = loader

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        self.loader.step = state.global_step * args.gradient_accumulation_steps


def main(folder: Path, steps: int = 400, stop_after: int | None = None, resume: bool = False) -> tuple[float, Digits]:
    rows, labels = load_digits(return_X_y=True)
    x, y = torch.from_numpy(rows).float() / 16, torch.from_numpy(labels)
    known = torch.cat([(y == label).nonzero()[:4, 0] for label in range(10)])  # four labels per class
    views = VectorViews(x.mean(0).tolist(), [float(x.std())] * 64, strong_noise=0.5, drop=0.2)
    loader = Dictionaries((x[known], y[known]), x, views, labeled_batch=40, unlabeled_batch=200)

    torch.manual_seed(0)
    model = Digits(steps)
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=stop_after or steps,
        save_steps=stop_after or steps,
        learning_rate=3e-3,
        lr_scheduler_type="constant",  # the Trainer's default is a linear decrease to 0
        max_grad_norm=0.0,  # and its default 1.0 clips
        ignore_data_skip=True,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = PairTrainer(model, arguments, loader=loader, method=model.method)
    trainer.train(resume_from_checkpoint=resume)
    with torch.no_grad():
        error = float((model(views.plain(x)).argmax(1) != y).float().mean())
    print(f"40 labels, {steps} steps: {100 * error:.1f} % of the digits wrong")
    return error, model


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
