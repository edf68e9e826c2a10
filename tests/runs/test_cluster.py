"""A two-node Ray cluster on this machine, one of whose nodes is killed in the middle: the same table to the bit."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs handful[ray]")

from handful.errors import BadInput, HandfulError
from handful.methods import make
from handful.runs import Run, evaluate
from handful.runs.ray import Ray
from handful.runs.recipe import Recipe, run_recipe
from handful.tasks import AnyWay, NWay
from made.patterns import blobs

STORE = 80 * 1024 * 1024


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return blobs(n_classes=24, each=20).save(tmp_path_factory.mktemp("packed") / "blobs")


@pytest.fixture(scope="module")
def cluster():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])  # the nodes import this file's functions
    import ray
    from ray.cluster_utils import Cluster

    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False},
    )
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    yield nodes
    ray.shutdown()
    nodes.shutdown()
    os.environ.pop("PYTHONPATH") if before is None else os.environ.__setitem__("PYTHONPATH", before)


def second(cluster):
    """One more node, up and known to the others."""
    node = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    cluster.wait_for_nodes()
    return node


def noted(folder, work, context, item):
    """The work, with a file when it begins and one when it ends, both named by item and node; a doomed node never ends it."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    name = f"{item}-{node}"
    (folder / f"{name}.begun").touch()
    if (folder / f"{node}.doomed").exists():
        time.sleep(120)
    result = work(context, item)
    (folder / f"{name}.ended").touch()
    return result


class Killing(Ray):
    """Kills a node while that node is at work."""

    def __init__(self, cluster, node, folder):
        super().__init__("auto")
        self.cluster, self.node, self.folder = cluster, node, folder
        (folder / f"{node.node_id}.doomed").touch()

    def map(self, work, context, items):
        for result in super().map(partial(noted, self.folder, work), context, items):
            if self.node is not None:
                name = self.node.node_id
                while {p.stem for p in self.folder.glob(f"*{name}.begun")} == {
                    p.stem for p in self.folder.glob(f"*{name}.ended")
                }:
                    time.sleep(0.01)
                self.cluster.remove_node(self.node, allow_graceful=False)
                self.node = None
            yield result


def end(context, item):
    if item == 3:
        os._exit(1)
    return item


def refuse(context, item):
    raise BadInput(f"item {item} is not a number; give a number")


def test_a_node_killed_in_the_middle_changes_no_bit(cluster, packed, tmp_path):
    rule = NWay(packed.test, 3, 1, 1)
    learner = make("fo-maml", test_steps=2, net="conv4:filters=8").untrained(packed.card.shape)
    alone = evaluate(learner, rule, n=64 * 5 + 5, answers=True)
    engine = Killing(cluster, second(cluster), tmp_path)
    assert engine.workers == 2
    run = evaluate(learner, rule, n=64 * 5 + 5, answers=True, engine=engine)
    assert run.frame.equals(alone.frame) and run.answers.equals(alone.answers)
    assert run.facts["engine"] == "ray"
    begun = [p.stem.partition("-") for p in tmp_path.glob("*.begun")]
    places = {item: {place for i, _, place in begun if i == item} for item, _, _ in begun}
    assert len(places) == 6 and any(len(p) == 2 for p in places.values()), "nothing was lost with the node"


def test_embedded_features_and_collections_are_shipped_once_by_content(cluster, packed):
    import ray

    rule = AnyWay(packed.test, (2, 4), (1, 5), 4)
    learner = make("protonet", net="conv4:filters=16").untrained(packed.card.shape)
    alone = evaluate(learner, rule, n=300, answers=True, cache=False)
    engine = Ray("auto", share=False)
    engine.depot = engine._depot()
    run = evaluate(learner, rule, n=300, answers=True, cache=False, engine=engine)
    assert run.frame.equals(alone.frame) and run.answers.equals(alone.answers)
    once = ray.get(engine.depot.shipped.remote())
    array = (packed.path / "images.npy").stat().st_size
    assert array < once < 2 * array
    again = evaluate(learner, rule, n=300, answers=True, cache=False, engine=engine)
    assert again.answers.equals(alone.answers)
    assert ray.get(engine.depot.shipped.remote()) == once
    shared = Ray("auto")
    shared.depot = shared._depot()
    assert evaluate(learner, rule, n=300, cache=False, engine=shared).frame.equals(alone.frame)
    assert ray.get(shared.depot.shipped.remote()) == 0


def test_a_recipe_s_trainings_and_evaluations_on_nodes_that_share_nothing(cluster, packed, tmp_path):
    options = {"net": "conv4:filters=8", "schedule": {"steps": 2}}
    facts = {"title": "small", "seeds": [0, 1], "train": {"ways": 3, "shots": 1, "queries": 2}}
    test = {"label": "1-shot", "ways": 3, "shots": 1, "queries": 2, "tasks": 70}
    recipe = Recipe(**facts, test=[test], method=[{"name": "protonet", "options": options}])
    inline = run_recipe(recipe, collection=str(packed.path))
    spread = run_recipe(recipe, collection=str(packed.path), engine=Ray("auto", share=False), out=tmp_path)
    assert list(inline.runs) == list(spread.runs) == [("protonet", "1-shot", 0), ("protonet", "1-shot", 1)]
    for key, run in inline.runs.items():
        assert run.frame.equals(spread.runs[key].frame) and run.identity == spread.runs[key].identity
        assert Run.open(spread.runs[key].path).frame.equals(run.frame)
    assert len(list(tmp_path.glob("models/*/model.safetensors"))) == 2


def test_what_cannot_be_worked_is_one_sentence(cluster):
    with pytest.raises(BadInput, match=r"^item 0 is not a number; give a number$"):
        list(Ray("auto").map(refuse, None, range(3)))
    with pytest.raises(HandfulError, match=r"a Ray worker died 2 times over the same work"):
        list(Ray("auto", retries=1).map(end, None, range(5)))
    with pytest.raises(BadInput, match="give auto or HOST:PORT"):
        Ray("nowhere")


def test_a_cluster_that_does_not_answer_is_one_sentence(monkeypatch):
    import ray

    def refused(place, timeout):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("socket.create_connection", refused)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(BadInput, match="no Ray cluster answers at 127.0.0.1:6399 .*ray start --head"):
        _ = Ray("127.0.0.1:6399").workers
