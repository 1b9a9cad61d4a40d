"""What attacks by files of others have in common."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

SHAPE = (1, 8, 8)
DEEP = "[" * 100_000
IMAGE = {"kind": "image", "mean": [0.3], "std": [0.3]}


def change(path: Path, **changes: Any) -> None:
    """Replace some of what stands in a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def place(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


def archive(content: bytes, member: str = "x.npy") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr(member, content)
    return made.getvalue()
