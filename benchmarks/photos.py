"""Measure a frozen image encoder on folders of photos: softmatch with all defaults, its baseline, and scikit-learn's methods.

    python benchmarks/photos.py fashion cifar10-unbalanced --fashion-mnist FILE.npz --cifar10 FILE.npz --encoder ENCODER
    python benchmarks/photos.py FOLDER [FOLDER ...] --encoder ENCODER --work runs/photos [--per-class 10] [--seeds 10 11 12 13 14]

Each FOLDER has one subfolder of images per class; those named fashion and cifar10-unbalanced are made of the archives if they are
missing. For each seed a quarter of every class is the test set, and `--per-class`
images of each class are labelled; all others are unlabelled. `softmatch train` gets these images as a user has them (class
folders, unlabeled/ and a test folder); every rival gets the features of the same encoder. Logistic regression is given twice: on
standardised features, and on features of length 1 with less shrinkage (C = 10), which suits few labels better. Finished seeds are
read again, so an interrupted program continues. Prints Markdown: error in per cent, mean ± standard deviation over the seeds.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

import softmatch
from softmatch.data.preparations.encoder_features import EncoderPreparation
from softmatch.data.readers.class_folders import SUFFIXES

Numbers = npt.NDArray[np.float32]
Classes = npt.NDArray[np.int64]
COLUMNS = {
    "softmatch": "SoftMatch",
    "baseline": "its baseline",
    "probe": "logistic regression",
    "probe-unit": "logistic regression, length 1",
    "neighbours": "5 nearest neighbours",
    "self-training": "self-training",
    "spreading": "label spreading",
}


def make(folder: Path, archive: Path | None) -> None:
    """Write the first 2,000 training images of Fashion-MNIST, or six unbalanced classes of the first 4,000 of CIFAR-10."""
    if folder.exists() or archive is None:
        return
    with np.load(archive) as found:
        pixels, labels = found["x_train"], found["y_train"].ravel()
    number, most = (2000, None) if folder.name == "fashion" else (4000, (400, 360, 300, 240, 160, 80, 0, 0, 0, 0))
    written = dict.fromkeys(range(10), 0)
    for position, label in enumerate(map(int, labels[:number])):
        if most is not None and written[label] == most[label]:
            continue
        written[label] += 1
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[position].squeeze()).save(folder / str(label) / f"{position:05d}.png")


def read(folder: Path) -> tuple[list[Path], Classes, list[str]]:
    """Files, numbers of their classes, names of the classes."""
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
    files = [(path, number) for number, name in enumerate(classes) for path in sorted((folder / name).iterdir())]
    files = [(path, number) for path, number in files if path.suffix.lower() in SUFFIXES]
    return [path for path, _ in files], np.array([number for _, number in files]), classes


def draw(labels: Classes, per_class: int, seed: int) -> tuple[Classes, Classes, Classes]:
    """Positions of the test, the labelled and the unlabelled images."""
    random, parts = np.random.default_rng(seed), (list[int](), list[int](), list[int]())
    for number in np.unique(labels):
        order = random.permutation(np.flatnonzero(labels == number))
        tests = len(order) // 4
        for part, chosen in zip(parts, np.split(order, [tests, tests + per_class]), strict=True):
            part.extend(chosen.tolist())
    return tuple(np.array(sorted(part)) for part in parts)  # type: ignore[return-value]  # three of them


def train(files: Sequence[Path], labels: Classes, classes: Sequence[str], parts: Any, encoder: str, seed: int) -> dict[str, Any]:
    """Train with all defaults on class folders, unlabeled/ and a test folder."""
    test, labeled, unlabeled = parts
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        names = [(p, f"test/{classes[labels[p]]}") for p in test] + [(p, f"photos/{classes[labels[p]]}") for p in labeled]
        for position, name in [*names, *((p, "photos/unlabeled") for p in unlabeled)]:
            (root / name).mkdir(parents=True, exist_ok=True)
            (root / name / f"{position:06d}{files[position].suffix}").symlink_to(files[position].resolve())
        found = softmatch.train(root / "photos", test=root / "test", encoder=encoder, seed=seed, out=root / "run")
    return {"softmatch": found.test_error, "baseline": found.supervised_test_error, "seconds": found.seconds}


def rivals(features: Numbers, labels: Classes, parts: Any) -> dict[str, float]:
    """Errors of scikit-learn's methods on the same features; the graph and self-training see the unlabelled ones."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import StandardScaler, normalize
    from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

    test, labeled, unlabeled = parts
    seen = np.concatenate([labeled, unlabeled])
    given = np.concatenate([labels[labeled], np.full(len(unlabeled), -1)])
    scaled, unit = StandardScaler().fit(features[seen]).transform(features), normalize(features)
    regression = LogisticRegression(max_iter=1000, C=10)
    training = SelfTrainingClassifier(LogisticRegression(max_iter=1000, C=10), threshold=0.9)
    fitted: dict[str, tuple[Any, Numbers]] = {
        "probe": (LogisticRegression(max_iter=1000).fit(scaled[labeled], labels[labeled]), scaled),
        "probe-unit": (regression.fit(unit[labeled], labels[labeled]), unit),
        "neighbours": (KNeighborsClassifier(5).fit(unit[labeled], labels[labeled]), unit),
        "self-training": (training.fit(unit[seen], given), unit),
        "spreading": (LabelSpreading(kernel="knn", n_neighbors=10, max_iter=100).fit(unit[seen], given), unit),
    }
    return {name: float(np.mean(model.predict(items[test]) != labels[test])) for name, (model, items) in fitted.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--fashion-mnist", type=Path, help="fashion_mnist.npz: x_train, y_train")
    parser.add_argument("--cifar10", type=Path, help="cifar10.npz: x_train, y_train")
    parser.add_argument("--per-class", type=int, default=10)
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12, 13, 14])
    parser.add_argument("--work", type=Path, default=Path("runs/photos"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    print(f"| photos, {options.per_class} labels per class | images | classes | {' | '.join(COLUMNS.values())} | n | s |")
    print("|---" * (len(COLUMNS) + 5) + "|")
    for folder in options.folders:
        make(folder, {"fashion": options.fashion_mnist, "cifar10-unbalanced": options.cifar10}.get(folder.name))
        files, labels, classes = read(folder)
        features: Numbers | None = None
        results = []
        for seed in options.seeds:
            store = options.work / f"{folder.name}-{options.per_class}-{seed}.json"
            if not store.exists():
                if features is None:
                    features = EncoderPreparation.find(options.encoder, "image")(files).numpy()
                parts = draw(labels, options.per_class, seed)
                started = time.perf_counter()
                found = train(files, labels, classes, parts, options.encoder, seed)
                store.write_text(json.dumps({**found, **rivals(features, labels, parts), "wall": time.perf_counter() - started}))
            results.append(json.loads(store.read_text()))
        cells = [spread([100 * result[column] for result in results]) for column in COLUMNS]
        seconds = statistics.median(result["seconds"] for result in results)
        print(
            f"| {folder.name} | {len(files):,} | {len(classes)} | {' | '.join(cells)} | {len(results)} | {seconds:.0f} |",
            flush=True,
        )


def spread(values: list[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{deviation}"


if __name__ == "__main__":
    main()
