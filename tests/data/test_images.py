"""Decoding: orientation, crop, antialiasing, transparency, and files that are not what they say."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from handful.data.images import BadImage, decode
from handful.errors import BadInput

from .conftest import encoded, noise, photo


def test_an_image_of_the_size_asked_keeps_its_pixels():
    pixels = noise(0, 32, 32)
    assert np.array_equal(decode(encoded(pixels), "x", 32), pixels)
    assert np.array_equal(decode(encoded(pixels), "x"), pixels)


def test_the_crop_is_the_largest_centred_square():
    pixels = np.zeros((30, 90, 3), np.uint8)
    pixels[:, 30:60] = noise(1, 30, 30)
    assert np.array_equal(decode(encoded(pixels), "x", 30), pixels[:, 30:60])
    assert np.array_equal(decode(encoded(pixels.transpose(1, 0, 2)), "x", 30), pixels.transpose(1, 0, 2)[30:60])


def test_shrinking_averages_instead_of_picking():
    board = (np.indices((128, 128)).sum(0) % 2 * 255).astype(np.uint8)
    small = decode(encoded(board), "x", 16, grey=True)
    assert small.shape == (16, 16, 1)
    assert np.abs(small.astype(int) - 127.5).max() < 3


@pytest.mark.parametrize("orientation, turns", [(1, 0), (3, 2), (6, -1), (8, 1)])
def test_the_camera_orientation_is_honoured(orientation, turns):
    pixels = noise(2, 24, 24)
    exif = Image.Exif()
    exif[0x0112] = orientation
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format="PNG", exif=exif)
    assert np.array_equal(decode(out.getvalue(), "x", 24), np.rot90(pixels, turns))


def test_grey_is_luma():
    pixels = noise(3, 8, 8)
    luma = pixels @ np.array([0.299, 0.587, 0.114])
    assert np.abs(decode(encoded(pixels), "x", 8, grey=True)[..., 0] - luma).max() <= 1


def test_transparency_lies_on_white():
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[:2, :, 3] = 255
    picture = decode(encoded(pixels), "x", 4)
    assert (picture[:2] == 0).all() and (picture[2:] == 255).all()


def test_one_bit_palette_sixteen_bit_and_cmyk_files_are_read():
    bits = Image.fromarray((np.indices((8, 8)).sum(0) % 2 * 255).astype(np.uint8)).convert("1")
    deep = Image.fromarray((np.arange(64, dtype=np.uint16) * 1024).reshape(8, 8))
    palette = Image.fromarray(noise(4, 8, 8)).convert("P")
    cmyk = Image.fromarray(noise(4, 8, 8)).convert("CMYK")
    for picture, kind in ((bits, "PNG"), (deep, "PNG"), (palette, "GIF"), (cmyk, "JPEG")):
        out = io.BytesIO()
        picture.save(out, format=kind)
        assert decode(out.getvalue(), "x", 8).shape == (8, 8, 3)
    out = io.BytesIO()
    deep.save(out, format="PNG")
    assert np.array_equal(decode(out.getvalue(), "x", 8, grey=True)[..., 0].ravel(), np.arange(64) * 4)


def test_large_jpegs_decoded_at_a_fraction_stay_close_to_the_whole():
    ramp = np.linspace(0, 255, 512)
    smooth = np.stack([np.add.outer(ramp, ramp) / 2, np.add.outer(ramp, 255 - ramp) / 2, np.tile(ramp, (512, 1))], -1)
    data = encoded(smooth.astype(np.uint8), "JPEG", quality=95)
    whole = Image.open(io.BytesIO(data)).resize((32, 32), Image.Resampling.BILINEAR)
    assert np.abs(decode(data, "x", 32).astype(int) - np.asarray(whole).astype(int)).max() <= 4


def test_a_text_file_named_as_an_image_is_refused_by_name():
    with pytest.raises(BadInput, match=r"cat\.jpg is not an image"):
        decode(b"this is text, not a cat\n" * 20, "cat.jpg", 32)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("size", [16, None])
def test_a_truncated_file_is_refused_by_name(kind, share, size):
    data = encoded(noise(5, 100, 100), kind)
    with pytest.raises(BadImage, match=r"cut\.img is (truncated|broken)"):
        decode(data[: int(share * len(data))], "cut.img", size)


def test_an_empty_file_is_refused():
    with pytest.raises(BadImage, match="is empty"):
        decode(b"", "x.png", 8)


def test_a_png_that_claims_a_billion_pixels_is_refused_before_decoding():
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    for side in (12_000, 40_000):
        header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
        bomb = (
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(bytes(1000)))
            + chunk(b"IEND", b"")
        )
        with pytest.raises(BadImage, match="100 million"):
            decode(bomb, "bomb.png", 16)


def test_programs_are_not_started_for_postscript():
    with pytest.raises(BadImage, match="is not an image"):
        decode(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n", "x.jpg", 8)


def test_jpegs_decode_the_same_twice():
    assert np.array_equal(decode(photo(6), "x", 20), decode(photo(6), "x", 20))
