"""Run the notebooks and show them in docs/notebooks: `python -m tools.notebooks`; `--check` only compares the cells.

All of them run in one kernel, which is emptied before each, in a folder of its own. A cell that fails ends the run.
"""

import argparse
import base64
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
SOURCES, SHOWN = ROOT / "notebooks", ROOT / "docs" / "notebooks"
OUTPUT, END = "<!-- output -->", "<!-- end -->"
RESET = "%reset -f\nimport os, tempfile\nos.chdir(tempfile.mkdtemp(dir={folder!r}))"


def sources() -> dict[str, Any]:
    """The notebooks by name, as they are kept: without outputs."""
    return {path.stem: nbformat.read(path, as_version=4) for path in sorted(SOURCES.glob("*.ipynb"))}


def execute(notebooks: Sequence[Any], folder: Path, steps: int | None = None) -> None:
    """Run the cells of all notebooks and keep their outputs in them. Raises CellExecutionError for a cell that fails.

    Args:
        folder: where they write; each in a new folder.
        steps: replaces the first number after STEPS.
    """
    homes = {
        name: str(folder / "jupyter") for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")
    }
    os.environ.update(homes)  # nothing is written to the user's home
    cells = []
    for notebook in notebooks:
        cells.append(nbformat.v4.new_code_cell(RESET.format(folder=str(folder))))
        cells += notebook.cells
    kept = [cell.source for cell in cells]
    if steps is not None:
        for cell in cells:
            cell.source = re.sub(r"(?m)^(STEPS\b[^=]*= )\d+", rf"\g<1>{steps}", cell.source)
    together = nbformat.v4.new_notebook(cells=cells, metadata=notebooks[0].metadata)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    NotebookClient(together, timeout=900, coalesce_streams=True, resources={"metadata": {"path": str(folder)}}).execute(
        env=environment
    )
    for cell, source in zip(cells, kept, strict=True):
        cell.source = source


def page(name: str, notebook: Any, pictures: dict[str, bytes] | None = None) -> str:
    """The notebook as Markdown; pictures among its outputs are added to `pictures` by file name."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        shown = [text for output in cell.outputs if (text := _shown(name, output, {} if pictures is None else pictures))]
        if shown:
            parts.append("\n\n".join([OUTPUT, *shown, END]))
    parts.insert(1, f"*This page is [notebooks/{name}.ipynb](../../notebooks/{name}.ipynb) with its outputs.*")
    return "\n\n".join(parts) + "\n"


def _shown(name: str, output: Any, pictures: dict[str, bytes]) -> str:
    """One output of a cell: text, or a picture as a file."""
    data = output.get("data", {})
    if "image/png" in data:
        file = f"{name}-{len(pictures) + 1}.png"
        pictures[file] = base64.b64decode(data["image/png"])
        return f"![Output of the cell above]({file})"
    text = str(output.get("text") or data.get("text/plain", "")).strip()
    return f"```text\n{text}\n```" if text else ""


def without_outputs(text: str) -> str:
    """A page as it would be without outputs."""
    return re.sub(rf"\n{OUTPUT}\n.*?\n{END}\n", "", text, flags=re.DOTALL)


def stale() -> list[str]:
    """Names of the notebooks whose page is missing or has other cells, and of pages without a notebook."""
    found = sources()
    pages = {path.stem: path.read_text(encoding="utf-8") for path in SHOWN.glob("*.md")}
    return [
        name
        for name in sorted(found | pages)
        if name not in found or without_outputs(pages.get(name, "")) != page(name, found[name])
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools.notebooks", description=__doc__)
    parser.add_argument("--check", action="store_true", help="Only say which pages differ from their notebooks.")
    if parser.parse_args(arguments).check:
        for name in stale():
            print(f"docs/notebooks/{name}.md is not that of notebooks/{name}.ipynb. Run python -m tools.notebooks")
        return int(bool(stale()))
    found = sources()
    with tempfile.TemporaryDirectory() as folder:
        execute(list(found.values()), Path(folder))
    SHOWN.mkdir(exist_ok=True)
    for old in SHOWN.iterdir():
        old.unlink()
    for name, notebook in found.items():
        pictures: dict[str, bytes] = {}
        (SHOWN / f"{name}.md").write_text(page(name, notebook, pictures), encoding="utf-8")
        for file, content in pictures.items():
            (SHOWN / file).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
