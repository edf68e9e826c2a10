"""The paper's tables as recipes: options that exist, the paper's settings, and reported numbers that agree with each other."""

from __future__ import annotations

import pytest

from handful.metrics.pairs import harmonic
from handful.runs.matrix import configured
from handful.runs.recipe import packaged, read_recipe

TABLES = [("table1", ()), ("table1", ("act",)), ("table4", ()), ("table5", ())]
ALL = [(name, (*more, *words)) for name, more in TABLES for words in ((), ("words",))]


def reported(name: str, variants: tuple[str, ...]) -> dict[tuple[str, str], tuple[float, float]]:
    """(method, test) -> value and half; "with words" is not part of a method's name."""
    recipe = read_recipe(f"rlcl/{name}", variants=variants)
    return {
        (m.title.removesuffix(" with words"), test): tuple(value)  # type: ignore[arg-type]
        for m in recipe.method
        for test, value in m.reported.items()
    }


def test_every_table_and_figure_has_a_recipe():
    wanted = ("table1", "table4", "table5", "figure3-left", "figure3-right", "figure5", "figure6", "figure7")
    assert {f"rlcl/{w}" for w in wanted} == {n for n in packaged() if n.startswith("rlcl/")}


@pytest.mark.parametrize(("name", "variants"), ALL)
def test_reported_hm_is_that_of_the_reported_accuracies(name, variants):
    """The paper averages three experiments' HM: it may differ from the HM of its averages by a little, a slip by a lot."""
    found = reported(name, variants)
    assert found
    for (method, test), (hm, _) in found.items():
        if test.endswith("HM") and "primitive" not in test:
            unseen, seen = (found[method, test.removesuffix("HM") + other][0] for other in ("UA", "SA"))
            assert hm == pytest.approx(harmonic(unseen, seen), abs=0.06), (method, test)


@pytest.mark.parametrize(("many", "act"), [("table4", ()), ("table5", ("act",))])
@pytest.mark.parametrize("words", [(), ("words",)])
def test_table_1_is_the_five_shot_part_of_tables_4_and_5(many, act, words):
    whole = reported(many, words)
    assert len(whole) == (45 if words else 120)
    for (method, test), value in reported("table1", (*act, *words)).items():
        assert whole[method, f"K = 5, {test}"] == value


@pytest.mark.parametrize(("name", "variants"), [*ALL, ("figure7", ()), ("figure7", ("words",))])
def test_the_papers_scale_has_the_papers_settings(name, variants):
    recipe = read_recipe(f"rlcl/{name}", "paper", variants)
    assert recipe.seeds == [0, 1, 2]
    for spec in recipe.method:
        method = configured(spec, 0)
        s = method.schedule
        assert (s.optimiser, s.rate, s.weight_decay, s.select) == ("adam", 1e-3, 5e-4, "best")
        assert set(s.augment) == {"crop", "flip", "jitter"} and s.validate_every
        if method.trains == "tasks":
            assert s.steps * s.tasks == 60_000
        else:
            images = 51_928 if "attr" in recipe.collection else 20_604
            assert s.batch == 16 and s.steps * s.batch == 600 * images
        assert getattr(method, "inner_rate", 0.4) == 0.4
        assert getattr(method, "iterations", 100) == getattr(method, "passes", 100) == 100
