"""Whatever is wrong on the command line is said in one sentence, with exit code 2, before anything is written."""

from __future__ import annotations

import signal

import pytest

from cli.wrong import RIGHT, leaves, spoilt
from handful.cli import main
from made.benches import small
from photos.conftest import write_photos

SECONDS = 60
"""No refusal may take so long: it comes before the work."""


def said(words, capfd) -> tuple[int, str, str]:
    code = 0
    try:
        main(list(words))
    except SystemExit as end:
        code = int(end.code or 0)
    return code, *capfd.readouterr()


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, str]:
    """What the right command lines name, made once."""
    base = tmp_path_factory.mktemp("places")
    made = {"photos": write_photos(base / "photos", each=3), "packed": small().save(base / "packed").path}
    made |= {"file": base / "file.txt", "list": base / "list.txt", "folder": base / "folder"}
    made["file"].write_text("mine")
    made["list"].write_text("n00000001\nn00000002\n")
    made["folder"].mkdir()
    made["recipe"] = base / "recipe.toml"
    made["recipe"].write_text(
        'title = "t"\n[[test]]\nways = 3\nshots = 1\nqueries = 2\n[[method]]\nname = "nearest-centroid"\n'
    )
    for name, line in {
        "model": f"fit {made['photos']} --net pixels --out",
        "run": f"eval nearest-centroid {made['packed']} --ways 3 --shots 1 --queries 2 --tasks 2 --out",
        "challenge": "challenge new",
        "fixed": f"repair {made['packed']} --net pixels --minutes 0.05 --only duplicates --out",
    }.items():
        made[name] = base / name
        with pytest.raises(SystemExit) as end:
            main([*line.split(), str(made[name])])
        assert not end.value.code, line
    return {"new": str(base / "new"), **{k: str(v) for k, v in made.items()}, "base": str(base)}


def listing(base) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in base.rglob("*") if p.is_file() and p.name != ".lock"}


def test_every_verb_has_a_right_command_line():
    assert set(RIGHT) == {verb for verb, _ in leaves()}


def test_there_are_many():
    assert len(spoilt()) >= 150 and len({w.what for w in spoilt()}) == len(spoilt())


@pytest.mark.parametrize("wrong", spoilt(), ids=str)
def test_wrong_input_is_one_sentence(wrong, places, tmp_path, monkeypatch, capfd):
    from pathlib import Path

    base = Path(places["base"])
    before = listing(base)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path.parent / "cache"))
    capfd.readouterr()

    def late(*_):
        raise TimeoutError(f"went to work on: {' '.join(wrong.words)}")

    usual = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        code, out, err = said([w.format(**places) for w in wrong.words], capfd)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, usual)
    assert code == 2, out + err
    lines = [x for x in err.strip().splitlines() if not x.startswith("handful: note: ")]
    assert len(lines) == 1 and lines[0].startswith("handful: ") and not out, out + err
    assert listing(base) == before and not list(tmp_path.iterdir())
