#!/usr/bin/env bash
# Write requirements/tests.txt, the exact versions that the tests ran with: tools/lock.sh [.venv]. Install them with
#   pip install -r requirements/tests.txt && pip install --no-deps --editable .
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-.venv}/bin/python
{
    echo "# $("$python" --version) on $(uname -s) $(uname -m). Written by tools/lock.sh."
    "$python" -m pip freeze --exclude-editable --exclude softmatch | sed -E 's/\+[a-z0-9.]+$//; / @ /d'
} >requirements/tests.txt
