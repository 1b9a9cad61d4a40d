"""Compare variants of the paper's CIFAR-10 step (WRN-28-2, 64 labelled + 448 unlabelled images, float32) in one run.

    python benchmarks/step.py --repeats 3 > step.md

Every measurement is a process of its own: one step to warm up, then the measured ones. The variants take turns, so that a busy
machine slows all of them equally; ratios are within a round. "reference" computes what the incumbents compute, in their way:
one concatenated pass over the three views in the layout (batch, channel, row, column), activations that keep their input,
and views that cost nothing, because a worker process hides them. It is not their code, and it has an advantage: the memory of
freed tensors is kept, as for ours; where the system clears every new page, as it does by default, it takes up to twice as long
(--default-memory measures all variants like that). Everything else is softmatch as it trains, views included.
"""

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

WAYS: dict[str, dict[str, Any]] = {
    "reference": {"batch_statistics": "joint"},
    "joint": {"batch_statistics": "joint"},
    "separate": {"batch_statistics": "separate"},
    "separate, 64 at a time": {"batch_statistics": "separate", "micro_batch": 64},
    "separate, 32 at a time": {"batch_statistics": "separate", "micro_batch": 32},
    "separate, 64 at a time, compiled": {"batch_statistics": "separate", "micro_batch": 64, "compile": True},
}


def run_child(way: str, arguments: argparse.Namespace) -> None:
    """Measure one variant and print it as JSON."""
    import torch
    from torch import Tensor, nn

    from softmatch.config import make_config
    from softmatch.data import Examples
    from softmatch.networks import residual as wrn
    from softmatch.step import Batch
    from softmatch.training.arithmetic import keep_freed_memory
    from softmatch.training.bench import measure
    from softmatch.training.opening import Job
    from softmatch.training.setup import build_method, make_trainer, prepare_job

    torch.set_num_threads(arguments.threads)
    config = make_config(
        {"network": arguments.model, "labeled_batch": arguments.labeled, "unlabeled_batch": arguments.unlabeled, "labels": 40},
        {"method": arguments.method},
        WAYS[way],
    )
    if not arguments.default_memory:
        keep_freed_memory()
    random = torch.Generator().manual_seed(0)
    items = torch.randint(0, 256, (4096, 3, 32, 32), dtype=torch.uint8, generator=random)
    examples = Examples(items, torch.arange(4096) % 10, tuple("0123456789"), "image")
    task = prepare_job(Job("random images", config, examples))
    trainer = make_trainer(task, build_method(task, config.method))
    if way == "reference":
        wrn.norm_act = lambda norm, inputs: nn.functional.leaky_relu(norm(inputs), wrn.SLOPE)
        trainer.network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # missing in torch's stubs
        made = trainer.batches(0)

        def contiguous(views: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: view.contiguous() for name, view in views.items()}

        fixed = Batch(contiguous(made.labeled), made.labels, contiguous(made.unlabeled), made.index)
        trainer.batches = lambda step: fixed  # type: ignore[assignment]  # the reference's views cost nothing
    print(json.dumps(measure(trainer, arguments.steps).as_dict()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="number of rounds")
    parser.add_argument("--steps", type=int, default=2, help="measured steps per process")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", default="wrn-28-2")
    parser.add_argument("--method", default="softmatch")
    parser.add_argument("--labeled", type=int, default=64)
    parser.add_argument("--unlabeled", type=int, default=448)
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--default-memory", action="store_true", help="keep the C library's default memory settings")
    parser.add_argument("--child", choices=list(WAYS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_child(arguments.child, arguments)
        return
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in arguments.ways}
    for number in range(arguments.repeats):
        for way in arguments.ways:
            done = subprocess.run(
                [sys.executable, __file__, *sys.argv[1:], "--child", way], check=True, capture_output=True, text=True
            )
            found[way].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"round {number + 1}, {way}: {found[way][-1]['seconds_per_step_best']:.2f} s", file=sys.stderr, flush=True)
    print(
        f"{arguments.model}, {arguments.method}, {arguments.labeled} + {arguments.unlabeled}, {arguments.threads} threads, "
        f"{arguments.repeats} rounds of {arguments.steps} steps each.\n"
    )
    print("| way | s per step, best – median | CPU-s per step | of matrix product | peak GiB | times faster: wall (range), CPU |")
    print("|---|---|---|---|---|---|")
    for way, rows in found.items():
        best = min(row["seconds_per_step_best"] for row in rows)
        middle = statistics.median(row["seconds_per_step"] for row in rows)
        cpu = statistics.median(row["cpu_seconds_per_step"] for row in rows)
        share = max(row["share_of_matmul"] for row in rows)
        memory = max(row["peak_memory_bytes"] for row in rows) / 2**30
        text = "–"
        if "reference" in found:
            pairs = list(zip(found["reference"], rows, strict=True))
            wall = [r["seconds_per_step_best"] / o["seconds_per_step_best"] for r, o in pairs]
            used = [r["cpu_seconds_per_step"] / o["cpu_seconds_per_step"] for r, o in pairs]
            text = f"{statistics.median(wall):.2f} ({min(wall):.2f}–{max(wall):.2f}), {statistics.median(used):.2f}"
        print(f"| {way} | {best:.3g} – {middle:.3g} | {cpu:.3g} | {share:.0%} | {memory:.2f} | {text} |")


if __name__ == "__main__":
    main()
