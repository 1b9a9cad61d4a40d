"""Help: every option is described once, in a panel; commands list what they read."""

import re

import pytest

from softmatch.cli.app import COMMANDS, FOLDED, GROUPS, app, main, option_names
from softmatch.cli.options import DEFAULTS, MORE, PANELS, WHERE
from softmatch.config import Config
from tests.cli.conftest import Said

ODD = re.compile(r"^(Of|That|What|Whether)\b|\btwin\b|so many|as many as|is no |besides|go(es)? on\b")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, said: Said) -> Said:
    monkeypatch.setenv("COLUMNS", "100")
    return said


@pytest.mark.parametrize("command", COMMANDS)
def test_every_argument_has_a_help_text_in_plain_english(command: str) -> None:
    for argument in app[command].assemble_argument_collection(parse_docstring=True):
        if argument.children or not argument.show:  # a model, whose fields follow; a name that is gone
            continue
        text = argument.parameter.help
        assert text, f"{command} {argument.name} has no help text"
        if command != "plan" and WHERE not in argument.parameter.group:  # these belong to other packages
            assert not ODD.search(text), f"{command} {argument.name}: {text}"


def test_commands_are_shown_in_groups(shown: Said) -> None:
    text = shown("--help")
    places = [text.index(f"─ {title} ─") for title in GROUPS]
    assert places == sorted(places)
    for name in COMMANDS:
        assert re.search(rf"│ {name} ", text)
    assert text == shown() == shown("help")


def test_train_shows_thirty_options_and_all_with_help_all(shown: Said) -> None:
    short, full = shown("train", "-h"), shown("train", "--help-all")
    number = len(re.findall(r"^│ (\*  )?--", short, re.MULTILINE))
    assert 25 <= number <= 34
    for panel in (*PANELS, *MORE):
        assert (f"─ {panel} ─" in short) == (panel in PANELS)
        assert f"─ {panel} ─" in full
    for option in option_names("train"):
        assert option in full
    assert "--help-all" in short
    assert shown("help", "train") == short
    flat = re.sub(r"[│\s]+", " ", short)  # however wide the terminal is
    assert re.search(r"--steps INT [^\]]*\[default: by the data\]", flat)


def test_every_setting_is_in_one_panel() -> None:
    listed = [name for names in (*PANELS.values(), *MORE.values()) for name in names.split()]
    assert sorted(listed) == sorted(Config.model_fields)
    assert DEFAULTS.keys() <= Config.model_fields.keys()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("bench --text-column x", "bench does not read --text-column, an option of train, check"),
        ("bench --text x", "bench does not read --text"),
        ("predict run x --steps 3", "predict does not read --steps, an option of train"),
        ("runs --quiet", "runs does not read --quiet, an option of train"),
        ("train --lables 3", "train has no option --lables. Did you mean '--labels'?"),
        ("train --xyzzy", "train has no option --xyzzy. softmatch train --help-all lists them."),
        ("suggest . --network x.py:y", "--network x.py:y is not read here: . is not a run folder."),
        ("--verion", "there is no option '--verion'. Did you mean '--version'?"),
        ("predict", "predict needs RUN: Folder of a finished run, or hf://owner/name of the hub."),
        ("compare digits", "compare needs --methods: Rows of the table"),
        ("predict run x --out", "--out requires an argument"),
        ("trian", "there is no command 'trian'. Did you mean 'train'?"),
        ("help trian", "there is no command 'trian'. Did you mean 'train'?"),
        ("predict run x --json --out -", "--json and --out - both write to standard output"),
    ],
)
def test_options_that_are_not_read_are_errors(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == 2
    found = capsys.readouterr()
    assert message in found.err
    assert not found.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(command: str, shown: Said) -> None:
    text = shown(command, "--help-all" if command in FOLDED else "--help")
    assert text.startswith(f"Usage: softmatch {command}")
    assert "[default: {}]" not in text or command in ("plan", "compare", "reproduce")


def test_version_and_completion(shown: Said) -> None:
    assert shown("-V") == shown("--version")
    for shell in ("bash", "zsh", "fish"):
        assert "pseudo-labels" in shown("completion", shell)
