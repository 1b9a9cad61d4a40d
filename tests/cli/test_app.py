"""The command line, as a user runs it: real processes, exit codes, messages without tracebacks."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import yaml

from softmatch.methods import METHODS
from tests.cli.conftest import Said
from tests.forked import Forked

QUICK = ["--steps", "20", "--threads", "1", "--unlabeled-batch", "32"]


def test_train_without_arguments_but_a_few_steps(tmp_path: Path, said: Said) -> None:
    out = said("train", *QUICK)
    run = tmp_path / "runs" / "digits-softmatch-40-labels-seed-0"
    assert (run / "report.html").is_file()
    shown = ("1,797 grey images", "40 labelled, 1,218 unlabelled", "539 held-out samples", "error", "baseline (labels only)")
    for text in (*shown, "quantity", "Report", "Next        softmatch check YOUR-DATA"):
        assert text in out
    assert "seed-0-2" in said("train", *QUICK, "--no-baseline")


def test_a_file_and_the_command_line_over_it(tmp_path: Path, said: Said) -> None:
    settings = "source: two-moons\nsteps: 15\nseed: 3\nmethod: fixmatch\nmethod_options: {threshold: 0.9}\n"
    (tmp_path / "s.yaml").write_text(settings)
    said("train", "-c", "s.yaml", "--seed", "4", "--out", "run", "--no-baseline")
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert (config["source"], config["steps"], config["seed"], config["method"]) == ("two-moons", 15, 4, "fixmatch")
    assert config["method_options"] == {"threshold": 0.9}
    assert config["baseline"] is False


def test_options_of_methods_and_views(tmp_path: Path, said: Said) -> None:
    said("train", *QUICK, "--no-baseline", "--out", "run", "--method-options.k", "3", "--views.cutout", "0.2")
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["method_options"] == {"k": 3}
    assert config["views"]["cutout"] == 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train --labels x", "labels = 'x'"),
        ("train --optimizer sdg", "optimizer = 'sdg'"),
        ("train digit", "Did you mean 'digits'"),
        ("train --labels 41", "for example 40 or 50"),
        ("train --labels 9000", "fewer"),
        ("train --method softmach", "Did you mean 'softmatch'"),
        ("train --method mine.py:X", "no file mine.py"),
        ("train --method-options.kk 3", "no option 'kk'"),
        ("train -c none.yaml", "no settings file none.yaml"),
        ("train --device warp", "cannot be used here"),
        ("train --out full", "never overwritten"),
        ("trian", "train"),
        ("report nowhere", "not a run folder"),
        ("train cifar10 --data nowhere", "nowhere"),
        ("train cifar10 --data text.npz", "text.npz"),
        ("train digits --data text.npz", "embedded"),
        ("train digits --recipe paper", "no experiment on 'digits'"),
        ("train digits --imbalance 10", "--largest-class-labels"),
        ("train digits --network missing.py:net", "there is no file missing.py"),
        ("train digits --views.pad -1", "pad must be"),
        ("bench --side 0", "bench needs"),
        ("bench --network wrn-29-2x", "no network"),
    ],
)
def test_mistakes_are_explained_and_nothing_is_written(arguments: str, message: str, tmp_path: Path, said: Said) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("data")
    (tmp_path / "text.npz").write_text("not an archive")
    assert message in said(*arguments.split(), code=2)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["full", "precious", "text.npz"]


def test_a_mistake_in_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "softmatch", "train", "--lables", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--labels" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_divergence_exits_with_1(said: Said) -> None:
    message = said("train", "two-moons", "--lr", "1e30", "--optimizer", "sgd", "--steps", "50", "--no-baseline", code=1)
    assert "stopped at step" in message


def test_methods_are_listed_with_their_citations_and_cards_printed(said: Said) -> None:
    words = said("methods").split()
    for name, entry in METHODS.items():
        assert name in words
        assert entry.citation.split()[-1] in words
    card = said("methods", "flexmatch")
    assert card.startswith("# FlexMatch (`flexmatch`)")
    assert "## When to use it" in card
    assert "<!--" not in card
    assert "there is no method 'flexmach'" in said("methods", "flexmach", code=2)
    assert [method["name"] for method in json.loads(said("methods", "--json"))] == list(METHODS)
    assert json.loads(said("methods", "flexmatch", "--json"))["card"].startswith("# FlexMatch")


def test_report_writes_the_page_again(tmp_path: Path, said: Said) -> None:
    said("train", "two-moons", "--steps", "10", "--out", "run")
    (tmp_path / "run" / "report.html").unlink()
    assert "report.html" in said("report", "run")
    assert (tmp_path / "run" / "report.html").is_file()


def test_interrupt_keeps_what_was_written(tmp_path: Path) -> None:
    options = "--steps 1000000 --evaluate-every 5 --out run --no-baseline"
    process = Forked(["-m", "softmatch", "train", "two-moons", *options.split()], tmp_path)
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not metrics.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "stopped by SIGINT at step" in error
    assert "--resume run" in error
    assert "Traceback" not in error
    assert metrics.read_text().endswith("\n")


def test_a_terminal_gets_a_live_display(tmp_path: Path) -> None:
    """In a real pseudo-terminal: a bar for the baseline and the run, with step, loss, f, g, error."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    process = Forked(["-m", "softmatch", "train", *QUICK, "--out", "run"], tmp_path, environment, os.ttyname(slave))
    while not select.select([master], [], [], 0.1)[0] and process.poll() is None:
        pass
    os.close(slave)  # the process has opened it
    shown = b""
    with suppress(OSError):  # at the end of the process
        while part := os.read(master, 4096):
            shown += part
    os.close(master)
    assert process.wait(timeout=60) == 0
    text = shown.decode()
    for word in ("baseline", "20/20", "loss", "f 0.", "g 0.", "error", "\x1b["):
        assert word in text


def write_cifar10(path: Path) -> None:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
    np.savez(path, x_train=images[:40], y_train=np.arange(40) % 10, x_test=images[40:], y_test=np.arange(20) % 10)


SMALL = ["--labels", "10", "--labeled-batch", "4", "--unlabeled-batch", "8", "--network", "wrn-10-1", "--threads", "1"]


def test_an_image_data_set_by_the_papers_recipe(tmp_path: Path, said: Said) -> None:
    write_cifar10(tmp_path / "some.npz")
    out = said("train", "cifar10", "--data", "some.npz", "--recipe", "paper", "--steps", "3", *SMALL)
    assert "by the recipe 'paper'" in out
    (run,) = (tmp_path / "runs").iterdir()
    saved = yaml.safe_load((run / "config.yaml").read_text())
    assert (saved["recipe"], saved["batch_statistics"], saved["averages"]) == ("paper", "joint", "scaled")
    again = said("train", "-c", str(run / "config.yaml"), "--out", "again")
    assert "again" in again
    assert (tmp_path / "again" / "metrics.jsonl").read_text().count("\n") == 3


def test_a_dry_run_tells_the_cost_and_makes_no_run(tmp_path: Path, said: Said) -> None:
    write_cifar10(tmp_path / "some.npz")
    out = said("train", "cifar10", "--data", "some.npz", "--dry-run", *SMALL)
    for text in ("whole run", "memory", "images/s", "wrn-10-1"):
        assert text in out
    assert re.search(r"\nmachine +cpu, 1 thread, float32", out)
    assert re.search(r"\nprecision +float32", out), "as chosen, not auto"
    assert re.search(r"micro_batch +64\n", re.sub(r" +\n", "\n", out))
    assert [path.name for path in tmp_path.iterdir()] == ["some.npz"]


def test_bench_as_a_table_and_as_json(tmp_path: Path, said: Said) -> None:
    options = ["--side", "16", "--repeats", "1", *SMALL]
    table = said("bench", *options)
    for part in ("data", "views", "forward", "backward", "optimiser", "average of weights", "GFLOP/s", "GiB"):
        assert part in table
    assert "product in float32" in " ".join(table.split())
    assert "arithmetic per unlabelled image:" in table
    found = json.loads(said("bench", "--json", *options))
    assert found["setting"]["micro_batch"] == 64
    assert found["share_of_matmul"] > 0
    assert not list(tmp_path.iterdir())
