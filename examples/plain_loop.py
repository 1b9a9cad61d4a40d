"""Batches, views and loss of softmatch in a PyTorch loop of your own, on one device or several; it resumes where it stopped.

    python examples/plain_loop.py
    torchrun --nproc-per-node 2 examples/plain_loop.py

Replace the digits in `my_data` by your images and labels, and the small network in `my_network` by your own. The batch sizes are
those of all processes together: each gets its share from the loader, DistributedDataParallel averages the gradients, and the
method gathers its statistics itself, so that two processes train what one would.
(For vectors instead of images, use `softmatch.views.VectorViews`; for files, a dataset and two functions, weak and strong.)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

import softmatch
from softmatch.views import ImageViews

NUM_CLASSES = 10


def my_data() -> tuple[Tensor, Tensor, Tensor]:
    """Images uint8 (N, C, H, W), their true labels, and the positions of those 40 whose labels are trained on."""
    images, truth = load_digits(return_X_y=True)
    images = torch.from_numpy((images * (255 / 16)).astype(np.uint8)).reshape(-1, 1, 8, 8)
    truth = torch.from_numpy(truth)
    return images, truth, torch.cat([(truth == label).nonzero()[:4, 0] for label in range(NUM_CLASSES)])


def my_network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(192, NUM_CLASSES)),
    )


def main(steps: int = 600, checkpoint: str | None = None, stop_after: int | None = None) -> float:
    several = "WORLD_SIZE" in os.environ  # set by torchrun
    if several:
        dist.init_process_group()
    rank, world = (dist.get_rank(), dist.get_world_size()) if several else (0, 1)
    device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)

    images, truth, known = (tensor.to(device) for tensor in my_data())
    levels = images.float() / 255
    views = ImageViews([float(levels.mean())], [float(levels.std())], pad=1, flip=False, reflect=False, operations=2)
    loader = softmatch.PairLoader((images[known], truth[known]), images, views, labeled_batch=32, unlabeled_batch=96)

    torch.manual_seed(0)  # the same initial weights in every process
    network = my_network().to(device)
    trained = DistributedDataParallel(network) if several else network
    optimizer = torch.optim.AdamW(trained.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    method = softmatch.methods.softmatch(NUM_CLASSES, momentum=softmatch.momentum_for(steps), start="debiased").to(device)
    parts: dict[str, Any] = {"network": network, "optimizer": optimizer, "schedule": schedule, "method": method, "loader": loader}
    if checkpoint and Path(checkpoint).exists():
        for name, state in torch.load(checkpoint, map_location=device).items():
            parts[name].load_state_dict(state)

    for x, y, weak, strong, index in loader if loader.step < steps else ():
        logits = trained(torch.cat([x, weak, strong]))  # one pass, as DDP needs
        on_x, on_weak, on_strong = logits.split([len(x), len(weak), len(strong)])
        loss = method(on_x, y, on_weak.detach(), on_strong, index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if loader.step in (steps, stop_after):
            break
    if checkpoint and rank == 0:
        torch.save({name: part.state_dict() for name, part in parts.items()}, checkpoint)

    network.eval()
    with torch.no_grad():
        error = float((network(views.plain(images)).argmax(1) != truth).float().mean())
    if rank == 0:
        print(f"{len(known)} labels, {loader.step} steps, {world} process(es): {100 * error:.1f} % of {len(images):,} wrong")
    if several:
        del trained, parts  # first: torch can wait for itself for ever if the group goes before the network that uses it
        dist.destroy_process_group()
    return error


if __name__ == "__main__":
    main()
