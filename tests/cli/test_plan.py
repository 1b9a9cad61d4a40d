"""`softmatch plan`, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from softmatch.cli.app import main


def run(*arguments: str) -> int:
    return main(["plan", *arguments])


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_plan_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert run("digits", "--device", "v100", "--gpus", "4", "--seeds", "3", "--price", "2.5") == 0
    out = capsys.readouterr().out
    for text in (
        "800 steps",
        "4 × V100 SXM2 32 GB",
        "1,258 unlabelled",
        "GPU-hours",
        "price",
        "Sent by each GPU in a step",
        "checkpoints",
    ):
        assert text in out
    assert "Estimate: NVIDIA V100 data sheet" in out


def test_json_has_a_shape_that_programs_can_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    found = read(
        capsys, "digits", "--device", "a100", "--gpus", "2", "--seeds", "2", "--methods", "softmatch,flexmatch", "--price", "3"
    )
    assert set(found) == {"source", "device", "gpus", "seeds", "settings", "runs", "shared_storage_bytes", "total"}
    assert [each["method"] for each in found["runs"]] == ["softmatch", "flexmatch"]
    assert found["settings"]["labeled_batch"] == 40
    first = found["runs"][0]
    assert first["gpu_hours"][0] == pytest.approx(first["seconds"][0] * 2 / 3600)
    assert found["total"]["runs"] == 4
    assert found["total"]["gpu_hours"][1] == pytest.approx(2 * sum(each["gpu_hours"][1] for each in found["runs"]))
    assert found["total"]["price"][0] == pytest.approx(3 * found["total"]["gpu_hours"][0])


def test_without_a_price_none_is_made_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert read(capsys, "two-moons", "--device", "t4")["total"]["price"] is None


def test_sizes_alone_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--images", "5000", "--side", "8", "--channels", "1", "--classes", "4", "--labels", "2000", "--device", "l4")
    found = read(capsys, *options)
    assert found["source"] == "5,000 images"
    assert (found["runs"][0]["labeled"], found["runs"][0]["unlabeled"], found["runs"][0]["classes"]) == (1600, 4600, 4)
    vectors = read(capsys, "--vectors", "1000", "--width", "20", "--classes", "3", "--device", "l4")
    assert vectors["runs"][0]["network"] == "mlp-64"
    texts = ("--texts", "1000", "--tokens", "50", "--encoder", "google-bert/bert-base-uncased", "--fine-tune", "--device", "l4")
    assert read(capsys, *texts)["runs"][0]["parameters"] > 108e6


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small matrix product: the real one takes a second, twice for each network that is measured."""
    monkeypatch.setattr("softmatch.training.bench.MATRIX", 128)


@pytest.mark.usefixtures("_quick")
def test_this_machine_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    found = read(capsys, "two-moons", "--device", "cpu")
    assert found["device"] is None
    assert "GFLOP/s of a matrix product here and now" in found["runs"][0]["speed"]


@pytest.mark.usefixtures("_quick")
def test_real_steps_can_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    found = read(capsys, "two-moons", "--device", "cpu", "--measure")["runs"][0]
    assert found["speed"].startswith("measured: ")
    assert found["seconds"][0] == found["seconds"][1] > 0
    assert found["seconds_by_part"]["the supervised twin"][0] > 0


def test_the_pool_can_grow(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(capsys, "--pool", "1e4,1e9", "--methods", "softmatch,saw")
    assert found["sizes"] == [10**4, 10**9]
    assert found["methods"]["saw"]["bytes_per_sample"] == 4
    assert found["others"]["items, in memory"]["bytes"][1] == 3072e9
    assert set(read(capsys, "--pool", "1e4", "--method", "darp")["methods"]) == {"darp"}
    assert read(capsys, "--pool", "1e4", "--method", "darp", "--classes", "1000")["methods"]["darp"]["bytes_per_sample"] == 8000
    monkeypatch.setenv("COLUMNS", "200")
    assert run("--pool", "1e4,1e9", "--methods", "darp,softmatch", "--classes", "100") == 0
    out = capsys.readouterr().out
    assert "800 GB" in out
    assert "shard over 21" in out


def test_experiments_of_the_paper_are_summed(capsys: pytest.CaptureFixture[str]) -> None:
    found = read(capsys, "fig-two-moons", "--device", "v100")
    assert (found["device"], found["gpus"], found["price_of_a_gpu_hour"]) == ("v100", 1, None)
    assert [each["name"] for each in found["experiments"]] == ["fig-two-moons"]
    assert found["experiments"][0]["price"] is None
    assert run("fig-two-moons", "--device", "v100", "--price", "2") == 0
    assert "fig-two-moons" in capsys.readouterr().out


def test_settings_may_stand_in_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("source: two-moons\nsteps: 123\ndevice: cpu\n")
    found = read(capsys, "-c", str(path), "--device", "t4")
    assert (found["source"], found["runs"][0]["steps"], found["device"]) == ("two-moons", 123, "t4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("digits --device k80", "--device k80: there is no data sheet"),
        ("cifar11 --device v100", "there is no source 'cifar11'. Did you mean 'cifar10'"),
        ("digits --device v100 --gpus 0", "--gpus 0: give a number from 1"),
        ("digits --device v100 --seeds 0", "--seeds 0: give a number from 1"),
        ("digits --device v100 --price -1", "--price -1: it must be a number of more than 0"),
        ("digits --device v100 --price inf", "--price inf: it must be a number of more than 0"),
        ("digits --device v100 --bandwidth 3", "--bandwidth 3 is between machines"),
        ("cifar10 --device cpu --gpus 64", "--gpus 64: name them with --device"),
        ("digits --device mps", "--device mps is not on this machine"),
        ("digits --device t4 --precision bf16", "has no tensor cores for bfloat16. Give fp16"),
        ("digits --device v100 --methods=", "--methods '': give names"),
        ("digits --device v100 --side 8", "leave out --side"),
        ("digits --device v100 --test-samples 8", "leave out --test-samples"),
        ("digits --device v100 --classes 8", "leave out --classes"),
        ("digits --device v100 --tokens 8", "--tokens 8: digits has no texts"),
        ("--vectors 100 --side 8 --device v100", "data are vectors: leave out --side"),
        ("--images 1000 --side 2 --device v100", "the network small-conv cannot be planned for items of 3×2×2"),
        ("--images 1000 --width 3 --device v100", "data are images: leave out --width"),
        ("--pool 1e6 --tokens 3", "data are images: leave out --tokens"),
        ("--pool 1e6 --gpus 8", "--pool is about memory and files alone: leave out --gpus"),
        ("--pool 1e6 --price 8", "leave out --price"),
        ("--pool 1e6 --seeds 8", "leave out --seeds"),
        ("--pool 1e6 --measure", "leave out --measure"),
        ("table-main --device v100 --seeds 5", "table-main has the paper's own settings: leave out --seeds"),
        ("table-main --device v100 --bandwidth 5", "leave out --bandwidth"),
        ("table-main --device v100 --side 5", "leave out --side"),
        ("paper --device v100 --pool 1e4", "leave out --pool"),
        ("digits --device v100 --gpus 64", "has no row for each of 64 processes"),
        ("digits --device v100 --measure", "--measure times steps of one process on this machine"),
        ("digits --device v100 --methods nosuch", "there is no method 'nosuch'"),
        ("digits --device v100 --method vat --methods vat", "--methods takes the place of --method"),
        ("digits --images 100", "are two sources"),
        ("--images 100 --vectors 100 --device v100", "data are of one kind"),
        ("--images 100 --classes 1 --device v100", "two classes or more"),
        ("--images 100 --channels 7 --device v100", "--channels 7"),
        ("--texts 100 --device v100", "--texts needs --tokens"),
        ("--pool lots", "--pool lots: give sizes"),
        ("table-main", "name it with --device"),
        ("table-main --device v100 --labels 40", "has the paper's own settings"),
        ("some/folder --device v100", "a plan is made without data"),
        ("digits --device v100 --network wrn-11-2", "the depth of a WRN"),
        ("digits --device v100 --views.nosuch 3", "has no option 'nosuch'"),
        ("agnews --device cpu --recipe paper --measure", "--measure needs the texts and the encoder"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments.split()) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not captured.out


def test_help_names_the_gpus_and_every_size(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert run("--help") == 0
    out = capsys.readouterr().out
    for text in ("rtx-4090: by its data sheet", "How many images there are", "Pixels of a side", "Of these images: 1 (grey)"):
        assert text in out
