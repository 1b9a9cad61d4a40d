"""Image files: decoded whatever their mode, bounded by their header, named where they cannot be read."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from softmatch.data import pictures
from softmatch.data.pictures import EncodedImage, Header, UnreadableImage, decode, quiet_pillow, read_image
from softmatch.errors import InputError
from softmatch.views.pillow import to_tensor
from tests.data.readers.images import write_animation, write_claiming, write_turned, write_with_bad_exif


def look(path: Path) -> Header:
    with quiet_pillow():
        return pictures.look(path)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "CMYK", "RGBA", "LA", "1", "I;16"])
def test_files_of_every_mode_become_rgb(mode: str, tmp_path: Path) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.full((30, 40), 200 * 256, np.uint16))
    else:
        image = Image.new("RGB", (40, 30), (200, 200, 200)).convert(mode)
    path = tmp_path / ("image.jpg" if mode == "CMYK" else "image.png")
    image.save(path, **({"transparency": b"\x00\x80"} if mode == "P" else {}))
    read = read_image(path, 16)
    assert (read.mode, read.size) == ("RGB", (16, 16))
    assert abs(int(np.asarray(read).mean()) - 200) <= 3


def test_a_large_jpeg_read_at_reduced_size_looks_as_read_whole(tmp_path: Path) -> None:
    x = np.linspace(0, 6, 1600)
    wave = (127 + 100 * np.sin(x)[None, :, None] * np.cos(x)[:, None, None]).astype(np.uint8)
    Image.fromarray(np.broadcast_to(wave, (1600, 1600, 3)).copy()).save(tmp_path / "large.jpg")
    whole = Image.open(tmp_path / "large.jpg").resize((64, 64), Image.Resampling.BILINEAR)
    difference = np.asarray(read_image(tmp_path / "large.jpg", 64)).astype(int) - np.asarray(whole)
    assert np.abs(difference).max() <= 3


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    Image.new("RGB", (64, 64)).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:60])
    (tmp_path / "text.jpg").write_text("hello", encoding="utf-8")
    Image.fromarray(np.zeros((8, 8), np.float32)).save(tmp_path / "float.tif")
    reasons = {"cut.png": "", "text.jpg": "not an image", "missing.png": "No such file", "float.tif": "mode F"}
    for name, reason in reasons.items():
        with pytest.raises(InputError, match=f"{name} cannot be read: .*{reason}.*Replace or remove it"):
            read_image(tmp_path / name, 16)


def test_what_is_transparent_is_white(tmp_path: Path) -> None:
    """`convert` would leave the colours that lie under it, which nobody has ever seen."""
    image = Image.new("RGBA", (8, 8), (10, 20, 30, 0))
    image.paste((10, 20, 30, 255), (0, 0, 4, 8))
    image.save(tmp_path / "icon.png")
    read = read_image(tmp_path / "icon.png", 8)
    assert [read.getpixel(at) for at in ((1, 1), (6, 6))] == [(10, 20, 30), (255, 255, 255)]


@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path, channels: int) -> None:
    ramp = np.linspace(0, 65535, 16).astype(np.uint16)
    Image.fromarray(np.broadcast_to(ramp, (16, 16)).copy()).save(tmp_path / "scan.png")
    pixels = to_tensor(read_image(tmp_path / "scan.png", 16, channels))
    assert pixels.shape == (channels, 16, 16)
    assert pixels[:, 5].tolist() == [(ramp // 256).tolist()] * channels


def test_images_are_turned_only_when_asked(tmp_path: Path) -> None:
    for orientation in range(1, 9):
        path = write_turned(tmp_path / f"{orientation}.png", orientation)
        upright = np.asarray(read_image(path, 24, 1, upright=True))
        assert [[upright[6, 6], upright[6, 18]], [upright[18, 6], upright[18, 18]]] == [[40, 90], [150, 220]]
        with Image.open(path) as image:
            stored = image.resize((24, 24), Image.Resampling.BILINEAR)
        assert read_image(path, 24, 1).tobytes() == stored.tobytes()


@pytest.mark.parametrize(("kept", "corner"), [(None, 40), (10, 40), (20, 40), (60, 150)])
def test_damaged_exif_does_not_keep_an_image_from_being_read(tmp_path: Path, kept: int | None, corner: int) -> None:
    path = write_with_bad_exif(tmp_path / "photo.jpg", kept)
    assert int(np.asarray(read_image(path, 16, 1, upright=True))[2, 2]) == pytest.approx(corner, abs=3)
    assert look(path)[:2] == ((24, 16) if corner == 40 else (16, 24))


def test_an_image_too_large_for_memory_is_refused_by_its_header(tmp_path: Path) -> None:
    for width, reason in ((20_000, "more pixels than Pillow decodes"), (10_001, "10,001×10,000 pixels")):
        path = write_claiming(tmp_path / f"{width}.png", width, 10_000)
        for read in (lambda path: read_image(path, 16), look):
            with pytest.raises(UnreadableImage, match=reason):
                read(path)


def test_a_large_jpeg_is_never_decoded_whole(tmp_path: Path) -> None:
    """110 million grey pixels: more than are decoded, but an eighth in each direction is enough."""
    path = tmp_path / "panorama.jpg"
    Image.new("L", (11_000, 10_000), 77).save(path)
    assert look(path) == Header(11_000, 10_000, grey=True, animated=False)
    assert np.unique(np.asarray(read_image(path, 16, 1))).tolist() == [77]


def test_files_are_what_they_hold_not_what_they_are_called(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), (1, 2, 3)).save(tmp_path / "really.bmp")
    (tmp_path / "really.bmp").rename(tmp_path / "image.jpg")
    assert read_image(tmp_path / "image.jpg", 8).getpixel((0, 0)) == (1, 2, 3)
    (tmp_path / "program.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n")
    with pytest.raises(UnreadableImage, match="not an image that Pillow knows"):
        read_image(tmp_path / "program.png", 8)


def test_headers_say_how_an_image_stands(tmp_path: Path) -> None:
    for orientation in range(1, 9):
        for suffix in ("jpg", "tif"):
            found = look(write_turned(tmp_path / f"{orientation}.{suffix}", orientation))
            assert found == Header(24, 16, grey=True, animated=False)
    assert look(write_animation(tmp_path / "moving.gif")).animated
    assert not look(write_animation(tmp_path / "still.gif", (9,))).animated
    Image.new("RGB", (8, 8)).save(tmp_path / "colour.png")
    assert not look(tmp_path / "colour.png").grey


def test_the_digest_is_of_the_content_wherever_it_is(tmp_path: Path) -> None:
    first, copied = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"one")
    copied.write_bytes(b"one")
    digest = pictures.content_digest(first)
    assert digest == pictures.content_digest(copied) == pictures.content_digest(pictures.EncodedImage(b"one", "1"))
    assert digest != pictures.content_digest(pictures.EncodedImage(b"two", "1"))
    with pytest.raises(UnreadableImage, match="missing cannot be read: No such file"):
        pictures.content_digest(tmp_path / "missing")


def test_the_digest_of_a_pillow_image_is_of_its_pixels_and_palette() -> None:
    red, copied, flat = Image.new("RGB", (2, 3), "red"), Image.new("RGB", (2, 3), "red"), Image.new("P", (2, 3))
    colored = flat.copy()
    colored.putpalette([255, 0, 0])
    images = [red, Image.new("RGB", (3, 2), "red"), Image.new("RGB", (2, 3), "blue"), flat, colored]
    assert len({pictures.content_digest(image) for image in images}) == len(images)
    assert pictures.content_digest(red) == pictures.content_digest(copied)


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("side", [8, 17, 33])
def test_simplejpeg_gives_the_pixels_of_pillow(subsampling: int, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of JPEG files as they are, progressive ones, grey ones, turned ones and damaged ones; large ones are left to Pillow."""
    rng = np.random.default_rng(side)
    image = Image.fromarray(rng.integers(0, 255, (side, side + 3, 3), dtype=np.uint8)).resize((side + 9, side))
    turned = Image.Exif()
    turned[0x0112] = 6
    kinds: list[dict[str, Any]] = [{}, {"progressive": True}, {"quality": 35}, {"exif": turned}]
    files = [_jpeg(image, subsampling=subsampling, **kind) for kind in kinds]
    files += [_jpeg(image.convert("L")), _jpeg(image.convert("CMYK"), subsampling=subsampling)]
    encoded = [EncodedImage(content, "x") for content in files]

    def pixels() -> list[bytes]:
        ways = [(size, upright) for size in ((side + 9, side), (6, 6)) for upright in (True, False)]
        found = [decode(each, size, 3, upright) for each in encoded for size, upright in ways]
        return [each.tobytes() for each in found]

    quick = pixels()
    assert pictures.simplejpeg is not None
    cut = EncodedImage(files[0][: len(files[0]) // 2], "cut")
    with pytest.raises(UnreadableImage, match="cut cannot be read"):
        decode(cut, (8, 8), 3, True)
    monkeypatch.setattr(pictures, "simplejpeg", None)
    assert pixels() == quick


def _jpeg(image: Image.Image, **settings: Any) -> bytes:
    file = BytesIO()
    image.save(file, "jpeg", **settings)
    return file.getvalue()
