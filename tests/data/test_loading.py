"""Batches from worker processes: real files, real workers, and the same batches whatever their number."""

import gc
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from softmatch.data import Batches
from softmatch.data import loading as module
from softmatch.data.batches import make_roles
from softmatch.data.loading import LoadedBatches, count_workers, item_statistics, make_batches, read_plain
from softmatch.data.pictures import ImageFiles, read_image
from softmatch.distributed import processes
from softmatch.distributed.processes import World
from softmatch.errors import InputError
from softmatch.seeds import stream
from softmatch.step import Batch
from softmatch.views import ImageViews, VectorViews
from softmatch.views.pillow import PillowViews, to_image
from tests.forked import Forked

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _no_worker_is_left() -> Iterator[None]:
    yield
    gc.collect()
    assert multiprocessing.active_children() == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """40 images of different shapes and formats; the mean level of number n is 5·n + 20."""
    for number in range(40):
        noise = np.random.default_rng(number).integers(-9, 10, (30 + number, 50, 3))
        picture = Image.fromarray((noise + 5 * number + 20).clip(0, 255).astype(np.uint8))
        picture.save(tmp_path / f"{number:02}.{'jpg' if number % 2 else 'png'}")
    return tmp_path


def files_in(folder: Path) -> ImageFiles:
    return ImageFiles(sorted(folder.glob("*.*g")), side=24, resize=28)


def loaded(items: Tensor | ImageFiles, workers: int, **options: object) -> LoadedBatches:
    device = options.pop("device", CPU)
    views = ImageViews([0.5] * items.shape[1], [0.25] * items.shape[1])
    roles = make_roles(items[torch.arange(6)], torch.arange(6), items, 5, 20, 3, **options)  # type: ignore[arg-type]  # options by name
    return LoadedBatches(roles, views, 3, device, workers)  # type: ignore[arg-type]  # an option by name


def tensors(batch: Batch) -> list[Tensor]:
    streams = [tensor for stream in batch.streams.values() for tensor in (stream.labels, *stream.views.values())]
    return [batch.labels, batch.index, batch.labeled_index, *batch.labeled.values(), *batch.unlabeled.values(), *streams]


def same(first: Batch, second: Batch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors(first), tensors(second), strict=True))


@pytest.mark.parametrize("kind", ["files", "tensor"])
def test_the_number_of_workers_changes_nothing(kind: str, folder: Path) -> None:
    items = (
        files_in(folder) if kind == "files" else torch.stack([torch.full((3, 20, 22), n, dtype=torch.uint8) for n in range(40)])
    )
    here, one, three = (loaded(items, workers) for workers in (0, 1, 3))
    for step in range(4):
        batch = here(step)
        assert batch.unlabeled["strong"].shape == (20, *items.shape[1:])
        assert batch.labeled["weak"].shape == (5, *items.shape[1:])
        assert same(batch, one(step))
        assert same(batch, three(step))


def test_any_step_may_follow_any_other(folder: Path) -> None:
    walked, jumped = loaded(files_in(folder), 0), loaded(files_in(folder), 2)
    row = [walked(step) for step in range(8)]
    for step in (5, 6, 1, 1, 7, 0):
        assert same(jumped(step), row[step])
    assert not same(row[0], row[1])


def test_each_sample_of_each_view_draws_from_a_stream_of_its_own(folder: Path) -> None:
    """What the documentation promises: the view follows from seed, role, view, step and place in the batch."""
    files, step = files_in(folder), 2
    views = ImageViews([0.5] * 3, [0.25] * 3)
    batch, single = loaded(files, 0)(step), PillowViews(views, 24)
    for place, position in enumerate(batch.index.tolist()):
        image = read_image(Path(files.paths[position]), 28)
        for name in ("weak", "strong"):
            expected = getattr(single, name)(image, stream(3, "unlabeled", name, step, place))
            assert torch.equal(batch.unlabeled[name][place], views.plain(expected[None])[0])


@pytest.mark.parametrize("size", [2, 3])
def test_several_processes_make_the_views_of_one(folder: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unlabelled batch of 37 is more than a part for each process; shares begin in the middle of a part."""
    files, views = files_in(folder), ImageViews([0.5] * 3, [0.25] * 3)
    streams = {"streams": ("balanced", "validation"), "validation": (files[torch.arange(7, 11)], torch.arange(7, 11))}
    roles = make_roles(files[torch.arange(6)], torch.arange(6), files, 5, 37, 3, **streams)  # type: ignore[arg-type]  # options by name
    steps = (2, 3, 0)
    alone = LoadedBatches(roles, views, 3, CPU, workers=0)
    whole = [alone(step) for step in steps]
    found = []
    for rank in range(size):
        monkeypatch.setattr(processes, "world", lambda rank=rank: World(rank, size))
        own = LoadedBatches(roles, views, 3, CPU, workers=rank)
        found.append([own(step) for step in steps])
        own.close()
    for expected, shares in zip(whole, zip(*found, strict=True), strict=True):
        for each in shares:
            assert torch.equal(each.labels, expected.labels)
            assert torch.equal(each.index, expected.index)
            assert torch.equal(each.streams["validation"].labels, expected.streams["validation"].labels)
        for name in ("weak", "strong"):
            assert torch.equal(torch.cat([each.unlabeled[name] for each in shares]), expected.unlabeled[name])
        assert torch.equal(torch.cat([each.labeled["weak"] for each in shares]), expected.labeled["weak"])
        for role in ("balanced", "validation"):
            made = [each.streams[role].views["weak"] for each in shares]
            assert torch.equal(torch.cat(made), expected.streams[role].views["weak"])


def test_labels_and_index_belong_to_the_images(folder: Path) -> None:
    batches = loaded(files_in(folder), 2, unlabeled_views=("weak",), pool=torch.tensor([39, 7, 20]))
    batch = batches(0)
    level = (batch.unlabeled["weak"].mean((1, 2, 3)) * 0.25 + 0.5) * 255
    assert torch.allclose(level, torch.tensor([39.0, 7.0, 20.0])[batch.index] * 5 + 20, atol=3)
    level = (batch.labeled["weak"].mean((1, 2, 3)) * 0.25 + 0.5) * 255
    assert torch.allclose(level, batch.labels * 5.0 + 20, atol=3)


def test_the_samples_are_those_of_batches_on_the_device() -> None:
    items = torch.randint(0, 256, (40, 1, 12, 12), dtype=torch.uint8)
    views = ImageViews([0.5], [0.25], pad=0, flip=False, operations=0, cutout=0.0)
    streams = {"streams": ("balanced", "validation"), "validation": (items[7:9], torch.tensor([7, 8]))}
    roles = make_roles(items[:6], torch.arange(6), items, 5, 20, 3, unlabeled_views=("weak", "strong_2"), **streams)  # type: ignore[arg-type]  # options by name
    assert same(Batches(roles, views, 3, CPU)(7), LoadedBatches(roles, views, 3, CPU, workers=0)(7))


def test_views_are_independent_of_which_others_are_asked_for(folder: Path) -> None:
    both, weak, none = (loaded(files_in(folder), 0, unlabeled_views=names)(1) for names in (("weak", "strong"), ("weak",), ()))
    assert torch.equal(both.unlabeled["weak"], weak.unlabeled["weak"])
    assert torch.equal(both.labeled["weak"], none.labeled["weak"])
    assert (none.unlabeled, len(none.index)) == ({}, 0)


def test_training_does_not_depend_on_whether_workers_are_used(folder: Path) -> None:
    """The global random numbers, which dropout takes, stay as they are, and views have the layout that any network takes."""
    before = torch.get_rng_state()
    assert loaded(files_in(folder), 2)(0).unlabeled["strong"].is_contiguous()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_file_is_named_without_a_traceback(folder: Path, workers: int) -> None:
    path = folder / "13.jpg"
    content = path.read_bytes()
    path.write_bytes(content[:300])
    batches = loaded(files_in(folder), workers)
    with pytest.raises(InputError, match=r"13\.jpg cannot be read.*Replace or remove it") as caught:
        list(map(batches, range(3)))
    assert "Traceback" not in str(caught.value)
    assert multiprocessing.active_children() == []
    path.write_bytes(content)
    assert same(batches(1), loaded(files_in(folder), 0)(1))  # mended, it goes on


def test_workers_end_when_closed_and_when_dropped(folder: Path) -> None:
    batches = loaded(files_in(folder), 2)
    first = batches(0)
    assert len(multiprocessing.active_children()) == 2
    batches.close()
    assert multiprocessing.active_children() == []
    assert same(batches(0), first)
    assert len(multiprocessing.active_children()) == 2
    del batches
    assert multiprocessing.active_children() == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the worker in /proc")
def test_a_killed_worker_ends_a_run_with_a_message(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """In a process of its own: torch's signal handler raises wherever the main thread is just then."""
    tree = tmp_path_factory.mktemp("tree")
    for part in ("train", "val"):
        for name in ("n01", "n02"):
            (tree / part / name).mkdir(parents=True)
            for number in range(6):
                shutil.copy(folder / f"{2 * number + 1:02}.jpg", tree / part / name / f"{number}.JPEG")
    options = "--labels 4 --labeled-batch 2 --unlabeled-batch 4 --network small-conv --steps 100000 --workers 1 --no-baseline"
    run = Forked(["-m", "softmatch", "train", "imagenet", "--data", str(tree), *options.split()], tree)
    try:
        os.kill(_child_of(run.pid, tree), signal.SIGKILL)
        _, error = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == 1, error
    assert "worker" in error
    assert "Traceback" not in error


def _child_of(parent: int, folder: Path) -> int:
    """The worker that makes batches, once training has begun."""
    deadline = time.monotonic() + 60
    children = Path(f"/proc/{parent}/task/{parent}/children")
    while time.monotonic() < deadline:
        if list(folder.glob("runs/*/config.yaml")) and (found := children.read_text().split()):
            time.sleep(1)  # let it take in work
            return int(found[0])
        time.sleep(0.1)
    raise AssertionError("no worker was started")


def test_workers_use_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)

    def threads(image: Image.Image, *rest: object) -> Tensor:
        return torch.full((1, 8, 8), torch.get_num_threads(), dtype=torch.uint8)

    monkeypatch.setattr(PillowViews, "weak", lambda self, image, generator: threads(image))
    batches = loaded(torch.zeros(10, 1, 8, 8, dtype=torch.uint8), 1, unlabeled_views=("weak",))
    assert ((batches(0).unlabeled["weak"] * 0.25 + 0.5) * 255).round().unique().tolist() == [1.0]


@pytest.mark.skipif(not hasattr(signal, "sigwaitinfo"), reason="the system does not say who sent a signal")
def test_workers_leave_signals_to_the_process_that_trains(folder: Path) -> None:
    """A terminal or scheduler sends them to all; only what their own process sends ends the workers."""
    batches = loaded(files_in(folder), 1)
    first = batches(0)
    (worker,) = multiprocessing.active_children()
    assert worker.pid is not None
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM):
        subprocess.run(["kill", f"-{int(number)}", str(worker.pid)], check=True)
    time.sleep(0.1)
    assert worker.is_alive()
    assert same(loaded(files_in(folder), 0)(1), batches(1))
    assert not same(first, batches(2))
    batches.close()
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    stubborn = context.Process(target=_wait_as_worker, args=(ready,))
    stubborn.start()
    assert ready.wait(30)
    stubborn.terminate()
    stubborn.join(10)
    assert stubborn.exitcode == 0


def _wait_as_worker(ready: Event) -> None:
    module.begin_worker(0)
    ready.set()
    time.sleep(60)


def test_workers_share_the_processors_with_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "usable_cpus", lambda: 7)
    assert count_workers() == 7
    for neighbours, expected in ((2, 3), (7, 1), (9, 1)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(neighbours))
        assert count_workers() == expected


def test_little_shared_memory_means_less_in_advance(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_shared_memory", lambda: 1000)
    assert same(loaded(files_in(folder), 2)(1), loaded(files_in(folder), 0)(1))


def test_files_for_evaluation_come_in_order_and_cropped_in_the_middle(folder: Path) -> None:
    files, single = files_in(folder), PillowViews(ImageViews([0.5] * 3, [0.25] * 3), 24)
    for workers in (0, 2):
        parts = list(read_plain(files, 20, workers))
        assert [len(part) for part in parts] == [32, 8]
        for path, image in zip(files.paths, torch.cat(parts), strict=True):
            assert torch.equal(image, single.plain(read_image(path, 28)))


def test_reading_may_stop_before_the_end(folder: Path) -> None:
    reading = read_plain(files_in(folder), 16, 2)
    assert len(next(reading)) == 16
    assert len(multiprocessing.active_children()) == 2
    del reading
    assert multiprocessing.active_children() == []


def test_statistics_of_files_are_those_of_their_pixels(folder: Path) -> None:
    files = files_in(folder)
    pixels = torch.cat(list(read_plain(files, 40, 0)))
    assert item_statistics(files, workers=0) == item_statistics(pixels)
    chosen = torch.tensor([1, 5, 30])
    assert item_statistics(files, chosen, workers=1) == item_statistics(pixels, chosen)


def test_who_makes_the_batches_depends_on_what_is_quicker(folder: Path) -> None:
    views, labels = ImageViews([0.5], [0.25]), torch.arange(2)
    small, large = (torch.zeros(4, 1, side, side, dtype=torch.uint8) for side in (module.LARGE, module.LARGE + 1))

    def made(items: Tensor | ImageFiles, device: str = "cpu", workers: int | None = None) -> object:
        roles = make_roles(items[torch.arange(2)], labels, items, 2, 2, 0)
        return make_batches(roles, views, 0, torch.device(device), workers)

    assert isinstance(made(small), Batches)
    assert isinstance(made(small, workers=0), Batches)
    assert isinstance(made(small, workers=1), LoadedBatches)
    assert isinstance(made(large), LoadedBatches)
    assert isinstance(made(large, device="meta"), Batches)
    by_files = made(files_in(folder))
    assert isinstance(by_files, LoadedBatches)
    assert by_files.workers == count_workers() >= 1
    vectors = VectorViews([0.0], [1.0])
    on_vectors = make_batches(make_roles(torch.zeros(2, 1), labels, torch.zeros(4, 1), 2, 2, 0), vectors, 0, CPU, workers=2)
    assert isinstance(on_vectors, Batches)
    with pytest.raises(InputError, match="'vector'"):
        make_batches(make_roles(files_in(folder), labels, files_in(folder), 2, 2, 0), vectors, 0, CPU)


def test_images_are_opened_from_tensors_of_any_layout() -> None:
    items = torch.randint(0, 256, (4, 3, 9, 7), dtype=torch.uint8)
    last = items.contiguous(memory_format=torch.channels_last)
    assert to_image(items[1]).tobytes() == to_image(last[1]).tobytes()
