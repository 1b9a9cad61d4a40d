"""Ray Train: two workers train one network, each in its own process and perhaps on its own machine.

    python examples/ray_train.py

Ray joins the workers under torch.distributed, and `prepare_model` is DistributedDataParallel, so that the loader gives each
worker its share and the method gathers its statistics by itself. Do not call `prepare_data_loader`. The checkpoint has the
loader's step too: after a failure Ray starts the workers again, and they go on from there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_model
from sklearn.datasets import load_digits
from torch import nn

import softmatch
from softmatch.views import VectorViews


def train(settings: dict[str, Any]) -> None:
    """Runs in every worker."""
    steps, every = settings["steps"], settings["every"]
    rows, labels = load_digits(return_X_y=True)
    x, y = torch.from_numpy(rows).float() / 16, torch.from_numpy(labels)
    known = torch.cat([(y == label).nonzero()[:4, 0] for label in range(10)])  # four labels per class
    views = VectorViews(x.mean(0).tolist(), [float(x.std())] * 64, strong_noise=0.5, drop=0.2)
    loader = softmatch.PairLoader((x[known], y[known]), x, views, labeled_batch=40, unlabeled_batch=200)

    torch.manual_seed(0)  # the same initial weights in every worker
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    trained = prepare_model(network)
    optimizer = torch.optim.Adam(trained.parameters(), lr=3e-3)
    method = softmatch.methods.softmatch(10, momentum=softmatch.momentum_for(steps), start="debiased")
    parts: dict[str, Any] = {"network": network, "optimizer": optimizer, "method": method, "loader": loader}
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            for name, state in torch.load(Path(folder) / "state.pt").items():
                parts[name].load_state_dict(state)

    for batch_x, batch_y, weak, strong, index in loader if loader.step < steps else ():
        logits = trained(torch.cat([batch_x, weak, strong]))  # one pass, as DDP needs
        on_x, on_weak, on_strong = logits.split([len(batch_x), len(weak), len(strong)])
        loss = method(on_x, batch_y, on_weak.detach(), on_strong, index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loader.step % every == 0 or loader.step == steps:
            with torch.no_grad():
                error = float((network(views.plain(x)).argmax(1) != y).float().mean())
            with tempfile.TemporaryDirectory() as folder:
                saved = None
                if ray.train.get_context().get_world_rank() == 0:
                    torch.save({name: part.state_dict() for name, part in parts.items()}, Path(folder) / "state.pt")
                    saved = ray.train.Checkpoint.from_directory(folder)
                ray.train.report({"error": error, "step": loader.step}, checkpoint=saved)
        if loader.step == steps:
            break


def main(folder: Path, steps: int = 400, every: int = 100) -> dict[str, Any]:
    trainer = TorchTrainer(
        train,
        train_loop_config={"steps": steps, "every": every},
        scaling_config=ray.train.ScalingConfig(num_workers=2, use_gpu=torch.cuda.is_available()),
        run_config=ray.train.RunConfig(
            name="digits", storage_path=str(folder), failure_config=ray.train.FailureConfig(max_failures=2)
        ),
    )
    found = dict(trainer.fit().metrics or {})
    print(f"40 labels, {found['step']} steps, 2 workers: {100 * found['error']:.1f} % of the digits wrong")
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
