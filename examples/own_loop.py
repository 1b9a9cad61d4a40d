"""SoftMatch's loss in a plain PyTorch loop of your own: two moons with four labels.

    python examples/own_loop.py
    torchrun --nproc-per-node 2 examples/own_loop.py

Everything but the line marked ← is ordinary PyTorch. The method keeps its statistics in buffers: save them with
`method.state_dict()`, move them with `method.to(device)`. Under torch.distributed they are gathered over all processes, whose
batches may differ in size. One pass over the concatenated views is what DistributedDataParallel with batch normalisation needs:
a second pass before `backward` would change the running statistics in place.
"""

from __future__ import annotations

import os

import torch
from sklearn.datasets import make_moons
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import softmatch


def main(steps: int = 1500) -> float:
    several = "WORLD_SIZE" in os.environ  # set by torchrun
    if several:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if several else 0
    torch.manual_seed(0)  # the same initial weights in every process
    points, truth = make_moons(1000, noise=0.1, random_state=0)
    x, y = torch.from_numpy(points).float(), torch.from_numpy(truth)
    x = (x - x.mean(0)) / x.std(0)
    labeled = torch.cat([(y == label).nonzero()[:2, 0] for label in (0, 1)])  # two labels per moon

    network = nn.Sequential(nn.Linear(2, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    trained = DistributedDataParallel(network) if several else network
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
    method = softmatch.methods.softmatch(num_classes=2, momentum=softmatch.momentum_for(steps), start="debiased")

    torch.manual_seed(rank)  # different batches in every process
    for _ in range(steps):
        index = torch.randint(len(x), (512,))
        weak, strong = (x[index] + noise * torch.randn(512, 2) for noise in (0.02, 0.15))
        logits = trained(torch.cat([x[labeled], weak, strong]))
        on_labeled, on_weak, on_strong = logits.split([len(labeled), len(weak), len(strong)])
        loss = method(on_labeled, y[labeled], on_weak.detach(), on_strong, index)  # ←
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    network.eval()
    with torch.no_grad():
        error = float((network(x).argmax(1) != y).float().mean())
    if rank == 0:
        print(f"4 labels, {steps} steps: {100 * error:.1f} % of 1,000 points wrong")
    if several:
        del trained  # first: torch can wait for itself for ever if the group goes before the network that uses it
        dist.destroy_process_group()
    return error


if __name__ == "__main__":
    main()
