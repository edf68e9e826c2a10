"""What an encoder had already seen: planted memories are found, and nothing is found where there is none."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import handful as hf
from handful.audits.context import Context
from handful.audits.encoder_seen import EncoderSeen, Told, gain_of, matched
from handful.audits.seen_classes import folded, seen_like, seen_list
from handful.cli import app
from handful.data.collection import Card, Collection
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Infeasible, Missing

ROOT = Path(__file__).resolve().parents[2]


def bench():
    spec = importlib.util.spec_from_file_location("encoder_seen_bench", ROOT / "benchmarks" / "encoder_seen.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["encoder_seen_bench"] = module
    spec.loader.exec_module(module)
    return module


def answers(*accuracies: float) -> Told:
    """Each class asked ten times, in a task of its own."""
    return Told(np.diag([10 * a for a in accuracies]), 10 * np.eye(len(accuracies)))


def test_a_gain_by_hand():
    """Four pairs of equal difficulty; gains of (.45, .35, .3, .2) on seen classes and (.2, .2, .05, .05) on unseen ones."""
    control = answers(0.45, 0.55, 0.65, 0.75), answers(0.4, 0.5, 0.6, 0.7)
    encoder = answers(0.9, 0.9, 0.95, 0.95), answers(0.6, 0.7, 0.65, 0.75)
    difficulty = np.array([0.4, 0.5, 0.6, 0.7])
    found = gain_of(encoder, control, (difficulty, difficulty[::-1]))
    assert found.pairs.tolist() == [[0, 3], [1, 2], [2, 1], [3, 0]]
    assert found.encoder.value == pytest.approx(0.25) and found.control.value == pytest.approx(0.05)
    assert found.gain.value == pytest.approx(0.2)
    # Where no task has two classes a jackknife is the usual error: variances .0325/3 and .0225/3 over 4; t with 3 degrees 3.182
    assert found.gain.half == pytest.approx(3.1824 * (0.055 / 12) ** 0.5, rel=1e-3)


def test_classes_without_a_partner_of_their_difficulty_are_left_out():
    with pytest.raises(Infeasible, match="only 2 pairs"):
        matched(np.array([0.9, 0.91, 0.92, 0.93, 0.94]), np.array([0.2, 0.21, 0.22, 0.9, 0.9]))


@pytest.mark.learning
def test_a_planted_memory_is_inside_the_interval_and_a_twin_without_it_shows_none():
    """Eight worlds; 14 points are planted in each, and the intervals are 4 wide (benchmarks/encoder_seen.py tries a hundred)."""
    worlds = bench().Worlds()
    drawn = [worlds.draw(seed, 60) for seed in range(8)]
    found, none = np.array([f.value for f, _, _ in drawn]), np.array([z.value for _, z, _ in drawn])
    planted = np.array([p for _, _, p in drawn])
    spread = lambda v: v.std(ddof=1) / np.sqrt(len(v))  # noqa: E731
    assert planted.min() > 0.08
    assert found.mean() - 5 * spread(found) > 0.03, (found, planted)
    assert abs((found - planted).mean()) < 0.03 and abs(none.mean()) < 0.03
    assert sum(f.low - 0.02 <= p <= f.high + 0.02 for f, _, p in drawn) >= 6
    assert sum(z.low - 0.02 <= 0 <= z.high + 0.02 for _, z, _ in drawn) >= 6


TREE = Taxonomy.of(
    [("robin", "bird"), ("bird", "animal"), ("dog", "animal"), ("poodle", "dog"), ("car", "thing")],
    words={"dog": ["dog", "domestic dog"], "robin": ["robin", "redbreast"]},
)


def test_classes_are_seen_by_identity_and_by_the_hierarchy():
    why = seen_like(["Domestic_Dog", "bird", "redbreast", "car", "poodle"], ["robin", "dog"], tree=TREE, meaning=False)
    assert [w.split(" (")[0] for w in why] == [
        "the same class", "seen classes are kinds of it", "the same class", "", "a kind of a seen class",
    ]  # fmt: skip


def test_imagenet_is_a_thousand_wnids_and_wrong_lists_are_one_sentence(tmp_path):
    listed = seen_list("imagenet")
    assert len(set(listed)) == 1000 and all(folded(w) == w for w in listed)
    with pytest.raises(Missing, match="one class seen in each line"):
        seen_list(tmp_path / "none.txt")
    (tmp_path / "empty.txt").write_text("# nothing\n\n")
    with pytest.raises(BadInput, match="names no class"):
        seen_list(tmp_path / "empty.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(BadInput, match="not text"):
        seen_list(tmp_path / "binary.txt")


def test_copies_in_the_index_are_counted(tmp_path):
    """Half of the index are the audited images, a little brighter; the other half are of another world."""
    place = "world:size=32,classes=6,images=6"
    own = hf.open(place)
    pixels = own.read(np.arange(36))
    brighter = np.clip(pixels[:18].astype(int) + 3, 0, 255).astype(np.uint8)
    others = hf.world(size=32, classes=6, images=6, seed=1).read(np.arange(18))
    table = pl.DataFrame({"label": ["a"] * 36})
    Collection(Card("index", "images", (32, 32, 3), ("label",)), table, np.concatenate([brighter, others])).save(
        tmp_path / "i"
    )
    context = Context(own, "pixels", split="all")
    found = EncoderSeen(seen="imagenet", images=str(tmp_path / "i"))._copies(context)
    assert 16 <= found <= 19
    assert EncoderSeen(seen="imagenet", images=place)._copies(context) == len(context.part)


def test_the_command_line_asks_it_and_takes_it_out_of_the_score(tmp_path):
    place = "world:classes=60,images=24,size=16"
    names = [" ".join(map(str, n)) if isinstance(n, tuple) else str(n) for n in hf.open(place).test.class_names]
    (tmp_path / "seen.txt").write_text("\n".join(names[: len(names) // 2]))
    page = tmp_path / "page.json"
    asked = [
        "audit",
        place,
        "--only",
        "encoder-seen",
        "--only",
        "score-split",
        "--net",
        "conv4:filters=8",
        "--minutes",
        "1.5",
    ]
    done = CliRunner().invoke(
        app, [*asked, "--encoder-seen", str(tmp_path / "seen.txt"), "--control", "conv4:filters=4", "--out", str(page)]
    )
    assert done.exit_code == 0, done.output
    found = {f["diagnosis"]: f for f in json.loads(page.read_text())["findings"]}
    seen = found["encoder-seen"]
    assert len(seen["details"]["seen"]) == len(names) // 2
    parts = found["score-split"]["details"]["parts"]
    share = parts["already seen"]["tasks"]["value"]
    assert share == pytest.approx(
        seen["details"]["gain"]["value"] * 0.5, abs=abs(seen["details"]["gain"]["value"]) * 0.25 + 1e-6
    )
    assert sum(p["tasks"]["value"] for p in parts.values()) == pytest.approx(
        found["score-split"]["details"]["score"]["value"], abs=1e-6
    )
    wrong = CliRunner().invoke(app, ["audit", place, "--control", "conv4"])
    assert "--encoder-seen" in str(wrong.exception)
