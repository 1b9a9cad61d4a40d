"""PyTorch Lightning: the loss in `training_step`; labelled and unlabelled batches come in step from one loader.

    python examples/lightning_loop.py

The method is a submodule, so that Lightning moves it and saves it with the network. Lightning saves the loader's step in its
checkpoints too, and resumes in the middle of an epoch: `trainer.fit(module, ckpt_path=…)`. With several devices each process gets
its share of a batch, because the loader is made in `train_dataloader`, after Lightning has joined the processes.
"""

from __future__ import annotations

from pathlib import Path

import pytorch_lightning as lightning
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import softmatch
from softmatch.views import VectorViews


class Digits(lightning.LightningModule):
    def __init__(self, steps: int) -> None:
        super().__init__()
        rows, labels = load_digits(return_X_y=True)
        self.x, self.y = torch.from_numpy(rows).float() / 16, torch.from_numpy(labels)
        self.views = VectorViews(self.x.mean(0).tolist(), [float(self.x.std())] * 64, strong_noise=0.5, drop=0.2)
        self.network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.method = softmatch.methods.softmatch(10, momentum=softmatch.momentum_for(steps), start="debiased")

    def train_dataloader(self) -> softmatch.PairLoader:
        known = torch.cat([(self.y == label).nonzero()[:4, 0] for label in range(10)])  # four labels per class
        labeled = self.x[known], self.y[known]
        epoch = 100  # batches, after which Lightning ends an epoch
        return softmatch.PairLoader(labeled, self.x, self.views, labeled_batch=40, unlabeled_batch=200, length=epoch)

    def training_step(self, batch: softmatch.PairBatch, step: int) -> Tensor:
        x, y, weak, strong, index = batch
        logits = self.network(torch.cat([x, weak, strong]))  # one pass, as DDP needs
        on_x, on_weak, on_strong = logits.split([len(x), len(weak), len(strong)])
        loss: Tensor = self.method(on_x, y, on_weak.detach(), on_strong, index)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.network.parameters(), lr=3e-3)

    @torch.no_grad()
    def error(self) -> float:
        return float((self.network(self.views.plain(self.x)).argmax(1) != self.y).float().mean())


def fit(steps: int, until: int, folder: Path | None = None, resume: Path | None = None, devices: int = 1) -> Digits:
    """Train a run of `steps` up to step `until`, from a checkpoint if there is one."""
    lightning.seed_everything(0, verbose=False)
    trainer = lightning.Trainer(
        max_steps=until,
        accelerator="cpu",
        devices=devices,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = Digits(steps)
    trainer.fit(module, ckpt_path=resume, weights_only=False if resume else None)
    if folder is not None:
        trainer.save_checkpoint(folder / "last.ckpt")
    return module


def main(steps: int = 400) -> float:
    error = fit(steps, steps).error()
    print(f"40 labels, {steps} steps: {100 * error:.1f} % of the digits wrong")
    return error


if __name__ == "__main__":
    main()
