"""handful zero-shot pack, run"""

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
from handful.cli.zero_shot.options import Scheme, Semantic, semantics_of
from handful.errors import BadInput


def pack(
    source: Annotated[Path, typer.Argument(help="Features: .npz, .h5, or .mat (or folder) of the xlsa17 layout.")],
    target: Annotated[Path, typer.Argument(help="Folder for the packed collection.")],
    train: Annotated[Path | None, typer.Option("--train", help="Training classes.")] = None,
    test: Annotated[Path | None, typer.Option("--test", help="Test classes.")] = None,
    valid: Annotated[Path | None, typer.Option("--valid", help="Validation classes.")] = None,
    held: Annotated[int, typer.Option("--held-out", help="Images of each training class kept for test_seen.")] = 0,
    images: Annotated[
        Path | None, typer.Option("--images", help="Of the test classes only these images, rows image,class.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the collection.")] = None,
    seed: Seed = 0,
) -> None:
    """Pack given features, split by class lists.

    Example: handful zero-shot pack lite0.npz packed/tiny --train train.txt --valid valid.txt --test test.txt --held-out 8
    """
    from handful.audits.zero_shot.selecting import read_images
    from handful.data.class_splits import read_classes
    from handful.data.importers.features import by_classes, pack_features, read_features

    if (train is None) != (test is None):
        raise BadInput("--train and --test go together: give both class lists, or none to keep the file's own splits")
    if train is None and (held or images is not None or valid is not None):
        raise BadInput("--valid, --held-out and --images go with class lists: give --train and --test too")
    table = read_features(source)
    if train is not None and test is not None:
        some = read_classes(valid) if valid else []
        only = read_images(images, table.labels) if images else None
        table = by_classes(table, read_classes(train), read_classes(test), some, held=held, seed=seed, only=only)
    packed = pack_features(table, target, name or source.stem)
    print(f"{packed.id}: {len(packed)} images of {packed.whole.n_classes} classes in {target}")


def run(
    method: Annotated[
        str, typer.Argument(help="Method by name (trivial, conse, eszsl, sgcn, ...), or a model folder.")
    ],
    collection: Annotated[str, typer.Argument(help="Packed collection with train and test splits.")],
    semantics: Semantic = None,
    generalised: Annotated[bool, typer.Option("--generalised", help="Training classes are candidates too.")] = False,
    scheme: Scheme = None,
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
    from handful.runs import evaluate
    from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot

    source = open_collection(collection)
    compute = compute_of(device, precision, 64, threads)
    described = semantics_of(semantics, source)
    rule = (GeneralisedZeroShot if generalised else ZeroShot)(source.part("test", scheme), described)
    rule.check()
    learner = fitted(method, source, described, scheme, parse_settings(setting), compute)
    if save is not None:
        learner.save(save)
    done = evaluate(learner, rule, rule.size, seed, out=out, workers=workers, answers=answers)
    emit(done.as_dict()) if json else print(done)


def fitted(method: str, source: Any, semantics: str, scheme: str | None, settings: dict[str, Any], compute: Any) -> Any:
    """A learner from a model folder, or trained on the collection with its options chosen on validation classes."""
    from handful.methods import Learner
    from handful.runs.learners import chosen, learner_of
    from handful.tasks.zero_shot import ZeroShot

    found = chosen(method, settings, compute)
    if isinstance(found, Learner):
        return found
    train = ZeroShot(source.part("train", scheme), semantics)
    valid = ZeroShot(source.part("valid", scheme), semantics) if has_split(source, "valid", scheme) else None
    if valid is None and getattr(found, "grid", None):
        print("no validation classes: the method's default options are used", file=sys.stderr)
    return learner_of(found, train=train, valid=valid, shape=source.card.shape, compute=compute)


def has_split(source: Any, split: str, scheme: str | None) -> bool:
    used = scheme or (source.card.schemes[0] if source.card.schemes else "")
    return bool(used) and bool((source.table[used] == split).any())
