"""The taxonomy answers what an independent graph library answers, and refuses what it cannot read."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from handful.data import bfs
from handful.data.taxonomy import Taxonomy
from handful.data.taxonomy_csv import from_csv
from handful.data.wordnet import parse, wordnet
from handful.errors import BadInput, Missing
from made.graphs import random_dag


@pytest.mark.parametrize("seed", range(4))
def test_every_question_agrees_with_networkx(seed: int) -> None:
    tax, graph = random_dag(150, seed)
    free = graph.to_undirected()
    away = dict(nx.all_pairs_shortest_path_length(free))
    ids = tax.ids.tolist()
    assert np.array_equal(tax.distances(ids, ids), [[away[a].get(b, -1) for b in ids] for a in ids])
    rng = np.random.default_rng(seed)
    for name in rng.choice(ids, 15):
        assert set(tax.ids[tax.ancestors(name)]) == nx.descendants(graph, name)
        assert set(tax.ids[tax.descendants(name)]) == nx.ancestors(graph, name)
        assert set(tax.ids[tax.parents(name)]) == set(graph.successors(name))
        assert set(tax.ids[tax.children(name)]) == set(graph.predecessors(name))
    roots = [n for n in graph if graph.out_degree(n) == 0]
    up = nx.multi_source_dijkstra_path_length(graph.reverse(), set(roots))
    assert tax.depth.tolist() == [up[i] for i in ids]
    sources = sorted(rng.choice(ids, 20, replace=False))
    assert tax.to_nearest(sources).tolist() == [min(away[i][s] for s in sources) for i in ids]
    above, below = rng.choice(ids, 400), rng.choice(ids, 400)
    expected = [a in nx.descendants(graph, b) for a, b in zip(above, below, strict=True)]
    assert tax.is_ancestor(above, below).tolist() == expected


@pytest.mark.parametrize("seed", range(4))
def test_two_labels_and_tied_nearest_sources_agree_with_all_pairs(seed: int) -> None:
    tax, _ = random_dag(300, seed)
    rng = np.random.default_rng(seed)
    sources = np.sort(rng.choice(300, 40, replace=False))
    full = tax.distances(np.arange(300), sources).astype(int)
    dist, label = bfs.two_nearest(*tax.around, sources)
    assert np.array_equal(dist, np.sort(full, axis=1)[:, :2])
    column = {int(s): i for i, s in enumerate(sources)}
    for node in range(300):
        assert label[node, 0] != label[node, 1]
        assert [full[node, column[int(s)]] for s in label[node]] == dist[node].tolist()
    owner, source = bfs.all_nearest(*tax.around, tax.to_nearest(sources), np.arange(300))
    ties = [sources[row == row.min()].tolist() for row in full]
    assert [source[owner == i].tolist() for i in range(300)] == ties


def test_pieces_without_a_path_are_unreached() -> None:
    tax = Taxonomy.of([("a", "r"), ("b", "s")])
    assert tax.distances(["a"], ["r", "b"]).tolist() == [[1, -1]]
    assert bfs.two_nearest(*tax.around, tax.index(["a"]))[0][tax.index("b")].tolist() == [[-1, -1]]


def test_subgraph_keeps_words_and_inner_edges() -> None:
    tax = Taxonomy.of([("b", "a"), ("c", "b"), ("d", "c")], words={"c": ["sea", "ocean"]}, glosses={"c": "wet"})
    some = tax.subgraph(["b", "c"])
    assert some.ids.tolist() == ["b", "c"] and some.words("c") == ["sea", "ocean"] and some.gloss("c") == "wet"
    assert some.ids[some.parents("c")].tolist() == ["b"]
    assert tax.subgraph(["c"], with_ancestors=True).ids.tolist() == ["a", "b", "c"]
    assert some.id != tax.id


def test_it_is_saved_whole_and_read_back(tmp_path: Path) -> None:
    tax = Taxonomy.of([("zèbre", "équidé"), ("cheval", "équidé")], words={"cheval": ["horse"]})
    again = Taxonomy.load(tax.save(tmp_path / "t.npz"))
    assert again.ids.tolist() == tax.ids.tolist() and again.id == tax.id and again.words("cheval") == ["horse"]
    assert [p.name for p in tmp_path.iterdir()] == ["t.npz"]
    (tmp_path / "t.npz").write_bytes(b"PK not a zip")
    with pytest.raises(BadInput, match="t.npz cannot be read"):
        Taxonomy.load(tmp_path / "t.npz")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,b\nb,c\nc,a\n", r"cycle, .*a.*->"),
        ("a,a\n", "cycle, a -> a"),
        ("a,r\nb,r\na,r\n", "row 3: a,r repeats row 1"),
        ("horse,equine\nzebra,equin\nequine,animal\n", "row 2: the parent equin is nobody's child.*equine"),
        ("a,r\nb\n", "row 2: expected child,parent"),
        ("a,r,x\n", "row 1: expected child,parent"),
        ("r,\na,r\nr,a2\na2,\n", "declared a root but has a parent"),
        ("", "no class"),
    ],
)
def test_a_wrong_csv_is_refused_by_row_and_name(tmp_path: Path, rows: str, message: str) -> None:
    (tmp_path / "h.csv").write_text(rows)
    with pytest.raises(BadInput, match=message):
        from_csv(tmp_path / "h.csv")


def test_csv_with_header_and_declared_roots(tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text("child,parent\nanimal,\nrock,\nhorse,animal\nzebra,animal\n")
    tax = from_csv(tmp_path / "h.csv")
    assert tax.ids[tax.roots].tolist() == ["animal", "rock"]
    assert tax.ids[tax.children("animal")].tolist() == ["horse", "zebra"]
    with pytest.raises(BadInput, match=r"1 not in h.csv .hors.; did you mean horse"):
        tax.index(["zebra", "hors"])
    with pytest.raises(Missing):
        from_csv(tmp_path / "absent.csv")


NOUNS = """  1 This software and database is being provided to you. WordNet 3.0 Copyright 2006
00000010 03 n 01 entity 0 001 ~ 00000020 n 0000 | that which is
00000020 05 n 02 wild_horse 0 Equus_ferus 0 002 @ 00000010 n 0000 + 00692347 v 0101 | a horse | or so
00000030 18 n 01 Bucephalus 0 001 @i 00000020 n 0000 | a war horse
"""


def test_wordnet_lines_become_ids_words_and_both_kinds_of_edges() -> None:
    tax = parse(NOUNS)
    assert tax.ids.tolist() == ["n00000010", "n00000020", "n00000030"] and tax.source == "WordNet 3.0"
    assert tax.words("n00000020") == ["wild horse", "Equus ferus"] and tax.gloss("n00000020") == "a horse | or so"
    assert tax.ids[tax.ancestors("n00000030")].tolist() == ["n00000010", "n00000020"]


def test_other_files_and_versions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    for text, message in [
        (NOUNS.replace("3.0", "3.1"), "WordNet 3.1, but class ids are offsets of 3.0"),
        (NOUNS.replace("@ 00000010", "@ 00000011"), "00000011 is not in the file"),
        ("hello world\n", "line 1: not a synset"),
        ("", "holds no synset"),
    ]:
        (tmp_path / "data.noun").write_text(text)
        with pytest.raises(BadInput, match=message):
            wordnet(tmp_path)
    with pytest.raises(Missing, match=r"no data\.noun"):
        wordnet(tmp_path / "nowhere")


def test_a_changed_or_damaged_cache_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data.noun").write_text(NOUNS)
    assert len(wordnet(tmp_path)) == 3
    (stored,) = (tmp_path / "cache").iterdir()
    stored.write_bytes(stored.read_bytes()[:100])
    assert len(wordnet(tmp_path)) == 3
    (tmp_path / "data.noun").write_text(NOUNS + "00000040 18 n 01 Marengo 0 001 @i 00000020 n 0000 | a war horse\n")
    assert len(wordnet(tmp_path)) == 4


def test_wordnet_has_its_published_size(nouns: Taxonomy) -> None:
    assert (len(nouns), len(nouns.child)) == (82_115, 75_850 + 8_577)
    assert nouns.ids[nouns.roots].tolist() == ["n00001740"]
    assert nouns.words("n02391049") == ["zebra"]
    assert {"n02374149"} <= set(nouns.ids[nouns.ancestors("n02391049")]) & set(nouns.ids[nouns.ancestors("n02374451")])


def test_it_comes_back_from_its_cache_the_same(nouns: Taxonomy, tmp_path: Path) -> None:
    again = Taxonomy.load(nouns.save(tmp_path / "nouns.npz"))
    assert len(again) == len(nouns)
    assert again.id == nouns.id
