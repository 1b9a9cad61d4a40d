"""Are the figures of `softmatch plan` true? Predictions beside what is measured on this machine, and the constants it uses.

    python benchmarks/plan.py > benchmarks/results/plan.md
    python benchmarks/plan.py --texts train.jsonl --tokenizer FOLDER     # also the lengths of texts

Times are processor time of one thread, medians of repeats, so that a busy machine disturbs them little. The machine's speed is
calibrated on one network and predicted for the others.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from plan_constants import constants, encoders, paper, text_lengths
from plan_state import files, method_states, samplers, step_growth
from plan_steps import method_flops, peak_memory, step_times
from plan_traffic import traffic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--texts", type=Path, help="a .jsonl file with texts under text")
    parser.add_argument("--tokenizer", type=Path, help="a folder with a tokenizer.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("# The plan, checked\n\n`python benchmarks/plan.py`: predictions of `softmatch plan` beside measurements. One thread,")
    print(f"torch {torch.__version__}, processor time, medians of {options.repeats}. Ratios are predicted to measured.")
    paper()
    step_times(options.repeats)
    method_flops()
    peak_memory()
    traffic()
    files()
    method_states()
    step_growth(options.repeats)
    samplers()
    encoders()
    if options.texts is not None:
        text_lengths(options.texts, options.tokenizer)
    constants(options.repeats)


if __name__ == "__main__":
    main()
