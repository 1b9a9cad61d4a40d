"""Of benchmarks/plan.py: what two and three processes tell each other.

python benchmarks/plan_traffic.py          # this part alone; bytes do not depend on how busy a machine is
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plan_shared import JOINT, SEPARATE, small, table

from softmatch.distributed.launching import free_port
from softmatch.planning.plans import count, make_plan
from softmatch.planning.timing import cpu_speed

WORDS = {2: "two", 3: "three"}


def traffic() -> None:
    """With two, 2(N − 1)/N of a sum and N − 1 times what is gathered are both 1: only three tell them apart."""
    for processes in WORDS:
        _traffic(processes)
    print("\nOn the wire there is also what gloo says about each message, some hundred bytes.", end=" ")
    print("All bytes are of the first process. This part: `python benchmarks/plan_traffic.py`.")


def _traffic(processes: int) -> None:
    base = {"labeled_batch": 9, "unlabeled_batch": 30, "steps": 100}
    cases: Sequence[Mapping[str, Any]] = (
        {"method": "softmatch", **JOINT},
        {"method": "softmatch", **SEPARATE, "micro_batch": 0},
        {"method": "softmatch", **SEPARATE},
        {"method": "comatch", **JOINT},
        {"method": "mixmatch", **JOINT},
        {"method": "meta_pseudo_labels", "method_options": {"finetune": 0.0}, **JOINT},
        {"method": "cossl", "method_options": {"teach_from": 1.0}, **JOINT},
    )
    rows = []
    for case in cases:
        options = {**base, **case}
        setting = small("wrn-10-1", (3, 32, 32), options)
        planned = make_plan(count(setting, processes), processes, None, cpu_speed(1e9)).traffic
        found = _processes(options, processes)
        payload = {how: sum(m.size * m.times for m in planned.messages if m.how == how) for how in ("sum", "gather")}
        counted = found["bytes"]["sum"] + found["bytes"]["gather"]
        told = sum(payload.values())
        micro = ", passes of 64" if case["batch_statistics"] == "separate" and "micro_batch" not in case else ""
        rows.append(
            (
                f"{case['method']}, {case['batch_statistics']}{micro}",
                f"{planned.number:.1f}",
                f"{found['calls']['sum'] + found['calls']['gather']:.1f}",
                f"{told:,.0f}",
                f"{counted:,.0f}",
                f"{told / counted:.3f}",
                f"{planned.sent:,.0f}",
                f"{found['sent']:,.0f}",
                f"{planned.sent / found['sent']:.2f}",
            )
        )
    heads = ("method, statistics", "messages predicted", "counted", "bytes brought along, predicted", "counted", "ratio")
    more = ("bytes sent, predicted", "on the wire", "ratio")
    table(f"Traffic of a step: {WORDS[processes]} processes by gloo (wrn-10-1, 9 + 30 images of 32×32)", (*heads, *more), rows)


def _processes(options: Mapping[str, Any], number: int) -> Any:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(options, file)
        file.flush()
        there = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(number), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).with_name("plan_processes.py")), file.name]
        started = [
            subprocess.Popen(
                command, env={**os.environ, **there, "RANK": rank, "LOCAL_RANK": rank}, stdout=subprocess.PIPE, text=True
            )
            for rank in map(str, range(number))
        ]
        said = [process.communicate(timeout=300)[0] for process in started]
    return json.loads(said[0])


if __name__ == "__main__":
    traffic()
