"""Of benchmarks/plan.py: the constants of the plan, the formula of encoders, lengths of texts, the paper's times."""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from plan_shared import WHERE, median, small, table

from softmatch.data.image_files import ImageFiles
from softmatch.planning.devices import DEVICES
from softmatch.planning.encoders import KNOWN, count_encoder
from softmatch.planning.measured import random_task
from softmatch.planning.memory import PATH
from softmatch.planning.networks import count_network
from softmatch.planning.paper_times import stated
from softmatch.planning.plans import count
from softmatch.planning.setting import named_setting
from softmatch.planning.timing import CPU_OPERATION
from softmatch.planning.views import READ_SECONDS, SECONDS_OF_A_VECTOR_VALUE, view_seconds
from softmatch.seeds import stream
from softmatch.training.setup import build_method, make_trainer
from softmatch.views import ImageViews, VectorViews
from softmatch.views.pillow import PillowViews

MATRICES = 12
"""Bytes that the meta device's attention keeps for each pair of tokens, head and layer: three numbers."""


def constants(repeats: int) -> None:
    """What the plan takes from here."""
    tiny = small("mlp-8", (8,), {"labeled_batch": 4, "unlabeled_batch": 4})
    counted, task = count(tiny), random_task(tiny, "cpu")
    trainer = make_trainer(task, build_method(task, "softmatch"))
    trainer.advance()
    step = median(trainer.advance, 20 * repeats) / counted.work.operations
    value, other = torch.zeros(4), torch.ones(4)
    one = median(lambda: [torch.add(value, other) for _ in range(1000)], repeats) / 1000
    tracemalloc.start()
    folders = [Path(f"/data/imagenet/train/n{number:08d}") for number in range(100)]
    paths = [folders[number // 1000] / f"n{number // 1000:08d}_{number}.JPEG" for number in range(100_000)]
    path = tracemalloc.get_traced_memory()[0] / len(paths)
    tracemalloc.stop()
    reading, kilobytes = _reading(repeats)
    vectors, batch = VectorViews([0.0] * 256, [1.0] * 256, swap=0.2), torch.zeros(512, 256)
    vector = median(lambda: (vectors.weak(batch, stream(0, "a")), vectors.strong(batch, stream(0, "b"))), 10 * repeats) / (
        2 * batch.numel()
    )
    setting = small("small-conv", (3, 32, 32), {"unlabeled_batch": 448, "labeled_batch": 64})
    images = random_task(setting, "cpu")
    some = images.some_items(448)
    made = median(lambda: (images.views.weak(some, stream(0, "a")), images.views.strong(some, stream(0, "b"))), 3 * repeats)
    rows = [
        ("seconds of an operation, in a training step of tiny tensors", f"{CPU_OPERATION:.2g}", f"{step:.3g}"),
        ("seconds of a sum of four numbers, for comparison", "–", f"{one:.3g}"),
        ("bytes of a path", f"{PATH}", f"{path:.0f}"),
        (
            f"seconds to read a JPEG of 500×375, {kilobytes:.0f} kB, and make two views",
            READ_SECONDS,
            f"{reading:.3g}",
        ),
        ("seconds of a value of a vector's view", f"{SECONDS_OF_A_VECTOR_VALUE:.2g}", f"{vector:.3g}"),
        (
            "seconds of 448 weak and strong views, 3×32×32",
            f"{view_seconds(setting, [('weak', 448), ('strong', 448)]):.3g}",
            f"{made:.3g}",
        ),
    ]
    table("Constants", ("what", "used by the plan", "measured now"), rows)


def _reading(repeats: int) -> tuple[float, float]:
    """Seconds for a photograph of ImageNet's size and two views of it; and its kilobytes."""
    draw = torch.Generator().manual_seed(0)
    smooth = torch.nn.functional.interpolate(torch.rand(1, 3, 24, 32, generator=draw), (375, 500), mode="bicubic")[0]
    rough = 255 * (smooth + 0.06 * torch.randn(3, 375, 500, generator=draw)).clamp(0, 1)
    pixels = rough.to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
    views = PillowViews(ImageViews([0.5] * 3, [0.5] * 3), 224)
    with tempfile.TemporaryDirectory() as folder:
        photo = Path(folder) / "photo.jpg"
        Image.fromarray(pixels).save(photo, quality=90)
        files = ImageFiles([photo])

        def read() -> None:
            image = files.open(photo)
            views.weak(image, stream(0, "weak"))
            views.strong(image, stream(0, "strong"))

        return median(read, 20 * repeats), photo.stat().st_size / 1000


def paper() -> None:
    rows = []
    for time_ in stated():
        bound = " at most" if time_.upper else ""
        rows.append(
            (
                time_.name,
                f"{time_.seconds / 3600:.0f}",
                f"{time_.steps:,}",
                f"{time_.flops / 1e18:.3g}{bound}",
                f"{time_.rate / 1e12:.3g}{bound}",
                f"{100 * time_.share:.0f} %{bound}",
                f"{1e3 * time_.seconds / time_.steps:.0f}",
            )
        )
    heads = ("source", "hours, the paper", "steps, our recipe", "EFLOP", "TFLOP/s of a V100", "of its float32 peak", "ms a step")
    table("What the paper's times make of a V100", heads, rows)
    peak = DEVICES["v100"].float32 / 1e12
    print(f"\nIts peak is {peak:g} TFLOP/s in float32 and {DEVICES['v100'].half / 1e12:g} on tensor cores.")


def encoders() -> None:
    """The formula beside the real network of the transformers library, on the meta device."""
    try:
        from transformers import BertConfig, BertModel
    except ImportError:
        return
    rows = []
    for name, tokens in (("google-bert/bert-base-uncased", 128), ("sentence-transformers/all-MiniLM-L6-v2", 64)):
        sizes = KNOWN[name]
        config = BertConfig(
            vocab_size=sizes.words,
            hidden_size=sizes.width,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            intermediate_size=sizes.inner,
        )
        config._attn_implementation = "sdpa"
        with torch.device("meta"):
            model: Any = BertModel(config, add_pooling_layer=False)  # type: ignore[no-untyped-call]  # untyped in the library
        real = count_network(_Tokens(model.train()), (tokens,))
        setting = named_setting("agnews", ({"recipe": "paper"},), "cuda", WHERE)
        ours = count_encoder(sizes, setting.config.model_copy(update={"head": "linear"}), 4, tokens)
        head = (sizes.width + 1) * 4
        for what, predicted, counted in (
            ("parameters", ours.parameters - head, real.parameters),
            ("forward FLOPs of a text", ours.forward, real.forward),
            ("backward FLOPs of a text", ours.backward, real.backward),
            ("operations forward", ours.forward_operations, real.forward_operations),
            ("operations backward", ours.backward_operations, real.backward_operations),
            (
                "bytes kept of a text, but attention's matrices",
                ours.saved,
                real.saved - MATRICES * sizes.layers * sizes.heads * tokens**2,
            ),
        ):
            rows.append(
                (f"{name}, {tokens} tokens: {what}", f"{predicted:,.0f}", f"{counted:,.0f}", f"{predicted / counted:.3f}")
            )
    table("Encoders by formula, and as the transformers library builds them", ("what", "formula", "counted", "ratio"), rows)


class _Tokens(torch.nn.Module):
    """An encoder as `count_network` calls it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.model(input_ids=inputs.long()).last_hidden_state


def text_lengths(path: Path, folder: Path) -> None:
    from tokenizers import Tokenizer

    with path.open(encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    chosen = random.Random(0).sample(texts, min(5000, len(texts)))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    lengths = [len(found.ids) for found in tokenizer.encode_batch(chosen)]
    padded = statistics.mean(max(random.Random(seed).sample(lengths, 16)) for seed in range(1000))
    characters = statistics.mean(map(len, chosen))
    table(
        f"Lengths of {len(chosen):,} texts of {path.parent.name}",
        ("tokens, mean", "longest of 16, mean", "longest", "characters, mean"),
        [(f"{statistics.mean(lengths):.1f}", f"{padded:.1f}", max(lengths), f"{characters:.0f}")],
    )
