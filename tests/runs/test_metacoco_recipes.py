"""The packaged tables: every row can be built, and a small one runs from end to end."""

from __future__ import annotations

import json

import polars as pl

from handful.methods.contract import make
from handful.runs.recipe import packaged, read_recipe, run_recipe, shortened

NAMES = [name for name in packaged() if name.startswith("metacoco/")]


def test_tables_hold_the_papers_rows():
    assert set(NAMES) >= {f"metacoco/table{t}" for t in (2, 3, 6, 7)}
    for table, ways in ((6, 5), (7, 10)):
        recipe = read_recipe(f"metacoco/table{table}", "paper")
        assert {m.title.split(", ")[1] for m in recipe.method} == {"Conv64F", "ResNet12", "ResNet18"}
        assert {m.options["net"] for m in recipe.method} == {"conv4", "resnet12", "resnet18"}
        assert all(t.tasks == 600 and t.repeats == 5 and t.model_extra["ways"] == ways for t in recipe.test)
    nets = {m.title: m.options["net"] for m in read_recipe("metacoco/table2", "paper").method}
    named = {"ResNet12": "resnet12", "ResNet18": "resnet18", "ResNet50": "resnet50", "WRN-28-10": "wrn-28-10"}
    assert {title: named[title.split(", ")[1]] for title in nets} == nets
    assert {m.options["net"] for m in read_recipe("metacoco/table3", "paper").method} == {"resnet10"}
    assert {m.name for m in read_recipe("metacoco/table2").method} >= {"fgfl", "putm", "tsa+deta", "contrastive"}
    assert {m.name for m in read_recipe("metacoco/table3").method} >= {
        f"{m}+lrp" for m in ("relationnet", "gnn", "tpn")
    }
    reported = {m.title: m.reported for m in read_recipe("metacoco/table6").method}
    assert reported["ProtoNet, Conv64F"] == {"5-way 1-shot": (37.92, 0.35), "5-way 5-shot": (51.39, 0.38)}
    assert read_recipe("metacoco/table2").method[0].reported["5-way 5-shot"] == 60.78


def test_paper_scale_has_the_options_of_the_public_codes():
    """run_resnet.sh of jhoon-oh/BOIL (437e9a0), run_classifier.py of Gordonjo/versa (b056ea7), set_config_PN.py of
    remiMZ/MetaCoCo-ICLR24 (20892ac), the ResNet-12 scripts of Fei-Long121/DeepBDC (adfab39); each makes its method."""
    rows = {m.title: (m.name, m.options) for m in read_recipe("metacoco/table2", "paper").method}
    made = {title: make(name, **options) for title, (name, options) in rows.items()}
    boil, bdc = made["BOIL, ResNet12"], made["DeepBDC, ResNet12"]
    assert (boil.inner_steps, boil.inner_rate, boil.schedule.rate) == (1, 0.3, 6e-4)
    assert made["ProtoNet, ResNet12"].distance == "cosine" and made["ProtoNet, ResNet18"].distance == "euclidean"
    assert (bdc.pretrain.rate, bdc.schedule.rate, bdc.dropout) == (0.05, 1e-4, 0.8)
    for table in (2, 6, 7):
        versas = [m for m in read_recipe(f"metacoco/table{table}", "paper").method if m.name == "versa"]
        assert versas and {m.options["features"] for m in versas} == {256}


def test_the_paper_scale_selects_on_validation_classes_and_can_train_at_one_shot():
    for table in (2, 3, 6, 7):
        recipe = read_recipe(f"metacoco/table{table}", "paper")
        trained = [make(m.name, **m.options) for m in recipe.method if m.trained]
        assert trained and all(m.schedule.validate_every == 1000 and m.schedule.validate_tasks == 600 for m in trained)
        assert recipe.valid.model_extra["shots"] == recipe.train.model_extra["shots"] == 5
        one = read_recipe(f"metacoco/table{table}", "paper", ["one-shot"])
        assert one.valid.model_extra["shots"] == one.train.model_extra["shots"] == 1


def test_moco_and_ssfsl_have_their_published_sizes_at_the_paper_scale():
    """65,536 keys (He et al., CVPR 2020) and 4,096 units in the jigsaw's head (Su et al., ECCV 2020)."""
    rows = {m.title: m.options for m in read_recipe("metacoco/table2", "paper").method}
    assert rows["MoCo, ResNet50"]["queue"] == 65536
    assert {o["hidden"] for title, o in rows.items() if "jig." in title} == {4096}


def test_a_short_look_at_the_paper_scale_validates_briefly(tmp_path):
    """With --steps 2 a row of 40,000 steps trains two, asks two validation tasks, and keeps the better state."""
    recipe = read_recipe("metacoco/table6", "paper")
    some = [m for m in recipe.method if m.title == "R2D2, Conv64F"]
    some[0].options["net"] = "conv4:filters=4"
    shorter = shortened(recipe.model_copy(update={"method": some}), 2)
    run_recipe(shorter, collection="world:classes=40,images=40", tasks=2, out=tmp_path / "out")
    logs = [pl.read_csv(file) for file in (tmp_path / "out").rglob("log.csv")]
    assert logs and all(log["valid"].drop_nulls().len() == 1 and log.height == 2 for log in logs)
    facts = json.loads(next((tmp_path / "out").rglob("model.json")).read_text())
    assert facts["options"]["schedule"]["validate_tasks"] == 2


def test_a_table_is_filled_with_reported_beside_measured():
    recipe = read_recipe("metacoco/table6")
    some = [m for m in recipe.method if m.name in ("r2d2", "protonet")]
    for method in some:
        method.options["schedule"] = {"steps": 2}
        method.options["net"] = "conv4:filters=4"
    frame = run_recipe(recipe.model_copy(update={"method": some}), collection="world:classes=40", tasks=4).frame
    assert len(frame) == 4 and frame["reported"].null_count() == 0 and frame["n"].to_list() == [20] * 4
