"""Views and loss of softmatch in a PyTorch loop of your own, on your own arrays, on one device or several.

    python examples/plain_loop.py
    torchrun --nproc-per-node 2 examples/plain_loop.py

Replace the digits in `my_data` by your images and labels, and the small network in `my_network` by your own. Each process has
its own batches; DistributedDataParallel averages the gradients, and the method gathers its statistics over all processes itself.
(For vectors instead of images, use `softmatch.views.VectorViews`.)
"""

from __future__ import annotations

import os

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

import softmatch
from softmatch.views import ImageViews

NUM_CLASSES, LABELED_BATCH, UNLABELED_BATCH = 10, 32, 96


def my_data() -> tuple[Tensor, Tensor, Tensor]:
    """Images uint8 (N, C, H, W), labels (N,) with −1 for "none", and the true labels, for the final error only."""
    images, truth = load_digits(return_X_y=True)
    images = torch.from_numpy((images * (255 / 16)).astype(np.uint8)).reshape(-1, 1, 8, 8)
    truth = torch.from_numpy(truth)
    known = torch.cat([(truth == label).nonzero()[:4, 0] for label in range(NUM_CLASSES)])  # four labels per class
    labels = torch.full_like(truth, -1)
    labels[known] = truth[known]
    return images, labels, truth


def my_network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(192, NUM_CLASSES)),
    )


def main(steps: int = 600) -> float:
    several = "WORLD_SIZE" in os.environ  # set by torchrun
    if several:
        dist.init_process_group()
    rank, world = (dist.get_rank(), dist.get_world_size()) if several else (0, 1)
    device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)

    images, labels, truth = (tensor.to(device) for tensor in my_data())
    labeled = (labels >= 0).nonzero().flatten()
    levels = images.float() / 255
    views = ImageViews([float(levels.mean())], [float(levels.std())], pad=1, flip=False, reflect=False, operations=2)

    torch.manual_seed(0)  # the same initial weights in every process
    network = my_network().to(device)
    trained = DistributedDataParallel(network) if several else network
    optimizer = torch.optim.AdamW(trained.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    method = softmatch.methods.softmatch(NUM_CLASSES, momentum=softmatch.momentum_for(steps), start="debiased").to(device)

    for step in range(steps):
        generator = torch.Generator().manual_seed(step * world + rank)  # different samples and views in every process
        chosen = labeled[torch.randint(len(labeled), (LABELED_BATCH // world,), generator=generator).to(device)]
        index = torch.randint(len(images), (UNLABELED_BATCH // world,), generator=generator).to(device)
        inputs = (
            views.weak(images[chosen], generator),
            views.weak(images[index], generator),
            views.strong(images[index], generator),
        )
        logits, weak, strong = trained(torch.cat(inputs)).split([len(part) for part in inputs])  # one pass, as DDP needs
        loss = method(logits, labels[chosen], weak.detach(), strong, index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()

    network.eval()
    with torch.no_grad():
        error = float((network(views.plain(images)).argmax(1) != truth).float().mean())
    if rank == 0:
        print(f"{len(labeled)} labels, {steps} steps, {world} process(es): {100 * error:.1f} % of {len(images):,} images wrong")
    if several:
        del trained  # first: torch can wait for itself for ever if the group goes before the network that uses it
        dist.destroy_process_group()
    return error


if __name__ == "__main__":
    main()
