"""Photos as people have them: rotated, grey, transparent, printed, broken."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from PIL import Image

from handful.errors import BadInput
from handful.photos.reading import read_classes, read_photos
from photos.conftest import photo

SIDE = 32


def pixels(path):
    return read_photos(path, SIDE).images[0].astype(int)


def test_the_camera_s_orientation_is_honoured(tmp_path):
    upright = photo(3, 0, (80, 80), noise=0)
    upright.save(tmp_path / "upright.png")
    for orientation, turn in ((3, 180), (6, 90), (8, 270)):
        exif = Image.Exif()
        exif[274] = orientation
        upright.rotate(turn).save(tmp_path / f"{orientation}.png", exif=exif)
        assert abs(pixels(tmp_path / f"{orientation}.png") - pixels(tmp_path / "upright.png")).max() <= 1
    held = Image.open(tmp_path / "6.png")
    assert abs(pixels(held) - pixels(tmp_path / "upright.png")).max() <= 1


def test_every_kind_of_picture_becomes_three_channels(tmp_path):
    image = photo(1, 0, (64, 64), noise=0)
    image.convert("L").save(tmp_path / "grey.png")
    image.convert("CMYK").save(tmp_path / "print.jpg", quality=95)
    image.save(tmp_path / "web.webp", lossless=True)
    image.convert("P", palette=Image.Palette.ADAPTIVE).save(tmp_path / "palette.gif")
    clear = image.convert("RGBA")
    clear.putalpha(0)
    clear.save(tmp_path / "clear.png")
    Image.fromarray(np.asarray(image.convert("L"), dtype=np.uint16) << 8).save(tmp_path / "deep.png")
    image.save(tmp_path / "plain.png")
    plain = pixels(tmp_path / "plain.png")
    assert read_photos(tmp_path / "grey.png", SIDE).images.shape == (1, SIDE, SIDE, 3)
    assert (pixels(tmp_path / "web.webp") == plain).all()
    assert abs(pixels(tmp_path / "print.jpg") - plain).mean() < 12
    assert abs(pixels(tmp_path / "palette.gif") - plain).mean() < 12
    assert (pixels(tmp_path / "clear.png") == 255).all()
    assert abs(pixels(tmp_path / "deep.png") - pixels(tmp_path / "grey.png")).max() <= 1


def test_a_path_an_image_and_an_array_are_the_same_photo(tmp_path):
    image = photo(2, 0)
    image.save(tmp_path / "a.png")
    array = np.asarray(image)
    read = read_photos([tmp_path / "a.png", str(tmp_path / "a.png"), image, array, array / 255.0], SIDE)
    assert (read.images == read.images[0]).all() and len(set(read.digests)) == 1
    assert read.names[2:] == ("photo 3", "photo 4", "photo 5")
    assert len(read_photos(np.stack([array] * 3), SIDE)) == 3
    assert len(read_photos(array[..., 0], SIDE)) == 1 and len(read_photos(image.convert("CMYK"), SIDE)) == 1


@pytest.mark.parametrize(
    "wrong, words",
    [
        (np.zeros((4, 4, 5), np.uint8), "shape"),
        (np.zeros((0, 4, 3), np.uint8), "shape"),
        (np.full((4, 4, 3), 200.0), "from 200 to 200"),
        (np.full((4, 4, 3), np.nan), "float64"),
        (np.zeros((4, 4, 3), np.int64), "int64"),
        ("nowhere.jpg", "does not exist"),
    ],
)
def test_what_is_no_photo_is_refused(wrong, words):
    with pytest.raises(BadInput, match=words):
        read_photos([wrong], SIDE)


def test_unreadable_photos_are_named_and_the_others_read(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (folder / "ash" / "cut.jpg").write_bytes((folder / "ash" / "01.jpg").read_bytes()[:300])
    (folder / "ash" / "empty.png").write_bytes(b"")
    (folder / "fir" / "phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    (folder / "notes.txt").write_text("not a photo")
    read, y, classes = read_classes(folder, SIDE)
    assert classes == ("ash", "birch", "cedar", "fir") and np.bincount(y).tolist() == [6, 6, 6, 6]
    reasons = dict(read.unreadable)
    assert set(reasons) == {"ash/cut.jpg", "ash/empty.png", "fir/phone.HEIC"}
    assert reasons["ash/empty.png"] == "is empty" and "save it as JPEG" in reasons["fir/phone.HEIC"]


def test_a_class_of_which_nothing_can_be_read_is_not_dropped_in_silence(folder):
    (folder / "oak").mkdir()
    (folder / "oak" / "a.jpg").write_bytes(b"no")
    with pytest.raises(BadInput, match="no photo of class 'oak' can be read"):
        read_classes(folder, SIDE)


def test_a_dict_names_photos_without_their_folders(folder):
    given = {"one": sorted((folder / "ash").iterdir()), "two": folder / "fir", "three": [np.asarray(photo(0, 0))]}
    read, _, classes = read_classes(given, SIDE)
    assert classes == ("one", "three", "two") and read.names[0] == "one/00.png"
    assert not any(str(folder) in name for name in read.names)
    with pytest.raises(BadInput, match="give a list"):
        read_classes({"one": folder / "ash" / "00.png"}, SIDE)


def test_photos_of_telephones_are_read(tmp_path):
    import pillow_heif

    plain = photo(0, 3, (64, 64), noise=0.0)
    pillow_heif.from_pillow(plain).save(tmp_path / "IMG_0001.HEIC", quality=100)
    read = read_photos(tmp_path, SIDE)
    assert read.names == (f"{tmp_path}/IMG_0001.HEIC",) and not read.unreadable
    wanted = read_photos(plain, SIDE).images[0].astype(int)
    assert np.abs(read.images[0].astype(int) - wanted).mean() < 4, "lossy, but the same picture"
