"""Classifier: the whole training as an estimator of scikit-learn, in memory: `fit` writes nothing."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from softmatch.classifier_folder import Saved, read_folder, write_folder
from softmatch.config import renamed
from softmatch.data.defaults import suitable
from softmatch.data.examples import UNLABELED, Examples
from softmatch.data.readers.array_files import is_frame
from softmatch.data.records import Finding
from softmatch.data.samples import Targets, inputs_for, is_path, new_records, read_targets
from softmatch.data.understanding import fit_preparation, kind_of, prepare_augmented
from softmatch.distributed.devices import choose_device
from softmatch.errors import InputError
from softmatch.networks import Network, describe_network
from softmatch.recipes import complete
from softmatch.runs.model import Model
from softmatch.training.fit import SAMPLES
from softmatch.training.loop import Record
from softmatch.training.opening import Job, open_job, reading_of
from softmatch.training.setup import build_method, make_trainer, prepare_job

WHERE = "Classifier"
"""To call the settings in messages."""
PARAMETERS = {"seed": "random_state"}
"""Settings that are parameters of another name."""
POINTLESS = frozenset(
    {
        *("recipe", "labels", "imbalance", "unlabeled_imbalance", "data", "split_seed"),
        *("test", "evaluation", "folds", "test_fraction", "baseline", "out", "checkpoint_every"),
        *("train_per_class", "validation_per_class", "largest_class_labels", "largest_class_unlabeled"),
    }
)
"""Settings about samples to draw, to test on, and files to write: there is nothing of that here."""
SAME = ("steps", "labeled_batch", "unlabeled_batch", "optimizer", "lr", "views", "encoder", "device")
"""Parameters that are settings of the same name."""
LINES = 10
"""That `verbose` prints."""


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A neural network trained by a semi-supervised method on a few labels and all samples.

    Args:
        method: a name of `softmatch.METHODS`, "wrapper+base" or "file.py:name"; a Method or Weighting, which is copied in each
            `fit`, or what makes one. Where every sample has a label, "supervised" takes its place.
        network: "mlp", "small-conv", "wrn-28-2", …; an nn.Module, which is copied in each `fit`, or a function that makes one.
        steps, labeled_batch, unlabeled_batch, optimizer, lr, views: as of `softmatch.train`. These and the network suit the
            data by default; `config_` has what was chosen.
        encoder: a pretrained encoder for texts or files of images: a folder or an id of the Hugging Face hub.
        settings: further ones of `softmatch.train`, such as {"method_options": {"k": 3}, "weight_decay": 0}, or
            {"label_column": "kind"} to name a column of a table.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
        verbose: print how training goes.
        random_state: a number; the same one gives the same predictions, on a CPU bit for bit. Or what else scikit-learn takes.

    Attributes:
        classes_: the labels, sorted, as they were given; of a file or folder, texts.
        transduction_: labels of all samples of `fit`: those given, and the predicted ones of the others.
        transduction_confidence_: the model's probability of these labels. A small one of a given label may be a mistake in it.
        sample_names_: what these samples are called, files or rows; only where `fit` was given a path, or a frame with labels.
        method_, network_: names of what was trained: `method` or "supervised", and the network.
        n_iter_: number of steps.
        history_: losses, pseudo-labels and statistics, from time to time during training.
        config_: all settings.
        model_: the `softmatch.Model`: the trained network with what comes before and after it.
        n_features_in_: number of features, where X is an array of vectors or a frame.
        feature_names_in_: names of the features, where X is a frame whose columns have texts as names.

    Cross-validation by scikit-learn takes −1 for a class, and everything that is predicted for such a sample for wrong: a score
    with unlabelled samples in it means nothing. Score on samples that have labels.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from softmatch import Classifier
        >>> X, y = load_digits(return_X_y=True)
        >>> y[100:] = -1  # only the first hundred have a label
        >>> Classifier(steps=100).fit(X, y).predict(X[:3])
        array([0, 1, 2])
    """

    def __init__(
        self,
        method: Any = "softmatch",
        network: Network | None = None,
        *,
        steps: int | None = None,
        labeled_batch: int | None = None,
        unlabeled_batch: int | None = None,
        optimizer: str | None = None,
        lr: float | None = None,
        views: Mapping[str, Any] | None = None,
        encoder: str | None = None,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        verbose: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.network = network
        self.steps = steps
        self.labeled_batch = labeled_batch
        self.unlabeled_batch = unlabeled_batch
        self.optimizer = optimizer
        self.lr = lr
        self.views = views
        self.encoder = encoder
        self.settings = settings
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803  # scikit-learn's name for it
        """Train.

        Args:
            X: vectors (n, D); uint8 images (n, H, W), (n, H, W, C) or (n, C, H, W); a frame, whose columns are features; texts.
                Or, without y, what has its labels with it: the path of a folder or table, or a frame.
            y: (n,) labels, numbers or texts; −1, None or NaN where a sample has none.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        user = self._settings()
        job, classes = self._open(X, user) if y is None and (is_path(X) or is_frame(X)) else self._gather(X, y, user)
        if not bool((job.examples.labels == UNLABELED).any()):
            job = replace(job, config=job.config.model_copy(update={"method": "supervised", "method_options": {}}))
        threads, cuda = torch.get_num_threads(), choose_device(job.config.device).type == "cuda"
        try:
            with torch.random.fork_rng(devices=range(torch.cuda.device_count() if cuda else 0)):
                self._train(job)
        finally:
            torch.set_num_threads(threads)
        probs, labels = self.model_.predict_proba(job.examples.items).numpy(), job.examples.labels.numpy()
        chosen = np.where(labels == UNLABELED, probs.argmax(1), labels)
        self.transduction_, self.transduction_confidence_ = classes[chosen], probs[np.arange(len(probs)), chosen]
        if job.examples.names:
            self.sample_names_ = list(job.examples.names)
        self.config_, self.method_, self.classes_ = job.config, job.config.method, classes
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803  # scikit-learn's name for it
        """The most likely class of each sample (n,); X is of a form that `fit` takes."""
        probs = self.predict_proba(X)
        found: npt.NDArray[Any] = self.classes_[probs.argmax(1)]
        return found

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:  # noqa: N803  # scikit-learn's name for it
        """p(y | x) of each sample (n, C), in the order of `classes_`. A path is read in parts, whatever its size."""
        check_is_fitted(self)
        model = self.model_
        if is_path(X) or (is_frame(X) and model.preparation.takes in ("table", "text")):
            probs = self._stream(X)
        else:
            probs = model.predict_proba(model.preparation(inputs_for(self, X, model.preparation)))
        found: npt.NDArray[np.float32] = probs.numpy()
        return found

    def save(self, path: str | Path) -> None:
        """Write a folder, without pickle, from which `load` makes a classifier that predicts the same, bit for bit.

        `softmatch.load_model` reads it too. Left out are parameters that are objects, and what is of interest after training
        only: `history_` and the transduction. A folder that holds anything is never overwritten.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        features, parameters = getattr(self, "n_features_in_", None), self.get_params(deep=False)
        saved = Saved(self.model_, parameters, self.classes_, self.network_, self.n_iter_, self.config_, features, names)
        write_folder(Path(path), saved)

    @classmethod
    def load(cls, path: str | Path, network: Network | None = None) -> Self:
        """The classifier of a folder that `save` has written, on the CPU. Nothing in the folder is executed.

        Args:
            network: where the network is your own: that network, or what makes it.
        """
        saved = read_folder(Path(path), network)
        known = {name: value for name, value in saved.parameters.items() if name in cls._get_param_names()}
        loaded = cls(**(known if network is None else {**known, "network": network}))
        loaded.model_, loaded.network_, loaded.n_iter_ = saved.model, saved.network, saved.steps
        loaded.config_, loaded.method_, loaded.classes_ = saved.config, saved.config.method, saved.classes
        if saved.features is not None:
            loaded.n_features_in_ = saved.features
        if saved.names is not None:
            loaded.feature_names_in_ = saved.names
        return loaded

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True  # grey images
        return tags

    def _settings(self) -> dict[str, Any]:
        """What the user has said, as settings of a run."""
        names = {**{name: name for name in self._get_param_names()}, **PARAMETERS}
        given = renamed(self.settings or {}, WHERE, warn=True)
        for key in given:
            if key in names:
                raise InputError(f"settings: {key!r} is a parameter of its own: Classifier({names[key]}=…).")
            if key in POINTLESS:
                raise InputError(f"settings: {key!r} has no meaning: a Classifier trains on all samples of `fit`, in memory.")
        return {
            **given,
            **{name: getattr(self, name) for name in SAME},
            "method": _name(self.method),
            "network": None if self.network is None else describe_network(self.network),
            "seed": _seed(self.random_state),
            "evaluation": "none",
        }

    def _open(self, where: Any, user: Mapping[str, Any]) -> tuple[Job, npt.NDArray[Any]]:
        """A source that has its labels with it."""
        job = open_job(where, user, where=WHERE)
        if job.examples.groups is None:
            raise InputError(f"{where!r} is a source that softmatch knows: use softmatch.train, or give a path or arrays.")
        _tell(job.findings)
        return job, np.array(job.examples.classes)

    def _gather(self, samples: Any, y: Any, user: Mapping[str, Any]) -> tuple[Job, npt.NDArray[Any]]:
        """Samples and labels that are given in Python."""
        asked = complete("your data", {}, user, where=WHERE)
        if is_path(samples):
            raise InputError(f"{samples} has its labels with it: leave out y.")
        reading = reading_of(asked)
        records = new_records(self, samples, reading.columns)
        if y is None:
            raise InputError("Classifier requires y to be passed, but the target y is None: only a path or a frame has labels.")
        targets = read_targets(y)
        check_consistent_length(records.names, targets.codes)
        _refuse_one_class(targets)
        made = fit_preparation(records, reading, reading.columns.text)
        preparation = made.preparation
        _tell(made.findings)
        names = tuple(str(name) for name in targets.classes.tolist())
        labels, everything = torch.from_numpy(targets.codes), torch.arange(len(targets.codes))
        examples = Examples(
            made.items,
            labels,
            names,
            kind_of(preparation),
            preparation=preparation,
            groups=everything,
            augmented=prepare_augmented(records, preparation),
        )
        labeled, device = int((labels != UNLABELED).sum()), choose_device(asked.device)
        defaults = suitable(examples, labeled, device, encoder=asked.encoder if asked.fine_tune else None)
        return Job("your arrays", complete("your data", defaults, user, where=WHERE), examples), targets.classes

    def _train(self, job: Job) -> None:
        task = prepare_job(job, None if isinstance(self.network, str) else self.network)
        config, examples = task.config, task.examples
        named = isinstance(self.method, str) or config.method == "supervised"
        method = build_method(task, config.method if named else copy.deepcopy(self.method))
        trainer, shown = make_trainer(task, method), 0
        self.history_: list[Record] = []
        self._say(f"{examples.describe()}: {config.method}, {task.network_name}, {config.steps:,} steps on {task.device}")
        try:
            for record in trainer.run():
                self.history_.append(record)
                if trainer.step * LINES >= (shown + 1) * config.steps:
                    self._say(f"step {trainer.step:,} of {config.steps:,}: loss {record['loss']:.3f}")
                    shown = trainer.step * LINES // config.steps
        finally:
            trainer.batches.close()
        network = trainer.result.eval()
        # As it is after loading: in another layout, a convolution adds up in another order.
        network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # missing in torch's stubs
        assert examples.preparation is not None
        samples = task.some_items(SAMPLES)
        self.model_ = Model(network, task.views, examples.classes, task.shape, examples.preparation, samples=samples)
        self.n_iter_, self.network_ = trainer.step, task.network_name

    def _say(self, text: str) -> None:
        if self.verbose:
            print(text)

    def _stream(self, source: Any) -> Tensor:
        """Probabilities of all rows or files of a source, a part of it in memory at a time."""
        from softmatch.inference.predict import predict_pieces

        if is_frame(source) and hasattr(self, "n_features_in_"):
            known = list(self.model_.preparation.columns) if self.model_.preparation.takes == "text" else []
            there = known and all(name in source.columns for name in known)
            validate_data(self, source[known] if there else source, reset=False, skip_check_array=True)
        found = []
        for piece in predict_pieces(self.model_, source, where="this classifier"):
            wrong = next((position for position, problem in enumerate(piece.problems) if problem), None)
            if wrong is not None:
                raise InputError(f"{piece.names[wrong]}: {piece.problems[wrong]}")
            found.append(piece.probs)
        if not found:
            raise InputError(f"there is nothing to predict in {source}: it holds no samples.")
        return torch.cat(found)


def _name(method: Any) -> str:
    return method if isinstance(method, str) else getattr(method, "__name__", type(method).__name__)


def _refuse_one_class(targets: Targets) -> None:
    if len(targets.classes) < 2:
        unlabeled = ", where it is not −1, None or NaN, which mean that there is none" if UNLABELED in targets.codes else ""
        only = targets.classes.tolist()[0]
        raise InputError(f"there is one class: every label is {only!r}{unlabeled}. A classifier needs two or more.")


def _tell(findings: Iterable[Finding]) -> None:
    """Warn of what was noticed about the data."""
    for finding in findings:
        if finding.level == "warning":
            warnings.warn(finding.text, stacklevel=4)  # at the call of `fit`


def _seed(random_state: Any) -> int:
    """A number stays as it is; a generator, or none, gives another one each time."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
