"""Bad input, each case as its user meets it: a message that names the place, an exit code, nothing written, nothing lost."""

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from softmatch.cli.app import main
from softmatch.runs.folder import RunFolder
from softmatch.training.checkpoint import list_checkpoints, load_checkpoint
from tests.forked import Forked
from tests.own.sources import blobs, pictures, texts, write_csv

QUICK = ("--steps", "4", "--unlabeled-batch", "8", "--threads", "1", "--no-baseline", "--evaluation", "none")


def unshared(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script that may mount disks which nobody else sees."""
    return subprocess.run(["unshare", "-rm", "bash", "-c", script], capture_output=True, text=True, check=False, timeout=120)


NAMESPACES = shutil.which("unshare") is not None and unshared("true").returncode == 0


def refused(folder: Path, capsys: pytest.CaptureFixture[str], source: Path | str, *options: str) -> str:
    """What `train` says on the error stream when it refuses; both it and `check` must, and neither may write anything."""
    before = sorted(folder.rglob("*"))
    for command in ("check", "train"):
        out = ("--out", str(folder / "run")) if command == "train" else ()
        assert main([command, str(source), *options, *out]) == 2
        said = capsys.readouterr().err
    assert "Traceback" not in said
    assert sorted(folder.rglob("*")) == before
    return said


def trained(folder: Path, capsys: pytest.CaptureFixture[str], source: Path | str, *options: str) -> str:
    """What `train` prints."""
    assert main(["train", str(source), *QUICK, *options, "--out", str(folder / "run")]) == 0
    assert (folder / "run" / "report.html").is_file()
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("unlabeled", "classes", "messages"),
    [
        (0, (), ["photos"]),
        (6, (), ["none of the 6 samples has a label", "softmatch suggest"]),
        (6, ("dark",), ["every label is 'dark'"]),
    ],
)
def test_folders_that_cannot_be_learned_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unlabeled: int, classes: tuple[str, ...], messages: list[str]
) -> None:
    folder = pictures(tmp_path / "photos", per_class=3, unlabeled=unlabeled)
    for name in {"dark", "light"} - {*classes}:
        shutil.rmtree(folder / name)
    said = refused(tmp_path, capsys, folder)
    assert all(message in said for message in messages)


def test_more_classes_than_labels_of_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(i, i * i % 7, f"kind {i}" if i < 6 else "") for i in range(40)]
    path = write_csv(tmp_path / "t.csv", rows, ("width", "height", "label"))
    assert main(["train", str(path), *QUICK[:-2], "--out", str(tmp_path / "run")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "every class has a single labelled sample" in said
    assert "The error was not measured" in said
    assert main(["train", str(path), *QUICK[:-2], "--labels", "3", "--out", str(tmp_path / "other")]) == 2
    assert "--labels 3 cannot be shared evenly by 6 classes" in capsys.readouterr().err


FEW = [(i, i * i % 7, "ab"[i % 2] if i < 30 else "") for i in range(40)]
MIXED: list[tuple[object, ...]] = [(i / 7, i % 5, "ab"[i % 2] if i < 30 else "") for i in range(120)]
MIXED[3], MIXED[5], MIXED[7] = ("abc", 1, "b"), ("NaN", 2, "b"), ("inf", 3, "b")
NUMBERS = [(i / 7, i % 5, ("1", "1.0", "1 ", "2", " 2", "2.0")[i % 6] if i < 30 else "") for i in range(60)]
QUESTIONS = [(f"how to sort a list of {i} numbers", ("python", "java")[i % 2] if i < 20 else "") for i in range(60)]


@pytest.mark.parametrize(
    ("rows", "header", "messages"),
    [
        (FEW[:30], "width,height,label", ["method supervised", "a label: there is nothing unlabelled to learn from"]),
        ([*FEW, (99, 3, "rare")], "width,height,label", ["1 of 3 classes has a single labelled sample: 'rare'"]),
        (MIXED, "width,height,label", ["row 4", "'abc'"]),
        (NUMBERS, "width,height,label", ["2 classes"]),
        (FEW, "\ufeffwidth,height,label", ["2 features"]),  # a mark in front
        (QUESTIONS, "title,tag", ["t.csv: label: column 'tag'; text: column 'title'."]),  # empty cells and few values
    ],
)
def test_tables_that_are_odd_and_can_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: Sequence[Sequence[object]], header: str, messages: list[str]
) -> None:
    said = trained(tmp_path, capsys, write_csv(tmp_path / "t.csv", rows, header.split(",")))
    assert all(message in said for message in messages)


def test_a_class_without_any_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pictures(tmp_path / "photos")
    (folder / "empty class").mkdir()
    assert "empty class" in trained(tmp_path, capsys, folder, "--network", "small-conv-4")


def test_images_that_are_damaged_huge_or_odd_are_left_out_or_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pictures(tmp_path / "photos")
    rest = folder / "unlabeled"
    whole = (rest / "024.png").read_bytes()
    (rest / "cut.png").write_bytes(whole[: len(whole) // 2])
    (rest / "empty.png").write_bytes(b"")
    Image.new("CMYK", (9, 9), (1, 2, 3, 4)).save(rest / "print.jpg")
    Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000).save(rest / "deep.png")
    Image.new("RGB", (1, 1)).save(rest / "pixel.png")
    frames = [Image.new("P", (8, 8), level) for level in (1, 2, 3)]
    frames[0].save(rest / "moving.gif", save_all=True, append_images=frames[1:])
    Image.new("1", (12_000, 12_000)).save(rest / "huge.png")
    (rest / "loop").symlink_to(folder)
    said = trained(tmp_path, capsys, folder, "--network", "small-conv-4")
    for name in ("cut.png", "empty.png", "huge.png"):
        assert name in said
    for name in ("print.jpg", "deep.png", "moving.gif"):
        assert name not in said


def test_strange_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pictures(tmp_path / 'my photos \'n "more"')
    (folder / "dark").rename(folder / "dark 🌑 <b>&\n'\"")
    said = trained(tmp_path, capsys, folder, "--network", "small-conv-4")
    assert "2 classes" in said
    report = (tmp_path / "run" / "report.html").read_text()
    assert "dark 🌑 <b>" not in report
    assert main(["predict", str(tmp_path / "run"), str(folder), "--out", str(tmp_path / "p.csv")]) == 0
    assert "dark 🌑" in (tmp_path / "p.csv").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="such names are not allowed there")
def test_control_characters_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pictures(tmp_path / "photos\x1b[2J")
    (folder / "dark").rename(folder / "dark\x1b[31m")
    for name in ("broken\x1b[2J.png", "two\rlines\n.png"):
        (folder / "unlabeled" / name).write_bytes(b"broken")
    write_csv(tmp_path / "t.csv", [(i, f"{'ab'[i % 2]}\x9b2J" if i < 9 else "") for i in range(40)], ("width", "label\x1b[2J"))
    for source, options, shown in (
        (folder, ("--network", "small-conv-4"), (r"/broken\x1b[2J.png: not an image", r"dark\x1b[31m", r"two\rlines\n.png")),
        (tmp_path / "t.csv", ("--label", "label\x1b[2J"), (r"a\x9b2J", r"b\x9b2J")),
        (tmp_path / "t.csv", ("--label", "no\x1b[2J"), (r"no column 'no\x1b[2J'",)),
        (tmp_path / "gone\x1b[2J.csv", (), (r"gone\x1b[2J.csv",)),
    ):
        main(["check", str(source), "--steps", "4", "--evaluation", "none", *options])
        said = "".join(capsys.readouterr())
        assert all(text in said for text in shown), said
        assert not {"\x1b", "\x9b", "\r"} & set(said)


def test_a_name_that_is_nearly_that_of_a_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no file or folder digit" in (said := refused(tmp_path, capsys, "digit"))
    assert "Did you mean 'digits'?" in said


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "t.csv"),
        ("width,label\n", "no rows"),
        ("width,height,label\n1,2,a\n1,2\n", "row 2"),
        ("width,label\n1,a\n2,b\n", "--unknown"),
        ("width,kind\n1,a\n2,b\n", "--label"),
        ("width,label\n1,NA\n2,b\n3,c\n", "--unlabeled"),
        ("width,label\n\xff\xfe", "t.csv"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode("latin-1"))
    options = ("--unknown", "3") if message == "--unknown" else ()
    assert message in refused(tmp_path, capsys, path, *options)


def test_a_file_in_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = blobs(tmp_path / "t.csv")
    (tmp_path / "file").write_text("not a folder")
    assert main(["train", str(path), *QUICK, "--out", str(tmp_path / "file" / "run")]) == 2
    assert "cannot be created" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "not a folder"


@pytest.mark.skipif(not NAMESPACES, reason="a disk of one's own, which root cannot write to either, needs user namespaces")
def test_disks_that_are_read_only_or_full(tmp_path: Path) -> None:
    source, disks = blobs(tmp_path / "t.csv"), ("ro", "size=128k")
    for disk in disks:
        (tmp_path / disk).mkdir()
    mounts = " && ".join(f"mount -t tmpfs -o {disk} none {tmp_path}/{disk}" for disk in disks)
    train = ["train", str(source), *QUICK, "--network", "mlp-256", "--out"]
    codes = f"[main([*{train}, f'{tmp_path}/{{disk}}/run']) for disk in {disks}]"
    code = f"from softmatch.cli.app import main; print('ended with', {codes})"
    done = unshared(f'{mounts} && {sys.executable} -c "{code}"; ls -A {tmp_path}/*/run/model')
    assert "ended with [2, 1]\n" in done.stdout, done.stdout + done.stderr
    assert re.search("(?s)Read-only file system.*No space left", done.stderr)
    assert "Traceback" not in done.stderr
    assert "safetensors" not in done.stdout  # no part of a file that looks whole


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the moment is known by what the process has loaded")
@pytest.mark.parametrize("moment", ["importing", "reading", "training"])
def test_an_interruption_at_any_moment(tmp_path: Path, moment: str) -> None:
    source, run = texts(tmp_path / "t.csv", 40, 400), tmp_path / "run"
    options = ["--steps", "100000", "--evaluate-every", "20", "--checkpoint-every", "20", "--evaluation", "none"]
    command = ["-m", "softmatch", "train", str(source), *options, "--out", str(run)]
    process: Forked | subprocess.Popen[str]
    if moment == "training":
        process = Forked(command, tmp_path)
    else:  # an interpreter that has nothing yet
        process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        waiting = time.monotonic() + 60
        if moment == "training":
            while not list(run.glob("checkpoints/*.safetensors")) and time.monotonic() < waiting:
                time.sleep(0.05)
        else:
            library = {"importing": "libtorch", "reading": "sklearn"}[moment]
            while library not in Path(f"/proc/{process.pid}/maps").read_text() and time.monotonic() < waiting:
                time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == (75 if moment == "training" else 130)
    assert ("stopped by SIGINT" if moment == "training" else "interrupted") in said
    assert "Traceback" not in said
    assert source.is_file()
    if moment == "training":
        assert RunFolder(run).records()
        saved = load_checkpoint(list_checkpoints(run / "checkpoints")[-1])
        assert saved.step >= 20
        assert any(name.startswith("network.") for name in saved.tensors)
