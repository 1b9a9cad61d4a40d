"""The unlabelled pool of a run with its pseudo-labels, for review: what the method would train on, and how much it trusts it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from softmatch.errors import InputError
from softmatch.methods import Method
from softmatch.methods.around import Around
from softmatch.methods.match import Match
from softmatch.methods.semireward import SemiReward
from softmatch.networks import Network
from softmatch.training.checkpoint import list_checkpoints, load_checkpoint
from softmatch.training.task import build_method
from softmatch.using.pool import Pool, open_pool
from softmatch.using.predicting import Progress
from softmatch.using.writing import Cell, Values, choose_path, refuse_unfit, write_table

Order = Literal["doubtful", "certain", "source"]
PART = 8192


@dataclass(frozen=True)
class WrittenPseudoLabels:
    """What was written.

    Attributes:
        labeled: samples of these that had a label in training.
        disputed: labelled samples whose pseudo-label is another one.
        weight: mean λ; None where there is none.
        reason: why there is no λ; "" where there is.
    """

    file: Path
    samples: int
    labeled: int
    disputed: int
    weight: float | None
    reason: str

    def describe(self) -> str:
        """All of it in words."""
        lines = [f"{self.samples:,} samples of the unlabelled pool, {self.labeled:,} of them with a label"]
        if self.disputed:
            lines.append(f"{self.disputed:,} labelled samples get another pseudo-label: look at them first")
        lines.append(self.reason if self.weight is None else f"mean weight λ {self.weight:.3f}")
        return "\n".join([*lines, str(self.file)])


def write_pseudo_labels(
    run: Path | str,
    out: Path | None = None,
    source: Any = None,
    *,
    order: Order = "doubtful",
    method: str | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    network: Network | None = None,
) -> WrittenPseudoLabels:
    """Write the unlabelled pool as CSV or Parquet: name, pseudo_label, confidence, weight, given_label; text for texts.

    Confidence is the calibrated probability of the pseudo-label, by the averaged network on the plain sample. The weight is λ
    as the method's state at the end of training gives it for that prediction; during training it was given for the weak view.

    Args:
        out: a name in .csv, .tsv or .parquet. Default: pseudo_labels.csv of the run, or -2, -3, …
        source: the data, if they are elsewhere now.
        order: "doubtful": labelled samples with another pseudo-label, then the least confident first; "certain": the most
            confident first; "source": as they stand there.
        method: of your own, for a run with one: its file is run only if you name it here.
        network: of your own, for a run with one; see `load_model`.
    """
    if order not in ("doubtful", "certain", "source"):
        raise InputError(f'order must be "doubtful", "certain" or "source", not {order!r}.')
    refuse_unfit(out)  # now, not after minutes
    pool = open_pool(run, source, device, network)
    probs = pool.probabilities(progress)
    found, reason = _judged(pool, Path(run), method, probs)
    labels, weights = (probs.argmax(-1), None) if found is None else found
    confidence = pool.calibrated(probs).gather(1, labels[:, None]).squeeze(1)
    classes, given = pool.model.classes, pool.given
    pseudo = [classes[k] for k in labels.tolist()]
    disputed = [label is not None and label != made for label, made in zip(given, pseudo, strict=True)]
    chosen = _ordered(order, confidence, torch.tensor(disputed))
    names = pool.names(pool.positions[chosen])
    places: list[int] = chosen.tolist()
    table: dict[str, Values] = {
        "name": names,
        "pseudo_label": [pseudo[k] for k in places],
        "confidence": confidence[chosen],
        "weight": [None] * len(places) if weights is None else weights[chosen],
        "given_label": [given[k] for k in places],
    }
    header: dict[str, Cell] = {key: "number" if key in ("confidence", "weight") else "text" for key in table}
    texts = pool.texts(names)
    if texts is not None:
        table["text"], header["text"] = texts, "text"
    path = choose_path(out, Path(run), "pseudo_labels.csv")
    with write_table(path, header) as write:
        write(table)
    return WrittenPseudoLabels(
        path,
        len(places),
        sum(label is not None for label in given),
        sum(disputed),
        None if weights is None else float(weights.double().mean()),
        reason,
    )


def _ordered(order: Order, confidence: Tensor, disputed: Tensor) -> Tensor:
    if order == "source":
        return torch.arange(len(confidence))
    if order == "certain":
        return confidence.argsort(descending=True, stable=True)
    first = confidence.argsort(stable=True)
    return first[(~disputed[first]).to(torch.int8).argsort(stable=True)]


def _judged(pool: Pool, run: Path, given: str | None, probs: Tensor) -> tuple[tuple[Tensor, Tensor] | None, str]:
    """Pseudo-labels and weights of the whole pool by the method's final state, or why there are none."""
    name = given or pool.task.config.method
    if given is None and ":" in name:
        return None, f"no weights: {name} is code of your own, which is run only if you name it: --method {name}"
    method = build_method(pool.task, name)
    if _match(method) is None:
        return None, f"no weights: {name} has no λ for each sample"
    saved = list_checkpoints(run / "checkpoints")
    if not saved:
        return None, "no weights: the run has no checkpoint any more, which holds the method's state"
    _, tensors = load_checkpoint(saved[-1])
    _restore(method, pool, {key.removeprefix("method."): value for key, value in tensors.items() if key.startswith("method.")})
    found = [weigh(method, probs[part], part) for part in torch.split(torch.arange(len(probs)), PART)]
    labels, weights = zip(*(one for one in found if one is not None), strict=True)
    return (torch.cat(labels), torch.cat(weights)), ""


def _restore(method: Method, pool: Pool, state: dict[str, Tensor]) -> None:
    """The state at the end of training; `begin` makes what a method has besides, such as a rewarder."""
    method.begin(pool.model.network, lambda module: torch.optim.SGD(module.parameters(), lr=0.0))
    try:
        method.load_state_dict(state)
    except RuntimeError as error:
        raise InputError(f"the state of the method in the newest checkpoint is not that of this method: {error}") from error
    method.eval()


def _match(method: Method) -> Match | None:
    inner = method.base if isinstance(method, Around) else method
    return inner if isinstance(inner, Match) else None


@torch.no_grad()
def weigh(method: Method, probs: Tensor, index: Tensor | None = None) -> tuple[Tensor, Tensor] | None:
    """Pseudo-labels and λ that a method gives to predictions, as in a training step but without learning from them.

    None for methods that have no λ for each sample (MixMatch, Π model, supervised …). What SemiReward keeps depends on the
    other samples of a batch: for it, λ is that of the method inside.

    Args:
        probs: predictions (B, C).
        index: positions in the unlabelled set (B,), for methods that remember samples.
    """
    match = _match(method)
    if match is None:
        return None
    refined = probs if match.refinement is None else match.refinement(probs, index)
    aligned = match.alignment(refined)
    target = match.target(aligned if match.align_targets else refined)
    labels = target.argmax(-1)
    weights: Tensor = match.weighting(aligned, labels)
    if match.sample_factor is not None and not isinstance(method, SemiReward):
        weights = weights * match.sample_factor(target, index)
    return labels, weights
