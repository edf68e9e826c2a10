"""The command line: verbs work, wrong input is one sentence and exit code 2."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from handful.cli import MOVED, RENAMED, VERBS, app, main
from handful.cli.options import OUTPUT, WORK
from made.benches import small

COMMAND = [sys.executable, "-m", "handful"]


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(list(arguments))
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> str:
    return str(small().save(tmp_path_factory.mktemp("cli") / "patches").path)


FEW = ("--ways", "3", "--shots", "1", "--queries", "3", "--rule", "n-way")


def leaves():
    """Every command by its words, as the command line itself knows it."""
    root = typer.main.get_command(app)
    for verb in VERBS:
        command = root.get_command(None, verb)
        for name, inner in getattr(command, "commands", {"": command}).items():
            yield f"{verb} {name}".strip(), inner


def examples(text: str) -> list[str]:
    return [
        " ".join(p.split()).removeprefix("Example: ") for p in text.split("\n\n") if re.search(r"\bhandful [a-z]", p)
    ]


@pytest.mark.parametrize(("words", "command"), [pytest.param(*leaf, id=leaf[0]) for leaf in leaves()])
def test_every_verb_shows_examples_whose_options_exist(words, command):
    shown = [e for e in examples(command.help or "") if f"handful {words} " in f"{e} "]
    assert len(shown) >= (1 if words.startswith("challenge") else 2), words
    known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    for example in shown:
        after = shlex.split(example.partition(f"handful {words}")[2])
        assert {w for w in after if re.fullmatch(r"--?[a-z][a-z-]*", w)} <= known, example


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("data", "show", "world:size=16", "--out", "sheet.xyz"), "does not end in .png"),
        (("report", "runs", "--out", "page.pdf"), "does not end in .html"),
        (("eval", "nearest-centroid", "world:size=16", "--tasks", "0"), "number of tasks"),
        (("eval", "nearest-centroid", "world:size=16", "--tasks", "4", "--out", "/proc/nowhere/x"), "/proc/nowhere"),
    ],
)
def test_what_cannot_be_written_as_its_name_says_is_refused(capsys, tmp_path, monkeypatch, words, why):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *words)
    assert code == 2 and not out and err.count("\n") == 1 and why in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", ["eval", "train"])
def test_swapped_arguments_are_put_in_order(capsys, tmp_path, verb):
    more = ("--out", str(tmp_path / "m")) if verb == "train" else ()
    code, out, err = call(capsys, verb, "world", "protonet", *more)
    assert code == 2 and not out and f"the method comes first: handful {verb} protonet world" in err


def test_a_seed_reaches_every_stage_of_a_training_unless_an_option_names_another(capsys, packed, tmp_path):
    words = (
        "train",
        "mtl",
        packed,
        *FEW,
        "-s",
        "net=conv4:filters=4",
        "-s",
        "schedule.steps=3",
        "-s",
        "pretrain.steps=2",
    )
    assert call(capsys, *words, "--out", str(tmp_path / "m"), "--seed", "7")[0] == 0
    options = json.loads((tmp_path / "m" / "model.json").read_text())["options"]
    assert options["schedule"]["seed"] == options["pretrain"]["seed"] == 7
    own = ("--out", str(tmp_path / "own"), "--seed", "7", "-s", "schedule.seed=3")
    assert call(capsys, *words, *own)[0] == 0
    assert json.loads((tmp_path / "own" / "model.json").read_text())["options"]["schedule"]["seed"] == 3


def test_a_training_killed_after_its_model_was_written_goes_on(capsys, packed, tmp_path, monkeypatch):
    import shutil

    words = ("train", "protonet", packed, *FEW, "-s", "net=conv4:filters=4", "-s", "schedule.steps=3")
    out = tmp_path / "m"
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *a, **k: None)  # the last thing that a training does
        assert call(capsys, *words, "--out", str(out))[0] == 0
    whole = (out / "model.safetensors").read_bytes()
    (out / "log.csv").unlink()
    assert call(capsys, *words, "--out", str(out))[0] == 0
    assert (out / "model.safetensors").read_bytes() == whole and (out / "log.csv").is_file()
    code, _, err = call(capsys, *words, "--out", str(out))
    assert code == 2 and "exists and is not empty" in err


def test_a_terminal_without_special_letters_still_shows_statistics(packed):
    done = subprocess.run(
        [*COMMAND, "data", "stats", packed], capture_output=True, env={**os.environ, "PYTHONIOENCODING": "cp1252"}
    )
    assert done.returncode == 0 and not done.stderr and b"+---" in done.stdout and b"??" not in done.stdout


def test_long_helps_have_groups_of_options_with_one_name_for_one_group():
    for words, command in leaves():
        if words.startswith(("challenge", "zero-shot")) or len(command.params) < 12:
            continue
        groups = {getattr(p, "rich_help_panel", None) for p in command.params}
        assert {OUTPUT} <= groups and len(groups - {None}) >= 2, words
        for p in command.params:
            if "--device" in p.opts or "--threads" in p.opts:
                assert p.rich_help_panel == WORK, words
            if "--seed" in p.opts or "--tasks" in p.opts:
                assert p.rich_help_panel != WORK, words


def test_the_same_thing_has_the_same_option_in_every_verb():
    for words, command in leaves():
        for p in command.params:
            assert "--budget" not in p.opts, words
            assert ("--tasks" in p.opts) == ("--n" in p.opts) or words.startswith("challenge"), words
            helps = {"--minutes": "inutes", "--tasks": "umber of tasks", "--seed": "eed"}
            for option in set(helps) & set(p.opts):
                assert helps[option] in p.help or words.startswith("challenge"), (words, p.help)


def test_the_first_example_of_the_first_help_scores_well_above_chance(capsys):
    code, out, _ = call(capsys, "--help")
    first = examples(out)[0]
    assert code == 0 and first.startswith("handful eval")
    code, out, err = call(capsys, *shlex.split(first)[1:], "--json")
    assert code == 0, err
    ways = int(re.search(r"--ways (\d+)", first)[1])
    best = next(r for r in json.loads(out)["summary"] if r["metric"] == "accuracy")
    assert best["low"] > 1.75 / ways, best


def test_the_version_is_printed(capsys):
    assert call(capsys, "--version")[1].strip()


@pytest.mark.parametrize("old", MOVED)
def test_a_verb_of_earlier_versions_names_the_one_of_today(capsys, old):
    code, out, err = call(capsys, *old.split(), "something", "--else")
    assert (code, out) == (2, "") and len(err.strip().splitlines()) == 1
    assert f"use `handful {MOVED[old]}`" in err
    words = MOVED[old].split()
    path = list(itertools.takewhile(str.islower, (w if w[0].isalpha() else "-" for w in words)))
    code, shown, _ = call(capsys, *path, "--help")
    assert code == 0 and all(w in shown for w in words if w.startswith("--")), "what it names exists"


@pytest.mark.parametrize(("verb", "option"), RENAMED)
def test_an_option_of_earlier_versions_names_the_one_of_today(capsys, verb, option):
    for given in ((option, "1"), (f"{option}=1",)):
        code, out, err = call(capsys, verb, "world", *given)
        assert (code, out) == (2, "") and f"use {RENAMED[verb, option]}" in err and err.count("\n") == 1
    assert RENAMED[verb, option] in call(capsys, verb, "--help")[1]


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "methods", "--names"], ["ls", "rules"], ["--help"]])
def test_listing_names_does_not_import_torch(arguments):
    code = f"import sys; from handful.cli import main\ntry:\n main({arguments})\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_ls_lists_every_kind(capsys):
    code, out, _ = call(capsys, "ls", "--json")
    facts = json.loads(out)
    assert (
        code == 0 and "protonet" in facts["methods"] and "ray" in facts["engines"] and "world" in facts["collections"]
    )


def test_methods_are_a_table_that_can_be_filtered(capsys):
    from handful import registry

    rows = {r["name"]: r for r in json.loads(call(capsys, "ls", "methods", "--json")[1])["methods"]}
    assert set(rows) == set(registry.names("methods"))
    assert rows["protonet"]["family"] == "metric" and rows["protonet"]["year"] == 2017
    assert rows["protonet"]["trains on"] == "tasks" and "Prototypical networks" in rows["protonet"]["paper"]
    settings = {"eszsl": "zero-shot", "pair-maml": "pairs", "kmeans": "clustering", "baseline": "few-shot"}
    assert {name: rows[name]["setting"] for name in settings} == settings
    assert rows["tpn"]["transductive"] and not rows["protonet"]["transductive"]
    code, out, _ = call(capsys, "ls", "methods", "--family", "metric", "--transductive")
    head, *lines, marks = out.splitlines()
    assert code == 0 and head.split()[:3] == ["name", "family", "setting"]
    assert all(mark in marks for mark in ("GL: ", "LL: ", "TT: "))
    wanted = {n for n, r in rows.items() if r["family"] == "metric" and r["transductive"]}
    assert {line.split()[0] for line in lines} == wanted and "tpn" in wanted
    for arguments, words in (
        (("methods", "--family", "metrc"), "did you mean metric"),
        (("methods", "--setting", "few"), "did you mean few-shot"),
        (("rules", "--family", "metric"), "handful ls methods"),
        (("nosuch",), "no list of 'nosuch'"),
    ):
        code, out, err = call(capsys, "ls", *arguments)
        assert (code, out) == (2, "") and words in err, err


def test_recipes_say_what_they_need_and_whether_it_is_here(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = {r["name"]: r for r in json.loads(call(capsys, "ls", "recipes", "--json")[1])["recipes"]}
    assert rows["spine/quick"]["here"] == {"world": True} and rows["metacoco/table6"]["scales"] == ["quick", "paper"]
    assert rows["rlcl/table1"]["variants"] == ["act", "words"]
    assert rows["rlcl/table1"]["here"]["packed/rlcl-attr"] is False
    (tmp_path / "packed/rlcl-attr").mkdir(parents=True)
    code, out, _ = call(capsys, "ls", "recipes")
    line = next(x for x in out.splitlines() if x.startswith("rlcl/table1 "))
    assert code == 0 and "paper: packed/rlcl-attr (here)" in line and "Compositional learning" in line
    assert "not here: get and pack it" in out


def test_tasks_are_drawn_saved_pictured_and_replayed(capsys, packed, tmp_path):
    file, picture = tmp_path / "e.jsonl", tmp_path / "sheet.png"
    arguments = ("tasks", "draw", packed, *FEW, "--seed", "4", "--n", "3", "--json")
    code, out, _ = call(capsys, *arguments, "--save", str(file), "--show", str(picture))
    episodes = json.loads(out)["episodes"]
    assert code == 0 and len(episodes) == 3 and picture.read_bytes().startswith(b"\x89PNG")
    assert {"support", "query", "support_labels", "query_labels", "names", "side"} <= set(episodes[0])
    again = json.loads(call(capsys, "tasks", "draw", packed, "--replay", str(file), "--json")[1])["episodes"]
    assert again == episodes
    ranged = json.loads(
        call(
            capsys, "tasks", "draw", packed, "--ways", "2-3", "--shots", "1-2", "--queries", "2", "--n", "8", "--json"
        )[1]
    )
    assert {e["ways"] for e in ranged["episodes"]} == {2, 3}


def test_train_eval_compare(capsys, packed, tmp_path):
    model, a, b = tmp_path / "model", tmp_path / "a", tmp_path / "b"
    code, _, err = call(capsys, "train", "protonet", packed, "--out", str(model), *FEW, "-s", "schedule.steps=3")
    assert code == 0, err
    assert (model / "model.safetensors").is_file() and (model / "log.csv").is_file()
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    code, out, err = call(capsys, "eval", str(model), packed, *FEW, "--tasks", "20", "--out", str(a), "--json")
    assert code == 0, err
    assert json.loads(out)["identity"]["method"] == "protonet"
    assert call(capsys, "eval", "nearest-centroid", packed, *FEW, "--tasks", "20", "--out", str(b))[0] == 0
    code, out, _ = call(capsys, "compare", str(a), str(b), "--json")
    assert code == 0 and json.loads(out)["n"] == 20


def test_a_recipe_fills_its_table_and_is_not_done_twice(capsys, packed, tmp_path):
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        'title = "t"\n[train]\nways = 3\nshots = 1\nqueries = 2\n[[test]]\nlabel = "3-way"\nways = 3\nshots = 1\nqueries = 2\ntasks = 10\n'
        '[[method]]\nname = "protonet"\nlabel = "P"\n[method.options]\nschedule = {steps = 2}\n[method.reported]\n"3-way" = [50.0, 1.0]\n'
    )
    arguments = ("run", str(recipe), "--collection", packed, "--out", str(tmp_path / "out"))
    code, out, err = call(capsys, *arguments)
    assert code == 0, err
    assert "[50.00 ± 1.00]" in out
    assert call(capsys, *arguments)[1] == out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("eval", "protonett", "{packed}"), "did you mean protonet"),
        (("eval", "protonet", "/no/such/folder"), "neither a folder nor a known collection"),
        (("eval", "nearest-centroid", "{packed}", "--ways", "500"), "largest feasible"),
        (("eval", "nearest-centroid", "{packed}", "--ways", "a-b"), "range such as"),
        (("eval", "nearest-centroid", "{packed}", "--device", "cuda:77"), "this machine has none"),
        (("eval", "protonet", "{packed}", "-s", "temprature=2"), "did you mean temperature"),
        (("eval", "protonet", "{packed}", "-s", "nonsense"), "not key=value"),
        (("eval", "conse", "{packed}", "--ways", "3"), "needs descriptions"),
        (("run", "no/such"), "neither a file nor a packaged recipe"),
        (("run", "{unknown}"), "did you mean collection"),
        (("run", "{broken}"), "not valid TOML"),
        (("run", "{latin}"), "not UTF-8"),
        (("run", "{wrong}"), "has no option"),
        (("compare", "{packed}", "{packed}"), "not a run's folder"),
        (("tasks", "draw", "world:grond=1"), "did you mean ground"),
        (("tasks", "draw", "{packed}", "--replay", "{broken}"), "not a file of episodes"),
        (("audit", "{packed}", "--only", "nothing"), "no diagnosis named"),
        (("train", "protonet", "{packed}", "--out", "{packed}"), "not empty"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_two(capsys, packed, tmp_path, arguments, sentence):
    whole = 'title = "t"\n[[test]]\nways = 3\n[[method]]\nname = "protonet"\n'
    files = {
        "unknown": "colection = 'x'\n" + whole,
        "broken": "title = = 3",
        "wrong": whole + "[method.options]\nnett = 'conv4'\n",
    }
    names = {"packed": packed}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        names[name] = str(tmp_path / name)
    (tmp_path / "latin").write_bytes(b'title = "caf\xe9"\n')
    names["latin"] = str(tmp_path / "latin")
    before = sorted(tmp_path.iterdir())
    code, out, err = call(capsys, *(a.format(**names) for a in arguments))
    assert (code, out) == (2, ""), err
    assert sentence in err and len(err.strip().splitlines()) == 1, err
    assert sorted(tmp_path.iterdir()) == before


def test_another_runs_folder_is_refused_from_the_command_line(capsys, packed, tmp_path):
    arguments = ("eval", "nearest-centroid", packed, *FEW, "--tasks", "5", "--out", str(tmp_path / "r"))
    assert call(capsys, *arguments)[0] == 0
    code, _, err = call(capsys, *arguments, "--seed", "9")
    assert code == 2 and "another run's results" in err


def test_a_full_disk_is_one_sentence(capsys, packed, tmp_path, monkeypatch):
    import errno

    import polars as pl

    def full(self, *rest, **more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    code, _, err = call(capsys, "eval", "nearest-centroid", packed, *FEW, "--tasks", "5", "--out", str(tmp_path / "r"))
    assert code == 2 and "disk is full" in err
    assert not list((tmp_path / "r").rglob("*.parquet*"))


def test_ctrl_c_ends_with_a_sentence_and_the_run_goes_on_later(packed, tmp_path):
    out = tmp_path / "run"
    arguments = ["eval", "fo-maml", packed, *FEW, "--untrained", "--tasks", "640", "--out", str(out)]
    process = subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(out.glob("parts/*.parquet")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "stopped by the keyboard" in err and "Traceback" not in err
    assert list(out.glob("parts/*.parquet")) and not (out / "tasks.parquet").exists()
    assert json.loads((out / "run.json").read_text())["status"] == "running"
    assert not [p for p in out.rglob(".*") if p.name != ".."]


def test_ctrl_c_ends_an_audit_and_is_not_taken_for_a_failed_diagnosis(capsys, packed, tmp_path, monkeypatch):
    from handful import registry

    begun = []

    def interrupted(self, context):
        begun.append(self.name)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    for name in registry.names("diagnoses"):
        monkeypatch.setattr(registry.get("diagnoses", name), "run", interrupted)
    page = tmp_path / "audit.html"
    code, out, err = call(capsys, "audit", packed, "--minutes", "1", "--net", "pixels", "--out", str(page))
    assert code == 2 and "stopped by the keyboard; it did not finish" in err and len(begun) == 1
    assert not page.exists() and not out


def test_a_bug_still_shows_its_traceback(packed, monkeypatch):
    import handful.cli.options as options

    monkeypatch.setattr(options, "emit", lambda facts: 1 / 0)
    import handful.cli.ls as ls

    monkeypatch.setattr(ls, "emit", options.emit)
    with pytest.raises(ZeroDivisionError):
        main(["ls", "--json"])


def test_the_module_runs_as_the_script_does():
    out = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, env={**os.environ}, check=True)
    assert out.stdout.strip() and Path(sys.executable).exists()


def test_a_warning_is_one_line_said_once(tmp_path, capfd):
    """Classes that cannot serve are named without a place in our code, however often the rule is checked."""
    from handful.cli import main

    command = (
        "eval nearest-centroid world:classes=16,images=16,size=16,seed=11 --rule ood --ways 2 --shots 1 --queries 1"
    )
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "--rule-set", "conflict=false", "--tasks", "3", "--split", "all"])
    said = capfd.readouterr().err
    assert end.value.code == 0 and said.count("classes left out of ood tasks") == 1
    assert said.startswith("handful: note: ") and "UserWarning" not in said and ".py" not in said


def test_every_run_on_a_collection_with_contexts_shows_them(capfd):
    from handful.cli import main

    command = (
        "eval nearest-centroid world:classes=12,images=24,size=16 --ways 3 --shots 2 --queries 4 --tasks 6 --split all"
    )
    said = []
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit):
            main([*command.split(), *more])
        said.append(capfd.readouterr().out)
    found = json.loads(said[1])
    assert found["contexts"] == sorted(found["contexts"], key=lambda r: (r["value"], r["context"]))
    worst = next(r for r in found["summary"] if r["metric"] == "worst_context")
    assert worst["value"] == found["contexts"][0]["value"] and worst["n"] == found["contexts"][0]["tasks"]
    name = found["contexts"][0]["context"]
    assert f"by context, worst first: {name}: {100 * worst['value']:.1f}" in said[0]


@pytest.mark.parametrize(
    "command",
    [
        "run spine/quick --tasks 2 --steps 1 --out {}/x",
        "data stats world:classes=8,images=8,size=16 --out {}",
        "report figures world:classes=8,images=8,size=16 --out {}/x",
    ],
)
def test_a_file_in_the_way_of_a_folder_is_one_sentence(command, tmp_path, capfd):
    from handful.cli import main

    place = tmp_path / "taken"
    place.write_text("mine")
    with pytest.raises(SystemExit) as end:
        main(command.format(place).split())
    said = capfd.readouterr().err
    assert end.value.code == 2 and "a file" in said and "Traceback" not in said and str(place) in said
    assert place.read_text() == "mine"


@pytest.mark.parametrize(
    ("asked", "ways"),
    [
        (["--rule-set", "of.ways=3"], {3}),
        (["--rule-set", "of=any-way", "--rule-set", "of.ways=2-4"], {2, 3, 4}),
        (["--rule-set", "of=n-way", "--ways", "4"], {4}),
        (["--ways", "2"], {2}),
    ],
)
def test_the_rule_that_another_wraps_is_named_on_the_command_line(capsys, asked, ways):
    command = ["tasks", "draw", "world:size=16", "--rule", "clustering", "--tasks", "40", "--queries", "2", "--json"]
    code, out, err = call(capsys, *command, *asked)
    assert code == 0, err
    found = {int(n) for n in re.findall(r'"ways": (\d+)', out)}
    assert found == ways
    assert call(capsys, *command, "--rule-set", "of=m-way")[0] == 2


def test_a_model_made_for_other_sizes_is_refused_in_one_sentence(capsys):
    code, _, said = call(capsys, "eval", "cifar-fs/protonet", "world:size=16", "--tasks", "2")
    assert code == 2 and said.count("\n") == 1
    assert "(32, 32, 3)" in said and "(16, 16, 3)" in said


def test_a_named_rule_of_training_takes_the_shape_of_the_usual_one(capsys):
    common = ("eval", "protonet", "world:size=16,classes=20,images=12", "--ways", "2", "--queries", "2", "--tasks", "2")
    short = ("-s", "net=conv4:filters=4", "-s", "schedule.steps=1", "--json")
    runs = [json.loads(call(capsys, *common, *short, *more)[1]) for more in ((), ("--train-rule", "n-way"))]
    assert runs[0]["summary"] == runs[1]["summary"]
    code, _, said = call(capsys, *common, *short, "--train-ways", "1000")
    assert code == 2 and "1000" in said


def test_nets_that_have_no_name_are_not_listed(capsys):
    _, out, _ = call(capsys, "ls", "nets")
    assert "conv4" in out.split() and "module" not in out.split()
