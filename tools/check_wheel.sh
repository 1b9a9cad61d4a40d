#!/usr/bin/env bash
# Build sdist and wheel, check them, install the wheel in a clean environment and train two steps: tools/check_wheel.sh [.venv].
# The clean environment takes torch and the other requirements from the given one, so that nothing is fetched twice.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$(cd "${1:-.venv}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rm -rf dist
"$tools/bin/python" -m build --no-isolation --outdir dist .  # the wheel is built from the sdist: both are complete
"$tools/bin/python" -m twine check --strict dist/*

"$tools/bin/python" -m venv --without-pip "$work/clean"
pip() { "$tools/bin/python" -m pip --python "$work/clean/bin/python" "$@"; }
pip install --quiet --no-deps --no-index dist/*.whl
place=$("$work/clean/bin/python" -c 'import site; print(site.getsitepackages()[0])')
"$tools/bin/python" -c 'import site; print(site.getsitepackages()[0])' >"$place/requirements.pth"  # comes after the wheel
pip check

cd "$work"
"$work/clean/bin/python" -c 'import softmatch, sys; sys.exit(not softmatch.__file__.startswith(sys.prefix))'
"$work/clean/bin/softmatch" --version
"$work/clean/bin/softmatch" methods softmatch >card.md
"$work/clean/bin/softmatch" train digits --labels 40 --steps 2 --quiet --out run
test -s run/report.html && test -s card.md
