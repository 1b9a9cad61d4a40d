"""The unlabelled pool of a run with its pseudo-labels, for review: what the method would train on, and how much it trusts it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from softmatch.errors import InputError
from softmatch.inference.predict import Progress
from softmatch.inference.unlabeled_pool import Pool, open_pool
from softmatch.inference.writing import Values, choose_path, refuse_unfit, write_samples
from softmatch.methods import BASELINE, METHODS, code_in
from softmatch.methods.base import DISTIL
from softmatch.networks import Network
from softmatch.runs.folder import RunFolder
from softmatch.training.checkpoint import newest_good
from softmatch.training.setup import build_method
from softmatch.views.own_views import OwnCode

Order = Literal["doubtful", "certain", "source"]
PART = 8192
SCALES = "The confidence is calibrated; λ is of the probability as the method sees it: aligned where it aligns, uncalibrated."


@dataclass(frozen=True)
class WrittenPseudoLabels:
    """Pseudo-labels that were written.

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
        lines.append(self.reason if self.weight is None else f"mean weight λ {self.weight:.3f}. {SCALES}")
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
    views: OwnCode | None = None,
    raw: bool = False,
    encoder_path: Path | str | None = None,
) -> WrittenPseudoLabels:
    """Write the unlabelled pool as a table: name, pseudo_label, confidence, weight, given_label; text for texts.

    Confidence is the calibrated probability of the pseudo-label, by the averaged network on the plain sample. The weight is λ
    as the method's state at the end of training gives it for that prediction; during training it was given for the weak view.

    Args:
        run: folder of a finished run.
        out: a name in .csv, .tsv, .jsonl or .parquet. Default: pseudo_labels.csv of the run, or -2, -3, …
        source: the data, if they are elsewhere now.
        order: "doubtful": labelled samples with another pseudo-label, then the least confident first; "certain": the most
            confident first; "source": as they stand there.
        method: of your own, for a run with one: its file is run only if you name it here.
        device: "auto", "cpu", "cuda", …
        progress: called with the number of samples predicted.
        network, views: of your own, for a run with such; see `load_model`.
        raw: write CSV without a leading ' in cells that a spreadsheet would run as formulas.
        encoder_path: new place of the encoder of the run.

    Returns:
        Number of samples, and the table.

    Raises:
        InputError: run, data or `order` cannot be used.

    Example:
        >>> write_pseudo_labels("runs/mine").samples
        120
    """
    if order not in get_args(Order):
        raise InputError(f'order must be "doubtful", "certain" or "source", not {order!r}.')
    refuse_unfit(out)  # now, not after minutes
    pool = open_pool(run, source, device, network, encoder_path, views)
    probs = pool.probabilities(progress)
    labels, weights, reason = judge_pool(pool, Path(run), method, probs)
    confidence = pool.model.calibrated(probs).gather(1, labels[:, None]).squeeze(1)
    pseudo, given = [pool.model.classes[k] for k in labels.tolist()], pool.given
    disputed = [label is not None and label != made for label, made in zip(given, pseudo, strict=True)]
    sure = confidence.tolist()
    keys = {"doubtful": lambda k: (not disputed[k], sure[k]), "certain": lambda k: -sure[k], "source": lambda k: k}
    places = sorted(range(len(sure)), key=keys[order])
    names = pool.names(pool.positions[places])
    table: dict[str, Values] = {
        "name": names,
        "pseudo_label": [pseudo[k] for k in places],
        "confidence": confidence[places],
        "weight": [None] * len(places) if weights is None else weights[places],
        "given_label": [given[k] for k in places],
    }
    path = choose_path(out, Path(run), "pseudo_labels.csv")
    write_samples(path, table, ("confidence", "weight"), pool.texts(names), raw)
    weight = None if weights is None else float(weights.double().mean())
    return WrittenPseudoLabels(path, len(places), len(given) - given.count(None), sum(disputed), weight, reason)


def judge_pool(pool: Pool, run: Path, given: str | None, probs: Tensor) -> tuple[Tensor, Tensor | None, str]:
    """Pseudo-labels (n,) and weights by the method's final state; or labels by the network alone, and why without weights."""
    alone, config = probs.argmax(-1), pool.task.config
    inside = config.method_options.get("base")
    if config.method in METHODS and isinstance(inside, str):  # the method inside another becomes part of the name: saw+softmatch
        config = config.model_copy(update={"method": f"{config.method}+{inside}"})
    name = config.method if given is None or given == pool.task.config.method else given
    if name == DISTIL:
        return alone, None, "no weights: a distilled model has no λ of its own"
    used = [name, config.method_options] if name == config.method else name  # as `build_method` does
    if unnamed := code_in(used) - code_in(given):
        reason = f"{min(unnamed)} is code of your own, which is run only if you name it: --method {config.method}"
        return alone, None, f"no weights: {reason}"
    if (RunFolder(run).read_json("result.json") or {}).get("kept") == BASELINE != name:
        return alone, None, "no weights: the saved model is the baseline, which was better than the method"
    method = build_method(replace(pool.task, config=config), name)
    if method.judge(probs[:0], torch.arange(0)) is None:
        return alone, None, f"no weights: {name} has no λ for each sample"
    saved, _ = newest_good(run / "checkpoints")
    if saved is None:
        return alone, None, "no weights: the run has no checkpoint any more, which holds the method's state"
    state = {key.removeprefix("method."): value for key, value in saved.tensors.items() if key.startswith("method.")}
    method.begin(pool.model.network, lambda module: torch.optim.SGD(module.parameters(), lr=0.0))  # makes a rewarder, for example
    try:
        method.load_state_dict(state)
    except RuntimeError as error:
        raise InputError(f"the state of the method in the newest checkpoint is not that of this method: {error}") from error
    method.eval()
    parts = (method.judge(probs[part], part) for part in torch.split(torch.arange(len(probs)), PART))
    found = [part for part in parts if part is not None]
    return torch.cat([part.labels for part in found]), torch.cat([part.weights for part in found]), ""
