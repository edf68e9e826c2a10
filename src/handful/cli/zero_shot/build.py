"""handful zero-shot build"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.options import Json, Seed, emit
from handful.cli.zero_shot.options import (
    Among,
    Common,
    Counts,
    Population,
    Rare,
    Train,
    Tree,
    Words,
    check_target,
    frequency_of,
    tree_of,
)
from handful.errors import BadInput


def build(
    train: Train,
    candidates: Annotated[Path, typer.Option("--candidates", help="Classes to choose from, one id per line.")],
    n: Annotated[int, typer.Option("--classes", "-n", help="Number of test classes.")] = 500,
    out: Annotated[Path | None, typer.Option("--out", help="Write the chosen classes here.")] = None,
    taxonomy: Tree = "wordnet",
    words: Words = None,
    counts: Counts = None,
    rare: Rare = None,
    frequency: Common = False,
    among: Among = None,
    population: Population = None,
    least: Annotated[int, typer.Option("--least", help="Fewest images a class may have.")] = 300,
    quality: Annotated[
        Path | None, typer.Option("--quality", help="Images by quality, as written by handful zero-shot select.")
    ] = None,
    images: Annotated[int, typer.Option("--images", help="Good images to take of each class.")] = 100,
    images_out: Annotated[
        Path | None, typer.Option("--images-out", help="Write the images taken here, rows image,class.")
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", help="NAME=FILE of classes left out by hand (scale, shape); repeatable."),
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="Branch left out, by word or id.")] = None,
    cap: Annotated[list[str] | None, typer.Option("--cap", help="BRANCH=N: at most N classes of it.")] = None,
    exclusive: Annotated[
        list[Path] | None, typer.Option("--exclusive", help="File of classes of which one at most is chosen.")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Build a consistent test split of maximal structural ratio.

    Examples:

    handful zero-shot build --train train.txt --candidates all.txt -n 500 --exclude person --out mine.txt

    handful zero-shot build --train train.txt --candidates all.txt -n 100 --quality quality.csv --images-out images.csv --json
    """
    from handful.audits.zero_shot.builder import build as build_split
    from handful.audits.zero_shot.builder import pick_images
    from handful.audits.zero_shot.selecting import read_quality, write_images
    from handful.data.class_splits import read_classes, write_classes

    check_target(out, "the classes")
    check_target(images_out, "the images")
    if images_out is not None and quality is None:
        raise BadInput("--images-out needs --quality FILE: the images are chosen among the good ones in it")
    tree = tree_of(taxonomy)
    pool = read_classes(candidates)
    judged = read_quality(quality) if quality else None
    wanted = frequency_of(counts, rare, frequency)
    made = build_split(
        tree,
        read_classes(train),
        pool,
        n,
        filters=_filters(tree, pool, words, wanted, among, population, least, judged, images, drop or []),
        exclude=exclude or [],
        cap=_caps(cap or []),
        exclusive=[read_classes(file) for file in exclusive or []],
    )
    if judged is not None and images_out is not None:
        rows = pick_images(judged.classes, made.classes, each=images, good=judged.good, seed=seed)
        write_images(images_out, judged.images[rows], judged.classes[rows])
    if out is not None:
        write_classes(out, made.classes)
    if json:
        steps = [
            {"step": s.name, "manual": s.manual, "before": s.before, "after": s.after, "removed": s.removed}
            for s in made.steps
        ]
        facts: dict[str, Any] = {"structural_ratio": made.ratio, "upper_bound": made.bound, "gap": made.gap}
        emit({**facts, "steps": steps, "classes": made.classes})
    else:
        print(made)


def hops(
    train: Train,
    candidates: Annotated[Path, typer.Option("--candidates", help="Classes to choose from, one id per line.")],
    steps: Annotated[int | None, typer.Option("--steps", "-k", help="Farthest from train; any, if not given.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the classes here.")] = None,
    published: Annotated[
        Path | None, typer.Option("--published", help="A published list of the same name, to tell the two apart.")
    ] = None,
    taxonomy: Tree = "wordnet",
    json: Json = False,
) -> None:
    """Recompute ImageNet's 1-hop (-k 1), 2-hops (-k 2) and all test splits from the graph.

    Examples:

    handful zero-shot hops --train train.txt --candidates all.txt -k 2 --published 2-hops.txt

    handful zero-shot hops --train train.txt --candidates all.txt -k 1 --out 1-hop.txt
    """
    from handful.data.class_splits import hops as within
    from handful.data.class_splits import read_classes, write_classes

    check_target(out, "the classes")
    if steps is not None and steps < 1:
        raise BadInput(f"--steps is one or more, not {steps}")
    made = within(tree_of(taxonomy), read_classes(train), read_classes(candidates), steps)
    facts: dict[str, Any] = {"recomputed": len(made)}
    if published is not None:
        given = set(read_classes(published))
        facts |= {
            "published": len(given),
            "both": len(given & set(made)),
            "published_only": len(given - set(made)),
            "recomputed_only": len(set(made) - given),
        }
    if out is not None:
        write_classes(out, made)
    if json:
        emit(facts)
        return
    print(", ".join(f"{k.replace('_', ' ')}: {v:,}" for k, v in facts.items()))


def _filters(
    tree: Any,
    pool: list[str],
    words: Path | None,
    frequency: Any,
    among: Path | None,
    population: Path | None,
    least: int,
    judged: Any,
    images: int,
    drop: list[str],
) -> list[Any]:
    """Candidate filters in the order of the paper's Table 4."""
    import numpy as np

    from handful.audits.zero_shot.builder import Filter
    from handful.audits.zero_shot.semantic import labels_of, meanings, read_counts
    from handful.data.class_splits import read_classes
    from handful.data.words import WordVectors

    vectors = WordVectors.open(words) if words else None
    if among is not None and vectors is None:
        raise BadInput("--among needs --words FILE: a word belongs to the class whose neighbours' vectors it resembles")
    rivals = read_classes(among) if among else None
    tree.index(pool, where="candidates")
    out = []

    def keep(name: str, fine: Any) -> None:
        out.append(Filter(name, frozenset(c for c, ok in zip(pool, fine, strict=True) if ok)))

    if frequency is not None:
        keep("frequency", frequency.common(frequency.of(labels_of(tree, pool, vectors))))
    if vectors is not None:
        keep("polysemy", meanings(tree, vectors, pool, among=rivals).primary)
    if population is not None:
        counts = read_counts(population)
        keep("class-wise", [counts.get(c, 0) >= least for c in pool])
    if judged is not None:
        names, number = np.unique(judged.classes[judged.good], return_counts=True)
        enough = set(names[number >= images].tolist())
        keep("sample-wise", [c in enough for c in pool])
    for item in drop:
        name, equals, file = item.partition("=")
        if not equals:
            raise BadInput(f"--drop takes NAME=FILE, not {item!r}")
        out.append(Filter.dropping(name, pool, read_classes(file)))
    return out


def _caps(items: list[str]) -> dict[str, int]:
    out = {}
    for item in items:
        branch, equals, number = item.rpartition("=")
        if not equals or not number.isdigit():
            raise BadInput(f"--cap takes BRANCH=N, such as plant=100, not {item!r}")
        out[branch] = int(number)
    return out
