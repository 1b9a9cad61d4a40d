"""Measure what unlabelled recordings add: SoftMatch, its baseline and scikit-learn, ten labels per class; and the speed of views.

    git clone https://github.com/Jakobovski/free-spoken-digit-dataset
    python benchmarks/sounds.py run free-spoken-digit-dataset/recordings --seeds 5 --store sounds.jsonl
    python benchmarks/sounds.py run free-spoken-digit-dataset/recordings --field 1 --seeds 5 --store sounds.jsonl
    python benchmarks/sounds.py print --store sounds.jsonl
    pip install librosa audiomentations && python benchmarks/sounds.py views free-spoken-digit-dataset/recordings

The class of a recording is a part of its name, digit_speaker_take.wav: the digit, or with --field 1 the speaker. Takes 0 to 4
are the test set, as its authors say. A seed draws the labels; all other recordings are unlabelled. Runs in the store are not
repeated. The rivals get the same spectrograms of the labelled recordings. `views` compares a strong view of a whole batch of
spectrograms with the same number of recordings, one at a time: two random changes of the wave by audiomentations, then the
spectrogram by librosa. Ours needs no new spectrogram, because it changes the spectrogram itself.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import softmatch
from softmatch.data.preparations.sounds import SoundPreparation, fit_sounds, load_wave
from softmatch.views.series import SOUNDS, SeriesViews

PER_CLASS = 10
TEST_TAKES = 5
FIELDS = ("digit", "speaker")
Row = dict[str, Any]


def link(files: list[Path], field: int, seed: int, folder: Path) -> tuple[list[Path], list[str]]:
    """Make a folder of classes, unlabelled recordings and a test part; gives the labelled files and their classes."""
    order = np.random.default_rng(seed).permutation(len(files))
    known, classes, seen = list[Path](), list[str](), dict[str, int]()
    for place in order:
        parts = files[place].stem.split("_")
        name = parts[field]
        if int(parts[2]) < TEST_TAKES:
            where = folder / "test" / name
        elif seen.get(name, 0) < PER_CLASS:
            where, seen[name] = folder / "train" / name, seen.get(name, 0) + 1
            known.append(files[place])
            classes.append(name)
        else:
            where = folder / "unlabeled"
        where.mkdir(parents=True, exist_ok=True)
        (where / files[place].name).symlink_to(files[place].resolve())
    return known, classes


def measure(files: list[Path], field: int, seed: int) -> Row:
    """Errors of one draw of labels."""
    started = time.process_time()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        known, classes = link(files, field, seed, folder / "recordings")
        result = softmatch.train(folder / "recordings", seed=seed, out=folder / "run")
    seconds = time.process_time() - started
    found = {"SoftMatch": result.test_error, "baseline": result.supervised_test_error}
    tested = [path for path in files if int(path.stem.split("_")[2]) < TEST_TAKES]
    made = fit_sounds(files).preparation
    x, x_test = (made(paths).flatten(1).numpy() for paths in (known, tested))
    y_test = np.array([path.stem.split("_")[field] for path in tested])
    for rival, model in (
        ("logistic regression", LogisticRegression(max_iter=1000)),
        ("nearest neighbour", KNeighborsClassifier(1)),
    ):
        found[rival] = float(np.mean(model.fit(x, classes).predict(x_test) != y_test))
    return {"task": FIELDS[field], "seed": seed, "errors": found, "seconds": seconds}


def show(rows: list[Row]) -> None:
    """Print a table of all rows."""
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == task]
        print(f"\n| {task}, {PER_CLASS} labels per class | error, % ({len(own)} seeds) |\n|---|---|")
        for name in own[0]["errors"]:
            errors = [100 * row["errors"][name] for row in own]
            spread = statistics.stdev(errors) if len(errors) > 1 else 0.0
            print(f"| {name} | {statistics.mean(errors):.1f} ± {spread:.1f} |")
        less = [1 - row["errors"]["SoftMatch"] / row["errors"]["baseline"] for row in own]
        fewer, least = (f"{100 * value:.0f} %" for value in (statistics.mean(less), min(less)))
        print(f"\nSoftMatch makes {fewer} fewer errors than its baseline (least {least});")
        print(f"{statistics.mean(row['seconds'] for row in own) / 60:.1f} CPU-minutes for both.")


def compare_views(files: list[Path], number: int, repeats: int) -> None:
    """Print the time of strong views, ours and one recording at a time, in turns."""
    import librosa
    from audiomentations import Gain, PitchShift, Shift, SomeOf, TimeStretch

    torch.set_num_threads(1)
    made = fit_sounds(files[:number])
    assert isinstance(made.preparation, SoundPreparation)
    assert isinstance(made.items, torch.Tensor)
    rate, length = made.preparation.rate, made.preparation.length
    waves = [load_wave(path, rate, length) for path in files[:number]]
    items = made.items
    views = SeriesViews(items.mean((0, 2)).tolist(), items.std((0, 2)).tolist(), allowed=SOUNDS)
    generator, changes = torch.Generator().manual_seed(0), SomeOf(2, [Gain(p=1), PitchShift(p=1), Shift(p=1), TimeStretch(p=1)])
    times: dict[str, list[float]] = {"softmatch": [], "audiomentations and librosa": [], "librosa, the spectrogram only": []}

    def one(wave: np.ndarray[Any, Any], change: bool) -> None:
        changed = changes(wave, rate) if change else wave
        power = librosa.feature.melspectrogram(y=changed, sr=rate, n_fft=256, hop_length=length // items.shape[2], n_mels=64)
        librosa.power_to_db(power, ref=np.max)

    for turn in range(repeats + 1):
        for name in times:
            started = time.process_time()
            if name == "softmatch":
                views.strong(items, generator)
            else:
                for wave in waves:
                    one(wave, "audiomentations" in name)
            if turn:  # the first warms up
                times[name].append((time.process_time() - started) / len(waves))
    ours = statistics.median(times["softmatch"])
    print(f"\n| strong views of {len(waves)} recordings of {length / rate:.2f} s, {repeats} repeats | ms each | times ours |")
    print("|---|---|---|")
    for name, each in times.items():
        print(f"| {name} | {1000 * statistics.median(each):.3f} | {statistics.median(each) / ours:.0f} |")


def main() -> None:
    """Run, print or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "print", "views"])
    parser.add_argument("recordings", type=Path, nargs="?")
    parser.add_argument("--field", type=int, choices=[0, 1], default=0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--store", type=Path, default=Path("sounds.jsonl"))
    parser.add_argument("--number", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.store.read_text().splitlines()] if options.store.is_file() else []
    if options.what == "print":
        show(rows)
        return
    files = sorted(options.recordings.glob("*.wav"))
    if options.what == "views":
        compare_views(files, options.number, options.repeats)
        return
    done = {(row["task"], row["seed"]) for row in rows}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        if (FIELDS[options.field], seed) not in done:
            row = measure(files, options.field, seed)
            with options.store.open("a") as store:
                print(json.dumps(row), file=store)
            print(row, flush=True)


if __name__ == "__main__":
    main()
