"""What evaluate learns on validation classes keeps its promise on test classes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import handful as hf
from handful.data.collection import Card, Collection, as_table
from handful.errors import BadInput
from made.benches import small
from made.patterns import blobs


def tasks(split="test", **options):
    return hf.tasks.Strangers(of=hf.tasks.NWay(small().part(split), 3, 5, 6), **options)


@cache
def gaussians() -> Collection:
    """Features of classes that are all alike: what holds of the validation classes holds of the test classes."""
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(800), 12)
    x = (1.5 * rng.normal(size=(800, 8)))[label] + rng.normal(size=(len(label), 8))
    split = np.where(label < 400, "valid", "test")
    table = as_table({"kind": [f"k{i:03d}" for i in label], "split": split.tolist()})
    card = Card("gaussians", "features", (8,), ("kind",), schemes=("split",), hash="9" * 64)
    return Collection(card, table, x.astype(np.float32))


def test_a_temperature_is_learned_on_validation_classes_and_changes_no_answer():
    rule = hf.tasks.NWay(gaussians().test, 5, 5, 6)
    plain = hf.evaluate("nearest-centroid", rule, n=64, metrics=["accuracy", "calibration"])
    warm = hf.evaluate("nearest-centroid", rule, n=64, metrics="accuracy", temperature="auto")
    assert warm.identity["promises"]["temperature"] != 1 and "calibration" in warm.identity["metrics"]
    assert warm.frame["accuracy"].equals(plain.frame["accuracy"])
    assert warm.estimate("nll").value < plain.estimate("nll").value
    colder = hf.evaluate("nearest-centroid", rule, n=64, temperature=2 * warm.identity["promises"]["temperature"])
    assert colder.estimate("confidence").value < warm.estimate("confidence").value


def test_a_promise_chosen_on_validation_classes_holds_on_test_classes_for_every_score():
    rule = hf.tasks.Strangers(of=hf.tasks.NWay(gaussians().test, 5, 5, 6))
    run = hf.evaluate("nearest-centroid", rule, n=256, promise=0.1, conformal=0.1, temperature="auto")
    assert run.main == "auroc/probability"
    for name in ("probability", "energy", "margin", "prototype", "mahalanobis", "k-nn", "vim"):
        assert run.estimate(f"auroc/{name}").low > 0.55, name
        accepted = run.estimate(f"accepted/{name}")
        assert 0.05 < accepted.value < 0.15, (name, accepted)
        assert run.estimate(f"open_accuracy/{name}").value > 0.5
    assert run.estimate("coverage").value == pytest.approx(0.9, abs=0.05)
    assert abs(run.estimate("ece").value) < 0.04
    with pytest.raises(BadInput, match="strangers"):
        hf.evaluate("nearest-centroid", hf.tasks.NWay(small().test, 3, 5, 6), n=8, promise=0.1)


def test_promises_are_part_of_what_a_run_is(tmp_path):
    a = hf.evaluate("nearest-centroid", tasks(), n=64, promise=0.2, out=tmp_path / "a")
    again = hf.evaluate("nearest-centroid", tasks(), n=64, promise=0.2, out=tmp_path / "a")
    assert again.frame.equals(a.frame)
    with pytest.raises(BadInput):
        hf.evaluate("nearest-centroid", tasks(), n=64, promise=0.1, out=tmp_path / "a")


@pytest.mark.parametrize(
    "options, words",
    [
        ({"temperature": 0}, "above 0"),
        ({"temperature": "warm"}, "or auto"),
        ({"promise": 1.5}, "share between"),
        ({"conformal": 0.0}, "share between"),
    ],
)
def test_wrong_promises_are_refused_in_one_sentence(options, words):
    with pytest.raises(BadInput, match=words):
        hf.evaluate("nearest-centroid", tasks(), n=4, **options)


def test_without_validation_classes_nothing_is_promised():
    source = blobs(n_classes=8, each=20)
    whole = hf.tasks.NWay(source.whole, 3, 2, 4)
    if "split" in source.table.columns and (source.table["split"] == "valid").any():
        source = Collection(
            source.card, source.table.with_columns(split=np.array(["test"] * len(source))), source.array
        )
        whole = hf.tasks.NWay(source.whole, 3, 2, 4)
    with pytest.raises(BadInput, match="no valid split"):
        hf.evaluate("nearest-centroid", whole, n=4, temperature="auto")
