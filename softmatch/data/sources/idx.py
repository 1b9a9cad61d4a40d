"""The idx format of MNIST and Fashion-MNIST: type, number of dimensions and sizes (big-endian), then the bytes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softmatch.data.sources.originals import File, damaged
from softmatch.data.sources.pieces import Data, Images, Piece
from softmatch.errors import InputError

UBYTE = 8


def read(files: Mapping[str, File]) -> Data:
    def piece(part: str) -> Piece:
        images, labels = files[f"{part}-images-idx3-ubyte.gz"], files[f"{part}-labels-idx1-ubyte.gz"]
        return Piece(_read_idx(images, 3)[:, None], _read_idx(labels, 1).astype(np.int64), images.name)

    return Data([piece("train")], [piece("t10k")])


def _read_idx(file: File, dimensions: int) -> Images:
    content = file.array()
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise damaged(file.name, f"it has {len(content)} bytes")
    if content[:4].tolist() != [0, 0, UBYTE, dimensions]:
        raise InputError(f"{file.name} is not an idx file of bytes with {dimensions} dimension{'s' * (dimensions > 1)}.")
    sizes = np.frombuffer(content[4:start].tobytes(), ">u4").astype(int)
    if len(content) - start != sizes.prod():
        wanted = "×".join(map(str, sizes))
        raise damaged(file.name, f"it announces {wanted} bytes and holds {len(content) - start:,}")
    return content[start:].reshape(sizes)
