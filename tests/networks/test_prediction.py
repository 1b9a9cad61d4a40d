"""Predictions and bootstrap intervals."""

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch import distributed as dist

from softmatch.data.pictures import ImageFiles, read_image
from softmatch.metrics import error_interval
from softmatch.networks.prediction import predict_probabilities
from softmatch.views import ImageViews, TextViews, VectorViews
from softmatch.views.pillow import PillowViews


def test_predictions_do_not_depend_on_the_batch_and_keep_the_mode() -> None:
    network = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).train()
    items, views = torch.randn(50, 2), VectorViews([0.0, 0.0], [1.0, 1.0])
    whole = predict_probabilities(network, views, items, torch.device("cpu"))
    parts = predict_probabilities(network, views, items, torch.device("cpu"), batch=7)
    assert torch.allclose(whole, parts, atol=1e-6)
    assert torch.allclose(whole.sum(1), torch.ones(50))
    assert network.training


def test_predictions_are_averaged_over_mirror_images_where_views_are_mirrored() -> None:
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)).eval()
    items = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8)
    plain, mirrored = (ImageViews([0.5], [0.25], mirror=mirror) for mirror in (False, True))

    def predict(views: ImageViews, images: Tensor) -> Tensor:
        return predict_probabilities(network, views, images, torch.device("cpu"))

    assert torch.allclose(predict(mirrored, items), (predict(plain, items) + predict(plain, items.flip(-1))) / 2, atol=1e-6)
    assert not torch.allclose(predict(mirrored, items), predict(plain, items), atol=1e-3)
    unmirrored = ImageViews([0.5], [0.25], flip=False, mirror=True)
    assert torch.equal(predict(unmirrored, items), predict(plain, items)), "digits have no mirror images"
    assert ImageViews(**{k: v for k, v in mirrored.settings().items() if k != "kind"}).mirror


def test_interval_of_an_error_rate_is_close_to_the_binomial_one() -> None:
    errors = (torch.arange(1000) < 100).float()
    low, high = error_interval(errors)
    half = 1.96 * (0.1 * 0.9 / 1000) ** 0.5
    assert low == pytest.approx(0.1 - half, abs=0.003)
    assert high == pytest.approx(0.1 + half, abs=0.003)


def test_no_errors_among_few_samples_are_not_taken_for_certainty() -> None:
    low, high = error_interval(torch.zeros(30))
    assert low == 0.0
    assert high == pytest.approx(0.1135, abs=1e-4)  # by Wilson's formula, z²/(n + z²)
    assert error_interval(torch.ones(30)) == pytest.approx((1 - high, 1.0))


def test_interval_of_a_difference_is_paired() -> None:
    """Two classifiers wrong on the same samples: little doubt about their difference, though each rate is uncertain."""
    first = (torch.arange(500) < 50).float()
    assert error_interval(first, first) == (-3 / 500, 3 / 500)
    second = (torch.arange(500) < 75).float()
    low, high = error_interval(first, second)
    assert low < -0.05 < high < 0


@pytest.fixture
def folder(tmp_path: Path) -> ImageFiles:
    (tmp_path / "images").mkdir()
    for number in range(20):
        pixels = np.random.default_rng(number).integers(0, 256, (12, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number:02}.png")
    return ImageFiles(sorted((tmp_path / "images").iterdir()), side=8, resize=10)


def test_files_are_predicted_as_the_images_in_them(folder: ImageFiles) -> None:
    network, views = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)), ImageViews([0.5] * 3, [0.25] * 3)
    single = PillowViews(views, 8)
    images = torch.stack([single.plain(read_image(path, 10)) for path in folder.paths])
    expected = predict_probabilities(network, views, images, torch.device("cpu"))
    for workers in (0, 1):
        found = predict_probabilities(network, views, folder, torch.device("cpu"), batch=6, workers=workers)
        assert torch.allclose(found, expected, atol=1e-6)


def test_large_images_are_predicted_a_few_at_a_time() -> None:
    sizes = []

    class Counting(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            sizes.append(len(images))
            return torch.zeros(len(images), 2)

    items = torch.zeros(100, 3, 256, 256, dtype=torch.uint8)
    predict_probabilities(Counting(), ImageViews([0.5] * 3, [0.25] * 3), items, torch.device("cpu"))
    assert sizes == [64, 36]


class Eager(nn.Module):
    """Refuses to be run on nothing, as a network with a reshape does."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, items: Tensor) -> Tensor:
        assert len(items), "there is nothing to predict"
        return self.layer(items)  # type: ignore[no-any-return]  # a module's call is untyped


def test_a_check_is_made_before_each_batch_and_may_end_the_predictions() -> None:
    network, views = Eager().train(), VectorViews([0.0, 0.0], [1.0, 1.0])
    seen: list[int] = []

    def check() -> None:
        seen.append(len(seen))
        if len(seen) == 4:
            raise KeyboardInterrupt

    predict_probabilities(network, views, torch.zeros(20, 2), torch.device("cpu"), batch=8, check=check)
    assert seen == [0, 1, 2]
    with pytest.raises(KeyboardInterrupt):
        predict_probabilities(network, views, torch.zeros(20, 2), torch.device("cpu"), batch=8, check=check)
    assert network.training


def test_a_check_that_ends_the_reading_of_files_ends_the_workers(folder: ImageFiles) -> None:
    network, views = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)), ImageViews([0.5] * 3, [0.25] * 3)
    working: list[int] = []

    def check() -> None:
        working.append(len(multiprocessing.active_children()))
        if len(working) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:  # its traceback refers to all that was there
        predict_probabilities(network, views, folder, torch.device("cpu"), batch=6, workers=1, check=check)
    assert working == [0, 1]
    assert multiprocessing.active_children() == []
    del caught


READER = nn.Sequential(nn.Embedding(9, 4, _weight=torch.arange(36.0).view(9, 4).sin()), nn.Flatten(), nn.Linear(20, 3))
IDS = torch.tensor([[1 + row % 8] * (1 + row % 5) + [0] * (4 - row % 5) for row in range(30)], dtype=torch.int32)


def test_texts_are_read_by_length_and_told_in_their_own_order() -> None:
    seen: list[int] = []
    handle = READER.register_forward_pre_hook(lambda _, given: seen.append(int((given[0] != 0).sum(1).max())))
    probs = predict_probabilities(READER, TextViews(pad=0), IDS, torch.device("cpu"), batch=6)
    handle.remove()
    assert seen == [5, 4, 3, 2, 1]
    assert torch.allclose(probs, torch.softmax(READER(IDS.long()), -1), atol=1e-6)
    assert predict_probabilities(READER, TextViews(pad=0), IDS[:0], torch.device("cpu")).shape == (0, 3)


NUMBERS = (1, 2, 4, 10, 30)
"""Of items that three processes share: fewer than they are, uneven, and so that some need a batch more than others."""


def _predict_all(files: ImageFiles, shared: bool) -> tuple[dict[str, Tensor], dict[str, int]]:
    """Predictions by name, and how often was checked."""
    torch.manual_seed(0)
    network, views, cpu = Eager(), VectorViews([0.0, 0.0], [1.0, 1.0]), torch.device("cpu")
    items, found, checks = torch.randn(30, 2), dict[str, Tensor](), dict[str, int]()

    def counting(name: str) -> Callable[[], None]:
        def check() -> None:
            checks[name] = checks.get(name, 0) + 1

        return check

    for number in NUMBERS:
        name = f"{number} vectors"
        found[name] = predict_probabilities(network, views, items[:number], cpu, 3, shared=shared, check=counting(name))
    for number in NUMBERS:
        name = f"{number} texts"
        found[name] = predict_probabilities(READER, TextViews(pad=0), IDS[:number], cpu, 3, shared=shared, check=counting(name))
    pictures, pixels = ImageViews([0.5] * 3, [0.25] * 3), nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4))
    for number in (2, len(files)):
        name, some = f"{number} files", files[torch.arange(number)]
        found[name] = predict_probabilities(pixels, pictures, some, cpu, 6, 0, shared=shared, check=counting(name))
    return found, checks


def _share(rank: int, size: int, files: ImageFiles, meeting: Path, out: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    torch.save(_predict_all(files, True), out)
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="processes that import torch anew are slow")
@pytest.mark.filterwarnings(r"ignore:.*use of fork\(\):DeprecationWarning")
def test_processes_share_the_work_and_all_get_all_predictions(folder: ImageFiles, tmp_path: Path) -> None:
    expected, _ = _predict_all(folder, False)
    context, outs = multiprocessing.get_context("fork"), [tmp_path / f"rank{rank}" for rank in range(3)]
    shares = [context.Process(target=_share, args=(rank, 3, folder, tmp_path / "meeting", out)) for rank, out in enumerate(outs)]
    for process in shares:
        process.start()
    for process in shares:
        process.join(60)
    assert [process.exitcode for process in shares] == [0, 0, 0]
    results = [torch.load(out) for out in outs]
    for found, checks in results:
        assert list(found) == list(expected)
        for name, probs in expected.items():
            torch.testing.assert_close(found[name], probs, atol=1e-6, rtol=0)
            assert torch.equal(found[name], results[0][0][name])
        assert checks == results[0][1]
    assert [results[0][1][f"{number} vectors"] for number in NUMBERS] == [1, 1, 1, 2, 4]
