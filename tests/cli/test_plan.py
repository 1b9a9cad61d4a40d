"""`softmatch plan`, as it is typed."""

import json
from pathlib import Path
from typing import Any

import pytest

from softmatch.cli.app import main
from softmatch.cli.plan import shown_as
from softmatch.planning.gpus import Range


def run(*arguments: str) -> int:
    return main(["plan", *arguments])


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_plan_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert run("digits", "--device", "v100", "--gpus", "4", "--seeds", "3", "--price", "2.5") == 0
    out = capsys.readouterr().out
    shown = ("800", "v100", "1,258", "gpu hours", "price", "the method's state", "the supervised baseline", "checkpoints")
    for text in (*shown, "Estimate: NVIDIA V100 data sheet"):
        assert text in out


def test_json_has_a_shape_that_programs_can_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    options = "digits --device a100 --gpus 2 --seeds 2 --methods softmatch,flexmatch --price 3"
    found = read(capsys, *options.split())
    assert set(found) == {"source", "device", "gpus", "seeds", "settings", "runs", "total"}
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


def test_real_steps_are_timed_on_this_machine(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softmatch.training.bench.MATRIX", 128)  # the real product takes a second, twice for each network
    found = read(capsys, "two-moons", "--device", "cpu")
    assert found["device"] is None
    run = found["runs"][0]
    assert run["speed"].startswith("Measured: ")
    assert run["seconds"][0] == run["seconds"][1] > 0
    assert run["seconds_by_part"]["the supervised baseline"][0] > 0


def test_the_state_of_methods_is_planned_for_any_number_of_samples(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--images", "1000000000", "--methods", "softmatch,saw,darp", "--device", "a100")
    found = [(run["state_bytes_per_sample"], run["state_bytes"]) for run in read(capsys, *options)["runs"]]
    assert found[0] == (0, 184)
    assert (found[1][0], found[2][0]) == (4, 80)
    assert found[2][1] > 80e9
    monkeypatch.setenv("COLUMNS", "160")
    assert run(*options) == 0
    out = capsys.readouterr().out
    assert "80 bytes" in out
    assert "state bytes per sample" in out


def test_memory_that_does_not_fit_is_said_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("imagenet", "--recipe", "paper", "--device", "v100") == 0
    assert "It does not fit into 32 GB: give smaller batches, more --gpus, or --precision fp16." in capsys.readouterr().out


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
        ("digits --device v100 --gpus 0", "gpus = '0': input should be greater than or equal to 1"),
        ("digits --device v100 --seeds 0", "seeds = '0'"),
        ("digits --device v100 --price -1", "price = '-1'"),
        ("digits --device v100 --price inf", "price = 'inf'"),
        ("digits --device v100 --network 3", "there is no network '3'"),
        ("--pool 1e6 --device v100", "plan has no option --pool"),
        ("digits --device v100 --feature-columns a,b", "plan does not read --feature-columns"),
        ("digits --device v100 --lr 0.1", "--lr"),
        ("cifar10 --device cpu --gpus 64", "--gpus 64: name them with --device"),
        ("digits --device mps", "--device mps is not on this machine"),
        ("digits --device t4 --precision bf16", "has no tensor cores for bfloat16. Give fp16"),
        ("digits --device v100 --methods=", "--methods '': give names"),
        ("digits --device v100 --side 8", "--side is not about a named source: leave it out"),
        ("digits --device v100 --test-samples 8", "--test-samples is not about a named source"),
        ("digits --device v100 --classes 8", "--classes is not about a named source"),
        ("--vectors 100 --side 8 --device v100", "--side is not about --vectors: leave it out"),
        ("--images 1000 --side 2 --device v100", "The network small-conv cannot be planned for items of 3×2×2"),
        ("--images 1000 --width 3 --device v100", "--width is not about --images"),
        ("--images 0 --device v100", "images = '0'"),
        ("--images 10000000000000000000 --device v100", "images = '10000000000000000000'"),
        ("--images 10 --side 1000000 --device v100", "side = '1000000'"),
        ("--vectors 10 --width 3000000000 --device v100", "width = '3000000000'"),
        ("--images 10 --classes 300000000 --device v100", "classes = '300000000'"),
        ("--images 10 --test-samples -1 --device v100", "test_samples = '-1'"),
        ("--images 100 --classes 1 --device v100", "classes = '1'"),
        ("--images 100 --channels 7 --device v100", "channels = '7'"),
        ("table-main --device v100 --seeds 5", "table-main has the paper's own settings: leave out --seeds"),
        ("table-main --device v100 --side 5", "leave out --side"),
        ("table-main --device v100 --labels 40", "table-main has the paper's own settings: leave out --labels"),
        ("table-main", "name a GPU with --device"),
        ("digits --device v100 --gpus 64", "has no row for each of 64 processes"),
        ("digits --device v100 --methods nosuch", "there is no method 'nosuch'"),
        ("digits --device v100 --method vat --methods vat", "instead of --method"),
        ("digits --images 100", "digits, --images: give one source of data"),
        ("--images 100 --vectors 100 --device v100", "--images, --vectors: give one source of data"),
        (
            "--texts 100 --device v100",
            "A plan of texts, or of a pretrained encoder, is not offered. `softmatch train SOURCE … --dry-run`",
        ),
        ("some/folder --device v100", "a plan is made without data"),
        ("digits --device v100 --network wrn-11-2", "the depth of a WRN"),
        ("digits --device v100 --views.nosuch 3", "has no option 'nosuch'"),
    ],
)
def test_mistakes_are_reported_in_a_sentence(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments.split()) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not captured.out


def test_help_names_the_gpus_and_the_options_that_are_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert run("--help-all") == 0
    out = capsys.readouterr().out
    for text in ("rtx-4090: by its data sheet", "Number of images", "Side of these images", "--labeled-batch"):
        assert text in out
    for option in ("--features", "--label ", "--lr", "--seed ", "--out", "--pool", "--test "):
        assert option not in out


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("bytes", 0, "0 bytes"),
        ("bytes", 512, "512 bytes"),
        ("memory_bytes", {"a": 1000, "b": 500}, "1.5 kB"),
        ("bytes", 123_456_789, "123 MB"),
        ("bytes", 4e12, "4 TB"),
        ("flops", 1.234e12, "1.23 TFLOP"),
        ("flops", 1.76e21, "1,760 EFLOP"),
        ("flops", 5e5, "500 kFLOP"),
        ("steps", 0.02314, "0.0231"),
        ("steps", 12_345.6, "12,346"),
        ("gpu_hours", Range(5.1, 8.7), "5.1 – 8.7"),
        ("gpu_hours", Range(5.1, 5.1), "5.1"),
        ("seconds", Range(60.0, 7200.0), "60 s – 2.0 h"),
    ],
)
def test_figures_are_shown_in_their_unit(key: str, value: Any, text: str) -> None:
    assert shown_as(key, value) == text
