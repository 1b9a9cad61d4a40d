"""Accelerate: the loss in its loop, on one process or several, with accumulation and checkpoints.

    python examples/accelerate_loop.py
    accelerate launch --multi_gpu --num_processes 2 examples/accelerate_loop.py

Prepare the network, the optimiser and the schedule, but not the loader: it gives each process its share already (so make it after
`Accelerator()`, which joins the processes). Register the method and the loader: `save_state` and `load_state` then cover both.
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn

import softmatch
from softmatch.views import VectorViews


def main(steps: int = 400, accumulate: int = 1, folder: str | None = None, resume: bool = False) -> float:
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), gradient_accumulation_steps=accumulate)
    rows, labels = load_digits(return_X_y=True)
    x, y = torch.from_numpy(rows).float() / 16, torch.from_numpy(labels)
    known = torch.cat([(y == label).nonzero()[:4, 0] for label in range(10)])  # four labels per class
    views = VectorViews(x.mean(0).tolist(), [float(x.std())] * 64, strong_noise=0.5, drop=0.2)
    loader = softmatch.PairLoader(  # sizes of all processes together
        (x[known], y[known]), x, views, labeled_batch=40, unlabeled_batch=200, device=accelerator.device
    )

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    method = softmatch.methods.softmatch(10, momentum=softmatch.momentum_for(steps * accumulate), start="debiased")
    method.to(accelerator.device)
    trained, optimizer = accelerator.prepare(network, optimizer)
    accelerator.register_for_checkpointing(method, loader)
    if resume:
        accelerator.load_state(folder)

    for batch_x, batch_y, weak, strong, index in loader:
        with accelerator.accumulate(trained):  # the method learns from every batch, a step has `accumulate` of them
            logits = trained(torch.cat([batch_x, weak, strong]))  # one pass, as DDP needs
            on_x, on_weak, on_strong = logits.split([len(batch_x), len(weak), len(strong)])
            loss = method(on_x, batch_y, on_weak.detach(), on_strong, index)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        if loader.step == steps * accumulate:
            break
    if folder:
        accelerator.save_state(folder)

    with torch.no_grad():
        error = float(
            (accelerator.unwrap_model(trained)(views.plain(x.to(accelerator.device))).argmax(1).cpu() != y).float().mean()
        )
    accelerator.print(
        f"40 labels, {steps} steps, {accelerator.num_processes} process(es): {100 * error:.1f} % of {len(x):,} wrong"
    )
    accelerator.end_training()
    return error


if __name__ == "__main__":
    main()
