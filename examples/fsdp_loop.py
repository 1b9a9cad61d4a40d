"""FSDP2: the parameters, gradients and optimiser of one network spread over several processes (`fully_shard`).

    torchrun --nproc-per-node 2 examples/fsdp_loop.py

The loss is called as in any loop: it takes logits, and the method gathers its statistics over all processes itself. Every process
has the whole state of the method, which is small. Here on CPUs with gloo; on GPUs the mesh is "cuda" and the backend NCCL.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import softmatch
from softmatch.views import VectorViews


def main(steps: int = 400, saved: str | None = None) -> float:
    dist.init_process_group("gloo")  # torchrun has set rank and address
    rows, labels = load_digits(return_X_y=True)
    x, y = torch.from_numpy(rows).float() / 16, torch.from_numpy(labels)
    known = torch.cat([(y == label).nonzero()[:4, 0] for label in range(10)])  # four labels per class
    views = VectorViews(x.mean(0).tolist(), [float(x.std())] * 64, strong_noise=0.5, drop=0.2)
    loader = softmatch.PairLoader((x[known], y[known]), x, views, labeled_batch=40, unlabeled_batch=200)

    torch.manual_seed(0)  # the same initial weights in every process, of which each then keeps its part
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (network[0], network[2], network):  # blocks of a large network first, then all of it
        fully_shard(part, mesh=mesh)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    method = softmatch.methods.softmatch(10, momentum=softmatch.momentum_for(steps), start="debiased")

    for batch_x, batch_y, weak, strong, index in loader:
        logits = network(torch.cat([batch_x, weak, strong]))  # one pass
        on_x, on_weak, on_strong = logits.split([len(batch_x), len(weak), len(strong)])
        loss = method(on_x, batch_y, on_weak.detach(), on_strong, index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loader.step == steps:
            break

    with torch.no_grad():
        error = float((network(views.plain(x)).argmax(1) != y).float().mean())
    state = get_model_state_dict(network, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        print(f"40 labels, {steps} steps, {dist.get_world_size()} processes: {100 * error:.1f} % of {len(x):,} digits wrong")
        if saved:
            torch.save({"network": state, "method": method.state_dict()}, saved)
    dist.destroy_process_group()
    return error


if __name__ == "__main__":
    main()
