"""Compare ways to choose which samples to label first, by the error of SoftMatch afterwards.

    python benchmarks/choosing.py run --store choosing.jsonl                               # digits, a table of 64 numbers
    python benchmarks/choosing.py run --store choosing.jsonl --features NAME=features.npz  # arrays x and y, such as features
    python benchmarks/choosing.py print --store choosing.jsonl

random: drawn uniformly. even: drawn at random, the same number of each class, which nobody can do without the labels. cold
start: `softmatch suggest DATA`, which is TypiClust (Hacohen et al. 2022). ProbCover (Yehuda et al. 2022): with the largest
radius at which 95 % of the balls are pure by k-means. rounds: a cold start of 10, then `softmatch suggest RUN` of 10 and 20,
each after a training. doubtful: the same, with doubtful samples from the first round on. page: the queue of `softmatch label`
on the digits as pictures, random samples included. A seed draws four fifths of the data as the pool, and everything random of
choice and training; the error is that on the other fifth. Runs in the store are not repeated. Prints Markdown: error in per
cent and the number of classes with a label, mean ± standard deviation over the seeds.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

import softmatch
import softmatch.inference.suggest as suggesting
from softmatch.data.understanding import Reading
from softmatch.inference.clusters import k_means, reduced, standardized
from softmatch.labeling.label_log import LabelLog
from softmatch.labeling.shown_samples import ShownSamples
from softmatch.labeling.suggestion_queue import SuggestionQueue

Array = npt.NDArray[Any]
Row = dict[str, Any]
NUMBERS = (10, 20, 40)
WAYS = ("random", "even", "cold start", "ProbCover", "rounds", "doubtful", "page")
RADII, PURE, NEIGHBOURS = 30, 0.95, 200


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


def choose(way: str, items: Array, truth: Array, number: int, seed: int) -> list[int]:
    """Positions to label, without a look at the truth unless the way says so."""
    generator = np.random.default_rng(seed)
    if way == "even":
        each = -(-number // len(np.unique(truth)))
        found = [generator.permutation(np.flatnonzero(truth == c))[:each].tolist() for c in np.unique(truth)]
        return [place for turn in zip(*found, strict=True) for place in turn][:number]
    if way == "cold start":
        with tempfile.TemporaryDirectory() as folder:
            unlabeled = items, np.full(len(items), -1)
            return list(
                softmatch.cold_start(unlabeled, number, Path(folder) / "to_label.csv", seed=seed, random_share=0.0).positions
            )
    if way == "ProbCover":
        return prob_cover(reduced(standardized(items), seed), number, seed)
    drawn: list[int] = generator.permutation(len(items))[:number].tolist()
    return drawn


def by_the_page(items: Array, truth: Array, seed: int) -> list[int]:
    """The samples that the queue of `softmatch label` gives, in its order, for the digits as pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pictures").mkdir()
        for place, pixels in enumerate(items):
            picture = Image.fromarray((pixels.reshape(8, 8) * 15).astype(np.uint8))
            picture.save(folder / "pictures" / f"{seed}-{place:05}.png")
        shown, log = ShownSamples(str(folder / "pictures"), Reading()), LabelLog(folder / "project")
        queue = SuggestionQueue(shown, log, Reading(), seed)
        queue.find_features()
        chosen = list[int]()
        while len(chosen) < max(NUMBERS):
            queue.refresh()
            (each,) = queue.next(1, "tab", [])
            chosen.append(each.position)
            sample = shown.records.names[each.position]
            log.write(sample, "key", [(sample, "")], str(truth[each.position]), {sample: each.purpose})
        log.close()
    return chosen


def error_after(items: Array, truth: Array, chosen: list[int], test: tuple[Array, Array], folder: Path, settings: Row) -> float:
    """Error on the test samples of SoftMatch, trained with the labels of the chosen samples."""
    labels = np.full(len(items), -1)
    labels[chosen] = truth[chosen]
    softmatch.train((items, labels), out=folder, evaluation="none", baseline=False, **settings)
    model = softmatch.load_model(folder)
    made = model.predict_proba(model.preparation(test[0])).argmax(-1).numpy()
    return float((np.array(model.classes).astype(int)[made] != test[1]).mean())


def measure(way: str, items: Array, truth: Array, seed: int, steps: int) -> list[Row]:
    """Errors with each number of labels."""
    order = np.random.default_rng(1000 + seed).permutation(len(items))
    pool, held_out = order[: len(order) * 4 // 5], order[len(order) * 4 // 5 :]
    items, truth, test = items[pool], truth[pool], (items[held_out], truth[held_out])
    settings: Row = {"steps": steps, "seed": seed, "threads": 1}
    rows, chosen, few = list[Row](), list[int](), suggesting.FEW
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked = by_the_page(items, truth, seed) if way == "page" else []
        for number in NUMBERS:
            if way == "page":
                chosen = asked[:number]
            elif way not in ("rounds", "doubtful"):
                chosen = choose(way, items, truth, number, seed)
            elif not chosen:
                chosen = choose("cold start", items, truth, number, seed)
            else:
                labels = np.full(len(items), -1)
                labels[chosen] = truth[chosen]
                last = folder / str(rows[-1]["labels"])
                suggesting.FEW = 0 if way == "doubtful" else few
                more = softmatch.suggest(
                    last, number - len(chosen), folder / f"{number}.csv", (items, labels), seed=seed, random_share=0.0
                )
                chosen = [*chosen, *more.positions]
            error = error_after(items, truth, chosen, test, folder / str(number), settings)
            suggesting.FEW = few
            rows.append({"labels": number, "error": error, "classes": len(np.unique(truth[chosen]))})
    return rows


def read(store: Path) -> list[Row]:
    return [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []


def sets(options: argparse.Namespace) -> dict[str, tuple[Array, Array]]:
    if not options.features:
        digits = load_digits()
        return {"digits": (digits.data.astype(np.float32), digits.target)}
    found = {name: np.load(path) for name, _, path in (given.partition("=") for given in options.features)}
    return {name: (arrays["x"].astype(np.float32), arrays["y"].astype(int)) for name, arrays in found.items()}


def show(rows: list[Row]) -> None:
    print("| data | way | seeds |", " | ".join(f"{n} labels: error | classes" for n in NUMBERS), "|")
    print("|---|---|---|" + "---|---|" * len(NUMBERS))
    for data in dict.fromkeys(row["data"] for row in rows):
        for way in WAYS:
            same = [row["found"] for row in rows if (row["data"], row["way"]) == (data, way)]
            if not same:
                continue
            cells = []
            for place in range(len(NUMBERS)):
                errors = np.array([100 * found[place]["error"] for found in same])
                spread = f" ± {errors.std(ddof=1):.1f}" if len(errors) > 1 else ""
                cells += [f"{errors.mean():.1f}{spread}", f"{np.mean([found[place]['classes'] for found in same]):.1f}"]
            print(f"| {data} | {way} | {len(same)} |", " | ".join(cells), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("run", "print"))
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--features", nargs="*", default=())
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--first-seed", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    if options.what == "print":
        show(read(options.store))
        return
    torch.set_num_threads(1)
    for name, (items, truth) in sets(options).items():
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for way in options.ways if name == "digits" else [each for each in options.ways if each != "page"]:
                key = {"data": name, "way": way, "seed": seed, "steps": options.steps}
                if any(key.items() <= row.items() for row in read(options.store)):
                    continue
                found = measure(way, items, truth, seed, options.steps)
                with options.store.open("a") as file:
                    file.write(json.dumps({**key, "found": found}) + "\n")
                print(name, seed, way, [round(100 * row["error"], 1) for row in found], flush=True)


if __name__ == "__main__":
    main()
