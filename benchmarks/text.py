"""Measure the methods of the paper's table on AG News and CLINC150 with a small sentence encoder, and scikit-learn.

    python benchmarks/text.py run --agnews FOLDER --clinc150 FOLDER --encoder FOLDER --store runs.jsonl       # everything
    python benchmarks/text.py run --agnews FOLDER --encoder FOLDER --store runs.jsonl --rows frozen --labels 40 --seeds 2
    python benchmarks/text.py print --store runs.jsonl

FOLDER of AG News holds train.jsonl and test.jsonl with the columns text, label and, for training, aug_0 and aug_1 (two
back-translations); that of CLINC150 train.jsonl and test.jsonl. Seed s decides the labelled texts, weights, batches and views;
every row uses the same ones. Everything is trained on the training table and measured on the whole test table, at
the end of training. Runs in the store are not repeated, so an interrupted benchmark resumes. Prints Markdown: the error in
per cent, mean ± standard deviation over the seeds.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import softmatch
from softmatch.augmenting import augment_texts
from softmatch.training.opening import open_job
from softmatch.training.setup import prepare_job

Row = dict[str, Any]
METHODS = ("supervised", "uda", "fixmatch", "flexmatch", "softmatch")
NO_VERSIONS = {"augmented": "none"}
FINE_TUNED = {"tune": "all", "max_tokens": 32, "labeled_batch": 8, "unlabeled_batch": 8, "steps": 60, "evaluate_every": 60}
"""Settings that a CPU can do within minutes: a step takes about a second, and an evaluation as long as all steps."""
ROWS: Mapping[str, tuple[str, Mapping[str, Any], Sequence[str]]] = {
    "tfidf": ("TF-IDF, perceptron", NO_VERSIONS, ("supervised", "softmatch")),
    "frozen": ("frozen encoder", NO_VERSIONS, METHODS),
    "frozen-versions": ("frozen encoder, back-translations as strong views", {}, ("fixmatch", "softmatch")),
    "frozen-words": ("frozen encoder, texts with changed words as strong views", {}, ("softmatch",)),
    "tuned": ("fine-tuned encoder, back-translations as strong views", FINE_TUNED, METHODS),
    "tuned-words": ("fine-tuned encoder, words hidden as strong views", FINE_TUNED | NO_VERSIONS, ("softmatch",)),
}
"""Name in the table, settings that differ from the defaults, and methods of each row."""
REFERENCES = ("tfidf-logistic", "tfidf-self-training", "probe", "probe-self-training", "probe-spreading", "probe-all")
NAMES = {
    "tfidf-logistic": "scikit-learn: TF-IDF, logistic regression",
    "tfidf-self-training": "scikit-learn: TF-IDF, logistic regression, self-training",
    "probe": "scikit-learn: logistic regression on the encoder's features",
    "probe-self-training": "scikit-learn: the same with self-training",
    "probe-spreading": "scikit-learn: LabelSpreading on the encoder's features",
    "probe-all": "scikit-learn: logistic regression on the features, with the labels of all training texts",
}
PAPER = {
    "uda": {40: "16.83 ± 1.68", 200: "14.34 ± 1.9"},
    "fixmatch": {40: "17.10 ± 3.13", 200: "11.24 ± 1.43"},
    "flexmatch": {40: "15.49 ± 1.97", 200: "10.95 ± 0.56"},
    "softmatch": {40: "12.68 ± 0.23", 200: "10.41 ± 0.13"},
}
"""The paper's table of texts: BERT-Base, fine-tuned for 2^18 steps on about 110,000 texts, validation error over 3 seeds."""


def with_words(folder: Path, target: Path) -> Path:
    """Copy a dataset, with augmented texts as from `softmatch augment --via words,words`; made once."""
    if not target.exists():
        part = target.with_suffix(".part")
        part.mkdir(exist_ok=True)
        rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
        for number, column in enumerate(augment_texts([row["text"] for row in rows], "words,words")):
            for row, text in zip(rows, column, strict=True):
                row[f"aug_{number}"] = text
        (part / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        shutil.copyfile(folder / "test.jsonl", part / "test.jsonl")
        part.rename(target)
    return target


def train(source: Mapping[str, Any], row: str, method: str, labels: int, seed: int, threads: int) -> Row:
    """Train once with softmatch."""
    with tempfile.TemporaryDirectory() as folder:
        result = softmatch.train(
            **source,
            **ROWS[row][1],
            method=method,
            labels=labels,
            seed=seed,
            baseline=False,
            threads=threads,
            out=Path(folder) / "run",
        )
    assert result.test_error is not None
    return {"error": 100 * result.test_error, "seconds": result.seconds}


def refer(source: Mapping[str, Any], reference: str, labels: int, seed: int) -> Row:
    """Fit scikit-learn on the same labelled texts, with the unlabelled ones where it can use them."""
    given = dict(source)
    name = given.pop("source")
    if reference.startswith("tfidf"):
        given.pop("encoder")
    task = prepare_job(open_job(name, given | NO_VERSIONS | {"labels": labels, "seed": seed, "baseline": False}))
    items, test = task.examples.items, task.examples.test
    assert isinstance(items, torch.Tensor)
    assert test is not None
    assert isinstance(test.items, torch.Tensor)
    known = task.examples.labels.numpy().copy()
    if reference != "probe-all":
        known[np.setdiff1d(np.arange(len(known)), task.split.labeled.numpy())] = -1
    start = time.monotonic()
    wrong = _fit(reference, items.numpy(), known).predict(test.items.numpy()) != test.labels.numpy()
    return {"error": 100 * float(wrong.mean()), "seconds": time.monotonic() - start}


def _fit(reference: str, items: npt.NDArray[Any], known: npt.NDArray[Any]) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

    if reference.endswith("spreading"):
        return LabelSpreading(kernel="knn", n_neighbors=10).fit(items, known)
    model = LogisticRegression(C=10.0, max_iter=2000)
    if reference.endswith("self-training"):
        return SelfTrainingClassifier(model, threshold=0.75).fit(items, known)
    return model.fit(items[known >= 0], known[known >= 0])


def plan(options: argparse.Namespace) -> list[tuple[Row, Callable[[], Row]]]:
    """List the runs, seeds last: after an interruption each row has some of them."""
    jobs: list[tuple[Row, Callable[[], Row]]] = []

    def add(data: str, source: Mapping[str, Any], labels: int, row: str, method: str, seed: int) -> None:
        encoded = source if row == "tfidf" else {**source, "encoder": str(options.encoder)}
        key = {"data": data, "labels": labels, "row": row, "method": method, "seed": seed}
        if row in REFERENCES:
            jobs.append((key, lambda: refer({**source, "encoder": str(options.encoder)}, row, labels, seed)))
        else:
            jobs.append((key, lambda: train(encoded, row, method, labels, seed, options.threads)))

    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for labels in options.labels if options.agnews else ():
            for row in options.rows:
                source = {"source": "agnews", "data": options.agnews}
                if row == "frozen-words":
                    source["data"] = with_words(options.agnews, options.store.parent / "agnews-words")
                for method in ("",) if row in REFERENCES else ROWS[row][2]:
                    if row in REFERENCES or method in options.methods:
                        add("agnews", source, labels, row, method, seed)
        if options.clinc150:
            source = {"source": options.clinc150 / "train.jsonl", "test": options.clinc150 / "test.jsonl"}
            for row in ("probe", "frozen"):
                for method in ("",) if row in REFERENCES else ("supervised", "fixmatch", "softmatch"):
                    if row in options.rows and (row in REFERENCES or method in options.methods):
                        add("clinc150", source, 1500, row, method, seed)
    return jobs


def run(options: argparse.Namespace) -> None:
    """Do every run that is not in the store yet."""
    done = {json.dumps(row["key"]) for row in read(options.store)}
    for key, work in plan(options):
        if json.dumps(key) in done:
            continue
        found = {"key": key, **work()}
        with options.store.open("a") as file:
            file.write(json.dumps(found) + "\n")
        print(*key.values(), f"{found['error']:.2f} % in {found['seconds']:.0f} s", file=sys.stderr, flush=True)


def read(store: Path) -> list[Row]:
    """Read the lines of the store."""
    return [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []


def show(rows: Sequence[Row], data: str) -> None:
    """Print a table with a line for each row and method and a column for each number of labels."""
    found: dict[tuple[str, str], dict[int, list[Row]]] = {}
    for each in rows:
        key = each["key"]
        if key["data"] == data:
            found.setdefault((key["row"], key["method"]), {}).setdefault(key["labels"], []).append(each)
    counts = sorted({labels for cells in found.values() for labels in cells})
    print(f"| | method | {' | '.join(f'{labels:,} labels' for labels in counts)} | seconds |")
    print("|---" * (len(counts) + 3) + "|")
    for (row, method), cells in sorted(found.items(), key=_place):
        seconds = min(done["seconds"] for runs in cells.values() for done in runs)
        line = [NAMES.get(row) or ROWS[row][0], method, *(_cell(cells.get(labels, [])) for labels in counts), f"{seconds:.0f}"]
        print(f"| {' | '.join(line)} |")
    if data == "agnews":
        for method, figures in PAPER.items():
            print(f"| *the paper: BERT-Base* | *{method}* | {' | '.join(f'*{figures.get(n, chr(8211))}*' for n in counts)} | |")


def _place(item: tuple[tuple[str, str], Any]) -> tuple[int, int]:
    row, method = item[0]
    order = (*REFERENCES, *ROWS)
    return order.index(row), METHODS.index(method) if method else 0


def _cell(runs: Sequence[Row]) -> str:
    errors = [row["error"] for row in runs]
    if not errors:
        return "–"
    spread = f" ± {statistics.stdev(errors):.2f}" if len(errors) > 1 else ""
    return f"{statistics.mean(errors):.2f}{spread} ({len(errors)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "print"))
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--agnews", type=Path)
    parser.add_argument("--clinc150", type=Path)
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--rows", nargs="+", choices=(*REFERENCES, *ROWS), default=(*REFERENCES, *ROWS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--labels", nargs="+", type=int, default=(40, 200))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.what == "run":
        if options.encoder is None:
            parser.error("--encoder is needed: the folder of a sentence encoder")
        torch.set_num_threads(options.threads)
        run(options)
    rows = read(options.store)
    for data in dict.fromkeys(row["key"]["data"] for row in rows):
        print(f"\n## {data}\n")
        show(rows, data)


if __name__ == "__main__":
    main()
