"""Compare ways to choose which samples to label first, by the error of SoftMatch afterwards.

    python benchmarks/choosing.py run --store choosing.jsonl                                     # digits, a table of 64 numbers
    python benchmarks/choosing.py run --store choosing.jsonl --image-features NAME=features.npz  # arrays x (N, D) and y (N)
    python benchmarks/choosing.py run --store choosing.jsonl --text-features NAME=features.npz --numbers 150 300 600
    python benchmarks/choosing.py print --store choosing.jsonl

random: drawn uniformly. even: drawn at random, the same number of each class, which nobody can do without the labels. cold
start: `softmatch suggest DATA`, which is TypiClust (Hacohen et al. 2022). ProbCover (Yehuda et al. 2022): with the largest
radius at which 95 % of the balls are pure by k-means. rounds: a cold start of the first number, then `softmatch suggest RUN` up
to each further number, after a training. doubtful: the same, with doubtful samples from the first round on. BADGE (Ash et al.
2020): the same rounds, with its samples after the cold start. page: the queue of `softmatch label` on the digits as pictures, or
on the features, random samples included. A seed draws four fifths of the data as the pool, and everything random of choice and
training; the error is that on the other fifth. Features are those that an encoder gives, such as
`EncoderPreparation.find(ENCODER, "text")(texts)`; they are trained on as `softmatch train --encoder` does, apart from the number
of steps. Runs in the store are not repeated. Prints Markdown: error in per cent and the number of classes with a label, mean ±
standard deviation over the seeds, and the last error relative to that of random labels.
"""

import argparse
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from features import given_features
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

import softmatch
import softmatch.inference.suggest as suggesting
from softmatch.data.records import Columns
from softmatch.data.understanding import Reading
from softmatch.inference.clusters import k_means, reduced, standardized
from softmatch.labeling.label_log import LabelLog
from softmatch.labeling.shown_samples import ShownSamples
from softmatch.labeling.suggestion_queue import SuggestionQueue

Array = npt.NDArray[Any]
Row = dict[str, Any]
WAYS = ("random", "even", "cold start", "ProbCover", "BADGE", "rounds", "doubtful", "page")
RADII, PURE, NEIGHBOURS = 30, 0.95, 200
REFRESHED = 40
"""Times that the simulated user lets the page find suggestions; with 40 labels, after each of them."""


class Pool(NamedTuple):
    """Samples that may be labelled, those of the test, and where and how to train."""

    items: Array
    truth: Array
    test_items: Array
    test_truth: Array
    folder: Path
    seed: int
    settings: Row


def prob_cover(features: Array, number: int, seed: int) -> list[int]:
    """Greedily choose the samples whose balls cover most samples that are not covered yet."""
    distances, near = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(features))).fit(features).kneighbors(features)
    cluster = k_means(features, max(number, 10), seed)
    radius = 0.0
    for share in np.linspace(0.01, 0.6, RADII):
        tried = float(np.quantile(distances[:, 1:], share))
        pure = ((cluster[near] == cluster[:, None]) | (distances > tried)).all(1).mean()
        radius = tried if pure >= PURE or not radius else radius
    inside, covered, chosen = distances <= radius, np.zeros(len(features), dtype=bool), list[int]()
    for _ in range(number):
        gain = (inside & ~covered[near]).sum(1)
        gain[chosen] = -1
        best = int(gain.argmax())
        chosen.append(best)
        covered[near[best][inside[best]]] = True
    return chosen


def badge(pool: Pool, chosen: list[int], number: int) -> list[int]:
    """Seed k-means++ with the gradients of the last layer, (p − the predicted class) ⊗ features, of the unlabelled samples."""
    model = softmatch.load_model(train(pool, chosen))
    prepared = model.preparation(pool.items)
    probs, hidden = model.predict_proba(prepared).numpy(), suggesting._features(model, prepared)
    error = probs - np.eye(probs.shape[1])[probs.argmax(1)]
    square, generator = (error**2).sum(1) * (hidden**2).sum(1), np.random.default_rng(pool.seed)
    nearest, found = np.where(np.isin(np.arange(len(square)), chosen), 0.0, np.inf), list[int]()
    for _ in range(number):
        best = int(generator.choice(len(nearest), p=nearest / nearest.sum())) if found else int((square * (nearest > 0)).argmax())
        apart = square + square[best] - 2 * (error @ error[best]) * (hidden @ hidden[best])
        nearest = np.minimum(nearest, np.maximum(apart, 1e-12))
        found.append(best)
        nearest[found] = 0.0
    return found


def choose(way: str, pool: Pool, number: int, chosen: list[int]) -> list[int]:
    """Positions to label, without a look at the truth unless the way says so; rounds add to the ones chosen before."""
    items, truth, seed = pool.items, pool.truth, pool.seed
    generator = np.random.default_rng(seed)
    if way == "even":
        each = -(-number // len(np.unique(truth)))
        found = [generator.permutation(np.flatnonzero(truth == c))[:each].tolist() for c in np.unique(truth)]
        return [place for turn in zip(*found, strict=True) for place in turn][:number]
    if way == "ProbCover":
        return prob_cover(reduced(standardized(items), seed), number, seed)
    if way == "random":
        drawn: list[int] = generator.permutation(len(items))[:number].tolist()
        return drawn
    out = pool.folder / f"{way} {number}.csv"
    if way == "cold start" or not chosen:
        unlabeled = items, np.full(len(items), -1)
        return list(softmatch.cold_start(unlabeled, number, out, seed=seed, random_share=0.0).positions)
    if way == "BADGE":
        return [*chosen, *badge(pool, chosen, number - len(chosen))]
    labels, few = np.full(len(items), -1), suggesting.FEW
    labels[chosen] = truth[chosen]
    last = train(pool, chosen)
    suggesting.FEW = 0 if way == "doubtful" else few
    more = softmatch.suggest(last, number - len(chosen), out, (items, labels), seed=seed, random_share=0.0)
    suggesting.FEW = few
    return [*chosen, *more.positions]


def by_the_page(pool: Pool, number: int, pictures: bool) -> list[int]:
    """The samples that the queue of `softmatch label` gives, in its order, for digits as pictures or for features."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "source"
        if pictures:
            source.mkdir()
            for place, pixels in enumerate(pool.items):
                picture = Image.fromarray((pixels.reshape(8, 8) * 15).astype(np.uint8))
                picture.save(source / f"{pool.seed}-{place:05}.png")
        else:
            source = source.with_suffix(".csv")
            source.write_text("row,seed\n" + "".join(f"{place},{pool.seed}\n" for place in range(len(pool.items))))
        reading = Reading() if pictures else Reading(columns=Columns(features=("row", "seed")))
        shown, log = ShownSamples(str(source), reading), LabelLog(Path(name) / "project")
        queue = SuggestionQueue(shown, log, reading, pool.seed)
        if pictures:
            queue.find_features()
        else:
            queue.use_features(reduced(pool.items, pool.seed))
        chosen = list[int]()
        while len(chosen) < number:
            if len(chosen) % max(1, number // REFRESHED) == 0:
                queue.refresh()
            (each,) = queue.next(1, "tab", [])
            chosen.append(each.position)
            sample = shown.records.names[each.position]
            log.write(sample, "key", [(sample, "")], str(pool.truth[each.position]), {sample: each.purpose})
        log.close()
    return chosen


def train(pool: Pool, chosen: list[int]) -> Path:
    """Train SoftMatch with the labels of the chosen samples, once; gives the run."""
    run = pool.folder / hashlib.sha256(np.sort(chosen).tobytes()).hexdigest()[:16]
    if not run.exists():
        labels = np.full(len(pool.items), -1)
        labels[chosen] = pool.truth[chosen]
        softmatch.train((pool.items, labels), out=run, evaluation="none", baseline=False, **pool.settings)
    return run


def measure(way: str, pool: Pool, numbers: list[int], pictures: bool) -> list[Row]:
    """Errors on the test samples with each number of labels."""
    rows, chosen = list[Row](), list[int]()
    asked = by_the_page(pool, max(numbers), pictures) if way == "page" else []
    for number in numbers:
        chosen = asked[:number] if way == "page" else choose(way, pool, number, chosen)
        model = softmatch.load_model(train(pool, chosen))
        made = model.predict_proba(model.preparation(pool.test_items)).argmax(-1).numpy()
        error = float((np.array(model.classes).astype(int)[made] != pool.test_truth).mean())
        rows.append({"labels": number, "error": error, "classes": len(np.unique(pool.truth[chosen]))})
    return rows


def read(store: Path) -> list[Row]:
    return [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []


def sets(options: argparse.Namespace) -> dict[str, tuple[Array, Array, Row]]:
    """Samples, classes and settings of training of each data set."""
    digits = load_digits()
    return given_features(options) or {"digits": (digits.data.astype(np.float32), digits.target, {})}


def show(rows: list[Row]) -> None:
    for data, *numbers in dict.fromkeys((row["data"], *(each["labels"] for each in row["found"])) for row in rows):
        print(f"| {data} | seeds |", " | ".join(f"{n} labels: error | classes" for n in numbers), "| of random |")
        print("|---|---|" + "---|---|" * len(numbers) + "---|")
        usual = None
        for way in WAYS:
            same = [row["found"] for row in rows if (row["data"], row["way"]) == (data, way)]
            same = [found for found in same if [each["labels"] for each in found] == numbers]
            if not same:
                continue
            cells = []
            for place in range(len(numbers)):
                errors = np.array([100 * found[place]["error"] for found in same])
                spread = f" ± {errors.std(ddof=1):.1f}" if len(errors) > 1 else ""
                cells += [f"{errors.mean():.1f}{spread}", f"{np.mean([found[place]['classes'] for found in same]):.1f}"]
            usual = errors.mean() if way == "random" else usual
            print(f"| {way} | {len(same)} |", " | ".join(cells), f"| {errors.mean() / usual:.2f} |" if usual else "| – |")
        print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("run", "print"))
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--image-features", nargs="*", default=(), metavar="NAME=FILE")
    parser.add_argument("--text-features", nargs="*", default=(), metavar="NAME=FILE")
    parser.add_argument("--numbers", nargs="+", type=int, default=[10, 20, 40], help="of labels")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--first-seed", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    if options.what == "print":
        show(read(options.store))
        return
    torch.set_num_threads(1)
    given = sets(options)
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for name, (items, truth, settings) in given.items():
            order = np.random.default_rng(1000 + seed).permutation(len(items))
            own, test = order[: len(order) * 4 // 5], order[len(order) * 4 // 5 :]
            with tempfile.TemporaryDirectory() as folder:
                training = {**settings, "steps": options.steps, "evaluate_every": options.steps, "seed": seed, "threads": 1}
                pool = Pool(items[own], truth[own], items[test], truth[test], Path(folder), seed, training)
                for way in options.ways:
                    key = {"data": name, "way": way, "seed": seed, "steps": options.steps, "numbers": options.numbers}
                    if any(key.items() <= row.items() for row in read(options.store)):
                        continue
                    found = measure(way, pool, options.numbers, name == "digits")
                    with options.store.open("a") as file:
                        file.write(json.dumps({**key, "found": found}) + "\n")
                    print(name, seed, way, [round(100 * row["error"], 1) for row in found], flush=True)


if __name__ == "__main__":
    main()
