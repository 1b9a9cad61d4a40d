"""Batches in several processes: the same as in one; a process that ends or fails is reported; an interruption ends all."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from softmatch.augmenting.makers import OwnFunction
from softmatch.augmenting.translation import BackTranslation
from softmatch.augmenting.worker_pool import make_batches
from softmatch.distributed.launching import usable_cpus
from softmatch.errors import InputError, LoadingError
from tests.augmenting.echo import Echo

BATCHES = [[f"{k}", f"{k}{k}"] for k in range(7)]


def test_one_process_is_this_one() -> None:
    assert list(make_batches(Echo(), BATCHES)) == [(batch, [f"{text} 0 None" for text in batch]) for batch in BATCHES]
    assert list(make_batches(Echo(), BATCHES[:1], processes=4)) == [
        (BATCHES[0], ["0 0 None", "00 0 None"])
    ]  # others had nothing to do
    assert list(make_batches(Echo(), [], processes=4)) == []
    with pytest.raises(InputError, match="this cannot work"):
        list(make_batches(Echo(), [["fail"]]))


def test_two_processes_make_every_batch_once_and_share_the_threads() -> None:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    made = list(make_batches(Echo(), BATCHES, processes=2))
    assert sorted(batch for batch, _ in made) == BATCHES
    threads = max(usable_cpus() // 2, 1)
    assert {text.split()[1] for _, new in made for text in new} <= {"0", "1"}
    assert all(new == [f"{text} {new[0].split()[1]} {threads}" for text in batch] for batch, new in made)
    assert multiprocessing.active_children() == []
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask


@pytest.mark.parametrize(
    ("word", "error", "message"),
    [
        ("kill", LoadingError, "a worker process has ended, perhaps for lack of memory: .* are kept; the same command resumes"),
        ("fail", InputError, "this cannot work"),
    ],
)
def test_a_process_that_is_lost_or_fails_ends_all(word: str, error: type[Exception], message: str) -> None:
    made, done = make_batches(Echo(), [*BATCHES, [word], ["sleep"], ["sleep"]], processes=2), []
    with pytest.raises(error, match=message):
        done.extend(made)
    assert len(done) in (5, 6, 7), "the others need not be finished; they are not waited for"
    assert multiprocessing.active_children() == []


def start_sleeping() -> subprocess.Popen[str]:
    """A process whose two workers sleep, in a session of its own."""
    root, command = Path(__file__).parents[2], [sys.executable, "-m", "tests.augmenting.echo"]
    process = subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("['a ")
    return process


def test_an_interruption_of_all_processes_at_once_is_one_of_the_first_alone() -> None:
    with start_sleeping() as process:
        os.killpg(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == ""


def test_workers_end_when_the_main_process_is_killed() -> None:
    with start_sleeping() as process:
        process.kill()
        process.communicate(timeout=50)  # the workers, which sleep for longer, have its pipes open while they live


def test_a_users_function_in_two_processes_makes_what_it_makes_in_one(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def twice(texts): return [text * 2 for text in texts]")
    maker = OwnFunction.find(f"{tmp_path / 'mine.py'}:twice")
    assert sorted(make_batches(maker, BATCHES, processes=2)) == list(make_batches(maker, BATCHES))


def test_models_are_loaded_where_the_maker_is_sent(pair: tuple[Path, Path]) -> None:
    maker = BackTranslation(*pair, 0.9, 0, 2, "cpu")
    sent = pickle.loads(pickle.dumps(maker))
    assert sent == maker
    assert sent.load(1, 1)(["the cat"]) == maker.load()(["the cat"])
