"""The command line: one file for each verb, loaded when it is called.

Errors that a user can act on are one line on stderr and exit code 2; anything else is a bug and shows its traceback.
"""

from __future__ import annotations

import errno
import importlib
import logging
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, os.environ.get("HANDFUL_THREADS", "1"))

import typer
from typer.core import TyperGroup

from handful.errors import BadInput, HandfulError

# verb -> (module with `app` or a function of the verb's name, one line of help)
VERBS: dict[str, tuple[str, str]] = {
    "demo": ("handful.cli.demo", "Run every setting on the embedded world and write a page to look at."),
    "ls": ("handful.cli.ls", "List methods, rules, nets, metrics, importers, recipes, diagnoses."),
    "data": ("handful.cli.data", "Get, pack, check, describe, split and show collections."),
    "tasks": ("handful.cli.tasks", "Draw tasks, picture them, save and replay them."),
    "fit": ("handful.cli.fit", "Make a classifier from a handful of photos and say what to expect of it."),
    "predict": ("handful.cli.predict", "Say what photos show, with a classifier that fit has made."),
    "studio": ("handful.cli.studio", "Open a folder of photos as a page: label a few, carry a classifier away."),
    "train": ("handful.cli.train", "Meta-train a method and save a model folder."),
    "eval": ("handful.cli.eval", "Evaluate a method or a model on tasks from a collection."),
    "run": ("handful.cli.run", "Run a recipe: a table with reported numbers beside measured ones."),
    "compare": ("handful.cli.compare", "Compare two runs on the same tasks, paired."),
    "report": ("handful.cli.report", "Compare runs in a page: intervals, ties, tests, ranks, curves, pictures."),
    "court": ("handful.cli.court", "Judge a method by how its options were chosen: on test, on free images, honestly."),
    "report figures": ("handful.cli.figures", "Draw how methods do by context, backbone, ways and shots."),
    "zero-shot": ("handful.cli.zero_shot", "Build zero-shot test splits, and take the scores on one apart."),
    "challenge": ("handful.cli.challenge", "Competitions with code submissions."),
    "audit": ("handful.cli.audit", "Ask what a benchmark's score will really mean."),
    "repair": ("handful.cli.repair", "Turn what an audit finds into a better benchmark over the same images."),
    "verify-certificate": (
        "handful.cli.verify_certificate",
        "Repeat a repair and its certificate, and say what differs.",
    ),
    "cache": ("handful.cli.cache", "List and clear what is kept between runs."),
}

# What a verb of earlier versions is called now.
MOVED: dict[str, str] = {
    "rlcl build": "data pack SRC OUT --as rlcl-attr (or rlcl-act)",
    "rlcl stats": "data stats COLLECTION",
    "rlcl split": "data split PACKED --by primitives",
    "rlcl": "data --help",
    "metacoco similarity": "audit COLLECTION... --only image-text --clip CHECKPOINT",
    "metacoco probe": "audit COLLECTION --only context-probe",
    "metacoco figures": "report figures COLLECTION --out FOLDER",
    "metacoco": "audit --help",
    "zero-shot audit": "audit --only structural-bias --train TRAIN.txt --test TEST.txt",
    "zero-shot pack": "data pack FEATURES OUT --as features --set train=TRAIN.txt --set test=TEST.txt",
    "zero-shot run": "eval METHOD COLLECTION --rule zero-shot",
}

# The same of options, by verb.
RENAMED: dict[tuple[str, str], str] = {("audit", "--budget"): "--minutes", ("audit", "--tasks"): "--planned"}


class Lazy(TyperGroup):
    """Loads a verb's module when the verb is used, so that `handful --help` imports nothing heavy."""

    def resolve_command(self, ctx, args):  # type: ignore[no-untyped-def]
        for old in (" ".join(args[:2]), args[0]):
            if old in MOVED:
                raise BadInput(f"`handful {old}` is no more; use `handful {MOVED[old]}`")
        for word in args[1:]:
            if new := RENAMED.get((args[0], word.partition("=")[0])):
                raise BadInput(f"`handful {args[0]}` has no {word.partition('=')[0]} any more; use {new}")
        if (two := " ".join(args[:2])) in VERBS:
            return two, self.get_command(ctx, two), args[2:]
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx):  # type: ignore[no-untyped-def]
        return list(VERBS)

    def get_command(self, ctx, name):  # type: ignore[no-untyped-def]
        if name not in VERBS:
            from handful.errors import nearest

            raise typer.BadParameter(f"no verb {name!r}; {nearest(name, VERBS)}")
        module = importlib.import_module(VERBS[name][0])
        command = typer.main.get_command(module.app)
        command.name = name
        command.short_help = VERBS[name][1]
        return command

    def format_commands(self, ctx, formatter):  # type: ignore[no-untyped-def]
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


app = typer.Typer(
    cls=Lazy, no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)


@app.callback(invoke_without_command=True)
def _root(
    ctx: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """handful: how good is my method, and is my benchmark honest?

    Examples:

    handful eval r2d2 world --ways 5 --shots 5 --tasks 200 -s schedule.steps=50

    handful fit photos/ --out model

    handful predict model new.jpg

    handful audit world --minutes 1 --out world.html

    handful ls methods --setting few-shot
    """
    if version:
        from handful._version import __version__

        print(__version__)
        raise typer.Exit()
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


ASKED: Any = typer.BadParameter.__mro__[2]
"""What the parser raises (a ClickException; typer has a copy of click of its own), said as one sentence like all else."""


class Stopped(BaseException):
    """Ctrl-C: of our own, because typer would turn KeyboardInterrupt into a silent exit; no Exception, because what goes on
    after a failed part (an audit after one diagnosis) must not go on after this."""


def _stop(*_: object) -> None:
    raise Stopped


# Verbs that go on where they were stopped, and the option without which they keep nothing.
RESUMES = {"train": "--out", "eval": "--out", "run": "--out", "data": "get"}


def _kept(words: list[str]) -> str:
    """What a stopped command leaves behind."""
    option = RESUMES.get(words[0] if words else "")
    if option and any(w.partition("=")[0] == option for w in words):
        return "what was finished is kept, and the same command goes on from there"
    return "it did not finish; start the same command again"


class _Notes:
    """Warnings as people read them: one line, once, without the place in our code."""

    def __init__(self, usual: Callable[..., None]):
        self.usual = usual
        self.said: set[str] = set()

    def __call__(self, message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        text = " ".join(str(message).split())
        if category is not UserWarning:
            self.usual(message, category, *place, **more)
        elif text not in self.said and not re.match(r"Glyph \d+ .* missing from", text):
            self.said.add(text)
            print(f"handful: note: {text}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the console script."""
    signal.signal(signal.SIGINT, _stop)
    for stream in (sys.stdout, sys.stderr):  # a terminal that has no ± or block letters shows a question mark instead
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    for name in ("matplotlib", "huggingface_hub"):  # complaints about a read-only HOME, and every retry, help nobody
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _Notes(warnings.showwarning)
            code = app(args=arguments, prog_name="handful", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except Stopped:
        _end(f"stopped by the keyboard; {_kept(sys.argv[1:] if arguments is None else arguments)}")
    except HandfulError as error:
        _end(str(error))
    except ASKED as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            sys.exit(error.exit_code)
        at = getattr(error, "ctx", None)
        _end(f"{error.format_message().rstrip('.')}; see: {at.command_path if at else 'handful'} --help")
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _end("the disk is full; free some space and run the same command again")
        if error.errno == errno.EFBIG:
            _end(
                f"{error.filename or 'a file'} may not become so large here; raise the limit (ulimit -f) and run the same command again"
            )
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            _end(f"{error.filename or 'a file'} cannot be written or read ({error.strerror}); check its permissions")
        if error.errno in (errno.ENOENT, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL) and error.filename:
            _end(f"{error.filename} cannot be written or read ({error.strerror}); name another place")
        if error.errno in (errno.EEXIST, errno.ENOTDIR):
            _end(
                f"{error.filename or 'a place'} cannot be written ({error.strerror}): a file is in its way; name another"
            )
        raise


def _end(sentence: str) -> None:
    print(f"handful: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(2)
