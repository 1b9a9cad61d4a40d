"""A modality of your own in one file: views and a network for three-lead ECGs, given as beats (n, leads, beats, values).

python examples/own_modality.py        # makes ecg.npz, trains on it and predicts, with the commands below
softmatch check ecg.npz --views own_modality.py:Views --network own_modality.py:network
softmatch train ecg.npz --views own_modality.py:Views --network own_modality.py:network --views.noise 0.6 --out RUN
softmatch predict RUN ecg.npz --views own_modality.py:Views --network own_modality.py:network
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor, nn

from softmatch.cli.app import main as softmatch

CLASSES = ["normal", "early", "wide"]


class Views:
    """Items come standardised per lead. All random numbers are drawn with the generator, so that a run can be repeated."""

    def __init__(self, noise: float = 0.8) -> None:
        self.noise = noise

    def weak(self, items: Tensor, generator: Generator) -> Tensor:
        return items + 0.1 * torch.randn(items.shape, generator=generator).to(items)

    def strong(self, items: Tensor, generator: Generator) -> Tensor:
        leads = torch.rand(*items.shape[:2], 1, 1, generator=generator).to(items)
        gain = 0.5 + torch.rand(len(items), 1, 1, 1, generator=generator).to(items)
        return gain * items * (leads > 0.2) + self.noise * torch.randn(items.shape, generator=generator).to(items)


def network(num_classes: int, in_channels: int) -> nn.Module:
    """The same convolution along each beat, then the mean over all beats."""
    return nn.Sequential(
        *(nn.Conv2d(in_channels, 16, (1, 7), padding=(0, 3)), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d((1, 4))),
        *(nn.Conv2d(16, 32, (1, 5), padding=(0, 2)), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 4))),
        *(nn.Flatten(), nn.Linear(128, num_classes)),
    )


def ecgs(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Simulated beats: a wave P, a peak R and a wave T; in some, one beat in three comes early, in others R is wide."""
    drawn, time = np.random.default_rng(seed), np.linspace(0, 1, 40)
    kinds = drawn.integers(3, size=number)
    early = (kinds == 1)[:, None] * (np.arange(6) % 3 == drawn.integers(3, size=(number, 1)))
    at = 0.45 - 0.15 * early + 0.03 * drawn.normal(size=(number, 6))
    width = 0.03 + 0.03 * (kinds == 2)[:, None] + 0.004 * drawn.normal(size=(number, 6))
    waves = [(0.15, at - 0.2, 0.05), (1.0, at, width), (0.3, at + 0.3, 0.07)]
    beats = sum(
        size * np.exp(-0.5 * ((time - np.asarray(at)[..., None]) / np.asarray(w)[..., None]) ** 2) for size, at, w in waves
    )
    leads = drawn.uniform(0.3, 1.2, (number, 3, 1, 1)) * np.asarray(beats)[:, None]
    return (leads + 0.15 * drawn.normal(size=leads.shape)).astype(np.float32), kinds


def main(folder: Path, steps: int = 300) -> dict[str, float]:
    (x, kinds), (x_test, test) = ecgs(1500, 0), ecgs(600, 1)
    y = np.where(np.arange(len(x)) < 12, np.array(CLASSES)[kinds], "")  # only the first twelve have a label
    np.savez(folder / "ecg.npz", x=x, y=y, x_test=x_test, y_test=np.array(CLASSES)[test])
    own = ["--views", f"{__file__}:Views", "--network", f"{__file__}:network"]
    assert softmatch(["train", str(folder / "ecg.npz"), *own, "--steps", str(steps), "--out", str(folder / "run")]) == 0
    assert softmatch(["predict", str(folder / "run"), str(folder / "ecg.npz"), *own, "--out", str(folder / "new.csv")]) == 0
    found = json.loads((folder / "run" / "result.json").read_text(encoding="utf-8"))
    return {"softmatch": found["test_error"], "labels alone": found["supervised_test_error"]}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        print(main(Path(made), *map(int, sys.argv[1:])))
