"""Print the size of the house and what its walls say: `python -m tools.house`.

Lines and modules, module names that occur twice, imports of our own modules inside functions, and cycles of imports with
those inside functions counted. `tests/test_house.py` asserts what must hold.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "softmatch"


@dataclass(frozen=True)
class Import:
    """An import of one of our modules by another."""

    by: str
    of: str
    line: int
    inside: bool
    """Whether it stands inside a function."""


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(known: dict[str, Path]) -> list[Import]:
    """All imports between our modules; those that only a type checker sees are left out."""
    return [found for name, path in known.items() for found in _imports(name, ast.parse(path.read_text("utf-8")), known)]


def _imports(name: str, tree: ast.AST, known: dict[str, Path], inside: bool = False) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            for target in _targets(node, known):
                if target != name:
                    yield Import(name, target, node.lineno, inside)
        else:
            yield from _imports(
                name, node, known, inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            )


def _targets(node: ast.Import | ast.ImportFrom, known: dict[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
        return
    for alias in node.names:
        whole = f"{node.module}.{alias.name}"
        if whole in known:
            yield whole
        elif node.module in known:
            yield node.module


def cycles(arrows: list[Import]) -> list[list[str]]:
    """Groups of modules that import each other (Tarjan's strongly connected components of more than one module)."""
    graph: dict[str, list[str]] = {}
    for arrow in arrows:
        graph.setdefault(arrow.by, []).append(arrow.of)
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in graph.get(node, []):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            group: list[str] = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return found


def repeated_names(known: dict[str, Path]) -> dict[str, list[str]]:
    """File names that occur more than once, with their modules."""
    counts = Counter(path.stem for path in known.values())
    return {
        stem: [name for name, path in known.items() if path.stem == stem]
        for stem, number in sorted(counts.items())
        if number > 1 and stem != "__init__"
    }


def lines(folder: str, root: Path = ROOT) -> int:
    """Lines of all Python files below a folder of the repository."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in (root / folder).rglob("*.py"))


def main() -> None:
    """Print the counts."""
    known = modules()
    arrows = imports(known)
    inside = [arrow for arrow in arrows if arrow.inside]
    print(f"softmatch/   {lines(PACKAGE):,} lines in {len(known)} modules")
    for folder in sorted(path.name for path in (ROOT / PACKAGE).iterdir() if any(path.glob("*.py"))):
        below = [name for name in known if name.startswith(f"{PACKAGE}.{folder}.") or name == f"{PACKAGE}.{folder}"]
        print(f"  {folder + '/':14}{lines(f'{PACKAGE}/{folder}'):6,} lines in {len(below)} modules")
    at_root = [path for path in known.values() if path.parent.name == PACKAGE]
    print(
        f"  at the root   {sum(len(path.read_text('utf-8').splitlines()) for path in at_root):6,} lines in {len(at_root)} modules"
    )
    print(f"tests/       {lines('tests'):,} lines")
    print(f"benchmarks/  {lines('benchmarks'):,} lines")
    print(f"README.md    {len((ROOT / 'README.md').read_text('utf-8').splitlines())} lines")
    print(f"imports of our own modules inside functions: {len(inside)}, outside the command line: {len(outside_cli(inside))}")
    print(f"cycles, with imports inside functions: {cycles(arrows) or 'none'}")
    print(f"module names that occur twice: {repeated_names(known) or 'none'}")


def outside_cli(arrows: list[Import]) -> list[Import]:
    """Arrows from modules that are not of the command line, which imports what a command needs when it is given."""
    return [arrow for arrow in arrows if not arrow.by.startswith((f"{PACKAGE}.cli", f"{PACKAGE}.__main__"))]


if __name__ == "__main__":
    main()
