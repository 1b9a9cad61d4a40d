"""Batches in several processes: the same as in one; a process that ends or fails is told about; an interruption ends all."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from softmatch.augmenting.own_function import OwnFunction
from softmatch.augmenting.translation import BackTranslation
from softmatch.augmenting.working import work
from softmatch.distributed.launching import usable_cpus
from softmatch.errors import InputError, LoadingError
from tests.augmenting.echo import Echo

BATCHES = [[f"{k}", f"{k}{k}"] for k in range(7)]


def test_one_process_is_this_one() -> None:
    assert list(work(Echo(), BATCHES)) == [(batch, [f"{text} 0 None" for text in batch]) for batch in BATCHES]
    assert list(work(Echo(), BATCHES[:1], processes=4)) == [(BATCHES[0], ["0 0 None", "00 0 None"])]  # others had nothing to do
    assert list(work(Echo(), [], processes=4)) == []
    with pytest.raises(InputError, match="this cannot work"):
        list(work(Echo(), [["fail"]]))


def test_two_processes_make_every_batch_once_and_share_the_threads() -> None:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    made = list(work(Echo(), BATCHES, processes=2))
    assert sorted(batch for batch, _ in made) == BATCHES
    threads = max(usable_cpus() // 2, 1)
    assert {text.split()[1] for _, new in made for text in new} <= {"0", "1"}
    assert all(new == [f"{text} {new[0].split()[1]} {threads}" for text in batch] for batch, new in made)
    assert multiprocessing.active_children() == []
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask


@pytest.mark.parametrize(
    ("word", "error", "message"),
    [
        ("kill", LoadingError, r"process \d of 2 ended with signal 9, perhaps for lack of memory: .*until then is kept"),
        ("fail", InputError, "this cannot work"),
    ],
)
def test_a_process_that_is_lost_or_fails_ends_all(word: str, error: type[Exception], message: str) -> None:
    made, done = work(Echo(), [*BATCHES, [word], ["sleep"], ["sleep"]], processes=2), []
    with pytest.raises(error, match=message):
        done.extend(made)
    assert len(done) in (6, 7), "the other one may still be at its last; it is not waited for"
    assert multiprocessing.active_children() == []


def test_an_interruption_of_all_processes_at_once_is_one_of_the_first_alone() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.augmenting.echo"]
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("['a ")
        os.killpg(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == ""


def test_a_users_function_in_two_processes_makes_what_it_makes_in_one(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def twice(texts): return [text * 2 for text in texts]")
    maker = OwnFunction.find(f"{tmp_path / 'mine.py'}:twice")
    assert sorted(work(maker, BATCHES, processes=2)) == list(work(maker, BATCHES))


def test_models_are_loaded_where_the_maker_is_sent(pair: tuple[Path, Path]) -> None:
    maker = BackTranslation("x", *pair, 0.9, 0, 2, "cpu")
    sent = pickle.loads(pickle.dumps(maker))
    assert sent == maker
    assert sent.load(1, 1)(["the cat"]) == maker.load()(["the cat"])
