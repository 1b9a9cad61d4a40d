"""Settings: CLI over file over source over defaults; unknown keys are errors that name the nearest."""

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import softmatch
from softmatch.config import Config, FormerName, former_names, make_config, read_file, renamed
from softmatch.errors import InputError
from tests.refusals import refused


def test_later_layers_win_and_none_does_not() -> None:
    config = make_config({"labels": 4, "lr": 0.1}, {"labels": 8, "steps": 7}, {"steps": 9, "lr": None})
    assert (config.labels, config.lr, config.steps) == (8, 0.1, 9)
    assert config.method == "softmatch"


@pytest.mark.parametrize(("key", "near"), [("lables", "labels"), ("clip_grad", "clip"), ("optimiser", "optimizer")])
def test_unknown_keys_name_the_nearest(tmp_path: Path, key: str, near: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"{key}: 3\n")
    refused(f"settings.yaml: unknown setting '{key}'. Did you mean '{near}'", read_file, file)
    refused(near, make_config, {key: 3})


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"labels": "many"}, r"labels = 'many': .*integer"),
        ({"steps": 0}, "steps = 0: .*greater than or equal to 1"),
        ({"optimizer": "sdg"}, "optimizer = 'sdg': .*'sgd'"),
        ({"test_fraction": 1.5}, "test_fraction = 1.5"),
        ({"lr": float("nan")}, "lr = nan"),
    ],
)
def test_wrong_values_say_which_and_why(settings_: dict[str, object], message: str) -> None:
    refused(message, make_config, settings_)


def test_former_names_are_understood(tmp_path: Path) -> None:
    config = make_config({"twin": False, "model": "mlp", "label": "kind", "head_labels": 3})
    assert (config.baseline, config.network, config.label_column, config.largest_class_labels) == (False, "mlp", "kind", 3)
    for name in ("settings.yaml", "config.yaml"):
        (tmp_path / name).write_text("model: mlp\ntwin: false\n")
    with pytest.warns(FormerName, match=r"settings\.yaml: (model is now called network|twin is now called baseline)"):
        assert read_file(tmp_path / "settings.yaml") == {"network": "mlp", "baseline": False}
    assert read_file(tmp_path / "config.yaml") == {"network": "mlp", "baseline": False}  # of a run: nobody has to change it
    refused("model is the former name of network", make_config, {"model": "mlp", "network": "small-conv"})
    settings = {"network": "mlp", "baseline": False, "steps": 3}
    assert former_names(settings) == {"model": "mlp", "twin": False, "steps": 3}
    assert renamed(former_names(settings), "here") == settings


def test_fine_tuning_was_a_yes_or_no(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("fine_tune: true\nlora: 4\n")
    assert read_file(tmp_path / "config.yaml") == {"tune": "all", "lora": 4}
    assert make_config({"fine_tune": False}).tune == "head"
    with pytest.warns(FormerName, match="fine_tune is now called tune"):
        assert renamed({"fine_tune": True}, "here", warn=True) == {"tune": "all"}
    refused("fine_tune is the former name of tune", make_config, {"fine_tune": True, "tune": "lora"})
    for tune, former in (("all", {"fine_tune": True}), ("head", {"fine_tune": False}), ("last-2", {"tune": "last-2"})):
        assert former_names({"tune": tune}) == former, "so the keys of existing runs are the same"
        assert renamed(former, "here") == {"tune": tune}
    assert (make_config({"tune": "last-12"}).last_layers, make_config({"tune": "all"}).last_layers) == (12, None)


def test_options_are_merged_one_by_one_and_texts_become_numbers() -> None:
    config = make_config({"views": {"pad": 1, "flip": False}}, {"views": {"cutout": "0.2", "pad": 2}})
    assert config.views == {"pad": 2, "flip": False, "cutout": 0.2}
    texts = {"momentum": "0.5", "clip": "[0.9, 0.95]", "base_options": {"k": "3", "align": "none"}}
    values = {"momentum": 0.5, "clip": [0.9, 0.95], "base_options": {"k": 3, "align": "none"}}
    assert make_config({"method_options": texts | {"k": "3"}}).method_options == values | {"k": 3}


@pytest.mark.parametrize("text", ["- a\n- b\n", "just words\n", "1: 2\n", "a: [\n", "!!python/object/apply:os.system ['true']\n"])
def test_files_that_are_not_settings_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    refused(r"settings\.yaml", read_file, file)


def test_missing_binary_and_empty_files(tmp_path: Path) -> None:
    refused("no settings file", read_file, tmp_path / "none.yaml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    refused("cannot be read", read_file, tmp_path / "binary")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert read_file(tmp_path / "empty.yaml") == {}


def test_every_setting_has_a_help_text() -> None:
    assert all(field.description for field in Config.model_fields.values())


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_no_file_makes_a_traceback(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "settings.yaml"
    file.write_bytes(content)
    with contextlib.suppress(InputError):  # any other exception fails the test
        make_config({k: v for k, v in read_file(file).items() if k != "source"})


def test_every_setting_is_read_somewhere() -> None:
    package = Path(softmatch.__file__).parent
    code = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    for name in Config.model_fields:
        assert re.search(rf"config\.{name}\b", code), f"nothing reads {name}"
