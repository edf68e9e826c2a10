"""Which image shows what: from knobs to one row of factor codes an image."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from handful.data.world import factors
from handful.data.world.knobs import CROSSED, Knobs
from handful.data.world.noise import hash32, hashed
from handful.errors import BadInput

SPLITS = ("train", "valid", "test")
_PAIR_VALUES = 40


@dataclass(frozen=True)
class WorldPlan:
    """Factor codes of every image (-1: neutral), its split and data set, and which images are copies of which."""

    codes: dict[str, np.ndarray]
    split: np.ndarray
    dataset: np.ndarray
    datasets: tuple[int, ...]
    """The drawing medium of each data set."""
    copies: np.ndarray
    """(n, 2): an image and the image that it is a copy of."""
    drawn: dict[str, np.ndarray]
    """Like ``codes``, as drawn: a copy shows what its source shows."""
    key: np.ndarray
    grain: np.ndarray


class Lots:
    """Random numbers and permutations by name, independent of NumPy's generators and their versions."""

    def __init__(self, seed: int):
        self.seed = seed

    def _stream(self, name: str) -> int:
        return int.from_bytes(hashlib.blake2b(f"{self.seed}/{name}".encode(), digest_size=4).digest(), "little")

    def uniform(self, name: str, n: int) -> np.ndarray:
        at = np.arange(n, dtype=np.uint64)
        return hashed(at, np.full(n, self._stream(name), dtype=np.uint64), 1)

    def below(self, name: str, n: int, high: int) -> np.ndarray:
        return np.floor(self.uniform(name, n) * high).astype(np.int64)

    def order(self, name: str, n: int) -> np.ndarray:
        return np.argsort(self.uniform(name, n), kind="stable")

    def keys(self, name: str, n: int) -> np.ndarray:
        at, stream = np.arange(n, dtype=np.uint64), np.full(n, self._stream(name), dtype=np.uint64)
        return (hash32(at, stream, 2).astype(np.uint64) << np.uint64(32)) | hash32(at, stream, 3).astype(np.uint64)


def cut(order: np.ndarray, shares: tuple[float, ...]) -> list[np.ndarray]:
    """An order cut into train, valid and test; a share above 0 gets at least one while there is one to get."""
    n = len(order)
    valid, test = (max(1, round(s * n)) if s > 0 and n >= 3 else round(s * n) for s in shares[1:])
    train = max(n - valid - test, 1 if shares[0] > 0 else 0)
    return [order[:train], order[train : train + valid], order[train + valid : train + valid + test]]


def _pools(knobs: Knobs, lots: Lots) -> dict[str, list[np.ndarray]]:
    """The codes that each factor may take in each split."""
    apart = {*knobs.label, *knobs.disjoint, *(CROSSED if knobs.crossed else ())}
    pools: dict[str, list[np.ndarray]] = {}
    limit = knobs.classes or (_PAIR_VALUES if len(knobs.label) == 2 else 0)
    script = {name: i for i, name in enumerate(factors.values("script"))}
    script_of = np.array([script[factors.scripts()[g]] for g in factors.values("glyph")])
    for factor in factors.FACTORS:
        n = len(factors.values(factor))
        order = lots.order(f"values/{factor}", n)
        if factor in knobs.label and limit:
            if limit > n and knobs.classes:
                raise BadInput(f"world: classes={limit}, but {factor} has {n} values; ask for at most {n}")
            order = order[:limit]
        if factor in knobs.fixed:
            pools[factor] = [np.array([-1])] * 3
        elif factor in apart:
            pools[factor] = cut(order, knobs.shares)
        else:
            pools[factor] = [np.sort(order)] * 3
    if "script" in apart:
        kept = np.concatenate(pools["glyph"]) if "glyph" in apart else pools["glyph"][0]
        pools["glyph"] = [np.sort(kept[np.isin(script_of[kept], scripts)]) for scripts in pools["script"]]
    return pools


def make_plan(knobs: Knobs) -> WorldPlan:
    """One row per image, in the order train, valid, test, and by class within."""
    lots = Lots(knobs.seed)
    pools = _pools(knobs, lots)
    if knobs.crossed:
        blocks = [_grid(knobs, lots, pools, i) for i in range(3)]
    elif len(knobs.label) == 2:
        blocks = [_pairs(knobs, lots, pools, i) for i in range(3)]
    elif knobs.by_dataset:
        blocks = _whole_datasets(knobs, lots, pools)
    else:
        blocks = [_classes(knobs, lots, pools, i) for i in range(3)]
    split = np.repeat(np.arange(3), [len(b["dataset"]) for b in blocks])
    rows = {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}
    if not len(split):
        raise BadInput("world: these knobs leave no image; raise classes, images or splits")
    dataset = rows.pop("dataset")
    codes = _free(knobs, lots, pools, rows, split)
    return _with_copies(knobs, lots, codes, split, dataset)


Rows = dict[str, np.ndarray]


def _classes(knobs: Knobs, lots: Lots, pools: dict[str, list[np.ndarray]], part: int) -> Rows:
    """Every class of a split with its images, spread over the grounds; data sets take turns at the classes."""
    factor = knobs.label[0]
    values = np.sort(pools[factor][part])
    n_sets = min(knobs.styles, max(len(values), 1))
    dataset = np.zeros(len(values), dtype=np.int64)
    dataset[lots.order(f"dataset/{part}", len(values))] = np.arange(len(values)) % n_sets
    return _spread(knobs, lots, pools, part, {factor: values}, dataset)


def _whole_datasets(knobs: Knobs, lots: Lots, pools: dict[str, list[np.ndarray]]) -> list[Rows]:
    """Each data set in one split, with classes of its own."""
    factor = knobs.label[0]
    values = lots.order("classes of data sets", sum(len(p) for p in pools[factor]))
    values = np.sort(np.concatenate(pools[factor]))[values]
    parts = cut(lots.order("data sets", knobs.styles), knobs.shares)
    shares = [values[d :: knobs.styles] for d in range(knobs.styles)]
    blocks = []
    for part, sets in enumerate(parts):
        chosen = [np.sort(shares[d]) for d in sets]
        flat = np.concatenate(chosen) if chosen else np.empty(0, dtype=np.int64)
        dataset = np.repeat(np.asarray(sets, dtype=np.int64), [len(c) for c in chosen])
        blocks.append(_spread(knobs, lots, pools, part, {factor: flat}, dataset))
    return blocks


def _spread(
    knobs: Knobs, lots: Lots, pools: dict[str, list[np.ndarray]], part: int, values: Rows, dataset: np.ndarray
) -> Rows:
    """Repeat classes for their images and give each image its ground."""
    n, m = len(dataset), knobs.images
    rows = {name: np.repeat(v, m) for name, v in values.items()}
    rows["dataset"] = np.repeat(dataset, m)
    if "ground" in values or "ground" in knobs.fixed:
        return rows
    pool = pools["ground"][part]
    wanted = knobs.train_contexts if part == 0 else knobs.contexts
    shared = pool[lots.order(f"contexts/{part}", len(pool))][: wanted or len(pool)]
    turn = np.arange(m)[None, :] + np.arange(n)[:, None] * m
    ground = shared[turn % len(shared)]
    if part == 0 and knobs.ground > 0:
        home = pool[lots.order("homes", len(pool))][np.arange(n) % len(pool)]
        ground[:, : round(knobs.ground * m)] = home[:, None]
    rows["ground"] = ground.reshape(-1)
    return rows


def _pairs(knobs: Knobs, lots: Lots, pools: dict[str, list[np.ndarray]], part: int) -> Rows:
    """The pairs of a split that the mask leaves; every primitive keeps at least one."""
    first, second = (np.sort(pools[factor][part]) for factor in knobs.label)
    n1, n2 = len(first), len(second)
    grid = np.zeros((n1, n2), dtype=bool)
    if n1 and n2:
        steps = np.arange(max(n1, n2))
        grid[lots.order(f"mask/a/{part}", n1)[steps % n1], lots.order(f"mask/b/{part}", n2)[steps % n2]] = True
        spare = lots.order(f"mask/{part}", n1 * n2)
        spare = spare[~grid.reshape(-1)[spare]]
        grid.reshape(-1)[spare[: max(0, round(knobs.mask * n1 * n2) - int(grid.sum()))]] = True
    a, b = np.nonzero(grid)
    values = {knobs.label[0]: first[a], knobs.label[1]: second[b]}
    return _spread(knobs, lots, pools, part, values, np.zeros(len(a), dtype=np.int64))


def _grid(knobs: Knobs, lots: Lots, pools: dict[str, list[np.ndarray]], part: int) -> Rows:
    """All combinations of the crossed factors' values, each with its copies."""
    chosen = []
    for factor in CROSSED:
        pool = pools[factor][part]
        wanted = (knobs.glyph_values if factor == "glyph" else knobs.values)[part]
        if len(pool) < wanted:
            where = f"{SPLITS[part]}, which has {len(pool)} of {factor}"
            raise BadInput(f"world: {wanted} crossed values wanted in {where}; lower values or change splits")
        chosen.append(np.sort(pool[:wanted]))
    mesh = np.meshgrid(*chosen, np.arange(knobs.copies), indexing="ij")
    rows = {factor: mesh[i].reshape(-1) for i, factor in enumerate(CROSSED)}
    return {**rows, "dataset": np.zeros(len(rows["glyph"]), dtype=np.int64)}


def _free(knobs: Knobs, lots: Lots, pools: dict[str, list[np.ndarray]], rows: Rows, split: np.ndarray) -> Rows:
    """Fill the factors that nothing has set: uniform over the split's values, independent of all else."""
    n = len(split)
    codes = dict(rows)
    script = {name: i for i, name in enumerate(factors.values("script"))}
    script_of = np.array([script[factors.scripts()[g]] for g in factors.values("glyph")])
    for factor in factors.FACTORS:
        if factor in codes or factor == "script":
            continue
        codes[factor] = np.full(n, -1)
        lot = lots.uniform(f"free/{factor}", n)
        if factor == "glyph" and "script" in codes:
            for value in np.unique(codes["script"]):
                here, members = codes["script"] == value, np.flatnonzero(script_of == value)
                codes["glyph"][here] = members[np.floor(lot[here] * len(members)).astype(np.int64)]
            continue
        for part in range(3):
            here, pool = split == part, pools[factor][part]
            codes[factor][here] = pool[np.floor(lot[here] * len(pool)).astype(np.int64)] if here.any() else -1
    codes["script"] = script_of[codes["glyph"]]
    return {factor: codes[factor] for factor in factors.FACTORS}


def _with_copies(knobs: Knobs, lots: Lots, codes: Rows, split: np.ndarray, dataset: np.ndarray) -> WorldPlan:
    n = len(split)
    key = lots.keys("pixels", n)
    train, test = np.flatnonzero(split == 0), np.flatnonzero(split == 2)
    order = test[lots.order("copies", len(test))]
    n_far = round(knobs.duplicates * len(test))
    far, rest = order[:n_far], order[n_far:]
    if n_far and not len(train):
        raise BadInput("world: duplicates are copies of training images, and there are none; change splits")
    pairs = [np.stack([far, train[lots.below("sources", len(far), max(len(train), 1))]], axis=1)] if n_far else []
    if knobs.repeats:
        pairs.append(_within_class(knobs, codes, dataset, rest, round(knobs.repeats * len(test))))
    copies = np.concatenate(pairs) if pairs else np.empty((0, 2), dtype=np.int64)
    source = np.arange(n)
    source[copies[:, 0]] = copies[:, 1]
    drawn = {factor: values[source] for factor, values in codes.items()}
    shown = {
        f: v if f in knobs.label or (f == "script" and "glyph" in knobs.label) else drawn[f] for f, v in codes.items()
    }
    grain = lots.keys("grain", n) if knobs.near else lots.keys("grain", n)[source]
    medium = np.arange(knobs.styles)
    return WorldPlan(
        shown, split, dataset, tuple(medium.tolist()), copies, {**drawn, "medium": dataset[source]}, key[source], grain
    )


def _within_class(knobs: Knobs, codes: Rows, dataset: np.ndarray, rows: np.ndarray, n: int) -> np.ndarray:
    """Pairs (copy, source) inside classes; a source is never a copy, and as few images as possible are copied twice."""
    names = np.stack([codes[f][rows] for f in knobs.label] + [dataset[rows]], axis=1)
    group = np.unique(names, axis=0, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(group)
    wanted = np.floor(n * sizes / max(len(rows), 1)).astype(np.int64)
    pairs = []
    for g, want in enumerate(np.minimum(wanted, sizes - 1)):
        mine = rows[group == g]
        copies, sources = mine[:want], mine[want:]
        pairs.append(np.stack([copies, sources[np.arange(want) % max(len(sources), 1)]], axis=1))
    return np.concatenate(pairs) if pairs else np.empty((0, 2), dtype=np.int64)
