"""Small benchmarks, one for each kind of task, so that the contract suite can pair every method with a rule."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from handful import registry
from handful.data.collection import Card, Collection, as_table
from handful.errors import HandfulError
from handful.methods.contract import Method, make
from handful.methods.schedule import Schedule
from handful.tasks import AnyWay, NWay
from handful.tasks.rule import Rule
from made.patterns import blobs


@cache
def small() -> Collection:
    return blobs(n_classes=24, each=24)


def few_shot(split: str = "test") -> list[Rule]:
    part = small().part(split)
    return [NWay(part, 3, 2, 4), AnyWay(part, (2, 4), (1, 5), 4)]


def clustering(split: str = "test") -> list[Rule]:
    from handful.tasks.clustering import Clustering

    fixed, ranged = few_shot(split)
    return [Clustering(of=fixed), Clustering(of=ranged), Clustering(of=ranged, sizes=True)]


@cache
def coloured() -> Collection:
    """Features whose two halves are a colour and a shape, every pair a class; word vectors are not needed."""
    rng = np.random.default_rng(0)
    names = {"train": range(6), "valid": range(6, 11), "test": range(11, 16)}
    first, second = rng.normal(size=(16, 8)), rng.normal(size=(16, 8))
    rows = [(a, b, split) for split, span in names.items() for a in span for b in span for _ in range(12)]
    a, b = (np.asarray([r[i] for r in rows]) for i in (0, 1))
    x = np.concatenate([first[a], second[b]], 1) + rng.normal(0, 0.3, (len(rows), 16))
    images = np.clip(128 + 40 * x, 0, 255).astype(np.uint8)
    images = np.repeat(np.repeat(images.reshape(-1, 4, 4, 1), 4, 1), 4, 2).repeat(3, 3)
    table = as_table(
        {"colour": [f"c{i:02d}" for i in a], "shape": [f"s{i:02d}" for i in b], "split": [r[2] for r in rows]}
    )
    card = Card("coloured", "images", (16, 16, 3), ("colour", "shape"), schemes=("split",), hash="c" * 64)
    return Collection(card, table, images)


def pairs(split: str = "test") -> list[Rule]:
    from handful.tasks.pairs import Pairs

    part = coloured().part(split)
    return [
        Pairs(part, primitives=3, shots=2, queries=2),
        Pairs(part, primitives=3, shots=1, queries=3, words=vectors()),
    ]


@cache
def vectors() -> str:
    """A file of word vectors for the primitives of `coloured`."""
    import tempfile

    rng = np.random.default_rng(1)
    path = Path(tempfile.mkdtemp(prefix="handful-words-")) / "vectors.txt"
    words = [f"{kind}{i:02d}" for kind in "cs" for i in range(16)]
    path.write_text("".join(f"{w} {' '.join(f'{x:.4f}' for x in rng.normal(size=300))}\n" for w in words))
    return str(path)


def zero_shot(split: str = "test") -> list[Rule]:
    from made.zero_shot import zero_shot as rules

    return rules(split)


def crossed(split: str = "test") -> list[Rule]:
    from handful.data.world import world
    from handful.tasks.crossed import Crossed

    return [Crossed(world(crossed=True, size=16).part(split), ways=3, shots=2, queries=3)]


def hierarchies(split: str = "test") -> list[Rule]:
    """Rules that draw related classes with unequal shots, or several data sets by weight."""
    import tempfile

    from handful.tasks.meta_dataset import MetaDataset
    from handful.tasks.mix import Mix

    part = small().part(split)
    tree = Path(tempfile.mkdtemp(prefix="handful-tree-")) / "tree.csv"
    kinds = sorted(set(part.column("kind").tolist()))
    edges = "".join(f"{k},{'even' if i % 2 else 'odd'}\n" for i, k in enumerate(kinds))
    tree.write_text(f"{edges}even,all\nodd,all\n")
    meta = {"ways": (2, 4), "queries": 5, "support_size": 500, "per_class": 8}
    return [
        MetaDataset(part, **meta),
        MetaDataset(part, **meta, group="dataset"),
        MetaDataset(part, **meta, tree=str(tree)),
        Mix(part, of=few_shot(split)[0], weights={"odd": 3, "even": 1}),
    ]


def changed(split: str = "test") -> list[Rule]:
    """Rules that change the tasks of another, or draw confusable classes."""
    from handful.tasks import BaseToNew, CrossDataset, Hard, LongTail, Named, Noisy, Strangers

    part = small().part(split)
    fixed, ranged = NWay(part, 3, 5, 4), AnyWay(part, (2, 4), (1, 5), 4)
    return [
        Strangers(of=fixed),
        Strangers(of=ranged, share=0.25, classes=2),
        Noisy(of=fixed, noise=0.4),
        Noisy(of=fixed, noise=0.4, kind="confusable"),
        LongTail(of=fixed, ratio=5),
        Hard(part, ways=3, shots=2, queries=4),
        Named(of=ranged),
        BaseToNew(part, ways=2, shots=2, queries=3),
        CrossDataset(part, ways=2, shots=2, queries=3, source="odd"),
    ]


def named(split: str = "test") -> list[Rule]:
    """Tasks whose classes' names are shown."""
    from handful.tasks.named import Named

    return [Named(of=rule) for rule in few_shot(split)]


@cache
def reader() -> str:
    """A CLIP of a few thousand random weights with a tokenizer of single letters, saved as any other: it reads and sees."""
    import tempfile

    from made.readers import clip_folder

    return f"clip:folder={clip_folder(Path(tempfile.mkdtemp(prefix='handful-clip-')))}"


def balanced(split: str = "test") -> list[Rule]:
    """Rules under which contexts tell nothing, with and without weights."""
    import polars as pl

    from handful.data.collection import Collection
    from handful.data.world import world
    from handful.tasks import Balanced

    c = world(classes=30, images=40, contexts=4, size=16)
    weighed = Collection(
        c.card, c.table.with_columns((pl.int_range(pl.len()) % 3 + 1.0).alias("weight")), over=c, mask=np.arange(len(c))
    )
    return [Balanced(c.part(split), 3, 4, 4, contexts=2), Balanced(weighed.part(split), 3, 2, 3, contexts=0)]


BENCHES: dict[str, Any] = {
    "few-shot": few_shot,
    "named": named,
    "clustering": clustering,
    "pairs": pairs,
    "zero-shot": zero_shot,
    "crossed": crossed,
}


def groups(split: str = "test") -> list[Rule]:
    """Rules on collections of their own: all classes of one group, and vectors of bits."""
    from handful.tasks.alphabet import WholeGroup
    from handful.tasks.bits import Bits, vectors

    return [
        WholeGroup(small().part(split), group="dataset", shots=2, queries=4),
        Bits(vectors(8, 200).part(split), support_size=10, queries=10),
    ]


def derived(split: str = "test") -> list[Rule]:
    """Every registered rule that no other bench has, a plug-in's too, made small on the first collection that serves it."""
    others = {r.name for k, b in {**BENCHES, **MORE_RULES}.items() if k != "derived" for r in b(split)}
    found: list[Rule] = []
    for name in registry.names("rules"):
        fields = {f.name for f in dataclasses.fields(registry.get("rules", name))}
        options = {k: v for k, v in {"ways": 3, "shots": 2, "queries": 4, "primitives": 3}.items() if k in fields}
        for part in (small().part(split), coloured().part(split)) if name not in others else ():
            try:
                rule = (
                    registry.get("rules", name)(of=few_shot(split)[0])
                    if "of" in fields
                    else registry.make("rules", name, options, part)
                )
                rule.check()
            except HandfulError:
                continue
            found.append(rule)
            break
    return found


# Rules that the contract of rules is checked on; methods meet their kinds of tasks above.
MORE_RULES: dict[str, Any] = {
    "hierarchies": hierarchies,
    "changed": changed,
    "balanced": balanced,
    "groups": groups,
    "derived": derived,
}


# Options that make a method small where it has them: the contract does not depend on how long it learns.
SMALL: dict[str, Any] = {
    "epochs": 2,
    "passes": 3,
    "probe_passes": 3,
    "tune_passes": 3,
    "iterations": 3,
    "inner_steps": 2,
    "test_steps": 2,
    "steps": 3,
    "seconds": 1.0,
}


def shortened(schedule: Schedule) -> dict[str, Any]:
    return dataclasses.asdict(dataclasses.replace(schedule, steps=2, tasks=1, batch=16, validate_every=0))


def rules_for(method: Method, split: str = "test") -> list[Rule]:
    """Rules of every kind that the method can serve."""
    found = []
    for bench in BENCHES.values():
        found += [r for r in bench(split) if method.needs <= r.shows and method.axes == r.axes and suits(method, r)]
    return found


def suits(method: Method, rule: Rule) -> bool:
    """A method that clusters is asked without labels; one that learns from labels is asked with them; names are for readers."""
    reads = "texts" in method.needs
    return ("texts" in rule.shows) == reads and (reads or ("labels" in method.needs) == ("labels" in rule.shows))


def quick(name: str, **more: Any) -> Method:
    """A registered method at its smallest: few steps, small settings."""
    cls = registry.get("methods", name)
    fields = {f.name for f in dataclasses.fields(cls)}
    options: dict[str, Any] = dict(more)
    if "schedule" in fields and "schedule" not in options:
        options["schedule"] = shortened(make(name).schedule)
    if "pretrain" in fields and "pretrain" not in options:
        options["pretrain"] = shortened(make(name).pretrain)
    for key, value in SMALL.items():
        if key in fields and key not in options:
            options[key] = value
    if getattr(cls, "net", None) in ("lite2+minilm", "clip"):
        options.setdefault("net", reader())
    if getattr(cls, "net", None) == "lite2":
        options.setdefault("net", "conv4:filters=8")
    # What a method promises does not depend on its net, and a resnet18 costs as much as all other methods together.
    if getattr(cls, "net", None) == "resnet18":
        options.setdefault("net", "conv4:filters=8")
    return make(name, **options)
