"""Measure what an installation weighs: packages, megabytes, the time of `softmatch --help`, and a training without a compiler.

    python benchmarks/weight.py hub text plots web > benchmarks/results/weight.md

Installs this repository into a new virtual environment, from wheels only (`--only-binary :all:`), so that nothing is compiled,
and trains there for ten steps with an empty PATH. Each extra that is named is then installed, weighed and removed again.
Megabytes are those of the installed files without bytecode.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROUNDS = 5
TOOLS = frozenset({"pip", "setuptools", "softmatch"})
LISTING = """
import importlib.metadata, json, re
found = {}
for dist in importlib.metadata.distributions():
    paths = [dist.locate_file(file) for file in dist.files or () if file.suffix != ".pyc"]
    needs = [re.match(r"[\\w.-]+", each)[0].lower().replace("_", "-") for each in dist.requires or () if "extra ==" not in each]
    size = sum(path.stat().st_size for path in paths if path.is_file())
    found[dist.metadata["Name"].lower().replace("_", "-")] = (dist.version, size, needs)
print(json.dumps(found))
"""
Packages = dict[str, tuple[str, int, list[str]]]
"""Version, bytes and requirements of packages by name."""


class Environment:
    """A new virtual environment in a folder."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.folder, self.bin = folder, folder / ("Scripts" if os.name == "nt" else "bin")

    def run(self, *command: str, **environment: str) -> str:
        """Run a program of the environment; its output."""
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        return done.stdout

    def install(self, what: str) -> None:
        """Install from wheels only."""
        self.run("pip", "install", "--quiet", "--only-binary", ":all:", what)

    def packages(self) -> Packages:
        return {name: tuple(about) for name, about in json.loads(self.run("python", "-c", LISTING)).items()}


def describe(packages: Packages) -> list[str]:
    """Table of packages, the largest first, with those that require them."""
    needed: dict[str, list[str]] = {name: [] for name in packages}
    for name, (_, _, needs) in packages.items():
        for each in needs:
            if each in needed and each != name:
                needed[each].append(name)
    rows = sorted(packages.items(), key=lambda item: -item[1][1])
    lines = ["| package | version | MB | required by |", "|---|---|---|---|"]
    for name, (version, size, _) in rows:
        if name not in TOOLS:
            lines.append(f"| {name} | {version} | {size / 1e6:.1f} | {', '.join(sorted(needed[name])) or '–'} |")
    return lines


def weigh(packages: Packages) -> str:
    """Number of packages and their megabytes, without pip and this package."""
    counted = {name: size for name, (_, size, _) in packages.items() if name not in TOOLS}
    return f"{len(counted)} packages, {sum(counted.values()) / 1e6:,.0f} MB"


def seconds_of_help(made: Environment) -> tuple[float, float]:
    """Median seconds of `softmatch --help` and of `python -c pass`, after one call that writes bytecode."""
    found: dict[str, list[float]] = {"softmatch": [], "python": []}
    made.run("softmatch", "--help")
    for _ in range(ROUNDS):
        for name, arguments in (("softmatch", ["--help"]), ("python", ["-c", "pass"])):
            before = os.times()
            made.run(name, *arguments)
            after = os.times()
            found[name].append(after.children_user + after.children_system - before.children_user - before.children_system)
    return statistics.median(found["softmatch"]), statistics.median(found["python"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", help="extras to weigh too")
    extras: list[str] = parser.parse_args().extras
    with tempfile.TemporaryDirectory(prefix="weight-") as folder:
        made = Environment(Path(folder))
        print("installing the core …", file=sys.stderr)
        made.install(str(ROOT))
        core = made.packages()
        own = core["softmatch"][1] / 1e6
        made.run("softmatch", "train", "--steps", "10", "--evaluate-every", "10", "-q", PATH="")
        helped, nothing = seconds_of_help(made)
        print(f"# Weight of an installation\n\n`python benchmarks/weight.py {' '.join(extras)}`\n")
        print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, from wheels only.\n")
        print(f"- Core: {weigh(core)}, and softmatch itself {own:.1f} MB.")
        print("- `softmatch train --steps 10` with an empty PATH, so without any compiler: it trained.")
        print(f"- `softmatch --help`: {helped:.2f} s of CPU (median of {ROUNDS}); Python that does nothing: {nothing:.2f} s.\n")
        print("\n".join(describe(core)))
        if extras:
            print("\n## Extras\n\nEach in addition to the core.\n\n| extra | packages, MB | the largest |\n|---|---|---|")
        for extra in extras:
            print(f"installing {extra} …", file=sys.stderr)
            made.install(f"{ROOT}[{extra}]")
            more = {name: about for name, about in made.packages().items() if name not in core}
            largest = sorted(more, key=lambda name: -more[name][1])[:4]
            shown = ", ".join(f"{name} {more[name][1] / 1e6:.0f}" for name in largest)
            print(f"| {extra} | {weigh(more)} | {shown} |", flush=True)
            if more:
                made.run("pip", "uninstall", "--quiet", "--yes", *more)


if __name__ == "__main__":
    main()
