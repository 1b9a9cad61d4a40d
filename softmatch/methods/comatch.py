"""CoMatch (Li, Xiong, Hoi 2021): class predictions and embeddings that teach each other through a memory and a graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch import targets
from softmatch.alignments import Alignment
from softmatch.averages import queue_for
from softmatch.errors import InputError
from softmatch.methods.base import Encoded, Forward, Method, supervised_loss
from softmatch.methods.match import PAPER_STEPS
from softmatch.metrics import PseudoLabels
from softmatch.networks.heads import Projector
from softmatch.state import Queue
from softmatch.step import Batch, Output, Seen, gather, refuse_invalid


class CoMatch(Method):
    """L = L_s + λ_u·mean 1(max p ≥ τ)·H(p, q) + λ_c·mean_i H(Q_i, softmax_j(e_i·e'_j / T)).

    p is the aligned prediction on the weak view, smoothed by the memory (`smooth`); q and the embedding e are of one strong
    view, e' of another; Q is the graph of samples whose p agree (`graph`). Embeddings are points on the unit sphere.

    Args:
        num_classes: C.
        memory: samples that the memory holds.
        alignment: of the predictions, before anything else is made of them.
        embedding: size of an embedding.
        smoothing: α, share of a sample's own prediction in p.
        graph_threshold: agreement below which two samples are not connected.
        unlabeled_weight, contrast_weight: λ_u and λ_c.
    """

    unlabeled_views = ("weak", "strong", "strong_2")
    needs_features = True

    def __init__(
        self,
        num_classes: int,
        memory: int,
        alignment: Alignment,
        *,
        embedding: int = 64,
        threshold: float = 0.95,
        smoothing: float = 0.9,
        temperature: float = 0.2,
        graph_threshold: float = 0.8,
        unlabeled_weight: float = 1.0,
        contrast_weight: float = 1.0,
    ) -> None:
        super().__init__()
        self.num_classes, self.embedding = num_classes, embedding
        self.threshold, self.smoothing, self.temperature = threshold, smoothing, temperature
        self.graph_threshold = graph_threshold
        self.unlabeled_weight, self.contrast_weight = unlabeled_weight, contrast_weight
        self.alignment = alignment
        self.embeddings = Queue(memory, (embedding,))
        self.probs = Queue(memory, (num_classes,))

    def heads(self, num_features: int) -> dict[str, nn.Module]:
        return {"projector": Projector(num_features, self.embedding)}

    def step(self, forward: Forward, batch: Batch) -> Output:
        labeled, weak, strong, other = forward.encode(
            batch.labeled["weak"],
            *(batch.unlabeled[name] for name in self.unlabeled_views),
            gradient=(True, False, True, True),
        )
        with torch.no_grad():
            labeled, weak = (embed(forward, view) for view in (labeled, weak))
        strong, other = (embed(forward, view) for view in (strong, other))
        with torch.autocast(batch.labels.device.type, enabled=False):
            return self.compute(labeled, batch.labels, weak, strong, other.features)

    def compute(self, labeled: Encoded, labels: Tensor, weak: Encoded, strong: Encoded, other: Tensor) -> Output:
        """The loss of views whose `features` are embeddings; of the second strong view they are all that is needed."""
        for name, logits in (("labeled_logits", labeled.logits), ("weak_logits", weak.logits), ("strong_logits", strong.logits)):
            refuse_invalid(name, logits)
        with torch.no_grad():
            raw = torch.softmax(weak.logits.float(), dim=-1)
            if self.training:
                self.alignment.update(Seen.from_logits(weak.logits, None, None, None))
            aligned = self.alignment(raw)
            target = self.smooth(weak.features, aligned)
            weights = self._chosen(target)
            unaligned = self._chosen(self.smooth(weak.features, raw))
            pseudo = PseudoLabels(target.argmax(-1), weights, unaligned, raw.max(-1).values)
            if self.training:
                self._remember(weak.features, aligned, labeled.features, labels)
        supervised = supervised_loss(labeled.logits, labels)
        classified = (weights * targets.cross_entropy(target, strong.logits)).mean()
        similarity = strong.features @ other.T / self.temperature
        contrast = targets.cross_entropy(self.graph(target), similarity).mean()
        unsupervised = self.unlabeled_weight * classified + self.contrast_weight * contrast
        return Output(supervised + unsupervised, supervised.detach(), unsupervised.detach(), pseudo)

    def smooth(self, embedding: Tensor, probs: Tensor) -> Tensor:
        """p ← α·p + (1 − α)·Σ_k a_k·p_k over the memory, a = softmax(e·e_k / T), once the memory is full."""
        nearness = torch.softmax(embedding @ self.embeddings.values.T / self.temperature, dim=-1)
        smoothed = self.smoothing * probs + (1.0 - self.smoothing) * nearness @ self.probs.values
        return torch.where(self.embeddings.filled().all(), smoothed, probs)

    def graph(self, probs: Tensor) -> Tensor:
        """Q (B, B): p_i·p_j where that is at least the graph's threshold, 1 for a sample with itself; rows sum to 1."""
        agreement = (probs @ probs.T).fill_diagonal_(1.0)
        edges = torch.where(agreement >= self.graph_threshold, agreement, 0.0)
        return edges / edges.sum(-1, keepdim=True)

    def _chosen(self, probs: Tensor) -> Tensor:
        return (probs.max(-1).values >= self.threshold).float()

    def _remember(self, weak: Tensor, probs: Tensor, labeled: Tensor, labels: Tensor) -> None:
        """Embeddings with aligned predictions that are not smoothed, and labelled ones with their labels."""
        known = F.one_hot(labels, self.num_classes).float()
        self.embeddings.push(torch.cat([gather(weak), gather(labeled)]))
        self.probs.push(torch.cat([gather(probs), gather(known)]))

    def statistics(self) -> dict[str, Tensor]:
        return {"marginal": self.alignment.marginal.value}


def embed(forward: Forward, view: Encoded) -> Encoded:
    """The view with its embedding in the place of the features."""
    return Encoded(forward.head(view.features, "projector"), view.logits)


def comatch(
    num_classes: int,
    *,
    total_steps: int = PAPER_STEPS,
    labeled_batch: int = 64,
    unlabeled_batch: int = 448,
    threshold: float = 0.95,
    smoothing: float = 0.9,
    temperature: float = 0.2,
    graph_threshold: float = 0.8,
    unlabeled_weight: float = 1.0,
    contrast_weight: float = 1.0,
    memory: int = 5,
    queue: int = 32,
    embedding: int = 64,
) -> CoMatch:
    """CoMatch: soft labels smoothed by similar samples of the last batches, embeddings trained on a graph of those labels.

    The memory holds `memory` batches of labelled and unlabelled samples (of all processes together). The marginal of the
    predictions is the mean of the last `queue` batches, at most a fortieth of the run.
    """
    if memory < 1 or queue < 1 or embedding < 1:
        raise InputError("memory, queue and embedding must be at least 1; for no smoothing give smoothing=1.")
    if not (0.0 <= smoothing <= 1.0 and 0.0 <= threshold <= 1.0 and 0.0 <= graph_threshold <= 1.0):
        raise InputError("smoothing, threshold and graph_threshold must lie in 0 … 1.")
    if not (temperature > 0.0 and unlabeled_weight >= 0.0 and contrast_weight >= 0.0):
        raise InputError("temperature must be positive, and unlabeled_weight and contrast_weight at least 0.")
    length = queue_for(total_steps, queue)
    return CoMatch(
        num_classes,
        memory * (labeled_batch + unlabeled_batch),
        Alignment(num_classes, "uniform", queue=length),
        embedding=embedding,
        threshold=threshold,
        smoothing=smoothing,
        temperature=temperature,
        graph_threshold=graph_threshold,
        unlabeled_weight=unlabeled_weight,
        contrast_weight=contrast_weight,
    )
