"""Settings and the other files of a run are not believed; links and pipes in it lead nowhere."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from softmatch import report
from softmatch.cli.app import main
from softmatch.config import read_file
from softmatch.data import Split
from softmatch.errors import InputError
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model
from tests.report.example import make_run
from tests.safe_files.hostile import DEEP

LAUGHS = "a0: &a0 [ha]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
SETTINGS = {
    "object": "method: !!python/object/apply:pathlib.Path.touch [CANARY]\n",
    "name": "method: !!python/name:os.system ''\n",
    "module": "method: !!python/module:antigravity ''\n",
    "long tag": "method: !<tag:yaml.org,2002:python/object/new:pathlib.PosixPath> [CANARY]\n",
    "own tag": "method: !run CANARY\n",
    "billion laughs": LAUGHS,
    "within itself": "views: &v {a: *v}\n",
    "deep lists": f"views: {DEEP[:400]}\n",
    "deep mappings": "views: " + "{a: " * 400,
    "deep blocks": "- " * 400,
    "deep enough to be read": f"views: {{a: {'[' * 80}{']' * 80}}}\n",
    "no date": "method: 2001-99-99\n",
    "no truth": "twin: !!bool perhaps\n",
    "no time": "method: !!timestamp then\n",
    "no number": "steps: !!int ''\n",
    "endless number": f"steps: {'9' * 10_000}\n",
    "binary": "method: !!binary aGE=\n",
    "set": "method: !!set {a, b}\n",
    "list": "- method\n",
    "NUL": "method: a\0b\n",
    "too long": "# " + "x" * 2**18,
}


@pytest.mark.parametrize("text", SETTINGS.values(), ids=SETTINGS)
def test_yaml_is_plain_values_of_limited_size(tmp_path: Path, canary: Path, run: Path, text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text.replace("CANARY", str(canary)))
    with pytest.raises(InputError, match=r"settings\.yaml"):
        read_file(file)
    file.replace(run / "config.yaml")
    assert main(["report", str(run)]) in (0, 2)  # of what is only shown, more is allowed: a list has no settings to show
    assert not canary.exists()


RECORD = {"step": 1, "quantity": 0.5, "quality": 0.5, "loss": 1.0, "histogram": {"all": [1, 2], "wrong": [0, 1], "right": [1, 1]}}
RECORDS: dict[str, dict[str, Any]] = {
    "endless figures": {"loss": 10**300, "quantity": 1e308, "quality": float("nan")},
    "histogram of a text": {"histogram": "all"},
    "histogram of texts": {"histogram": {"all": ["a"], "wrong": 3, "right": [None]}},
    "endless histogram": {"histogram": {"all": [1e308, 1e308]}},
    "classes of a list": {"classes": [1], "curve": {"weight": [1]}},
    "errors of a mapping": {"test_class_errors": {"a": 1}},
    "statistics of lists of lists": {"statistics": {"mean": [[1]], "x": {"y": 1}}},
    "half a character": {"statistics": {"\ud800": 1}},
}
KEYS = ("labels", "steps", "seed", "test_error", "classes", "calibration", "versions", "class_errors", "evaluation")
LINES = ('"step"', "[1]", "3", "null", "NaN", '{"step": "1"}', '{"step": true}', "")
ENDLESS = {"seed": 0, "labeled": [0], "unlabeled": {"start": 0, "stop": 10**15}, "test": []}
FILES: dict[str, tuple[str, str]] = {
    **{title: ("metrics.jsonl", json.dumps(RECORD | changes)) for title, changes in RECORDS.items()},
    "endless nesting": ("metrics.jsonl", DEEP),
    "nesting that can be read": ("metrics.jsonl", '{"step": 1, "a": ' + "[" * 500 + "]" * 500 + "}"),
    "lines of any kind": ("metrics.jsonl", "\n".join(LINES)),
    "endless step": ("metrics.jsonl", '{"step": ' + "9" * 9_000 + "}"),
    "result of a list": ("result.json", "[]"),
    "result of texts": ("result.json", json.dumps(dict.fromkeys(KEYS[:-1], "x"))),
    "result of lists": ("result.json", json.dumps({key: [1] for key in KEYS if key not in ("seed", "class_errors")})),
    "endless result": ("result.json", '{"test_error": 1e999, "labels": ' + "9" * 300 + "}"),
    "bins of anything": ("result.json", json.dumps({"calibration": {"bins": [1, {}, {"count": 1e300}], "temperature": "x"}})),
    "split of texts": ("split.json", '{"labeled": "abc", "unlabeled": "abc"}'),
    "split of a number": ("split.json", '{"labeled": 3, "unlabeled": 0}'),
    "endless split": ("split.json", json.dumps(ENDLESS)),
    "split far away": ("split.json", '{"seed": 0, "labeled": [9000000000000000000], "unlabeled": [1], "test": []}'),
    "boundary of texts": ("boundary.json", '{"x": "ab", "y": [0, 1], "probs": [["a"]], "points": [1], "labeled": [[]]}'),
    "endless boundary": ("boundary.json", '{"x": [0, 1], "y": [0, 1], "probs": [[1e300, 2]], "points": [[0]], "truth": 1}'),
    "boundary without a grid": ("boundary.json", '{"x": [null], "y": [0], "probs": [[]]}'),
}


@pytest.mark.parametrize(("name", "text"), FILES.values(), ids=FILES)
def test_other_files_of_a_run_are_not_believed(tmp_path: Path, name: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path / "shown").path
    (folder / name).write_text(text)
    code = main(["report", str(folder)])
    said = capsys.readouterr().err
    assert code in (0, 2), said
    assert bool(said) == (code == 2)
    assert "Traceback" not in said
    if name == "split.json":
        with pytest.raises(InputError, match="split"):
            Split.from_dict(json.loads(text), most=100)


def test_a_split_that_goes_backwards_is_empty() -> None:
    found = {"seed": 0, "labeled": [0], "unlabeled": {"start": 9, "stop": 1}, "test": []}
    assert len(Split.from_dict(found, most=100).unlabeled) == 0


def test_links_and_pipes_in_a_run_lead_nowhere(tmp_path: Path, run: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("precious")
    (run / "report.html").symlink_to(secret)
    assert main(["report", str(run)]) == 0
    assert secret.read_text() == "precious"  # the link was replaced, not what it leads to
    (run / "model" / "more.json").symlink_to(secret)
    assert main(["export", str(run), "--to", "safetensors", "--out", str(tmp_path / "copy")]) == 0
    assert {path.name for path in (tmp_path / "copy" / "model").iterdir()} == {"model.json", "model.safetensors"}
    (run / "model" / "preparation.safetensors").symlink_to(secret)
    assert main(["export", str(run), "--to", "safetensors", "--out", str(tmp_path / "other")]) == 2
    (run / "model" / "preparation.safetensors").unlink()
    for name in ("metrics.jsonl", "model/model.json", "config.yaml", "model/model.safetensors"):
        own = (run / name).read_bytes() if (run / name).exists() else None
        for make in (lambda path: path.symlink_to("/dev/zero"), os.mkfifo):
            (run / name).unlink(missing_ok=True)
            make(run / name)
            with pytest.raises(InputError, match="not a file"):
                report.write_report(RunFolder(run)) if "model.s" not in name else load_model(run)
        (run / name).unlink()
        if own is not None:
            (run / name).write_bytes(own)
