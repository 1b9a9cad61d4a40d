"""SoftMatch's loss in a plain PyTorch loop of your own: two moons with four labels.

    python examples/own_loop.py

Everything but the line marked ← is ordinary PyTorch. The method keeps its statistics in buffers: save them with
`method.state_dict()`, move them with `method.to(device)`; under torch.distributed they are gathered over all processes.
"""

from __future__ import annotations

import torch
from sklearn.datasets import make_moons
from torch import nn

import softmatch


def main(steps: int = 1500) -> float:
    torch.manual_seed(0)
    points, truth = make_moons(1000, noise=0.1, random_state=0)
    x, y = torch.from_numpy(points).float(), torch.from_numpy(truth)
    x = (x - x.mean(0)) / x.std(0)
    labeled = torch.cat([(y == label).nonzero()[:2, 0] for label in (0, 1)])  # two labels of each moon

    network = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    method = softmatch.methods.softmatch(num_classes=2, momentum=softmatch.momentum_for(steps), start="debiased")

    for _ in range(steps):
        index = torch.randint(len(x), (512,))
        weak, strong = (x[index] + noise * torch.randn(512, 2) for noise in (0.02, 0.15))
        loss = method(network(x[labeled]), y[labeled], network(weak), network(strong), index)  # ←
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    with torch.no_grad():
        error = float((network(x).argmax(1) != y).float().mean())
    print(f"4 labels, {steps} steps: {100 * error:.1f} % of 1,000 points wrong")
    return error


if __name__ == "__main__":
    main()
