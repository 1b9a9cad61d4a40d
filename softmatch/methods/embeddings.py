"""CoMatch and SimMatch: class predictions and embeddings of samples that correct each other."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch import targets
from softmatch.alignments import Alignment
from softmatch.averages import queue_for
from softmatch.errors import InputError
from softmatch.methods.base import Method, require, supervised_loss
from softmatch.methods.forward import Encoded, Forward
from softmatch.methods.match import PAPER_STEPS
from softmatch.metrics import PseudoLabels
from softmatch.networks.heads import Projector
from softmatch.state import Queue, Registry
from softmatch.step import Batch, Output, Seen, gather, refuse_invalid


class Embedding(Method):
    """A method that compares samples by embeddings on the unit sphere, made by a projector on the network's features."""

    needs_features = True

    def __init__(
        self,
        num_classes: int,
        total_steps: int,
        embedding: int,
        threshold: float,
        smoothing: float,
        temperature: float,
        unlabeled_weight: float,
        queue: int,
    ) -> None:
        super().__init__()
        require("be 1 or more", queue=queue, embedding=embedding)
        require("lie in [0, 1]", smoothing=smoothing, threshold=threshold)
        require("be positive", temperature=temperature)
        require("be 0 or more", unlabeled_weight=unlabeled_weight)
        self.num_classes, self.embedding, self.unlabeled_weight = num_classes, embedding, unlabeled_weight
        self.threshold, self.smoothing, self.temperature = threshold, smoothing, temperature
        self.alignment = Alignment(num_classes, "uniform", queue=queue_for(total_steps, queue))

    def heads(self, num_features: int) -> dict[str, nn.Module]:
        return {"projector": Projector(num_features, self.embedding)}

    def statistics(self) -> dict[str, Tensor]:
        return {"marginal": self.alignment.marginal.value}

    def align(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Raw and aligned predictions of weak logits; in training mode, alignment learns from them first."""
        if self.training:
            self.alignment.update(Seen.from_logits(logits, None, None, None))
        raw = torch.softmax(logits.float(), dim=-1)
        return raw, self.alignment(raw)

    def chosen(self, probs: Tensor) -> Tensor:
        """1(max p ≥ τ), (B,)."""
        return (probs.max(-1).values >= self.threshold).float()


def embed(forward: Forward, view: Encoded) -> Encoded:
    """The view with its embedding in place of the features."""
    return Encoded(forward.head(view.features, "projector"), view.logits)


def refuse_invalid_logits(labeled: Encoded, weak: Encoded, strong: Encoded) -> None:
    """Raise InputError when the logits of a view hold NaN or infinity."""
    for name, view in (("labeled", labeled), ("weak", weak), ("strong", strong)):
        refuse_invalid(f"{name}_logits", view.logits)


class CoMatch(Embedding):
    """L = L_s + λ_u·mean 1(max p ≥ τ)·H(p, q) + λ_c·mean_i H(Q_i, softmax_j(e_i·e'_j / T)).

    p is the aligned prediction on the weak view, smoothed by the memory (`smooth`); q and the embedding e are of one strong
    view, e' of another; Q is the graph of samples whose p agree (`graph`).
    """

    unlabeled_views = ("weak", "strong", "strong_2")

    def __init__(
        self,
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
    ) -> None:
        super().__init__(num_classes, total_steps, embedding, threshold, smoothing, temperature, unlabeled_weight, queue)
        require("be 1 or more", memory=memory)
        require("lie in [0, 1]", graph_threshold=graph_threshold)
        require("be 0 or more", contrast_weight=contrast_weight)
        self.graph_threshold, self.contrast_weight = graph_threshold, contrast_weight
        samples = memory * (labeled_batch + unlabeled_batch)
        self.embeddings, self.probs = Queue(samples, (embedding,)), Queue(samples, (num_classes,))

    def step(self, forward: Forward, batch: Batch) -> Output:
        labeled, weak, strong, other = forward.encode(
            batch.labeled["weak"], *(batch.unlabeled[name] for name in self.unlabeled_views), gradient=(True, False, True, True)
        )
        with torch.no_grad():
            labeled, weak = (embed(forward, view) for view in (labeled, weak))
        strong, other = (embed(forward, view) for view in (strong, other))
        with torch.autocast(batch.labels.device.type, enabled=False):
            return self.compute(labeled, batch.labels, weak, strong, other.features)

    def compute(self, labeled: Encoded, labels: Tensor, weak: Encoded, strong: Encoded, other: Tensor) -> Output:
        """The loss of views whose `features` are embeddings; `other` are those of the second strong view."""
        refuse_invalid_logits(labeled, weak, strong)
        with torch.no_grad():
            raw, aligned = self.align(weak.logits)
            target = self.smooth(weak.features, aligned)
            weights = self.chosen(target)
            unaligned = self.chosen(self.smooth(weak.features, raw))
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
        """Q (B, B): p_i·p_j if that is at least the graph's threshold, 1 for a sample with itself; rows sum to 1."""
        agreement = (probs @ probs.T).fill_diagonal_(1.0)
        edges = torch.where(agreement >= self.graph_threshold, agreement, 0.0)
        return edges / edges.sum(-1, keepdim=True)

    def _remember(self, weak: Tensor, probs: Tensor, labeled: Tensor, labels: Tensor) -> None:
        """Store embeddings with their aligned, unsmoothed predictions, and labelled ones with their labels."""
        known = F.one_hot(labels, self.num_classes).float()
        self.embeddings.push(torch.cat([gather(weak), gather(labeled)]))
        self.probs.push(torch.cat([gather(probs), gather(known)]))


UNSEEN = -1
TINY = torch.finfo(torch.float32).tiny


class SimMatch(Embedding):
    """L = L_s + λ_u·mean 1(max p ≥ τ)·H(p, q) + λ_in·mean H(ŝ, softmax(e'·b_j / T)).

    b_j are embeddings of the labelled samples, one each, from a bank; e is the embedding of the weak view, e' of the strong.
    With p the aligned prediction on the weak view and s = softmax(e·b_j / T), the instances' target is ŝ_j ∝ s_j·p[y_j], and
    the classes' target is α·p_c + (1 − α)·Σ_{j: y_j = c} s_j. Until every labelled sample is in the bank, the last term is
    left out and p is not smoothed. The bank takes in the labelled batch after the loss.
    """

    unlabeled_views = ("weak", "strong")

    def __init__(
        self,
        num_classes: int,
        *,
        num_labeled: int,
        total_steps: int = PAPER_STEPS,
        threshold: float = 0.95,
        smoothing: float = 0.9,
        temperature: float = 0.1,
        unlabeled_weight: float = 1.0,
        instance_weight: float = 1.0,
        bank_momentum: float | None = None,
        teacher: bool = False,
        queue: int = 32,
        embedding: int = 128,
    ) -> None:
        super().__init__(num_classes, total_steps, embedding, threshold, smoothing, temperature, unlabeled_weight, queue)
        require("be 1 or more", num_labeled=num_labeled)
        require("lie in [0, 1)", bank_momentum=bank_momentum)
        require("be 0 or more", instance_weight=instance_weight)
        self.instance_weight, self.teacher = instance_weight, teacher
        self.bank_momentum = (0.0 if teacher else 0.7) if bank_momentum is None else bank_momentum
        self.bank = Registry(num_labeled, (embedding,))
        self.bank_labels = Registry(num_labeled, fill=UNSEEN, dtype=torch.int64)

    def step(self, forward: Forward, batch: Batch) -> Output:
        views = batch.labeled["weak"], batch.unlabeled["weak"], batch.unlabeled["strong"]
        if self.teacher:
            labeled, strong = forward.encode(views[0], views[2])
            taught, weak = _teach(forward, *views[:2])
        else:
            labeled, weak, strong = forward.encode(*views, gradient=(True, False, True))
            with torch.no_grad():
                taught, weak = (embed(forward, view) for view in (labeled, weak))
        labeled, strong = Encoded(taught.features, labeled.logits), embed(forward, strong)
        with torch.autocast(batch.labels.device.type, enabled=False):
            return self.compute(labeled, batch.labels, batch.labeled_index, weak, strong)

    def compute(self, labeled: Encoded, labels: Tensor, labeled_index: Tensor, weak: Encoded, strong: Encoded) -> Output:
        """The loss of views whose `features` are embeddings. `labeled_index`: positions in the labelled set."""
        refuse_invalid_logits(labeled, weak, strong)
        if len(labeled_index) != len(labels):
            raise InputError("SimMatch remembers labelled samples: give labeled_index, the position of each in the labelled set.")
        self.bank.check(labeled_index)
        bank = self.bank.rows.clone()  # the gradient of the loss needs its present content
        ready = (self.bank_labels.rows != UNSEEN).all()
        with torch.no_grad():
            raw, aligned = self.align(weak.logits)
            nearness = torch.softmax(weak.features @ bank.T / self.temperature, dim=-1)
            target = torch.where(ready, self.smooth(aligned, nearness), aligned)
            unaligned = torch.where(ready, self.smooth(raw, nearness), raw)
            pseudo = PseudoLabels(target.argmax(-1), self.chosen(target), self.chosen(unaligned), raw.max(-1).values)
            instances = self.instance_target(aligned, nearness)
        supervised = supervised_loss(labeled.logits, labels)
        classified = (pseudo.weights * targets.cross_entropy(target, strong.logits)).mean()
        matched = targets.cross_entropy(instances, strong.features @ bank.T / self.temperature).mean()
        unsupervised = self.unlabeled_weight * classified + self.instance_weight * torch.where(ready, matched, 0.0)
        if self.training:
            self._remember(gather(labeled_index), gather(labeled.features.detach()), gather(labels))
        return Output(supervised + unsupervised, supervised.detach(), unsupervised.detach(), pseudo)

    def smooth(self, probs: Tensor, nearness: Tensor) -> Tensor:
        """α·p_c + (1 − α)·Σ_{j: y_j = c} s_j (B, C), of p (B, C) and s (B, N_L)."""
        classes = torch.zeros_like(probs).index_add(1, self._labels(), nearness)
        return self.smoothing * probs + (1.0 - self.smoothing) * classes

    def instance_target(self, probs: Tensor, nearness: Tensor) -> Tensor:
        """ŝ_j ∝ s_j·p[y_j] (B, N_L)."""
        weighted = nearness * probs[:, self._labels()]
        return weighted / weighted.sum(-1, keepdim=True).clamp_min(TINY)

    def _labels(self) -> Tensor:
        """y_j, with 0 for a sample that was not seen yet; it is not used before all were."""
        return self.bank_labels.rows.clamp_min(0)

    @torch.no_grad()
    def _remember(self, index: Tensor, embedding: Tensor, labels: Tensor) -> None:
        """b ← normalise(m·b + (1 − m)·e); rows start at 0, so the first e is stored unchanged."""
        moved = self.bank_momentum * self.bank[index] + (1.0 - self.bank_momentum) * embedding
        self.bank.write(index, F.normalize(moved, dim=-1))
        self.bank_labels.write(index, labels)


@torch.no_grad()
def _teach(forward: Forward, *views: Tensor) -> list[Encoded]:
    """Embeddings and logits of each view by the averaged weights."""
    features = forward.teach_features(*views)
    return [Encoded(forward.head(each, "projector", averaged=True), forward.head(each, averaged=True)) for each in features]
