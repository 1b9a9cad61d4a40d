"""Classifier: training as an estimator of scikit-learn, in memory; `fit` writes no files."""

import copy
import json
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
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

from softmatch.config import Config, renamed
from softmatch.data.defaults import suitable
from softmatch.data.examples import UNLABELED, Examples
from softmatch.data.readers.array_files import is_frame
from softmatch.data.readers.hub_repositories import is_dataset
from softmatch.data.records import Finding
from softmatch.data.samples import LABEL_KINDS, has_labels, inputs_for, is_path, new_records, read_targets
from softmatch.data.shards.shard_source import refuse_shards
from softmatch.data.understanding import fit_preparation, kind_of, prepare_augmented
from softmatch.distributed.devices import choose_device
from softmatch.errors import InputError
from softmatch.inference.predict import predict_pieces
from softmatch.networks import Network, describe_network
from softmatch.recipes import complete
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model, save_model
from softmatch.training.bench import plan_length
from softmatch.training.loop import Record
from softmatch.training.opening import Job, open_job, reading_of
from softmatch.training.setup import build_method, make_trainer, prepare_job, restored_state
from softmatch.training.trackers import find_listeners
from softmatch.training.tracking import Listener, TrackedRun, Tracking
from softmatch.views.own_views import OwnCode

WHERE = "Classifier"
"""Name of the settings in messages."""
POINTLESS = frozenset(
    {
        *("recipe", "labels", "imbalance", "unlabeled_imbalance", "data", "split_seed"),
        *("test", "evaluation", "folds", "test_fraction", "baseline", "keep", "out", "checkpoint_every"),
        *("train_per_class", "validation_per_class", "largest_class_labels", "largest_class_unlabeled"),
    }
)
"""Settings for splits, evaluation and files, which a Classifier does not have."""
LINES = 10
"""Number of lines that `verbose` prints."""
FORMAT = 1
LONGEST_LABEL = 2**16
"""Bytes; an array of texts takes as many for each of its labels."""
MOST_IMAGE_STEPS = 1000
"""Most steps on images, where `softmatch.train` has a length in minutes."""


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A neural network trained by a semi-supervised method on a few labels and all samples.

    Args:
        method: a name of `softmatch.METHODS`, "wrapper+base" or "file.py:name"; a Method or Weighting, which is copied in each
            `fit`, or a function that makes one. If every sample has a label, "supervised" is used instead.
        network: "mlp", "small-conv", "wrn-28-2", …; an nn.Module, which is copied in each `fit`, or a function that makes one.
        steps, labeled_batch, unlabeled_batch, optimizer, lr, views: settings of `softmatch.train`. By default, these and the
            network are chosen by the data; see `config_`.
        encoder: a pretrained encoder for texts or files of images: a folder or an id of the Hugging Face hub.
        tune: its trained part: "head" (the default), "last-2", "lora" or "all".
        settings: further settings of `softmatch.train`, such as {"method_options": {"k": 3}, "weight_decay": 0}, or
            {"label_column": "kind"} to name a column of a table.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
        verbose: print the progress of training.
        listeners: names of trackers, and objects with the methods of `softmatch.Listener`. There is no error to send: `end` gets
            method, network and steps.
        random_state: a number, or a generator as in scikit-learn. The same number gives the same predictions, on a CPU bit
            for bit.

    Attributes:
        classes_: the labels, sorted; texts for a file or folder.
        transduction_: labels of all samples of `fit`: the given ones, and predictions for the others.
        transduction_confidence_: the model's probability of these labels. A low one of a given label may indicate a mistake.
        sample_names_: names of these samples, files or rows; only if `fit` was given a path, or a frame with labels.
        method_, network_: names of the method that was used, `method` or "supervised", and of the network.
        n_iter_: number of steps.
        history_: losses, pseudo-labels and statistics at regular steps of training.
        config_: all settings.
        model_: the `softmatch.Model`: the trained network with its preparation and calibration.
        n_features_in_: number of features, if X is an array of vectors or a frame.
        feature_names_in_: names of the features, if X is a frame whose columns are named by texts.

    Cross-validation in scikit-learn treats −1 as a class, so that every prediction for an unlabelled sample counts as wrong.
    Score on labelled samples only.

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
        views: Mapping[str, Any] | str | None = None,
        encoder: str | None = None,
        tune: str | None = None,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        verbose: bool = False,
        listeners: Sequence[str | Listener] = (),
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
        self.tune = tune
        self.settings = settings
        self.device = device
        self.verbose = verbose
        self.listeners = listeners
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, labels_from: str | Path | None = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Train.

        Args:
            X: vectors (n, D); uint8 images (n, H, W), (n, H, W, C) or (n, C, H, W); arrays (n, …) of any
                shape with `views` of your own, "file.py:name"; a frame, whose columns are features; texts. Without y, a source
                that contains its labels: the path of a folder or table, a frame, a `datasets.Dataset`, or a dataset of torch.
            y: labels (n,), numbers or texts; −1, None or NaN for unlabelled samples.
            labels_from: file of further labels, for a source that contains its labels; see `softmatch.train`.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        listeners = find_listeners(self.listeners)
        user = self._settings() | ({} if labels_from is None else {"labels_from": Path(labels_from)})
        if labels_from is not None and y is not None:
            raise InputError("labels_from is for a path or a frame without y: add its labels to y.")
        job, classes = self._open(X, user) if y is None and has_labels(X) else self._gather(X, y, user)
        if not bool((job.examples.labels == UNLABELED).any()):
            job = replace(job, config=job.config.model_copy(update={"method": "supervised", "method_options": {}}))
        with restored_state(), Tracking(listeners) as tracking:
            config = self._train(job, tracking)
            tracking.result = {"method": config.method, "network": self.network_, "steps": self.n_iter_}
        probs, labels = self.model_.predict_proba(job.examples.items).numpy(), job.examples.labels.numpy()
        chosen = np.where(labels == UNLABELED, probs.argmax(1), labels)
        self.transduction_, self.transduction_confidence_ = classes[chosen], probs[np.arange(len(probs)), chosen]
        if job.examples.names:
            self.sample_names_ = list(job.examples.names)
        self.config_, self.method_, self.classes_ = config, config.method, classes
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803  # scikit-learn's name for it
        """Predict the most likely class of each sample (n,); X has any form that `fit` accepts."""
        probs = self.predict_proba(X)
        return np.asarray(self.classes_[probs.argmax(1)])

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:  # noqa: N803  # scikit-learn's name for it
        """Predict p(y | x) of each sample (n, C), in the order of `classes_`. A path is read in parts, whatever its size."""
        check_is_fitted(self)
        model = self.model_
        if (
            is_path(X)
            or is_dataset(X)
            or (is_frame(X) and (model.preparation.takes in ("table", "text") or model.preparation.columns))
        ):
            return np.asarray(self._stream(X))
        return np.asarray(model.predict_proba(model.preparation(inputs_for(self, X, model.preparation))))

    def save(self, path: str | Path) -> None:
        """Write a folder, without pickle, from which `load` restores a classifier with bit-identical predictions.

        `softmatch.load_model` reads it too. Parameters that are objects, `history_` and the transduction are not saved. A folder
        with content is never overwritten.
        """
        check_is_fitted(self)
        run, names = RunFolder.create(Path(path)), getattr(self, "feature_names_in_", None)
        about = {
            "format": FORMAT,
            "parameters": {name: value for name, value in self.get_params(deep=False).items() if _is_json(value)},
            "classes": self.classes_.tolist(),
            "dtype": self.classes_.dtype.str,
            "network": self.network_,
            "steps": self.n_iter_,
            "config": self.config_.model_dump(mode="json"),
            "features": getattr(self, "n_features_in_", None),
            "names": None if names is None else names.tolist(),
        }
        try:
            save_model(run, self.model_, self.network_)
            run.write_json("classifier.json", about)
        except BaseException as error:
            shutil.rmtree(path, ignore_errors=True)  # it was created above, or was empty
            if isinstance(error, OSError):
                raise InputError(f"the classifier cannot be saved in {path}: {error.strerror or error}.") from error
            raise

    @classmethod
    def load(cls, path: str | Path, network: Network | None = None, views: OwnCode | None = None) -> Self:
        """Load a classifier that `save` has written, on the CPU. Nothing in the folder is executed.

        Args:
            network: your own network, or a function that makes it, for a classifier with one.
            views: your own views, for a classifier with such; see `load_model`.
        """
        about = RunFolder(Path(path)).read_json("classifier.json")
        if about is None:
            raise InputError(f"{path} has no classifier.json. Give a folder that Classifier.save has written.")
        try:
            if about.get("format") != FORMAT:
                raise InputError(f"{path} has format {str(about.get('format'))[:99]}; this version reads {FORMAT}.")
            dtype = np.dtype(about["dtype"])
            if dtype.kind not in LABEL_KINDS or dtype.itemsize > LONGEST_LABEL:
                raise InputError(f"{path}: a classifier cannot have classes of type {dtype}.")
            known = {name: value for name, value in dict(about["parameters"]).items() if name in cls._get_param_names()}
            loaded = cls(**(known if network is None else {**known, "network": network}))
            loaded.model_, loaded.config_ = load_model(Path(path), network, views), Config(**about["config"])
            loaded.classes_, loaded.method_ = np.array(about["classes"], dtype=dtype), loaded.config_.method
            loaded.network_, loaded.n_iter_ = str(about["network"]), int(about["steps"])
            if about["features"] is not None:
                loaded.n_features_in_ = about["features"]
            if about["names"] is not None:
                loaded.feature_names_in_ = np.array(about["names"], dtype=object)
        except InputError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, SyntaxError) as error:
            raise InputError(f"the classifier in {path} cannot be read: {type(error).__name__} {error}") from error
        return loaded

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True  # greyscale images
        return tags

    def _settings(self) -> dict[str, Any]:
        """Parameters as settings of a run."""
        names = {"seed": "random_state", **{name: name for name in self._get_param_names()}}
        given = renamed(self.settings or {}, WHERE, warn=True)
        for key in given:
            if key in names:
                raise InputError(f"settings: {key!r} is a parameter of its own: Classifier({names[key]}=…).")
            if key in POINTLESS:
                raise InputError(f"settings: {key!r} has no meaning: a Classifier trains on all samples of `fit`, in memory.")
        method = self.method
        return {
            **given,
            **{name: getattr(self, name) for name in names if name in Config.model_fields and name != "seed"},
            "method": method if isinstance(method, str) else getattr(method, "__name__", type(method).__name__),
            "network": None if self.network is None else describe_network(self.network),
            "seed": _seed(self.random_state),
            "evaluation": "none",
        }

    def _open(self, where: Any, user: Mapping[str, Any]) -> tuple[Job, npt.NDArray[Any]]:
        """Open a source that contains its labels."""
        job = open_job(where, user, where=WHERE)
        if job.examples.groups is None:
            raise InputError(f"{where!r} is a named source. Use softmatch.train, or give a path or arrays.")
        refuse_shards(job.examples.streamed, "a classifier that keeps the predictions of its samples")
        _tell(job.findings)
        return job, np.array(job.examples.classes)

    def _gather(self, samples: Any, y: Any, user: Mapping[str, Any]) -> tuple[Job, npt.NDArray[Any]]:
        """Make a job from samples and labels given in Python."""
        asked = complete("your data", {}, user, where=WHERE)
        if is_path(samples) or is_dataset(samples):
            raise InputError(f"{samples if is_path(samples) else 'the dataset'} contains its labels. Leave out y.")
        reading = reading_of(asked)
        records = new_records(self, samples, reading.columns)
        if y is None:
            raise InputError(
                "Classifier requires y to be passed, but the target y is None; only a path, a frame or a dataset has labels."
            )
        targets = read_targets(y)
        check_consistent_length(records.names, targets.codes)
        if len(targets.classes) < 2:
            every = f"{targets.classes.tolist()[0]!r}{' or missing (−1, None or NaN)' if UNLABELED in targets.codes else ''}"
            raise InputError(f"there is one class: every label is {every}. A classifier needs two or more.")
        made = fit_preparation(records, reading, reading.columns.text)
        preparation = made.preparation
        _tell(made.findings)
        names = tuple(str(name) for name in targets.classes.tolist())
        labels, everything = torch.from_numpy(targets.codes), torch.arange(len(targets.codes))
        augmented, kind = prepare_augmented(records, preparation), kind_of(preparation)
        examples = Examples(made.items, labels, names, kind, preparation=preparation, groups=everything, augmented=augmented)
        labeled, device = int((labels != UNLABELED).sum()), choose_device(asked.device)
        defaults = suitable(examples, labeled, device, asked.encoder, asked.tune)
        return Job("your arrays", complete("your data", defaults, user, where=WHERE), examples), targets.classes

    def _train(self, job: Job, tracking: Tracking) -> Config:
        """Train the network; returns the settings as they were used."""
        if job.config.minutes is not None:
            job = replace(job, config=job.config.model_copy(update={"minutes": None, **self._length(job)}))
        task = prepare_job(job, None if isinstance(self.network, str) else self.network)
        config, examples = task.config, task.examples
        named = isinstance(self.method, str) or config.method == "supervised"
        method = build_method(task, config.method if named else copy.deepcopy(self.method))
        trainer, shown = make_trainer(task, method), 0
        self.history_: list[Record] = []
        say = print if self.verbose else lambda text: None
        say(f"{examples.describe()}: {config.method}, {task.network_name}, {config.steps:,} steps on {task.device}")
        tracking.start(TrackedRun(f"{WHERE}-{config.method}", job.source, config.model_dump(mode="json")))
        try:
            for record in trainer.run():
                self.history_.append(record)
                tracking.record(config.method, record, config.steps)
                if trainer.step * LINES >= (shown + 1) * config.steps:
                    say(f"step {trainer.step:,} of {config.steps:,}: loss {record['loss']:.3f}")
                    shown = trainer.step * LINES // config.steps
        finally:
            trainer.batches.close()
        network = trainer.result.eval()
        # The layout after loading: in another one, a convolution sums in another order.
        network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # missing in torch's stubs
        self.model_ = task.model(network)
        self.n_iter_, self.network_ = trainer.step, task.network_name
        return config

    def _length(self, job: Job) -> dict[str, int]:
        """Steps that replace minutes. The data's default minutes become steps, so that a seed repeats a fit."""
        if (self.settings or {}).get("minutes") is None:
            return {"steps": min(job.config.steps, MOST_IMAGE_STEPS)}
        return plan_length(job, 60 * float(job.config.minutes or 0), None if isinstance(self.network, str) else self.network)

    def _stream(self, source: Any) -> Tensor:
        """Predict all rows or files of a source, with one part in memory at a time."""
        if is_frame(source) and hasattr(self, "n_features_in_"):
            known = list(self.model_.preparation.columns) if self.model_.preparation.takes == "text" else []
            there = known and set(known) <= set(source.columns)
            validate_data(self, source[known] if there else source, reset=False, skip_check_array=True)
        found = []
        for piece in predict_pieces(self.model_, source, where="this classifier"):
            for name, problem in zip(piece.names, piece.problems, strict=True):
                if problem:
                    raise InputError(f"{name}: {problem}")
            found.append(piece.probs)
        if not found:
            raise InputError(f"there is nothing to predict: {source} has no samples.")
        return torch.cat(found)


def _tell(findings: Iterable[Finding]) -> None:
    """Warn about findings in the data."""
    for finding in findings:
        if finding.level == "warning":
            warnings.warn(finding.text, stacklevel=4)  # at the call of `fit`


def _seed(random_state: Any) -> int:
    """Return a seed: the number itself, or a new one from a generator or None."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
