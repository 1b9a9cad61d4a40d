"""Gradient accumulation: a step of a large batch in pieces that fit into memory, exactly or simply.

    python examples/accumulate.py

The gradients of equal pieces add up to those of the whole batch. The method's statistics do not by themselves: called with each
piece, it learns from each piece ("simple"), as if it were a step with a smaller batch, and later pieces are weighted by newer
statistics. To step exactly as with the whole batch ("exact"), let it learn once from the predictions on all pieces, which costs
one more pass without gradient; then compute the losses with the method in evaluation mode, in which it learns nothing.
Batch normalisation sees pieces in either case.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import softmatch
from softmatch.methods import Match
from softmatch.views import VectorViews


def logits_of(network: nn.Module, *views: Tensor) -> tuple[Tensor, ...]:
    return network(torch.cat(views)).split([len(view) for view in views])  # type: ignore[no-any-return]  # torch's split


@torch.no_grad()
def learn_once(method: Match, network: nn.Module, pieces: list[softmatch.PairBatch]) -> None:
    """Update the method's statistics from the predictions on all pieces."""
    found = [logits_of(network, piece.x, piece.weak) for piece in pieces]
    on_x, on_weak = (torch.cat(parts) for parts in zip(*found, strict=True))
    y, index = torch.cat([piece.y for piece in pieces]), torch.cat([piece.index for piece in pieces])
    method.learn(softmatch.Seen.from_logits(on_weak, on_x, y, index))


def accumulate(method: Match, network: nn.Module, pieces: list[softmatch.PairBatch], exact: bool) -> None:
    """Leave the gradient of one step in the network's parameters."""
    if exact:
        learn_once(method, network, pieces)
    method.train(not exact)
    for x, y, weak, strong, index in pieces:
        on_x, on_weak, on_strong = logits_of(network, x, weak, strong)
        loss = method(on_x, y, on_weak.detach(), on_strong, index)
        (loss / len(pieces)).backward()
    method.train()


def cut(batch: softmatch.PairBatch, number: int) -> list[softmatch.PairBatch]:
    """Equal pieces of a batch. (Or take the next `number` batches of the loader, for one step.)"""
    return [softmatch.PairBatch(*each) for each in zip(*(part.chunk(number) for part in batch), strict=True)]


def main(steps: int = 400, pieces: int = 4, exact: bool = True) -> tuple[float, nn.Module, Match]:
    rows, labels = load_digits(return_X_y=True)
    x, y = torch.from_numpy(rows).float() / 16, torch.from_numpy(labels)
    known = torch.cat([(y == label).nonzero()[:4, 0] for label in range(10)])
    views = VectorViews(x.mean(0).tolist(), [float(x.std())] * 64, strong_noise=0.5, drop=0.2)
    loader = softmatch.PairLoader((x[known], y[known]), x, views, labeled_batch=40, unlabeled_batch=200)

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    momentum = softmatch.momentum_for(steps if exact else steps * pieces)  # simple: it learns as often as it is called
    method = softmatch.methods.softmatch(10, momentum=momentum, start="debiased")
    for batch in loader:
        accumulate(method, network, cut(batch, pieces), exact)
        optimizer.step()
        optimizer.zero_grad()
        if loader.step == steps:
            break

    with torch.no_grad():
        error = float((network(views.plain(x)).argmax(1) != y).float().mean())
    print(f"{pieces} pieces, {'exact' if exact else 'simple'}: {100 * error:.1f} % of {len(x):,} digits wrong")
    return error, network, method


if __name__ == "__main__":
    main(exact=True)
    main(exact=False)
