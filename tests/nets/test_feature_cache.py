"""The feature cache: a second run embeds nothing, bits are the same, killed and concurrent writers do no harm."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from handful.cache import clear, entries, trim
from handful.cli import main
from handful.data.collection import open_packed
from handful.errors import BadInput
from handful.methods import make
from handful.nets import build
from handful.nets.compute import Compute
from handful.nets.feature_cache import FeatureCache, address, read_segment
from handful.runs import evaluate
from handful.tasks import AnyWay, NWay
from made.patterns import blobs

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["torch", "polars", "handful.runs.evaluate", "handful.methods.metric.protonet"])


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return blobs(n_classes=24, each=20, seed=7).save(tmp_path_factory.mktemp("packed") / "blobs")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A cache folder of this test's own."""
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def counted(learner):
    """How many images the backbone sees, from now on."""
    seen = []
    original = learner.backbone.normalise
    learner.backbone.normalise = lambda images: seen.append(len(images)) or original(images)
    return seen


def benchmark(collection, **options):
    learner = make("protonet", net="conv4:filters=8", **options).untrained(collection.card.shape)
    return learner, AnyWay(collection.test, (2, 4), (1, 5), 4)


def test_a_second_run_embeds_nothing_and_scores_the_same_to_the_bit(packed, own):
    learner, rule = benchmark(packed)
    seen = counted(learner)
    plain = evaluate(learner, rule, n=150, answers=True, cache=False)
    assert seen and not own.exists()
    first = evaluate(learner, rule, n=150, answers=True)
    seen.clear()
    second = evaluate(learner, rule, n=150, answers=True)
    assert seen == []
    assert plain.answers.equals(first.answers) and plain.answers.equals(second.answers)
    other, _ = benchmark(open_packed(packed.path))
    seen = counted(other)
    cosine = make("protonet", net="conv4:filters=8", distance="cosine").untrained(packed.card.shape)
    assert len(evaluate(other, AnyWay(open_packed(packed.path).test, (2, 4), (1, 5), 4), n=150).frame) == 150
    again = counted(cosine)
    evaluate(cosine, rule, n=150)
    assert seen == [] and again == [], "another process, or another head on the same backbone, embeds nothing either"


def test_only_images_that_are_not_known_are_embedded(packed, own):
    learner, _ = benchmark(packed)
    rule = NWay(packed.test, 3, 1, 1)
    evaluate(learner, rule, n=4)
    known = sum(len(read_segment(p)[0]) for p in own.rglob("*.rows"))
    more = AnyWay(packed.test, (2, 4), (1, 5), 4)
    assert 0 < known < len(packed.test)
    evaluate(learner, more, n=200)
    rows = np.concatenate([read_segment(p)[0] for p in own.rglob("*.rows")])
    assert len(rows) == len(set(rows.tolist())) == len(packed.test)
    assert evaluate(learner, more, n=200).frame.equals(evaluate(learner, more, n=200, cache=False).frame)


def test_two_workers_fill_and_use_the_same_cache(packed, own):
    learner, rule = benchmark(packed)
    small = Compute(batch=8)
    learner = learner.to(small)
    spread = evaluate(learner, rule, n=150, workers=2, answers=True)
    seen = counted(learner)
    assert evaluate(learner, rule, n=150, answers=True).answers.equals(spread.answers)
    assert seen == []


def test_whatever_changes_features_changes_the_address(packed):
    def key(net="conv4:filters=8", seed=0, collection=packed, maps=False, compute=None):
        facts = address(build(net, (16, 16, 3), seed).eval(), collection, compute or Compute(), maps)
        return FeatureCache(facts).path.name

    other = [
        key(),
        key(seed=1),
        key("conv4:filters=8,pool=1"),
        key("conv4:filters=8,norm=none"),
        key(maps=True),
        key(compute=Compute(precision="bfloat16")),
        key(compute=Compute(batch=32)),
    ]
    assert key() == other[0] and len(set(other)) == len(other)


def test_nothing_is_kept_of_what_can_change_or_is_not_identified(packed, own, monkeypatch):
    def facts(net, collection=packed):
        return address(net, collection, Compute(), False)

    net = build("conv4:filters=8", (16, 16, 3)).eval()
    assert facts(net) is not None
    assert facts(net, blobs(n_classes=24, each=20, seed=7)) is None, "an array in memory"
    assert facts(build("pixels", (16, 16, 3)).eval()) is None, "no weights: reading is as quick"
    assert facts(net.train()) is None, "a net in training is not frozen"
    net.eval().register_forward_hook(lambda *_: None)
    assert facts(net) is None, "a hook may do anything"
    monkeypatch.setenv("HANDFUL_CACHE", "off")
    learner, _ = benchmark(packed)
    assert FeatureCache.of(learner.backbone, packed, Compute()) is None


def test_a_damaged_segment_is_thrown_away_and_embedded_again(packed, own):
    learner, rule = benchmark(packed)
    first = evaluate(learner, rule, n=150, answers=True)
    (segment,) = own.rglob("*.rows")
    whole = segment.read_bytes()
    for damage in (whole[:-7], whole[:300], b"", whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:], b"x" + whole[1:]):
        for path in own.rglob("*.rows"):
            path.unlink()
        segment.write_bytes(damage)
        seen = counted(learner)
        assert evaluate(learner, rule, n=150, answers=True).answers.equals(first.answers)
        assert seen and not segment.exists()


FACTS = {"net": "none", "collection": "numbers"}


def truth(rows):
    return (rows[:, None] * np.asarray([1.0, -2.0, 0.5])).astype(np.float32)


def write_without_end(folder, start):
    cache = FeatureCache(FACTS, folder)
    for i in range(10**6):
        rows = np.arange(20_000) + (start + i % 3) * 10_000
        cache.write(rows, truth(rows))


def test_writers_side_by_side_killed_at_any_moment_leave_only_whole_segments(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(3):
        writers = [FORKS.Process(target=write_without_end, args=(tmp_path, start)) for start in (0, 1)]
        for writer in writers:
            writer.start()
        before = len(list(tmp_path.rglob("*.rows")))
        while len(list(tmp_path.rglob("*.rows"))) < before + 3:
            assert all(w.is_alive() for w in writers)
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0, 0.02)))
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
            writer.join()
    cache = FeatureCache(FACTS, tmp_path)
    segments = list(cache.path.glob("*.rows"))
    assert len(segments) >= 9 and all(read_segment(p) is not None for p in segments)
    rows = np.arange(35_000)
    found = np.zeros(len(rows), dtype=int)
    for at, features in cache.read(rows):
        np.testing.assert_array_equal(features, truth(rows[at]))
        found[at] += 1
    assert (found == 1).all()
    assert (cache.path / "about.json").is_file()


def test_the_cache_is_listed_and_cleared_by_age(packed, own, capsys):
    learner, rule = benchmark(packed)
    evaluate(learner, rule, n=20)

    def run(*words):
        with pytest.raises(SystemExit) as end:
            main(["cache", *words])
        return end.value.code or 0, capsys.readouterr()

    code, said = run("ls", "--json")
    listed = json.loads(said.out)
    assert code == 0 and len(listed["entries"]) == 1 and listed["bytes"] > 0
    assert listed["entries"][0]["what"].startswith("Conv4 over blobs@1/16#")
    assert "Conv4 over blobs" in run("ls")[1].out
    assert json.loads(run("clear", "--older-than", "1h", "--json")[1].out)["removed"] == 0
    old = time.time() - 7200
    os.utime(entries()[0].path, (old, old))
    assert json.loads(run("clear", "--older-than", "1h", "--json")[1].out)["removed"] == 1
    assert not entries() and not list(own.rglob("*.rows"))
    code, said = run("clear", "--older-than", "yesterday")
    assert code == 2 and "is not a length of time" in said.err


def test_packed_folders_are_only_cleared_when_asked(own):
    (own / "collections" / "x").mkdir(parents=True)
    (own / "collections" / "x" / "images.npy").write_bytes(b"0" * 10_000)
    with pytest.raises(SystemExit):
        main(["cache", "clear"])
    assert (own / "collections" / "x").is_dir()
    with pytest.raises(SystemExit):
        main(["cache", "clear", "--collections"])
    assert not (own / "collections" / "x").exists()


def test_the_cache_stays_below_its_limit_by_dropping_what_was_unused_longest(own, monkeypatch):
    for i in range(3):
        cache = FeatureCache({**FACTS, "i": i})
        cache.write(np.arange(1000), truth(np.arange(1000)))
        os.utime(cache.path, (i + 1, i + 1))
    kept = cache.path
    each = entries()[0].bytes
    monkeypatch.setenv("HANDFUL_CACHE_GB", str(2.5 * each / 1e9))
    assert len(trim()) == 1 and len(entries()) == 2 and kept.is_dir()
    monkeypatch.setenv("HANDFUL_CACHE_GB", "0")
    trim(keep=kept)
    assert [e.path for e in entries()] == [kept]
    monkeypatch.setenv("HANDFUL_CACHE_GB", "lots")
    with pytest.raises(BadInput, match="a number of gigabytes"):
        trim()
    assert len(clear()) == 1


def test_a_cache_that_is_off_leaves_nothing_where_one_works(tmp_path):
    """`off` is a switch, not the name of a folder: a raw folder is packed, opened, and gone with the process."""
    for name in ("a", "b", "c"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(3):
            Image.fromarray(np.full((8, 8, 3), 20 * i, dtype=np.uint8)).save(tmp_path / "photos" / name / f"{i}.png")
    code = "import handful as hf; c = hf.open('photos'); print(len(c), c.path)"
    environment = {**os.environ, "HANDFUL_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    count, place = done.stdout.split()
    assert count == "9" and not Path(place).exists()
    assert [p.name for p in tmp_path.iterdir()] == ["photos"]
