"""Predictions on a real Ray cluster: workers are killed, commands are interrupted, and every row is there once."""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import softmatch
from softmatch.cli.app import main
from softmatch.data.readers.open_source import open_source
from softmatch.data.records import Records
from softmatch.errors import InputError
from softmatch.experiments.executors import predict_on_ray as module
from softmatch.experiments.executors.predict_on_ray import parts_of, predict_on_ray
from softmatch.files.locks import held
from softmatch.inference.predict import predict
from tests.experiments.tiny import wait_for

pytestmark = [
    pytest.mark.usefixtures("ray_cluster"),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves pipes and files to the garbage collector
]
ROWS, PIECE = 160, 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """new.csv with some words that the model has never seen and a row without any, its predictions by one process, and run/."""
    folder = tmp_path_factory.mktemp("ray")
    lines = [f"{('red apple', 'fast train')[k % 2]} {k},{('food', 'travel')[k % 2]}" for k in range(ROWS)]
    (folder / "texts.csv").write_text("\n".join(["text,label", *lines[:60]]))
    (folder / "new.csv").write_text("\n".join(["text,label", *lines[:-1], "=1+1,"]))
    quick = {"baseline": False, "labeled_batch": 8, "unlabeled_batch": 8, "evaluation": "none", "device": "cpu"}
    softmatch.train(str(folder / "texts.csv"), steps=3, out=folder / "run", **quick)
    predict(folder / "run", folder / "new.csv", folder / "expected.csv", rows=PIECE)
    return folder


def on_ray(folder: Path, out: Path, **options: Any) -> Any:
    given = {"workers": 2, "address": None, "rows": PIECE, **options}
    return predict_on_ray(folder / "run", folder / "new.csv", out, **given)


def worker() -> int:
    """A process that predicts."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::Predictor"):
                return int(path.parent.name)
        except OSError:  # it has just ended
            continue
    raise AssertionError("no worker predicts")


def test_a_killed_worker_loses_nothing(folder: Path, tmp_path: Path) -> None:
    out, seen = tmp_path / "out.csv", list[int]()

    def strike() -> None:
        wait_for(lambda: len([*parts_of(out).glob("*.safetensors")]) > 3)
        os.kill(worker(), signal.SIGKILL)
        seen.append(len([*parts_of(out).glob("*.safetensors")]))

    thread = threading.Thread(target=strike)
    thread.start()
    found = on_ray(folder, out)
    thread.join()
    assert seen[0] < ROWS // PIECE  # in the middle
    assert out.read_text() == (folder / "expected.csv").read_text()
    assert found.samples == ROWS
    assert found.known == ROWS - 1
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_an_interrupted_command_continues_with_what_is_done_and_still_good(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, written = tmp_path / "out.csv", list[Path]()

    def interrupt(done: int) -> None:
        if done >= ROWS // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on_ray(folder, out, progress=interrupt)
    assert not out.exists()
    there = sorted(parts_of(out).glob("*.safetensors"))
    assert len(there) == ROWS // PIECE // 2
    there[0].write_bytes(there[0].read_bytes()[:-3])  # a machine that lost power
    write = module._write
    monkeypatch.setattr(module, "_write", lambda path, found: (written.append(path), write(path, found))[1])
    with held(parts_of(out) / "lock", 0.0, ""), pytest.raises(InputError, match="another command writes"):
        on_ray(folder, out)
    assert on_ray(folder, out).samples == ROWS
    assert len(written) == ROWS // PIECE // 2 + 1
    assert there[0] in written
    assert out.read_text() == (folder / "expected.csv").read_text()
    assert not parts_of(out).exists()


def test_pieces_belong_to_their_samples_and_to_their_model(folder: Path, tmp_path: Path) -> None:
    image = tmp_path / "1.png"
    image.write_bytes(b"1")
    records = next(open_source(str(folder / "new.csv"), need_label=False).stream(3))
    one = module._digest("model", records)
    assert one == module._digest("model", records)
    others = [module._digest("other", records), module._digest("model", records.select([0, 2, 1]))]
    files = Records("image", [image], ["1.png"], [None])
    before = module._digest("model", files)
    image.write_bytes(b"22")
    assert len({one, *others, before, module._digest("model", files)}) == 5


def test_what_cannot_work_is_refused_before_anything_is_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="--workers 9: this Ray cluster has 2 CPUs"):
        on_ray(folder, tmp_path / "out.csv", workers=9)
    with pytest.raises(InputError, match="--workers 0: give 1 or more"):
        on_ray(folder, tmp_path / "out.csv", workers=0)
    run, source = str(folder / "run"), str(folder / "new.csv")
    assert main(["predict", run, source, "--workers", "2"]) == 2
    assert "--workers and --address only work with --on ray" in capsys.readouterr().err
    assert main(["predict", run, source, "--on", "ray", "--out", "-"]) == 2
    assert "workers write a table: give a file with --out, or leave out --on." in capsys.readouterr().err
    out = tmp_path / "out.parquet"
    assert main(["predict", run, source, "--on", "ray", "--workers", "1", "--out", str(out), "-q"]) == 0
    assert out.exists()
