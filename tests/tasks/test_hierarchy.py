"""Related classes: groups and sub-trees by hand, by brute force and by their distributions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Infeasible, Missing
from handful.tasks.hierarchy import groups, subtrees
from handful.tasks.meta_dataset import MetaDataset
from made.drawn import by_class, uniform
from made.sized import sized

ALPHABETS = ["Greek"] * 8 + ["Latin"] * 12 + ["Ogham"] * 6 + ["Tiny"] * 3


def test_a_group_is_drawn_uniformly_then_ways_then_its_classes():
    rule = MetaDataset(sized([8] * 29, groups=ALPHABETS).whole, group="alphabet")
    episodes = rule.draw_block(0, 0, 3000)
    chosen = [e.side["span"] for e in episodes]
    for e in episodes[:200]:
        own, _, _ = by_class(e, rule)
        assert {ALPHABETS[c] for c in own} == {e.side["span"]}
    assert set(chosen) == {"Greek", "Latin", "Ogham"}, "an alphabet with fewer characters than ways is not drawn"
    assert uniform([chosen.count(n) for n in ("Greek", "Latin", "Ogham")])
    for name, n in (("Greek", 8), ("Latin", 12), ("Ogham", 6)):
        ways = [e.shape[0] for e in episodes if e.side["span"] == name]
        assert uniform(np.bincount(ways, minlength=n + 1)[5:])
    latin = np.zeros(29)
    for e in episodes:
        if e.side["span"] == "Latin" and e.shape[0] == 6:
            latin[by_class(e, rule)[0]] += 1
    assert uniform(latin[8:20])


def test_data_sets_without_groups_are_drawn_flat_beside_those_with():
    sets = ["Omniglot"] * 12 + ["Birds"] * 12
    part = sized([6] * 24, groups=["Greek"] * 6 + ["Latin"] * 6 + [None] * 12, datasets=sets).whole
    rule = MetaDataset(part, ways=(2, 6), group="alphabet")
    seen: dict[str, set] = {}
    for e in rule.draw_block(0, 0, 300):
        seen.setdefault(e.side["dataset"], set()).add(e.side.get("span"))
        own, _, _ = by_class(e, rule)
        if e.side["dataset"] == "Omniglot":
            assert len({c // 6 for c in own}) == 1
    assert seen == {"Omniglot": {"Greek", "Latin"}, "Birds": {None}}


def test_a_share_of_the_tasks_may_ignore_the_hierarchy():
    part = sized([6] * 20, groups=["a"] * 10 + ["b"] * 10).whole
    spans = [e.side.get("span") for e in MetaDataset(part, group="alphabet", flat=0.25).draw_block(0, 0, 2000)]
    assert uniform([spans.count(None), len(spans) - spans.count(None)], [500, 1500])
    assert all(
        s is None
        for s in [e.side.get("span") for e in MetaDataset(part, group="alphabet", flat=1).draw_block(0, 0, 50)]
    )


def test_a_class_in_two_groups_is_refused():
    part = sized([4, 4]).whole
    part.collection.table = part.collection.table.with_columns(alphabet=np.asarray(["x", "y"] * 4))
    with pytest.raises(Infeasible, match="class k000 .* several values in column 'alphabet'"):
        groups(part, "alphabet", np.arange(2), 1)


EDGES = [
    ("animal", "entity"),
    ("dog", "animal"),
    ("puppy", "dog"),
    ("cat", "animal"),
    ("a", "puppy"),
    ("b", "puppy"),
    ("c", "cat"),
    ("d", "cat"),
    ("e", "cat"),
    ("pet", "entity"),
    ("b", "pet"),
    ("e", "pet"),
    ("f", "pet"),
]


def tree_part(names: str):
    return sized([5] * len(names), ids=list(names)).whole


def spans_of(part, tree, low, most):
    found, names = subtrees(part, tree, "wnid", np.arange(part.n_classes), low, most)
    ids = part.column("wnid")[[int(part.members[c][0]) for c in range(part.n_classes)]]
    return {n: {str(ids[c]) for c in own} for n, own in zip(names, found, strict=True)}


def test_subtrees_by_hand():
    """dog has puppy for its only child and is passed over; b and e have two parents; entity spans all."""
    tree, part = Taxonomy.of(EDGES), tree_part("abcdef")
    assert spans_of(part, tree, 2, 392) == {
        "animal": set("abcde"),
        "cat": set("cde"),
        "entity": set("abcdef"),
        "pet": set("bef"),
        "puppy": set("ab"),
    }
    assert spans_of(part, tree, 3, 5) == {"animal": set("abcde"), "cat": set("cde"), "pet": set("bef")}
    # Without c and d, cat has one child left in the graph of the classes.
    assert "cat" not in spans_of(tree_part("abef"), tree, 1, 392)


def test_a_class_above_another_belongs_to_its_own_subtree():
    tree = Taxonomy.of([("dog", "animal"), ("pug", "dog"), ("cat", "animal")])
    part = sized([5, 5, 5], ids=["cat", "dog", "pug"]).whole
    assert spans_of(part, tree, 2, 9) == {"animal": {"cat", "dog", "pug"}, "dog": {"dog", "pug"}}


def brute_force(edges, classes, low, most):
    """The public code's reading: ancestors of the classes, links among them, nodes with one child collapsed."""
    parents: dict[str, set[str]] = {}
    for c, p in edges:
        parents.setdefault(c, set()).add(p)
    graph, todo = set(classes), list(classes)
    while todo:
        for p in parents.get(todo.pop(), ()):
            if p not in graph:
                graph.add(p)
                todo.append(p)
    children = {n: {c for c in graph if n in parents.get(c, ())} for n in graph}

    def below(n):
        return {n} if not children[n] else set().union(*(below(c) for c in children[n]))

    found = {n: below(n) & set(classes) for n in graph if len(children[n]) > 1}
    return {n: own for n, own in found.items() if low <= len(own) <= most}


@pytest.mark.parametrize("seed", range(12))
def test_subtrees_of_random_graphs_agree_with_brute_force(seed):
    rng = np.random.default_rng(seed)
    inner = [f"n{i:02d}" for i in range(14)]
    leaves = [f"z{i:02d}" for i in range(20)]
    edges = {(inner[i], inner[int(rng.integers(0, i))]) for i in range(1, 14)}
    edges |= {(inner[i], inner[int(rng.integers(0, i))]) for i in rng.integers(1, 14, 4)}
    edges |= {(leaf, inner[int(rng.integers(0, 14))]) for leaf in leaves for _ in range(int(rng.integers(1, 3)))}
    own = sorted(rng.choice(leaves, 13, replace=False).tolist())
    part = sized([3] * 13, ids=own).whole
    tree = Taxonomy.of(sorted(edges))
    assert spans_of(part, tree, 3, 11) == brute_force(edges, own, 3, 11)


def csv_of(tmp_path: Path, edges) -> str:
    path = tmp_path / "tree.csv"
    path.write_text("child,parent\n" + "".join(f"{c},{p}\n" for c, p in edges))
    return str(path)


def test_a_node_is_drawn_uniformly_and_all_its_leaves_are_the_task(tmp_path):
    rule = MetaDataset(tree_part("abcdef"), ways=(2, 5), tree=csv_of(tmp_path, EDGES))
    wanted = {"animal": "abcde", "cat": "cde", "pet": "bef", "puppy": "ab", "entity": "abcdef"}
    episodes = rule.draw_block(0, 0, 2000)
    counts = dict.fromkeys(wanted, 0)
    left_out = np.zeros(6)
    for e in episodes:
        own = {"abcdef"[c] for c in by_class(e, rule)[0]}
        counts[e.side["span"]] += 1
        assert own <= set(wanted[e.side["span"]]) and len(own) == min(5, len(wanted[e.side["span"]]))
        if e.side["span"] == "entity":
            left_out["abcdef".index(*(set("abcdef") - own))] += 1
    assert uniform(list(counts.values()))
    assert uniform(left_out), "of a node with more leaves than ways, those that are left out are drawn uniformly"


def test_the_bound_on_leaves_keeps_large_nodes_out(tmp_path):
    rule = MetaDataset(tree_part("abcdef"), ways=(2, 5), tree=csv_of(tmp_path, EDGES), leaves=3)
    assert {e.side["span"] for e in rule.draw_block(0, 0, 300)} == {"cat", "pet", "puppy"}


def test_a_tree_is_named_by_its_content_in_what_identifies_the_tasks(tmp_path):
    one = csv_of(tmp_path, EDGES)
    two = tmp_path / "elsewhere.csv"
    two.write_text(Path(one).read_text())
    part = tree_part("abcdef")
    first, second = (MetaDataset(part, ways=(2, 5), tree=str(t)) for t in (one, two))
    assert first.tasks_id(0) == second.tasks_id(0) and json.dumps(first.parameters)
    two.write_text(Path(one).read_text() + "g,pet\n")
    assert MetaDataset(part, ways=(2, 5), tree=str(two)).tasks_id(0) != first.tasks_id(0)
    Taxonomy.of(EDGES).save(tmp_path / "t.npz")
    assert MetaDataset(part, ways=(2, 5), tree=str(tmp_path / "t.npz")).tasks_id(0) == first.tasks_id(0)


def test_imagenet_by_wordnet(shared):
    """The thousand classes of ILSVRC-2012 in WordNet 3.0: nodes and spans as brute force has them."""
    from handful.data.wordnet import wordnet

    try:
        tree = wordnet()
    except Missing as error:
        pytest.skip(f"needs WordNet: {error}")
    ids = sorted((shared / "imagenet-splits" / "train.txt").read_text().split())
    part = sized([2] * len(ids), ids=ids).whole
    rule = MetaDataset(part, tree="wordnet")
    pool = next(iter(rule.pools.values()))
    assert all(5 <= len(s) <= 392 for s in pool.spans) and len(set(pool.names)) == len(pool.names) > 100
    spans = dict(zip(pool.names, pool.spans, strict=True))
    dogs = {ids[c] for c in spans["n02084071"]}
    below = {str(tree.ids[n]) for n in tree.descendants("n02084071")}
    assert dogs == below & set(ids) and len(dogs) == 118
    assert "n00001740" not in spans, "entity spans a thousand classes"
    for e in rule.draw_block(0, 0, 30):
        assert 5 <= e.shape[0] <= 50
        assert {ids[int(n[1:])] for n in e.names[0]} <= {ids[c] for c in spans[e.side["span"]]}


@pytest.mark.parametrize(
    "options, error, told",
    [
        ({"ways": (30, 40)}, Infeasible, "29 classes with two images or more, 30 are needed"),
        ({"ways": (13, 20), "group": "alphabet"}, Infeasible, "no value of 'alphabet' has the 13 classes"),
        ({"group": "alphabet", "tree": "wordnet"}, BadInput, "not by both"),
        ({"group": "nothing"}, BadInput, "no column 'nothing'"),
        ({"flat": 2.0}, BadInput, "between 0 and 1"),
        ({"only": ("CUB",)}, Infeasible, "no data set 'CUB'"),
        ({"support_size": 20}, BadInput, "support_size at least"),
        ({"tree": "none.csv"}, Missing, "does not exist"),
    ],
)
def test_what_cannot_be_served_is_named(options, error, told):
    with pytest.raises(error, match=told):
        MetaDataset(sized([8] * 29, groups=ALPHABETS).whole, **options).check()


def test_ids_that_are_not_in_the_tree_and_trees_without_room_are_named(tmp_path):
    tree = csv_of(tmp_path, EDGES)
    with pytest.raises(BadInput, match="column 'wnid' .*1 not in tree.csv .x"):
        MetaDataset(tree_part("abcx"), ways=2, tree=tree).check()
    with pytest.raises(Infeasible, match="no node of tree.csv spans 2 to 1"):
        MetaDataset(tree_part("abc"), ways=2, tree=tree, leaves=1).check()
