"""handful zero-shot analyse, select"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.groups import Computing, spread
from handful.cli.options import Json, Scheme, Seed, Set, emit, parse_settings, semantics_of
from handful.cli.zero_shot.options import (
    Among,
    Common,
    Counts,
    Page,
    Population,
    Rare,
    Semantic,
    Tree,
    Words,
    check_target,
    frequency_of,
    tree_of,
)
from handful.errors import BadInput


@spread
def analyse(
    methods: Annotated[str, typer.Argument(help="Methods by name or model folders, with commas between.")],
    collection: Annotated[str, typer.Argument(help="Packed collection with train and test splits.")],
    semantics: Semantic = None,
    taxonomy: Annotated[
        str | None, typer.Option("--taxonomy", help="Hierarchy, if not that of the semantics: wordnet or a CSV.")
    ] = None,
    words: Words = None,
    counts: Counts = None,
    rare: Rare = None,
    frequency: Common = False,
    among: Among = None,
    population: Population = None,
    group: Annotated[
        int | None,
        typer.Option("--group", help="Number of classes of each test set in the figures (100, or a fifth of all)."),
    ] = None,
    levels: Annotated[int, typer.Option("--levels", help="Structural ratios to aim at.")] = 5,
    each: Annotated[int, typer.Option("--each", help="Test sets at each ratio.")] = 4,
    probe: Annotated[
        int | None,
        typer.Option(
            "--train-per-class", help="Number of images of each class that probes are trained on (250, or half)."
        ),
    ] = None,
    scheme: Scheme = None,
    setting: Set = None,
    seed: Seed = 0,
    save: Annotated[Path | None, typer.Option("--save", help="Keep the fitted learners in this folder.")] = None,
    computing: Computing = Computing(),
    page: Page = None,
    json: Json = False,
) -> None:
    """What is a score made of? Relatives, words, images and structural ratio, for methods on a collection.

    An option of one method is set as -s sgcn.epochs=300, of all that have it as -s seed=1.

    Examples:

    handful zero-shot analyse trivial,eszsl,sgcn packed/tiny --semantics wordnet:glove.txt --frequency --page a.html

    handful zero-shot analyse eszsl packed/tiny --semantics stored --group 50 --levels 3 --json
    """
    from handful.audits.zero_shot.analysis import analyse as take_apart
    from handful.audits.zero_shot.analysis_page import accuracy_table, save_analysis_page
    from handful.audits.zero_shot.cuts import AnalysisPlan
    from handful.audits.zero_shot.semantic import read_counts
    from handful.data.class_splits import read_classes
    from handful.data.opening import open_collection
    from handful.data.words import WordVectors
    from handful.methods import Method
    from handful.report.tables import markdown
    from handful.runs.learners import chosen, has_split, taught
    from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot

    check_target(page, "the page")
    names = [m.strip() for m in methods.split(",") if m.strip()]
    if not names or len({Path(m).name for m in names}) < len(names):
        raise BadInput(f"{methods!r} must name one method or several different ones, with commas between")
    source = open_collection(collection)
    described = semantics_of(semantics, source)
    rule = ZeroShot(source.part("test", scheme), described)
    rule.check()
    tree = _hierarchy(taxonomy, rule)
    both = None
    if has_split(source, "test_seen", scheme):
        both = GeneralisedZeroShot(source.part("test", scheme), described)
        both.check()
    kind, _, file = described.partition(":")
    vectors = WordVectors.open(words or file) if words or kind in ("wordnet", "glosses") else None
    wanted = frequency_of(counts, rare, frequency)
    rivals = read_classes(among) if among else None
    sizes = read_counts(population) if population else None
    compute = computing.compute()
    settings = _settings(parse_settings(setting), names)
    learners: dict[str, Any] = {}
    for name in names:
        found = chosen(name, settings[name], compute)
        learner = taught(found, rule, compute=compute) if isinstance(found, Method) else found
        # A model folder is called after its method, unless two of one method are compared.
        title = learner.method.name if learner.method.name not in learners else Path(name).name
        learners[title] = learner
        if save is not None:
            learner.save(save / title)
    score = take_apart(
        learners,
        rule,
        _seen(learners, source, described, scheme),
        tree,
        generalised=both,
        vectors=vectors,
        frequency=wanted,
        among=rivals,
        population=sizes,
        plan=AnalysisPlan(group=group, levels=levels, each=each, train_per_class=probe, seed=seed),
    )
    if page is not None:
        save_analysis_page(score, page)
    if json:
        emit(score.as_dict())
        return
    print(score.split)
    print(markdown(accuracy_table(score)))
    for what, why in score.left_out.items():
        print(f"not here: {what}: {why}")


def _seen(learners: dict[str, Any], source: Any, semantics: str, scheme: str | None) -> list[str]:
    """The training classes, and those validation classes that a learner was refitted on."""
    import numpy as np

    from handful.runs.learners import has_split
    from handful.tasks.zero_shot import ZeroShot

    train = list(source.part("train", scheme).class_names)
    if not has_split(source, "valid", scheme):
        return train
    rule = ZeroShot(source.part("valid", scheme), semantics)
    support = rule.support(rule.draw(0, 0))
    saw = np.zeros(len(rule.candidates), dtype=bool)
    for learner in learners.values():
        saw |= learner.fit(support).seen.cpu().numpy()
    return [*train, *(c for c, yes in zip(rule.candidates, saw, strict=True) if yes)]


def _hierarchy(spec: str | None, rule: Any) -> Any:
    """The one that is named; else the semantics' own, and all of WordNet where that is a part of it."""
    if spec is not None:
        return tree_of(spec)
    own = rule.described.taxonomy
    if own is None:
        raise BadInput("these semantics carry no hierarchy; name one with --taxonomy wordnet or --taxonomy FILE.csv")
    return tree_of("wordnet") if own.source.startswith("WordNet") else own


def _settings(given: dict[str, Any], names: list[str]) -> dict[str, dict[str, Any]]:
    """Options by method: ``method.option`` for one, ``option`` for all."""
    out: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in given.items():
        first, dot, rest = key.partition(".")
        for name in [first] if dot and first in out else names:
            out[name][rest if dot and first in out else key] = value
    return out


def select(
    source: Annotated[Path, typer.Argument(help="Features: .npz, .h5, or .mat (or folder) of the xlsa17 layout.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write image,class,tested,right here.")] = None,
    taxonomy: Tree = "wordnet",
    classes: Annotated[int, typer.Option("--classes", "-n", help="Number of classes in each round.")] = 1000,
    train: Annotated[int, typer.Option("--train-per-class", help="Images of each class to train a probe on.")] = 250,
    probe: Annotated[str, typer.Option("--probe", help="ridge or softmax.")] = "ridge",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Which images can a supervised probe name? The sample-wise selection of Appendix C.

    Examples:

    handful zero-shot select lite0.npz --train-per-class 20 --out quality.csv

    handful zero-shot select lite0.npz --classes 500 --probe softmax --out quality.csv
    """
    from handful.audits.zero_shot.selecting import write_quality
    from handful.audits.zero_shot.visual import select_samples
    from handful.data.importers.features import read_features

    check_target(out, "the images")
    if probe not in ("ridge", "softmax"):
        raise BadInput(f"--probe is ridge or softmax, not {probe!r}")
    if classes < 2 or train < 1:
        raise BadInput("a round needs two classes and one training image per class, or more")
    tree = tree_of(taxonomy)
    table = read_features(source)
    found = select_samples(
        table.features,
        table.labels,
        tree,
        classes_per_round=classes,
        train_per_class=train,
        kind=probe,  # type: ignore[arg-type]
        seed=seed,
    )
    if out is not None:
        write_quality(out, table.labels, found)
    facts = {
        "images": len(table.labels),
        "rounds": found.rounds,
        "good": float(found.good.mean()),
        "always_right": float((found.right == found.tested).mean()),
        "mean_tested": float(found.tested.mean()),
    }
    if json:
        emit(facts)
        return
    print(
        f"{facts['good']:.1%} of {facts['images']:,} images were named rightly at least once in {found.rounds} rounds, "
        f"{facts['always_right']:.1%} every time (tested {facts['mean_tested']:.1f} times on average)"
    )
