"""The documentation: every page is in the index, every link leads somewhere, and what it promises to list is listed."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page.relative_to(ROOT)
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/**/*.md", ".github/*.md")
    for page in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def listed(text: str, folder: Path) -> set[str]:
    """Patterns of the pages that the toctrees of a page name, from the root."""
    entries = {line for tree in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL) for line in tree.splitlines()}
    places = {entry.partition("<")[2].rstrip(">") or entry for entry in entries if entry and not entry.startswith(":")}
    return {place[1:] if place.startswith("/") else str((folder / place).resolve().relative_to(ROOT)) for place in places}


def test_every_page_is_in_the_table_of_contents() -> None:
    below = re.findall(r'"(docs/\S+)": \("[^"]+", "(\S+)"\)', (ROOT / "docs/conf.py").read_text("utf-8"))
    known = listed((ROOT / "docs/index.md").read_text("utf-8"), ROOT / "docs")
    known |= {f"{Path(page).parent}/{pattern}" for page, pattern in below} | {"docs/index"}
    pages = [page.with_suffix("").as_posix() for page in PAGES if page.parts[0] != ".github"]
    assert [page for page in pages if not any(fnmatch(page, each) for each in known)] == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_to_files_of_the_repository(page: Path) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    targets = {link.partition("#")[0] for link in LINK.findall(text) if not link.startswith(("http", "#"))}
    assert [target for target in sorted(targets) if not (ROOT / page.parent / target).exists()] == []


def variables() -> set[str]:
    """Names of the environment variables that the package reads or sets."""
    read = re.compile(r'(?:environ(?:\.get\(|\.setdefault\(|\[)|environment\.setdefault\(|from_environment\()"([A-Z][A-Z_]+)"')
    passed = re.compile(r'"((?:MLFLOW|MASTER|LOCAL|WORLD)_[A-Z_]+|RANK)"')
    code = [path.read_text("utf-8") for path in (ROOT / "softmatch").rglob("*.py")]
    return {name for text in code for pattern in (read, passed) for name in pattern.findall(text)}


def test_the_page_of_environment_variables_lists_all_that_the_code_reads() -> None:
    page = (ROOT / "docs/environment.md").read_text("utf-8")
    assert {"SOFTMATCH_CACHE", "RANK", "WANDB_MODE", "MLFLOW_HTTP_REQUEST_TIMEOUT"} <= variables()  # the search finds some
    assert [name for name in sorted(variables()) if f"`{name}`" not in page] == []


def test_the_page_of_environment_variables_lists_the_loggers() -> None:
    page = (ROOT / "docs/environment.md").read_text("utf-8")
    for path in (ROOT / "softmatch").rglob("*.py"):
        if "logging.getLogger(__name__)" in path.read_text("utf-8"):
            assert f"`{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}`" in page, path


def test_scikit_learns_example_and_ours_run_on_the_same_arrays() -> None:
    page = (ROOT / "docs/coming_from.md").read_text("utf-8")
    theirs, ours = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]
    names: dict[str, object] = {}
    exec(theirs, names)
    exec(ours.replace("steps=200", "steps=2"), names)
    assert len(names["classifier"].transduction_) == len(names["y"])  # type: ignore[attr-defined, arg-type]  # from the page
