"""Classify texts with an exported model. Needs onnxruntime and tokenizers, but neither softmatch nor torch.

softmatch train tickets.csv --encoder texts-small --out RUN
softmatch export RUN --to onnx --out model.onnx
python examples/onnx_texts.py model.onnx "Where is my order?" "I want a refund."
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer


def classify(model: str, texts: list[str]) -> Any:
    about = json.loads(Path(f"{model}.json").read_text(encoding="utf-8"))
    reading = about["text"]
    tokenizer = Tokenizer.from_file(str(Path(model).with_name(reading["tokenizer"])))  # it truncates and pads too
    given = [reading["prefix"] + text for text in texts]
    found = tokenizer.encode_batch([text.lower() for text in given] if reading["lower"] else given)
    ids, mask = ([getattr(each, name) for each in found] for name in ("ids", "attention_mask"))
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (probs,) = session.run(None, {"input_ids": np.array(ids, np.int64), "attention_mask": np.array(mask, np.int64)})
    for text, row in zip(texts, probs, strict=True):
        print(f"{row.max():6.1%}  {about['classes'][row.argmax()]}  {text}")
    return probs


if __name__ == "__main__":
    classify(sys.argv[1], sys.argv[2:])
