"""The words that were typed after `softmatch`: options by their current names, and the command line that repeats them."""

import shlex
from collections.abc import Callable, Mapping, Sequence

from softmatch.config import FORMER

_SETTINGS = {f"--{old.replace('_', '-')}": f"--{new.replace('_', '-')}" for old, new in FORMER.items()}
_COLUMNS = {option: _SETTINGS[option] for option in ("--label", "--text", "--features")}
_SWEEP = {"--processes": "--parallel-runs"}
RENAMED: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("train", "check", "bench", "plan"), _SETTINGS),
    "compare": {**_SETTINGS, **_SWEEP, "--measure": "--metric"},
    "reproduce": _SWEEP,
    **dict.fromkeys(("predict", "suggest"), _COLUMNS),
    "augment": {"--text": "--text-column"},
}
"""Options that had another name in version 0.1: for each command, old name → name."""
FLAGS: Mapping[str, str] = {"--fine-tune": "--tune=all", "--no-fine-tune": "--tune=head"}
"""Former options without a value, and what they are now."""

_words: list[str] = []


def remember(arguments: Sequence[str], tell: Callable[[str], None]) -> list[str]:
    """Keep the arguments under the current names of their options, and return them.

    Args:
        tell: is given a line for each former name.
    """
    command = next((word for word in arguments if not word.startswith("-")), "")
    names = RENAMED.get(command, {})
    names = {**names, **{f"--no-{old[2:]}": f"--no-{new[2:]}" for old, new in names.items()}}
    _words[:] = arguments
    for place, word in enumerate(arguments):
        if word == "--":
            break
        option, equals, value = word.partition("=")
        if option in names and option in FLAGS and not equals:
            _words[place] = FLAGS[option]
            tell(f"{option} is now called {FLAGS[option]}.")
        elif option in names:
            _words[place] = names[option] + equals + value
            tell(f"{option} is now called {names[option]}.")
        elif option == "--views" and command in ("train", "check", "compare", "curve", "bench", "plan"):
            _words[place] = "--views.own" + equals + value  # beside which there may be --views.NAME of that code
    return list(_words)


def arguments() -> list[str]:
    """Arguments of this command, without the name of the program."""
    return list(_words)


def command_line(arguments: Sequence[str] | None = None) -> str:
    """This command as a line for a shell, or the command with these arguments."""
    return shlex.join(["softmatch", *(_words if arguments is None else arguments)])


def without_option(arguments: Sequence[str], option: str) -> list[str]:
    """The arguments without an option and its value, given as two words or as one with "=" between."""
    kept, skip = [], False
    for word in arguments:
        if skip or word == option:
            skip = not skip
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return kept
