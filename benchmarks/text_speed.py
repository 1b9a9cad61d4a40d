"""Measure the speed of training and using a text encoder on a CPU: padding, batches of similar lengths, and what is trained.

    python benchmarks/text_speed.py > text_speed.md                  # an encoder of MiniLM's size with random weights
    python benchmarks/text_speed.py --encoder FOLDER > text_speed.md
    python benchmarks/text_speed.py --quick                          # a minute, to see that it works

Texts are random tokens with the lengths of reviews: lognormal, cut at --length. The variants take turns within each round, so
that a busy machine slows all of them equally; ratios are within a round, by wall and by CPU time. Every variant trains on
the same texts: the measured steps are a whole window of batches of similar lengths, so that they hold the short and
the long ones. Prints medians and ranges over the rounds. A step is SoftMatch's as softmatch trains: 8 labelled and 16
unlabelled texts, three views, AdamW, average of weights.
"""

import argparse
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from softmatch.config import make_config
from softmatch.data import Examples
from softmatch.data.preparations.text_preparations import TokenPreparation, fit_tokens
from softmatch.networks import prediction as evaluate
from softmatch.networks.pretrained import PIECE, PretrainedText
from softmatch.training.arithmetic import keep_freed_memory
from softmatch.training.loop import Trainer
from softmatch.training.opening import Job
from softmatch.training.setup import build_method, make_trainer, prepare_job
from softmatch.training.task import Task

FEATURES = 384
PADDED, TRIMMED, BUCKETS, PIECES = "padded to the longest", "dynamic padding", "+ length buckets", "+ sorted pieces"
TRAINING: dict[str, dict[str, Any]] = {
    PADDED: {"length_buckets": 1},
    TRIMMED: {"length_buckets": 1},
    BUCKETS: {},
    PIECES: {},
    "… and LoRA of rank 8": {"lora": 8},
    "… and the last two layers alone": {"tuned_layers": 2},
    "… and the head alone": {"tuned_layers": 0},
    "features kept, a perceptron on them": {},
}
SORTED = "sorted by length"
EVALUATION = (PADDED, TRIMMED, SORTED)


def make_encoder(folder: Path, quick: bool) -> Path:
    """Make a BERT of MiniLM's size, or a tiny one, with random weights and a tokenizer of made-up words."""
    from transformers import BertConfig, BertModel, BertTokenizer

    torch.manual_seed(0)
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(2000))]
    size, layers = (32, 3) if quick else (FEATURES, 6)
    config = BertConfig(
        vocab_size=len(names),
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=size // 16 if quick else 12,
        intermediate_size=4 * size,
    )
    BertModel(config).save_pretrained(folder)
    BertTokenizer(vocab={name: number for number, name in enumerate(names)}).save_pretrained(folder)
    return folder


def make_texts(number: int, preparation: TokenPreparation) -> Tensor:
    """Return token ids of `number` texts with lengths like those of reviews: half of them have 75 to 240 tokens."""
    random, length = torch.Generator().manual_seed(0), preparation.length
    lengths = (4.9 + 0.85 * torch.randn(number, generator=random)).exp().clamp(8, length)
    words = preparation.tokenizer.rules.get_vocab_size()
    ids = torch.randint(words // 2, words, (number, length), generator=random, dtype=torch.int32)
    return ids.masked_fill(torch.arange(length) >= lengths[:, None], preparation.tokenizer.pad)


@contextmanager
def padding(way: str) -> Iterator[None]:
    """Make text networks read a batch in this way, without later improvements."""

    def whole(network: PretrainedText, inputs: Tensor) -> Tensor:
        return torch.cat([network._encode(piece, piece != network.pad) for piece in pieces(inputs)])

    def trimmed(network: PretrainedText, inputs: Tensor) -> Tensor:
        return torch.cat([network._trimmed(piece) for piece in pieces(inputs)])

    def pieces(inputs: Tensor) -> tuple[Tensor, ...]:
        return (inputs,) if torch.is_grad_enabled() else torch.split(inputs, PIECE)

    ways: dict[str, Callable[[PretrainedText, Tensor], Tensor]] = {PADDED: whole, TRIMMED: trimmed, BUCKETS: trimmed}
    with ExitStack() as stack:
        if way in ways:
            stack.enter_context(patch.object(PretrainedText, "encode", ways[way]))
            stack.enter_context(patch.object(evaluate, "_by_length", return_value=None))
        yield


def make_task(way: str, settings: dict[str, Any], tokens: Examples, vectors: Examples, options: argparse.Namespace) -> Task:
    base = {
        "labels": 8 * options.classes,
        "steps": options.steps,
        "labeled_batch": options.labeled,
        "unlabeled_batch": options.unlabeled,
        "optimizer": "adamw",
        "lr": 1e-5,
        "batch_statistics": "separate",
        "evaluation": "none",
    }
    if way.startswith("features"):
        return prepare_job(Job("texts", make_config(base, {"network": "mlp-256"}, settings), vectors))
    model = {"network": f"encoder={options.encoder}", "length_buckets": options.steps}
    return prepare_job(Job("texts", make_config(base, model, settings), tokens))


class Rate(NamedTuple):
    """Texts per second of wall time and of CPU time: other programs slow the first more."""

    wall: float
    cpu: float


def rate(work: Callable[[], object], texts: int) -> Rate:
    """Return the rate of work on a number of texts."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Rate(texts / (time.perf_counter() - wall), texts / (time.process_time() - cpu))


def time_steps(trainer: Trainer, task: Task) -> Rate:
    """Return the rate of all steps of a run, for labelled and unlabelled texts."""
    (logits,) = trainer.forward(trainer.batches(0).labeled["weak"])  # the first pass takes longer than others
    logits.sum().backward()  # type: ignore[no-untyped-call]  # torch's own signature
    trainer.optimizer.zero_grad()
    config = task.config

    def work() -> None:
        for _ in range(config.steps):
            trainer.advance()

    return rate(work, config.steps * (config.labeled_batch + config.unlabeled_batch))


def spread(values: list[float]) -> str:
    """Format median and range."""
    shown = [
        f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in (statistics.median(values), min(values), max(values))
    ]
    return f"{shown[0]} ({shown[1]}–{shown[2]})"


def table(title: str, found: dict[str, list[Rate]]) -> None:
    """Print a Markdown table with ratios to the first variant."""
    first = next(iter(found.values()))
    print(f"\n| {title} | texts per second, median (range) | times the first, median (range) | the same by CPU time |")
    print("|---|---|---|---|")
    for way, rates in found.items():
        walls = [each.wall / other.wall for each, other in zip(rates, first, strict=True)]
        cpus = [each.cpu / other.cpu for each, other in zip(rates, first, strict=True)]
        cells = (spread(each) for each in ([each.wall for each in rates], walls, cpus))
        print(f"| {way} | {' | '.join(cells)} |")


def processor() -> str:
    """Return the processor's name, if the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", help="folder of an encoder (default: one of MiniLM's size with random weights)")
    parser.add_argument("--repeats", type=int, default=5, help="number of rounds")
    parser.add_argument("--steps", type=int, default=20, help="measured steps, and batches sorted by length together")
    parser.add_argument("--labeled", type=int, default=8)
    parser.add_argument("--unlabeled", type=int, default=16)
    parser.add_argument("--evaluated", type=int, default=512, help="number of texts to predict")
    parser.add_argument("--length", type=int, default=256, help="maximum number of tokens in a text")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="a tiny encoder, and the smallest number of everything")
    options = parser.parse_args()
    options.classes = 4
    if options.quick:
        options.repeats, options.steps, options.evaluated, options.length = 2, 2, 96, 64
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        name = options.encoder or "a BERT of " + ("test size" if options.quick else "MiniLM's size, with random weights")
        options.encoder = options.encoder or str(make_encoder(Path(folder), options.quick))
        measure(options, name)


def measure(options: argparse.Namespace, name: str) -> None:
    """Run all rounds and print the tables."""
    preparation = fit_tokens([], "text", options.encoder, options.length)
    preparation.length = options.length
    items = make_texts(options.unlabeled * options.steps + options.evaluated, preparation)
    labels = torch.arange(len(items)) % options.classes
    classes = tuple("abcdefgh"[: options.classes])
    tokens = Examples(items, labels, classes, "text", preparation=preparation)
    features = torch.randn(len(items), FEATURES, generator=torch.Generator().manual_seed(0))
    vectors = Examples(features, labels, classes, "vector")
    trained: dict[str, list[Rate]] = {way: [] for way in TRAINING}
    evaluated: dict[str, list[Rate]] = {way: [] for way in EVALUATION}
    for number in range(options.repeats):
        for way, settings in TRAINING.items():
            with padding(way):
                task = make_task(way, settings, tokens, vectors, options)
                trainer = make_trainer(task, build_method(task, task.config.method))
                trained[way].append(time_steps(trainer, task))
            print(f"round {number + 1}, training, {way}: {trained[way][-1].wall:.3g}", file=sys.stderr, flush=True)
        task = make_task(PIECES, {}, tokens, vectors, options)
        trainer = make_trainer(task, build_method(task, task.config.method))
        predict = partial(evaluate.predict_probabilities, trainer.result, task.views, items[: options.evaluated], task.device)
        for way in EVALUATION:
            with padding(way):
                evaluated[way].append(rate(predict, options.evaluated))
            print(f"round {number + 1}, evaluation, {way}: {evaluated[way][-1].wall:.3g}", file=sys.stderr, flush=True)
    size = float((items != preparation.tokenizer.pad).sum(1).double().mean())
    print(
        f"{name}. Texts of {size:.0f} tokens on average, at most {options.length}; {options.labeled} labelled and "
        f"{options.unlabeled} unlabelled in a step. {processor()}, {options.threads} threads, torch {torch.__version__}; "
        f"{options.repeats} rounds of {options.steps} steps and {options.evaluated} predictions each."
    )
    table("training", trained)
    table("evaluation", evaluated)


if __name__ == "__main__":
    main()
