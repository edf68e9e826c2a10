"""A frame goes in, a torch data set comes out."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import handful as hf
from handful.errors import BadInput
from made.benches import small

from .conftest import encoded, noise


@pytest.fixture
def photos(tmp_path):
    for i in range(6):
        (tmp_path / f"{i}.png").write_bytes(encoded(noise(i, 16, 16)))
    return {"path": [f"{i}.png" for i in range(6)], "class": ["owl", "elm"] * 3, "split": ["train"] * 4 + ["val"] * 2}


@pytest.mark.parametrize("library", ["polars", "pandas", "dict"])
def test_a_frame_of_paths_becomes_a_collection(photos, tmp_path, library):
    frame = photos if library == "dict" else pytest.importorskip(library).DataFrame(photos)
    made = hf.from_frame(frame, split="split", root=tmp_path, size=16, licence="MIT", citation="@misc{a}")
    assert made.train.class_names == ["elm", "owl"] and len(made.valid) == 2
    np.testing.assert_array_equal(made.read(np.arange(6)), np.stack([noise(i, 16, 16) for i in range(6)]))
    again = made.save(tmp_path / "packed")
    assert (again.card.licence, again.card.citation) == ("MIT", "@misc{a}")
    assert hf.from_frame(frame, split="split", root=tmp_path, size=16).id == made.id


def test_bytes_and_what_datasets_gives_are_images_too():
    data = encoded(noise(3, 8, 8))
    for image in (data, {"bytes": data, "path": None}):
        made = hf.from_frame(pl.DataFrame({"x": [image], "y": [7]}), "x", "y", size=8)
        np.testing.assert_array_equal(made.read(np.array([0]))[0], noise(3, 8, 8))
        assert made.table["y"].to_list() == ["7"]


def test_wrong_frames_are_refused(photos, tmp_path):
    with pytest.raises(BadInput, match="the frame has no column 'pth'; did you mean path"):
        hf.from_frame(pl.DataFrame(photos), image="pth")
    with pytest.raises(BadInput, match="row 0 of the frame: 0.png cannot be read"):
        hf.from_frame(pl.DataFrame(photos), root=tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="row 1 of the frame has no class; label it"):
        hf.from_frame({**photos, "class": ["owl", None] * 3}, root=tmp_path)
    with pytest.raises(BadInput, match="row 0 of the frame is not an image"):
        hf.from_frame({"path": [b"x"], "class": ["a"]})
    with pytest.raises(BadInput, match="row 0 of the frame holds int, not an image"):
        hf.from_frame({"path": [3], "class": ["a"]})
    with pytest.raises(BadInput, match="has no rows"):
        hf.from_frame({"path": [], "class": []})
    with pytest.raises(BadInput, match="row 0 of the frame: 'later' is not a split"):
        hf.from_frame({**photos, "split": ["later"] * 6}, split="split", root=tmp_path)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_the_pixels_and_classes_of_a_split(tmp_path, workers):
    import torch

    packed = small().save(tmp_path / "packed")
    view = packed.torch(split="test")
    assert isinstance(view, torch.utils.data.Dataset) and len(view) == len(packed.test)
    image, number = view[3]
    assert image.dtype == torch.uint8 and image.shape == (packed.card.shape[2], *packed.card.shape[:2])
    np.testing.assert_array_equal(image.permute(1, 2, 0), packed.read(packed.test.rows[3:4])[0])
    assert view.classes[number] == packed.test.class_names[packed.test.classes[3]]
    batches = list(torch.utils.data.DataLoader(view, batch_size=7, num_workers=workers))
    images = torch.cat([x for x, _ in batches]).permute(0, 2, 3, 1).numpy()
    np.testing.assert_array_equal(images, packed.read(packed.test.rows))
    assert torch.cat([y for _, y in batches]).tolist() == packed.test.classes.tolist()


def test_a_transform_is_applied_and_wrong_numbers_and_splits_are_refused():
    view = small().torch(transform=lambda x: x.float() / 255)
    assert view[0][0].max() <= 1 and len(view) == len(small()) and view[-1][1] == view.targets[-1]
    with pytest.raises(IndexError):
        view[len(view)]
    with pytest.raises(BadInput, match="no images in split 'tst'"):
        small().torch("tst")
