"""Images become pixels: values of odd files, choice of size and colour, and what is left out."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from softmatch.data.loading import read_plain
from softmatch.data.pictures import EncodedImage, ImageFiles
from softmatch.data.preparations import preparation_from
from softmatch.data.preparations.images import ImagePreparation, fit_images
from softmatch.errors import InputError
from tests.data.readers.images import write_animation, write_claiming, write_image, write_truncated, write_turned


def levels(image: Tensor) -> list[list[int]]:
    """The middle of each quarter of the first channel."""
    height, width = image.shape[1:]
    return [[int(image[0, y, x]) for x in (width // 4, 3 * width // 4)] for y in (height // 4, 3 * height // 4)]


def write_noise(folder: Path, number: int, size: tuple[int, int] = (20, 12), suffix: str = "png") -> list[Path]:
    paths = []
    for each in range(number):
        pixels = np.random.default_rng(each).integers(0, 256, (size[1], size[0], 3), np.uint8)
        paths.append(folder / f"{each}.{suffix}")
        Image.fromarray(pixels).save(paths[-1])
    return paths


def test_small_square_images_stay_as_they_are(tmp_path: Path) -> None:
    paths = [write_image(tmp_path / f"{level}.png", level, (28, 28), "L") for level in range(5)]
    made, items, kept, findings = fit_images(paths, None)[:4]
    assert made.describe() == "grey images resized to 28×28"
    assert isinstance(items, Tensor)
    assert (items.shape, items.dtype) == ((5, 1, 28, 28), torch.uint8)
    assert items[:, 0, 3, 3].tolist() == kept == [0, 1, 2, 3, 4]
    assert findings == []
    assert torch.equal(made(paths), items)


@pytest.mark.parametrize(
    ("sizes", "given", "side"),
    [
        ([(40, 30), (50, 21), (60, 35)], None, 32),  # 30 is nearest to a multiple of 8
        ([(40, 30), (50, 21), (60, 35)], 20, 20),
        ([(300, 200)], None, 64),
        ([(200, 200), (200, 200)], None, 64),
        ([(128, 128), (128, 128)], None, 128),
        ([(30, 20), (30, 20)], None, 24),
        ([(2, 2), (2, 2)], None, 8),
    ],
)
def test_the_side_follows_from_the_shorter_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[tuple[int, int]], given: int | None, side: int
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    paths = [write_image(tmp_path / f"{number}.png", size=size) for number, size in enumerate(sizes)]
    made, items, _, _ = fit_images(paths, given)[:4]
    assert items.shape == (len(sizes), 3, side, side)
    assert (made.height, made.width) == (side, side)


def test_an_accelerator_allows_larger_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for size, side in (((300, 200), 200), ((600, 500), 224)):
        assert fit_images([write_image(tmp_path / "1.png", size=size)], None)[1].shape == (1, 3, side, side)


@pytest.mark.parametrize("mode", ["L", "1", "LA", "I;16"])
def test_images_are_grey_where_all_are(tmp_path: Path, mode: str) -> None:
    paths = [write_image(tmp_path / "1.png", {"1": 1, "LA": (100, 255)}.get(mode, 100), mode=mode)]
    assert fit_images(paths, None)[0].channels == 1
    assert fit_images([*paths, write_image(tmp_path / "2.png")], None)[0].channels == 3


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("mode", "suffix", "color", "expected"),
    [
        ("L", "png", 77, (77, 77, 77)),
        ("1", "png", 1, (255, 255, 255)),
        ("1", "pbm", 0, (0, 0, 0)),
        ("P", "bmp", 0, (0, 0, 0)),
        ("LA", "png", (100, 255), (100, 100, 100)),
        ("LA", "png", (100, 0), (255, 255, 255)),
        ("RGBA", "png", (200, 100, 0, 255), (200, 100, 0)),
        ("RGBA", "webp", (200, 100, 0, 0), (255, 255, 255)),
        ("RGBA", "png", (200, 100, 0, 51), (244, 224, 204)),  # a fifth of it over white
        ("I;16", "png", 200 * 256 + 255, (200, 200, 200)),
        ("I;16", "tif", 3 * 256, (3, 3, 3)),
        ("I", "pgm", 90 * 256, (90, 90, 90)),
        ("CMYK", "tiff", (0, 255, 255, 0), (255, 0, 0)),
        ("RGB", "PPM", (1, 2, 3), (1, 2, 3)),
    ],
)
def test_each_mode_gives_its_colours(
    tmp_path: Path, mode: str, suffix: str, color: int | tuple[int, ...], expected: tuple[int, int, int], channels: int
) -> None:
    path = write_image(tmp_path / f"image.{suffix}", color, mode=mode)
    pixels = ImagePreparation(channels, 8, 8)([path])
    red, green, blue = expected
    wanted = [*expected] if channels == 3 else [round(0.299 * red + 0.587 * green + 0.114 * blue)]
    assert (pixels[0].flatten(1).int() - torch.tensor(wanted)[:, None]).abs().max() <= 1
    if channels == 3 or len({*expected}) == 1:
        assert pixels[0, :, 4, 4].tolist() == wanted


def test_a_cmyk_jpeg_has_its_colour(tmp_path: Path) -> None:
    path = write_image(tmp_path / "print.jpg", (0, 255, 255, 0), mode="CMYK")
    assert ImagePreparation(3, 8, 8)([path])[0, :, 4, 4].tolist() == pytest.approx([255, 0, 0], abs=4)


def test_transparent_colours_of_a_palette_become_white(tmp_path: Path) -> None:
    image = Image.new("P", (16, 16), 1)
    image.putpalette([0, 0, 0, 10, 20, 30, 40, 50, 60])
    image.paste(2, (0, 0, 16, 8))
    for name in ("icon.png", "icon.gif"):
        image.save(tmp_path / name, transparency=1)
        pixels = ImagePreparation(3, 16, 16)([tmp_path / name])[0]
        assert pixels[:, 2, 2].tolist() == [40, 50, 60]
        assert pixels[:, 12, 12].tolist() == [255, 255, 255]


@pytest.mark.parametrize("suffix", ["gif", "webp", "png"])
def test_of_an_animation_the_first_frame_is_used_and_that_is_said(tmp_path: Path, suffix: str) -> None:
    path = write_animation(tmp_path / f"moving.{suffix}", (50, 200))
    _, items, kept, findings = fit_images([path], None)[:4]
    assert isinstance(items, Tensor)
    assert kept == [0]
    assert items.float().mean() == pytest.approx(50, abs=2)
    assert [(finding.level, "moving" in finding.text and "first frame" in finding.text) for finding in findings] == [
        ("note", True)
    ]


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_turned_upright(tmp_path: Path, orientation: int, suffix: str) -> None:
    path = write_turned(tmp_path / f"photo.{suffix}", orientation)
    found = levels(ImagePreparation(1, 16, 24)([path])[0])
    assert np.abs(np.array(found) - [[40, 90], [150, 220]]).max() <= 3


def test_as_stored_nothing_is_turned(tmp_path: Path) -> None:
    path = write_turned(tmp_path / "photo.png", 3)
    assert levels(ImagePreparation(1, 16, 24, upright=False)([path])[0]) == [[220, 150], [90, 40]]


def test_what_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("not an image", encoding="utf-8")
    write_truncated(tmp_path / "cut.png")
    write_truncated(tmp_path / "cut.jpg")
    write_claiming(tmp_path / "bomb.png", 20_000, 20_000)
    write_claiming(tmp_path / "large.png", 12_000, 9_000)
    Image.fromarray(np.ones((9, 9), np.float32)).save(tmp_path / "float.tif")
    Image.fromarray(np.ones((9, 9), np.int32)).save(tmp_path / "whole.tif")
    good = [write_image(tmp_path / f"good{number}.png", 10 * number) for number in range(10)]
    bad = ["bomb.png", "cut.jpg", "cut.png", "empty.png", "float.tif", "large.png", "missing.png", "text.png", "whole.tif"]
    paths = [*good[:5], *(tmp_path / name for name in bad), *good[5:]]
    _, items, kept, findings = fit_images(paths, None)[:4]
    assert isinstance(items, Tensor)
    assert kept == [0, 1, 2, 3, 4, 14, 15, 16, 17, 18]
    assert items[:, 0, 0, 0].tolist() == [10 * number for number in range(10)]
    assert [finding.level for finding in findings] == ["warning"]
    assert findings[0].text.startswith("9 of 19 images cannot be read:")
    assert "bomb.png' (it has more pixels than Pillow decodes" in findings[0].text
    assert "and 6 more" in findings[0].text
    reasons = dict(place.removeprefix(f"{tmp_path}/").split(": ", 1) for place in findings[0].places)
    assert sorted(reasons) == bad
    assert reasons["empty.png"] == "the file is empty"
    assert reasons["text.png"] == "not an image that Pillow knows"
    assert reasons["missing.png"] == "No such file or directory"
    assert reasons["large.png"] == "it has 12,000×9,000 pixels, more than 100 million"
    assert "mode F" in reasons["float.tif"]
    assert "mode I" in reasons["whole.tif"]
    assert "truncated" in reasons["cut.jpg"]


def test_the_first_bad_file_is_named_when_all_are_wanted(tmp_path: Path) -> None:
    good = write_image(tmp_path / "good.png")
    bad = [write_truncated(tmp_path / name) for name in ("second.png", "third.png")]
    with pytest.raises(InputError, match=r"the image .*second\.png cannot be read: .*Replace or remove it"):
        ImagePreparation(3, 8, 8)([good, *bad])


@pytest.mark.parametrize("good", [0, 1])
def test_it_stops_where_most_cannot_be_read(tmp_path: Path, good: int) -> None:
    paths = [write_image(tmp_path / "good.png")] * good
    for name in ("a.png", "b.png"):
        (tmp_path / name).touch()
        paths.append(tmp_path / name)
    _, items, kept, findings = fit_images(paths, None)[:4]
    assert (len(items), kept) == (good, [0] * good)
    assert [finding.level for finding in findings] == ["stop"]
    assert f"2 of {good + 2} images" in findings[0].text


def test_findings_use_the_names_that_are_given(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    paths = [tmp_path / "a.png", write_image(tmp_path / "b.png"), write_image(tmp_path / "c.png", size=(1, 1))]
    findings = fit_images(paths, None, names=["cat/a.png", "cat/b.png", "dog/c.png"])[3]
    assert "'cat/a.png' (the file is empty)" in findings[0].text
    assert findings[1].level == "warning"
    assert "1 of 3 images have fewer than 8 pixels per side: 'dog/c.png' (1×1)" in findings[1].text


def test_tiny_images_are_a_warning_and_wide_ones_a_note(tmp_path: Path) -> None:
    paths = [write_image(tmp_path / "pixel.png", 9, (1, 1)), write_image(tmp_path / "wide.png", 8, (3000, 2))]
    paths += [write_image(tmp_path / f"{number}.png", 7, (40, 40)) for number in range(3)]
    _, items, kept, findings = fit_images(paths, 16)[:4]
    assert isinstance(items, Tensor)
    assert items[:, 0].flatten(1).unique(dim=1).tolist() == [[9], [8], [7], [7], [7]]
    assert kept == [0, 1, 2, 3, 4]
    assert [finding.level for finding in findings] == ["warning", "note"]
    assert "2 of 5 images have fewer than 8 pixels" in findings[0].text
    assert len(findings[0].places) == 2
    assert "1 to 1.5e+03 times as wide" in findings[1].text


def test_equal_shapes_and_turned_ones_are_not_worth_a_note(tmp_path: Path) -> None:
    paths = [write_turned(tmp_path / f"{orientation}.jpg", orientation) for orientation in range(1, 9)]
    assert fit_images(paths, None)[3] == []  # 24 × 16, or 16 × 24 and turned


def test_many_images_stay_files_that_are_read_the_same(tmp_path: Path) -> None:
    paths = [write_turned(tmp_path / f"{orientation}.jpg", orientation) for orientation in range(1, 9)]
    (tmp_path / "empty.png").touch()
    paths.insert(2, tmp_path / "empty.png")
    _, pixels, same, _ = fit_images(paths, 12)[:4]
    made, items, kept, findings = fit_images(paths, 12, limit_bytes=8 * 12 * 12 - 1)[:4]
    assert isinstance(items, ImageFiles)
    assert isinstance(pixels, Tensor)
    assert items.shape == pixels.shape == (8, 1, 12, 12)
    assert kept == same == [0, 1, 3, 4, 5, 6, 7, 8]
    assert [finding.level for finding in findings] == ["warning", "note"]
    assert "read from their files" in findings[1].text
    assert torch.equal(torch.cat(list(read_plain(items, 4, 0))), pixels)
    assert torch.equal(made(items.paths), pixels)


@pytest.mark.parametrize(("side", "resize"), [(24, 28), (20, 25), (224, 256), (16, 16)])
def test_it_does_what_files_go_through_for_evaluation(tmp_path: Path, side: int, resize: int) -> None:
    files = ImageFiles(write_noise(tmp_path, 3, (300, 280), "jpg"), side, resize)
    made = ImagePreparation.of_files(files)
    assert torch.equal(made(files.paths), torch.cat(list(read_plain(files, 8, 0))))


def test_pillow_images_are_taken_too(tmp_path: Path) -> None:
    paths = write_noise(tmp_path, 4)
    pictures = [Image.open(path) for path in paths]
    made, items, kept, _ = fit_images(pictures, 16)[:4]
    assert isinstance(items, Tensor)
    assert torch.equal(items, made(paths))
    assert torch.equal(made([Image.fromarray(np.asarray(picture)) for picture in pictures]), items)
    assert kept == [0, 1, 2, 3]
    with pytest.raises(InputError, match="the image given cannot be read"):
        made([Image.new("F", (8, 8))])


def test_images_in_memory_are_taken_as_files_are(tmp_path: Path) -> None:
    paths = [*write_noise(tmp_path, 4), *write_noise(tmp_path, 2, (300, 200), "jpg"), write_turned(tmp_path / "turned.jpg", 6)]
    stored = [EncodedImage(path.read_bytes(), path.name) for path in paths]
    made, items, kept, findings = fit_images(stored, 16)[:4]
    assert kept == [0, 1, 2, 3, 4, 5, 6]
    assert isinstance(items, Tensor)
    assert torch.equal(items, made(paths))
    assert findings == fit_images(paths, 16)[3]


def test_bad_images_in_memory_are_left_out_and_named(tmp_path: Path) -> None:
    good = EncodedImage(write_image(tmp_path / "good.png", 7).read_bytes(), "row 1")
    eps = io.BytesIO()
    Image.new("RGB", (9, 9)).save(eps, "EPS")
    cut = write_truncated(tmp_path / "cut.png").read_bytes()
    bad = [EncodedImage(eps.getvalue(), "row 2"), EncodedImage(cut, "row 3"), EncodedImage(b"", "row 4", "it is lost")]
    _, items, kept, (warning,) = fit_images([good, *bad, good, good], 8)[:4]
    assert (len(items), kept) == (3, [0, 4, 5])
    assert [place.split(": ", 1) for place in warning.places][::2] == [
        ["row 2", "not an image that Pillow knows"],
        ["row 4", "it is lost"],
    ]
    assert warning.places[1].startswith("row 3: image file is truncated")
    with pytest.raises(InputError, match="the image row 4 cannot be read: it is lost"):
        ImagePreparation(3, 8, 8)([good, bad[2]])


def test_images_in_no_files_are_refused_above_the_limit(tmp_path: Path) -> None:
    paths = write_noise(tmp_path, 4)
    stored = [EncodedImage(path.read_bytes(), path.name) for path in paths]
    needed = 4 * 3 * 16 * 16 + sum(len(each.content) for each in stored)
    assert isinstance(fit_images(stored, 16, limit_bytes=needed)[1], Tensor)
    for pictures, limit in ((stored, needed - 1), ([Image.open(io.BytesIO(each.content)) for each in stored], 1)):
        with pytest.raises(InputError, match=r"4 images of 16×16 would take .* Export them to a folder of files"):
            fit_images(pictures, 16, limit_bytes=limit)
    lost = EncodedImage(b"", "5")  # what cannot be read anyway does not keep the others from being files
    assert isinstance(fit_images([*paths, lost], 16, limit_bytes=1)[1], ImageFiles)


@pytest.mark.parametrize("inputs", [["a.png"], np.zeros((2, 8, 8)), {"column": ["a"]}])
def test_other_inputs_are_refused(inputs: object) -> None:
    with pytest.raises(InputError, match="takes image files"):
        ImagePreparation(1, 8, 8)(inputs)  # type: ignore[arg-type]  # that is the test


def test_nothing_gives_nothing() -> None:
    assert ImagePreparation(1, 8, 9)([]).shape == (0, 1, 8, 9)


@pytest.mark.parametrize("made", [ImagePreparation(1, 8, 8), ImagePreparation(3, 224, 200, 256, upright=False)])
def test_settings_survive_saving(made: ImagePreparation, tmp_path: Path) -> None:
    saved = json.loads(json.dumps(made.settings()))
    again = preparation_from(saved, made.tensors())
    assert again.settings() == made.settings()
    assert again.describe() == made.describe()
    paths = write_noise(tmp_path, 2)
    assert torch.equal(again(paths), made(paths))
    assert made(paths).shape == (2, made.channels, made.height, made.width)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": 1, "height": 8}, r"image\.width"),
        ({"channels": 1, "height": 8, "width": 8, "colour": 1}, r"image\.colour"),
        ({"channels": 2, "height": 8, "width": 8}, r"image\.channels = 2"),
        ({"channels": 3, "height": 0, "width": 8}, r"image\.height = 0"),
        ({"channels": 3, "height": 8, "width": "8"}, r"image\.width = '8'"),
        ({"channels": 3, "height": 8, "width": 9, "resize": 8}, "cannot be cropped to 8×9"),
    ],
)
def test_damaged_settings_are_explained(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        preparation_from({"kind": "image", **settings}, {})


def test_words_for_what_is_done() -> None:
    assert ImagePreparation(3, 224, 224, 256).describe() == "colour images resized to 256×256, their middle 224×224"


def test_progress_is_told_to_the_end_and_the_order_is_kept(tmp_path: Path) -> None:
    paths = [write_image(tmp_path / f"{number}.png", number % 250, (8, 8), "L") for number in range(600)]
    told: list[tuple[int, int]] = []
    _, items, _, _ = fit_images(paths, None, progress=lambda done, total: told.append((done, total)))[:4]
    assert isinstance(items, Tensor)
    assert told == [(512, 600), (600, 600)]
    assert items[:, 0, 0, 0].tolist() == [number % 250 for number in range(600)]


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="file names are text there")
def test_a_name_that_is_no_text_can_be_read_and_shown(tmp_path: Path) -> None:
    path = write_image(tmp_path / "caf\udce9.png")
    write_truncated(tmp_path / "bad\udcff.png")
    _, items, kept, findings = fit_images([path, path, tmp_path / "bad\udcff.png"], None)[:4]
    assert (len(items), kept) == (2, [0, 1])
    assert "bad\\xff.png" in findings[0].places[0]
    findings[0].text.encode("utf-8")
