"""handful zero-shot"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.options import (
    Device,
    Json,
    Out,
    Precision,
    Seed,
    Set,
    Threads,
    Workers,
    compute_of,
    emit,
    parse_settings,
)
from handful.errors import BadInput

app = typer.Typer(no_args_is_help=True, add_completion=False)

Train = Annotated[Path, typer.Option("--train", help="Training classes, one id a line.")]
Tree = Annotated[
    str, typer.Option("--taxonomy", help="wordnet, a data.noun file or its folder, or a CSV of child,parent.")
]
Words = Annotated[Path | None, typer.Option("--words", help="Word vectors: GloVe .txt(.gz) or word2vec .bin.")]
Counts = Annotated[Path | None, typer.Option("--counts", help="Word counts, rows word,count, instead of wordfreq.")]
Rare = Annotated[float | None, typer.Option("--rare", help="Least frequency: 500 for counts, Zipf 2.7 for wordfreq.")]


@app.callback()
def _zero_shot() -> None:
    """Audit, build and run zero-shot benchmarks."""


@app.command()
def audit(
    train: Train,
    test: Annotated[Path, typer.Option("--test", help="Test classes, one id a line.")],
    taxonomy: Tree = "wordnet",
    words: Words = None,
    counts: Counts = None,
    rare: Rare = None,
    frequency: Annotated[bool, typer.Option("--frequency", help="Look labels up in wordfreq.")] = False,
    predictions: Annotated[
        list[str] | None,
        typer.Option("--predictions", help="NAME=FILE or FILE with rows truth,predicted; may be repeated (zsl, gzsl)."),
    ] = None,
    page: Annotated[Path | None, typer.Option("--page", help="Write a page with figures here.")] = None,
    json: Json = False,
) -> None:
    """How much of a score on this split is the split's doing?

    Example: handful zero-shot audit --train train.txt --test 1-hop.txt --json
    """
    from handful.audits.zero_shot.page import save_page
    from handful.audits.zero_shot.split_audit import audit_split, read_predictions
    from handful.data.class_splits import read_split
    from handful.data.words import WordVectors

    tree = _tree(taxonomy)
    split = read_split(train, test, tree)
    answers = {}
    for item in predictions or []:
        name, equals, file = item.partition("=")
        answers[name if equals else Path(name).stem] = read_predictions(file if equals else name)
    found = audit_split(
        tree,
        split,
        vectors=WordVectors.open(words) if words else None,
        frequency=_frequency(counts, rare, frequency),
        predictions=answers,
    )
    if page is not None:
        save_page(found, page)
    emit(found.as_dict()) if json else print(found)


@app.command()
def build(
    train: Train,
    candidates: Annotated[Path, typer.Option("--candidates", help="Classes to choose from, one id a line.")],
    n: Annotated[int, typer.Option("--classes", "-n", help="How many test classes.")] = 500,
    out: Annotated[Path | None, typer.Option("--out", help="Write the chosen classes here.")] = None,
    taxonomy: Tree = "wordnet",
    words: Words = None,
    counts: Counts = None,
    rare: Rare = None,
    frequency: Annotated[bool, typer.Option("--frequency", help="Drop rare labels by wordfreq.")] = False,
    population: Annotated[Path | None, typer.Option("--population", help="Images a class, rows id,count.")] = None,
    least: Annotated[int, typer.Option("--least", help="Fewest images a class may have.")] = 300,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", help="NAME=FILE of classes left out by hand (scale, shape); repeatable."),
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="Branch left out, by word or id.")] = None,
    cap: Annotated[list[str] | None, typer.Option("--cap", help="BRANCH=N: at most N classes of it.")] = None,
    exclusive: Annotated[
        list[Path] | None, typer.Option("--exclusive", help="File of classes of which one at most is chosen.")
    ] = None,
    json: Json = False,
) -> None:
    """Build a consistent test split of maximal structural ratio.

    Example: handful zero-shot build --train train.txt --candidates all.txt -n 500 --exclude person --out mine.txt
    """
    from handful.audits.zero_shot.builder import build as build_split
    from handful.data.class_splits import read_classes, write_classes

    tree = _tree(taxonomy)
    pool = read_classes(candidates)
    made = build_split(
        tree,
        read_classes(train),
        pool,
        n,
        filters=_filters(tree, pool, words, _frequency(counts, rare, frequency), population, least, drop or []),
        exclude=exclude or [],
        cap=_caps(cap or []),
        exclusive=[read_classes(file) for file in exclusive or []],
    )
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


@app.command()
def pack(
    source: Annotated[Path, typer.Argument(help="Features: .npz, .h5, or .mat (or folder) of the xlsa17 layout.")],
    target: Annotated[Path, typer.Argument(help="Folder for the packed collection.")],
    train: Annotated[Path | None, typer.Option("--train", help="Training classes.")] = None,
    test: Annotated[Path | None, typer.Option("--test", help="Test classes.")] = None,
    valid: Annotated[Path | None, typer.Option("--valid", help="Validation classes.")] = None,
    held: Annotated[int, typer.Option("--held-out", help="Images of each training class kept for test_seen.")] = 0,
    name: Annotated[str | None, typer.Option("--name", help="Name of the collection.")] = None,
    seed: Seed = 0,
) -> None:
    """Pack given features, split by class lists.

    Example: handful zero-shot pack lite0.npz packed/tiny --train train.txt --valid valid.txt --test test.txt --held-out 8
    """
    from handful.data.class_splits import read_classes
    from handful.data.importers.features import by_classes, pack_features, read_features

    table = read_features(source)
    if (train is None) != (test is None):
        raise BadInput("--train and --test go together: give both class lists, or none to keep the file's own splits")
    if train is not None and test is not None:
        some = read_classes(valid) if valid else []
        table = by_classes(table, read_classes(train), read_classes(test), some, held=held, seed=seed)
    packed = pack_features(table, target, name or source.stem)
    print(f"{packed.id}: {len(packed)} images of {packed.whole.n_classes} classes in {target}")


@app.command()
def run(
    method: Annotated[
        str, typer.Argument(help="Method by name (trivial, conse, eszsl, sgcn, ...), or a model folder.")
    ],
    collection: Annotated[str, typer.Argument(help="Packed collection with train and test splits.")],
    semantics: Annotated[
        str,
        typer.Option(
            "--semantics", help="factors, stored, wordnet:VECTORS, glosses:VECTORS, or FILE[+TREE.csv|+wordnet]."
        ),
    ] = "factors",
    generalised: Annotated[bool, typer.Option("--generalised", help="Training classes are candidates too.")] = False,
    scheme: Annotated[str | None, typer.Option("--scheme", help="Split scheme, if the collection has several.")] = None,
    setting: Set = None,
    seed: Seed = 0,
    save: Annotated[Path | None, typer.Option("--save", help="Keep the fitted learner in this model folder.")] = None,
    answers: Annotated[bool, typer.Option("--answers", help="Keep every answer beside the table.")] = False,
    out: Out = None,
    workers: Workers = 1,
    device: Device = "cpu",
    precision: Precision = "float32",
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Train on the training classes, choose options on the validation classes, ask for the test classes.

    Example: handful zero-shot run eszsl packed/tiny --semantics wordnet:glove.6B.100d.txt --generalised
    """
    from handful.data.opening import open_collection
    from handful.methods import load, make
    from handful.runs import evaluate
    from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot

    source = open_collection(collection)
    compute = compute_of(device, precision, 64, threads)
    rule = (GeneralisedZeroShot if generalised else ZeroShot)(source.part("test", scheme), semantics)
    rule.check()
    if (Path(method) / "model.json").is_file():
        learner = load(method, compute)
    else:
        chosen = make(method, **parse_settings(setting))
        train = ZeroShot(source.part("train", scheme), semantics)
        used = scheme or (source.card.schemes[0] if source.card.schemes else "")
        has_valid = bool(used) and bool((source.table[used] == "valid").any())
        valid = ZeroShot(source.part("valid", scheme), semantics) if has_valid else None
        if valid is None and getattr(chosen, "grid", None):
            print("no validation classes: the method's default options are used", file=sys.stderr)
        learner = chosen.meta_fit(train, valid, compute=compute)
    if save is not None:
        learner.save(save)
    done = evaluate(learner, rule, rule.size, seed, out=out, workers=workers, answers=answers)
    emit(done.as_dict()) if json else print(done)


def _tree(spec: str) -> Any:
    from handful.data.taxonomy import from_csv
    from handful.data.wordnet import wordnet

    if spec == "wordnet":
        return wordnet()
    return from_csv(spec) if spec.endswith(".csv") else wordnet(spec)


def _frequency(counts: Path | None, rare: float | None, wanted: bool) -> Any:
    from handful.audits.zero_shot.semantic import Frequency

    if counts is not None:
        return Frequency.read(counts, 500.0 if rare is None else rare)
    return Frequency.wordfreq(2.7 if rare is None else rare) if wanted or rare is not None else None


def _filters(
    tree: Any, pool: list[str], words: Path | None, frequency: Any, population: Path | None, least: int, drop: list[str]
) -> list[Any]:
    """Candidate filters in the order of the paper's Table 4."""
    from handful.audits.zero_shot.builder import Filter
    from handful.audits.zero_shot.semantic import Frequency, labels_of, meanings
    from handful.data.class_splits import read_classes
    from handful.data.words import WordVectors

    vectors = WordVectors.open(words) if words else None
    tree.index(pool, where="candidates")
    out = []
    if frequency is not None:
        common = frequency.common(frequency.of(labels_of(tree, pool, vectors)))
        out.append(Filter("frequency", frozenset(c for c, ok in zip(pool, common, strict=True) if ok)))
    if vectors is not None:
        found = meanings(tree, vectors, pool)
        out.append(Filter("polysemy", frozenset(c for c, ok in zip(pool, found.primary, strict=True) if ok)))
    if population is not None:
        counts = Frequency.read(population, float(least)).counts or {}
        out.append(Filter("class-wise", frozenset(c for c in pool if counts.get(c.lower(), 0) >= least)))
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
