"""Contact sheets: the right images in the right places, and what cannot be shown is refused."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from handful.data.collection import Card, Collection, as_table
from handful.data.show import RIGHT, WRONG, class_sheet, collection_html, episode_sheet, png, sheet, thumbnails
from handful.data.world import world
from handful.errors import BadInput
from handful.tasks.nway import NWay


def flat(side: int = 16, channels: int = 3) -> Collection:
    """Four classes of six images, each image of one brightness: 10 * number."""
    n = 24
    pixels = np.broadcast_to((np.arange(n) * 10).astype(np.uint8)[:, None, None, None], (n, side, side, channels))
    table = as_table({"label": [f"class {i // 6}" for i in range(n)]})
    return Collection(Card("flat", "images", (side, side, channels), ("label",)), table, pixels.copy())


def contains(picture: Image.Image, colour: tuple[int, int, int]) -> bool:
    return bool((np.asarray(picture) == np.array(colour)).all(-1).any())


@pytest.mark.parametrize("side, channels", [(16, 3), (16, 1), (40, 3), (200, 3)])
def test_a_sheet_shows_the_images_it_was_asked_for(side, channels):
    page = sheet(flat(side, channels), [3, 7, 20], columns=2)
    for number in (3, 7, 20):
        assert contains(page, (number * 10,) * 3)
    assert not contains(page, (110, 110, 110))


def test_small_images_grow_by_whole_numbers_and_large_ones_shrink():
    assert thumbnails(flat(16), np.array([1]), 64)[0].size == (64, 64)
    assert thumbnails(flat(28), np.array([1]), 64)[0].size == (56, 56)
    assert thumbnails(flat(50), np.array([1]), 64)[0].size == (50, 50)
    assert thumbnails(flat(200), np.array([1]), 64)[0].size == (64, 64)


def test_sheets_have_a_column_for_each_image_up_to_the_limit():
    few, many = sheet(flat(), [0, 1], columns=12), sheet(flat(), np.arange(24), columns=12)
    assert few.width < many.width and many.height > few.height
    assert sheet(flat()).width > 0


def test_an_episode_marks_right_and_wrong_answers():
    w = world(classes=20, images=20)
    episode = NWay(w.train, 4, 2, 5).draw(0, 0)
    truth = episode.query_labels
    assert not contains(episode_sheet(w, episode), RIGHT)
    all_right, all_wrong = episode_sheet(w, episode, truth), episode_sheet(w, episode, (truth + 1) % 4)
    assert contains(all_right, RIGHT) and not contains(all_right, WRONG)
    assert contains(all_wrong, WRONG) and not contains(all_wrong, RIGHT)
    scores = np.eye(4)[truth]
    assert np.array_equal(np.asarray(episode_sheet(w, episode, scores)), np.asarray(all_right))
    with pytest.raises(BadInput, match="predictions"):
        episode_sheet(w, episode, truth[:3])


def test_classes_stand_in_lines():
    w = world(classes=20, images=20)
    assert class_sheet(w.train, 5, 4).height < class_sheet(w.train, 10, 4).height
    assert class_sheet(w.train, 500, 3).height > 0


def test_a_notebook_shows_a_collection():
    text = collection_html(world(classes=10, images=3))
    assert "world@" in text and "data:image/png;base64," in text and "train" in text
    assert Image.open(io.BytesIO(png(sheet(flat())))).format == "PNG"


def test_what_cannot_be_shown_is_refused():
    features = Collection(Card("f", "features", (4,), ("label",)), as_table({"label": ["a", "b"]}), np.zeros((2, 4)))
    with pytest.raises(BadInput, match="features"):
        sheet(features, [0])
    assert "features" in collection_html(features)
    with pytest.raises(BadInput, match="0 to 23"):
        sheet(flat(), [24])
    with pytest.raises(BadInput, match="no images"):
        sheet(flat(), [])
    with pytest.raises(BadInput, match="columns"):
        sheet(flat(), [0], columns=0)
