"""Recipes as they are written: layers, rows that belong to some of them, and every packaged table at every scale."""

from __future__ import annotations

import itertools

import pytest

from handful import registry
from handful.errors import BadInput
from handful.runs.matrix import configured
from handful.runs.recipe import packaged, read_facts, read_recipe, shortened
from handful.runs.recipe_file import flatten

FILE = """
title = "t"
[rule]
rule = "n-way"
ways = 5
[train]
shots = 3
[tests]
tasks = 10
[[test]]
label = "one"
shots = 1
[[test]]
label = "five"
shots = 5
[options]
net = "conv4"
[options-tasks]
schedule = { steps = 7, rate = 0.5 }
[scale.quick]
note = "short"
tests = { tasks = 3 }
[scale.paper]
seeds = [0, 1]
options = { net = "resnet12" }
[variant.hard]
rule = { ways = 10 }
[variant."hard+paper"]
collection = "packed/hard"
[variant.words]
exclusive = true
[[method]]
name = "protonet"
reported = [40.0, [60.0, 0.5]]
hard = { reported = [20.0, 30.0] }
paper = { options = { schedule = { steps = 100 } } }
[[method]]
name = "rfs-simple"
only = ["paper"]
[[method]]
name = "nearest-centroid"
only = ["words"]
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "r.toml").write_text(FILE)
    return str(tmp_path / "r.toml")


def test_layers_lie_over_the_file_in_order(file):
    quick = read_recipe(file)
    assert (quick.note, quick.seeds, [t.tasks for t in quick.test]) == ("short", [0], [3, 3])
    assert [m.name for m in quick.method] == ["protonet"]
    assert quick.method[0].options == {"net": "conv4", "schedule": {"steps": 7, "rate": 0.5}}
    assert quick.method[0].reported == {"one": 40.0, "five": (60.0, 0.5)}
    assert quick.train is not None and quick.train.model_extra == {"ways": 5, "shots": 3}
    paper = read_recipe(file, "paper", ["hard"])
    assert (paper.collection, paper.seeds, [t.tasks for t in paper.test]) == ("packed/hard", [0, 1], [10, 10])
    assert [m.name for m in paper.method] == ["protonet", "rfs-simple"]
    assert paper.method[0].options == {"net": "resnet12", "schedule": {"steps": 100, "rate": 0.5}}
    assert paper.method[0].reported == {"one": 20.0, "five": 30.0}
    assert paper.method[1].options == {"net": "resnet12"}  # trains on batches: no default of those that train on tasks
    assert all(t.model_extra and t.model_extra["ways"] == 10 for t in paper.test)
    assert [m.name for m in read_recipe(file, variants=["words"]).method] == ["nearest-centroid"]


def test_a_scale_lies_over_what_the_file_says_of_one_kind_of_method(file, tmp_path):
    text = FILE.replace('options = { net = "resnet12" }', 'options = { net = "resnet12", schedule = { rate = 0.25 } }')
    (tmp_path / "r.toml").write_text(text)
    assert read_recipe(file, "paper").method[0].options["schedule"] == {"steps": 100, "rate": 0.25}


def test_like_takes_layers_and_options_but_no_reported_number(file):
    def find(name):
        return read_facts(file)

    row = {"name": "protonet"}
    flat = flatten("x", {"title": "u", "like": "r", "test": [{"label": "a"}], "method": [row]}, "paper", (), find)
    assert flat["seeds"] == [0, 1] and flat["test"] == [{"rule": "n-way", "ways": 5, "tasks": 10, "label": "a"}]
    assert (
        flat["method"][0]["options"]["schedule"] == {"steps": 100, "rate": 0.5} and "reported" not in flat["method"][0]
    )


@pytest.mark.parametrize(
    ("change", "asked", "says"),
    [
        ((), ("papre", ()), "has no scale 'papre'; did you mean paper"),
        ((), (None, ("word",)), "has no variant 'word'; did you mean words"),
        (("hard = { reported", "hrad = { reported"), (None, ()), "method.hrad is not a known key"),
        (("[40.0, [60.0, 0.5]]", "[40.0]"), (None, ()), "reports 1 numbers for 2 tests"),
        (('only = ["paper"]', 'only = ["papre"]'), (None, ()), "a row is only for 'papre'"),
        (('net = "conv4"', 'nte = "conv4"'), (None, ()), "no method of it has the option 'nte'"),
        (("tasks = 3", "tasks = 'x'"), (None, ()), "tasks"),
    ],
)
def test_a_slip_in_a_recipe_is_named(file, tmp_path, change, asked, says):
    if change:
        assert change[0] in FILE
        (tmp_path / "r.toml").write_text(FILE.replace(*change))
    with pytest.raises(BadInput, match=says):
        read_recipe(file, *asked)


def every_form():
    for name in packaged():
        facts = read_facts(name)
        base = read_facts(facts["like"]) if "like" in facts else {}
        scales = {**base.get("scale", {}), **facts.get("scale", {})} or {None: {}}
        variants = [v for v in {**base.get("variant", {}), **facts.get("variant", {})} if "+" not in v]
        if "like" in facts:  # of an inherited variant only what the rows know
            variants = [v for v in variants if any(v in m.get("only", ()) for m in facts["method"])]
        for scale in scales:
            for n in range(len(variants) + 1):
                for some in itertools.combinations(variants, n):
                    yield pytest.param(name, scale, some, id=f"{name}-{scale}-{'+'.join(some)}")


@pytest.mark.parametrize(("name", "scale", "variants"), every_form())
def test_every_row_of_every_packaged_form_can_be_built(name, scale, variants):
    recipe = read_recipe(name, scale, variants)
    labels = {t.label for t in recipe.test}
    assert recipe.method and len({m.title for m in recipe.method}) == len(recipe.method)
    for method in recipe.method:
        configured(method, 0)
        assert set(method.reported) <= labels
    for rule in [recipe.train, recipe.valid, *recipe.test]:
        assert rule is None or rule.rule in registry.names("rules")


def test_steps_cap_every_stage_of_training():
    recipe = shortened(read_recipe("metacoco/table2", "paper"), 3)
    stages = 0
    for spec in recipe.method:
        method = configured(spec, 0)
        for value in vars(method).values():
            if hasattr(value, "validate_every"):
                assert value.steps <= 3 and value.validate_every <= 3, spec.title
                stages += 1
    assert stages > len(recipe.method)
