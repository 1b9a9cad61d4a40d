"""Classify image files with an exported model. Needs onnxruntime and Pillow, but neither softmatch nor torch.

softmatch train photos/ --encoder images-small --out RUN
softmatch export RUN --to onnx --out model.onnx
python examples/onnx_images.py model.onnx one.jpg two.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def pixels(path: str, width: int, height: int, channels: str) -> Any:
    with Image.open(path) as image:
        image.draft(None, (2 * max(width, height),) * 2)  # as in training: a large JPEG is decoded at a fraction of its size
        upright = ImageOps.exif_transpose(image).convert("RGBA")
    opaque = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright)
    small = opaque.convert("RGB").convert("RGB" if channels == "RGB" else "L").resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(small).reshape(height, width, -1).transpose(2, 0, 1)


def classify(model: str, paths: list[str]) -> Any:
    about = json.loads(Path(f"{model}.json").read_text(encoding="utf-8"))
    reading = [about["image"][name] for name in ("width", "height", "channels")]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (probs,) = session.run(None, {"items": np.stack([pixels(path, *reading) for path in paths])})
    for path, row in zip(paths, probs, strict=True):
        print(f"{row.max():6.1%}  {about['classes'][row.argmax()]}  {path}")
    return probs


if __name__ == "__main__":
    classify(sys.argv[1], sys.argv[2:])
