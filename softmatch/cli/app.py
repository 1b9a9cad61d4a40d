"""The command line: commands and their groups, parsing, messages and exit codes.

No command module imports this one, and none imports torch before its command runs: help must not wait for it.
"""

import logging
import os
import shutil
import sys
import textwrap
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Group, MissingArgumentError, Parameter, UnknownCommandError, UnknownOptionError
from pydantic import ValidationError

from softmatch import __version__
from softmatch.cli.augment import augment
from softmatch.cli.compare import compare
from softmatch.cli.label import label, serve
from softmatch.cli.options import ARGUMENTS, OPTIONS, RENAMED, Flag, Folded, remember
from softmatch.cli.plan import plan
from softmatch.cli.predictions import predict, pseudo_labels, suggest
from softmatch.cli.reproduce import reproduce
from softmatch.cli.train import bench, check, encoders, methods, train
from softmatch.cli.use import curve, distil, export, report, runs
from softmatch.config import FormerName
from softmatch.errors import EXIT_CODES, FAILED, WRONG_USE, InputError, ProcessLost, SoftmatchError, Stopped, explain, nearest
from softmatch.formatting import visible_lines

PATIENCE = 5.0
"""Seconds that a process waits for those before it to print an error."""
BROKEN_PIPE = 141
"""Exit code when the reader of standard output has gone, as of a shell."""
HELP, HELP_ALL = ("--help", "-h"), "--help-all"
MORE = f"`{HELP_ALL}` shows more options: optimiser, machine, paper and long tail."


def help(command: Annotated[str | None, Parameter(group=ARGUMENTS, help="Command to explain.")] = None, /) -> None:
    """Print the help of a command."""
    if command is not None and command not in COMMANDS:
        raise InputError(f"there is no command {command!r}. {nearest(command, COMMANDS)}")
    app.help_print([] if command is None else [command])


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish", "powershell"] | None,
        Parameter(group=ARGUMENTS, show_default="the current shell", help="Shell to complete in."),
    ] = None,
    /,
    *,
    install: Annotated[bool, Flag, Parameter(help="Install the script for this user.")] = False,
) -> None:
    """Print the script that completes commands and options in a shell, or install it.

    For example:

    - softmatch completion --install
    - softmatch completion bash > softmatch.bash
    """
    try:
        print(app.install_completion(shell=shell) if install else app.generate_completion(shell=shell))
    except RuntimeError as error:  # the shell was not recognised
        raise InputError("cannot tell which shell this is. Give bash, zsh, fish or powershell.") from error


GROUPS: dict[str, list[Callable[..., None]]] = {
    "Start": [train, check, label, methods],
    "Use": [predict, pseudo_labels, suggest, curve, export, distil, report, serve, runs, encoders],
    "Research": [compare, reproduce, augment],
    "Machine": [bench, plan],
    "Help": [help, completion],
}
COMMANDS = [function.__name__.replace("_", "-") for functions in GROUPS.values() for function in functions]
FOLDED = ("train", "check", "label", "bench", "compare", "plan")
"""Commands with panels that only --help-all shows."""

app = App(
    name="softmatch",
    version=__version__,
    version_flags=["--version", "-V"],
    help_flags=list(HELP),
    suppress_keyboard_interrupt=False,
    help_format="markdown",
    group_arguments=ARGUMENTS,
    group_parameters=OPTIONS,
    help="Train a classifier from a handful of labels and a lot of unlabelled data, and know whether the unlabelled data helped.",
    help_epilogue="Start with:  `softmatch train`   (a minute on a laptop, nothing to download)",
)
for title, functions in GROUPS.items():
    group = Group.create_ordered(title)
    for place, function in enumerate(functions):
        flags, epilogue = ([*HELP, HELP_ALL], MORE) if function.__name__ in FOLDED else (list(HELP), "")
        app.command(function, group=group, sort_key=place, help_flags=flags, version_flags=[], help_epilogue=epilogue)
for flag in (*HELP, "--version"):
    app[flag].group = (group,)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 1 training failed, 2 wrong usage, 75 stopped and saved, 130 interrupted."""
    words = remember(sys.argv[1:] if arguments is None else arguments, _note)
    Folded.open = HELP_ALL in words
    verbose = bool({"-v", "--verbose"} & set(words))
    try:
        with _short_warnings(), _shown_log():
            app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except (KeyboardInterrupt, SystemExit, Exception) as error:
        if verbose and not isinstance(error, SystemExit):
            traceback.print_exc()
        return _explain(error, words)
    return 0


def _explain(error: BaseException, words: list[str]) -> int:
    """Print what went wrong, and give the exit code."""
    match error:
        case UnknownCommandError():
            kind = "option" if words[0].startswith("-") else "command"
            _complain(f"there is no {kind} {words[0]!r}. {nearest(words[0], [*COMMANDS, *HELP, '--version'])}")
        case UnknownOptionError():
            _complain(_unknown_option(error, words))
        case MissingArgumentError() if error.argument is not None and error.argument.name not in words:
            arguments = app[words[0]].assemble_argument_collection(parse_docstring=True)
            described = {argument.name: argument.parameter.help for argument in arguments}
            _complain(f"{words[0]} needs {error.argument.name}: {described[error.argument.name]}")
        case CycloptsError():
            cause = error.__cause__
            _complain(explain(cause) if isinstance(cause, ValidationError) else str(error).strip())
        case SoftmatchError() | Stopped():
            if isinstance(error, ProcessLost):
                time.sleep(PATIENCE + 3.0)  # the one that has ended may be about to say why
            _complain(str(error))
        case KeyboardInterrupt():
            _complain("interrupted. What a run has written so far is kept in its folder.")
        case SystemExit():
            return error.code if isinstance(error.code, int) else FAILED
        case BrokenPipeError():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what Python still has to print goes nowhere
            return BROKEN_PIPE
        case OSError():
            _complain(f"{error.filename or 'file system'}: {error.strerror or error}.")
        case _:
            raise error
    if isinstance(error, CycloptsError):
        return WRONG_USE
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), FAILED)


def _unknown_option(error: UnknownOptionError, words: list[str]) -> str:
    """Name the nearest option, or the commands that have this one."""
    given = (error.token.keyword or error.token.value or "").partition("=")[0]
    command = next(word for word in words if word in COMMANDS)
    current = {option for names in RENAMED.values() for old, option in names.items() if old == given} | {given}
    others = [name for name in COMMANDS if name != command and not current.isdisjoint(option_names(name))]
    if others:
        return f"{command} does not read {given}, an option of {', '.join(others[:3])}. Leave it out."
    near = nearest(given, [option for option in option_names(command) if option.startswith("--")])
    close = near if near.startswith("Did") else f"softmatch {command} {HELP_ALL if command in FOLDED else HELP[0]} lists them."
    return f"{command} has no option {given}. {close}"


@cache
def option_names(command: str) -> list[str]:
    """All options of a command."""
    arguments = app[command].assemble_argument_collection(parse_docstring=False)  # with help texts, all commands take seconds
    return [name for argument in arguments for name in argument.names if name.startswith("-")]


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print warnings about former names of settings as one line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", FormerName)
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, FormerName):
                _note(str(message))
            else:
                shown(message, category, *place, **more)

        warnings.showwarning = show
        yield


@contextmanager
def _shown_log() -> Iterator[None]:
    """Print the warnings of our loggers, which are silent where softmatch is imported."""
    logger, handler = logging.getLogger("softmatch"), logging.lastResort
    assert handler is not None
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _note(message: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        _print(f"softmatch: {message}")


def _complain(message: str) -> None:
    """Print an error. The first of several processes prints at once; the others wait, and are ended if it is the same error."""
    rank, size, who = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1"), "softmatch"
    if rank.isdecimal() and rank != "0" and size != "1":
        time.sleep(PATIENCE)
        who += f" (process {int(rank) + 1} of {size})"
    _print(f"{who}: {message}")


def _print(text: str) -> None:
    """Print to standard error; on a terminal, lines break between words."""
    lines = visible_lines(text).split("\n")
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        lines = [textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in lines]
    print("\n".join(lines), file=sys.stderr)
