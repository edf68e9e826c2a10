"""The paper's tables as recipes: options that exist, the paper's settings, and reported numbers that agree with each other."""

from __future__ import annotations

import pytest

from handful.metrics.pairs import harmonic
from handful.runs.recipe import configured, packaged, read_recipe

NAMES = [n for n in packaged() if n.startswith("rlcl/")]


def reported(name: str) -> dict[tuple[str, str], tuple[float, float]]:
    """(method, test) -> value and half; "with words" is not part of a method's name."""
    recipe = read_recipe(name)
    return {
        (m.title.removesuffix(" with words"), test): tuple(value)  # type: ignore[arg-type]
        for m in recipe.method
        for test, value in m.reported.items()
    }


def test_every_table_and_figure_has_a_recipe():
    wanted = ("table1-attr", "table1-act", "table4", "table5", "figure3-left", "figure3-right", "figure7")
    assert {f"rlcl/{w}{more}" for w in wanted for more in ("", "-words")} <= set(NAMES)
    assert {"rlcl/figure5", "rlcl/figure6-words", "rlcl/figure6-prototypes"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_methods_options_and_reported_columns_exist(name):
    recipe = read_recipe(name)
    labels = {t.label for t in recipe.test}
    for method in recipe.method:
        configured(method, 0)
        assert set(method.reported) <= labels
    assert len({m.title for m in recipe.method}) == len(recipe.method)


@pytest.mark.parametrize("name", [n for n in NAMES if "table" in n])
def test_reported_hm_is_that_of_the_reported_accuracies(name):
    """The paper averages three experiments' HM: it may differ from the HM of its averages by a little, a slip by a lot."""
    found = reported(name)
    assert found
    for (method, test), (hm, _) in found.items():
        if test.endswith("HM") and "primitive" not in test:
            unseen, seen = (found[method, test.removesuffix("HM") + other][0] for other in ("UA", "SA"))
            assert hm == pytest.approx(harmonic(unseen, seen), abs=0.06), (method, test)


@pytest.mark.parametrize(("one", "many"), [("table1-attr", "table4"), ("table1-act", "table5")])
@pytest.mark.parametrize("more", ["", "-words", "-full", "-words-full"])
def test_table_1_is_the_five_shot_part_of_tables_4_and_5(one, many, more):
    whole = reported(f"rlcl/{many}{more}")
    assert len(whole) == (45 if "words" in more else 120)
    for (method, test), value in reported(f"rlcl/{one}{more}").items():
        assert whole[method, f"K = 5, {test}"] == value


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("-full") or "figure7" in n])
def test_full_recipes_have_the_papers_settings(name):
    recipe = read_recipe(name)
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
        assert getattr(method, "learn_scale", True)
        assert getattr(method, "iterations", 100) == getattr(method, "passes", 100) == 100
