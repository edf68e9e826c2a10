"""Reports of small runs: facts, pages, refusals, the command line."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil

import numpy as np
import polars as pl
import pytest

import handful as hf
from handful.errors import Mismatch
from handful.report.answers import confusion, disputed
from handful.report.comparison import Comparison
from handful.report.entries import RunEntry, gather
from handful.report.layout import ranks_figure
from handful.report.report import Report
from handful.runs import Run
from handful.runs.replay import replay_episode, replay_rule
from report.conftest import call, hostile, planted, run


def test_ties_are_the_methods_that_differ_by_noise(base):
    rng = np.random.default_rng(0)
    good = rng.uniform(0.4, 0.8, 40)
    noise = rng.normal(0, 0.03, 40)
    runs = planted(base, good=good, like=good + noise - noise.mean() - 0.002, bad=good + noise - 0.1)
    report = Report(runs, pictures=0)
    bench = report.comparisons[0]
    assert {label: bench.verdict(label) for label in bench.labels} == {"good": "best", "like": "tie", "bad": "worse"}
    assert report.ranks[0] is not None and report.ranks[0].groups == [(0, 1)]
    assert "not significantly different from it: like." in report.html()
    scores = report.tables[next(iter(report.tables))]
    assert scores.bold == {(0, scores.shown.columns.index("accuracy")), (1, scores.shown.columns.index("accuracy"))}


def test_where_less_is_better_the_lowest_is_best(base):
    frame = base.frame.with_columns(unseen=0.5, seen=0.5, hm=0.5, u_to_s=0.3, u_to_u=0.2, confusion=pl.lit(1.5))
    identity = {**base.identity, "metrics": ["pairs"]}
    a = dataclasses.replace(base, frame=frame, identity=identity)
    b = dataclasses.replace(base, frame=frame.with_columns(confusion=0.5, u_to_s=0.1, u_to_u=0.2), identity=identity)
    report = Report({"a": a, "b": b}, metric="confusion", pictures=0)
    assert report.comparisons[0].labels[report.comparisons[0].best] == "b"
    assert (
        report.as_dict()["tasks"][0]["pairs"][0] | {"first": "b", "second": "a", "difference": -1.0}
        == (report.as_dict()["tasks"][0]["pairs"][0])
    )
    assert "0.50 ±" in str(report) and "150.00" not in str(report)


def test_training_seeds_of_one_method_are_one_row_over_seeds(base):
    rng = np.random.default_rng(1)
    a, b, c = rng.uniform(0.3, 0.9, (3, 40))
    entries = [RunEntry("m", r, named=True) for r in planted(base, x=a, y=b).values()]
    entries += [RunEntry("other", planted(base, z=c)["z"], named=True)]
    bench = Comparison(entries)
    estimate = bench.estimate("m")
    assert estimate.over == "training seeds" and estimate.n == 2
    assert estimate.value == pytest.approx((a.mean() + b.mean()) / 2)
    assert bench.scores[:, 0] == pytest.approx((a + b) / 2)


def test_runs_that_share_a_method_are_told_apart_by_what_differs(base):
    identity = {**base.identity, "options": {**base.identity["options"], "net": "conv4"}}
    other = dataclasses.replace(base, identity=identity, path=None)
    labels = [e.label for e in gather([base, other]).entries]
    assert labels == [f"nearest-centroid (net={base.identity['options']['net']})", "nearest-centroid (net=conv4)"]
    same = [e.label for e in gather([base, dataclasses.replace(base, path=None)]).entries]
    assert len(set(same)) == 2
    assert len(gather([base, base]).entries) == 1


def test_runs_that_differ_in_a_training_seed_alone_are_one_method(base):
    def trained(seed, **options):
        options = {**base.identity["options"], "schedule": {"seed": seed}, **options}
        return dataclasses.replace(base, identity={**base.identity, "options": options}, path=None)

    assert {e.label for e in gather([trained(0), trained(1), trained(2)]).entries} == {"nearest-centroid"}
    mixed = [e.label for e in gather([trained(0), trained(1), trained(0, net="conv4")]).entries]
    assert mixed[0] == mixed[1] != mixed[2] and "seed" not in "".join(mixed)
    twice = [e.label for e in gather([trained(0), trained(0), trained(1)]).entries]
    assert len(set(twice)) == 3, "the same training twice is no second seed"


def test_a_pretrained_encoder_is_said_to_be_one_wherever_its_number_stands(base):
    def with_net(net, more):
        identity = {**base.identity, "options": {**base.identity["options"], "net": net}}
        frame = base.frame.with_columns(accuracy=(base.frame["accuracy"] * 0.5 + more))
        return dataclasses.replace(base, identity=identity, path=None, frame=frame)

    report = Report({"ours": with_net("conv4", 0.0), "theirs": with_net("lite0:size=64", 0.4)})
    text = str(report)
    assert "lite0:size=64 (pretrained on ImageNet's classes)" in text and "| conv4" in text
    assert "pretrained on ImageNet's classes, which ours had not seen" in text
    assert "pretrained on" not in str(Report({"a": with_net("conv4", 0.0), "b": with_net("lite0:pretrained=0", 0.1)}))


def test_json_facts_are_the_tables_facts(folders, capsys, tmp_path):
    code, out, err = call(
        capsys, "report", str(folders), "--json", "--tables", str(tmp_path), "--as", "csv", "--test", "t"
    )
    assert code == 0, err
    (facts,) = json.loads(out)["tasks"]
    table = pl.read_csv(next(tmp_path.glob("*-scores.csv")))
    assert [m["method"] for m in facts["methods"]] == table["method"].to_list()
    for key in ("value", "low", "high", "p_holm"):
        assert [m[key] for m in facts["methods"]] == pytest.approx(table[key].to_list())
    pairs = pl.read_csv(next(tmp_path.glob("*-pairs.csv")))
    assert [p["first"] for p in facts["pairs"]] == pairs["first"].to_list()
    assert [p["p_holm"] for p in facts["pairs"]] == pytest.approx(pairs["p_holm"].to_list())
    for label, method in (("nearest-centroid", "nearest-centroid"), ("linear", "linear")):
        mine = next(m for m in facts["methods"] if m["method"] == label)
        assert mine["value"] == pytest.approx(Run.open(folders / method).estimate("accuracy").value)
    assert not list(tmp_path.glob("*.tex"))
    assert Report([folders]).frame["value"].to_list() == pytest.approx(table["value"].to_list())


def test_p_is_the_one_that_compare_prints(folders):
    a, b = Run.open(folders / "linear"), Run.open(folders / "k-nn")
    (pair,) = Report([a, b]).as_dict()["tasks"][0]["pairs"]
    assert pair["p"] == a.compare(b).p
    assert abs(pair["difference"]) == pytest.approx(abs(a.compare(b).difference.value))


def test_the_page_is_whole_alone_and_safe(folders, capsys, tmp_path):
    page = tmp_path / "page.html"
    label = "<script>alert(2)</script>"
    code, _, err = call(
        capsys, "report", str(folders), f"{label}={folders / 'k-nn'}", "--out", str(page), "--pictures", "2"
    )
    assert code == 0, err
    text = page.read_text()
    assert "<script" not in text and "<img src=x" not in text and "<i>" not in text
    assert re.findall(r'<img src="(?!data:)', text) == [] and "http://" not in text.replace("http://www.w3.org", "")
    for heading in ("Pairs of methods", "Over ways and shots", "By data set", "By context", "disagree most"):
        assert heading in text
    assert text.count('class="task"') == 2 and "✓" in text and "Confusion of" in text
    assert all(re.search(r'aria-label="[^"]+"', f) for f in re.findall(r"<figure><div[^>]*>", text))
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_tasks_are_drawn_again_and_wrong_collections_refused(base, source):
    rule = replay_rule(base)
    episode = replay_episode(base, rule, 0, 7)
    row = base.frame.filter(pl.col("task") == 7).row(0, named=True)
    assert (episode.n_classes, episode.shots) == (row["ways"], row["shots"])
    asked = base.answers.filter(pl.col("task") == 7)
    assert asked["query"].to_list() == episode.query.tolist()
    assert asked["truth"].to_list() == episode.query_labels.tolist()
    with pytest.raises(Mismatch, match="not on"):
        replay_rule(base, hostile(seed=1))
    assert replay_rule(dataclasses.replace(base, facts={}), source).part.id == rule.part.id


def test_without_the_images_the_page_says_so(folders, source, tmp_path):
    for method in ("linear", "k-nn"):
        shutil.copytree(folders / method, tmp_path / method)
        file = tmp_path / method / "run.json"
        facts = json.loads(file.read_text())
        assert facts["source"] == str(source.path.resolve())
        file.write_text(json.dumps({**facts, "source": str(tmp_path / "gone")}))
    text = Report([tmp_path], pictures=1).html()
    assert "The tasks cannot be pictured" in text and 'class="task"' not in text
    assert "Confusion of" in text
    assert 'class="task"' in Report([tmp_path], collection=source, pictures=1).html()


def test_disagreement_and_confusion_by_hand(base):
    answers = base.answers
    other = dataclasses.replace(base, answers=answers.with_columns(predicted=pl.col("truth")), path=None)
    (first, *_), _ = disputed(Comparison([RunEntry("a", base, named=True), RunEntry("b", other, named=True)]), 1)
    wrong = answers.group_by("task").agg(share=(pl.col("predicted") != pl.col("truth")).mean())
    assert first.value == pytest.approx(wrong["share"].max())
    rows = answers.filter(pl.col("task") == first.task)
    counts = confusion(answers, 0, first.task, 4)
    assert counts.sum() == len(rows)
    assert np.trace(counts) == (rows["truth"] == rows["predicted"]).sum()


def test_runs_without_answers_still_disagree(source):
    runs = [run(source, m) for m in ("linear", "k-nn")]
    found, meaning = disputed(Report(runs).comparisons[0], 2)
    apart = np.abs(runs[0].frame["accuracy"].to_numpy() - runs[1].frame["accuracy"].to_numpy())
    assert found[0].value == pytest.approx(apart.max()) and "best and the worst" in meaning
    assert "No answers were kept" in Report(runs).html()


def test_different_tasks_stand_apart_and_refuse_to_be_paired(source, folders, capsys):
    other = run(source, "k-nn", seed=1)
    report = hf.Report([folders / "k-nn", other])
    assert [len(b.labels) for b in report.comparisons] == [1, 1]
    assert "nothing to be compared with" in report.html()
    with pytest.raises(Mismatch, match="different tasks"):
        hf.Report([folders / "k-nn", other], same_tasks=True)
    with pytest.raises(Mismatch, match="different tasks"):
        Comparison([RunEntry("a", other), RunEntry("b", Run.open(folders / "k-nn"))])


def test_refusals_are_one_sentence_and_exit_two(source, folders, capsys, tmp_path):
    elsewhere = run(hostile(seed=3), "k-nn").save(tmp_path / "elsewhere")
    for arguments, words in (
        ((str(folders / "k-nn"), str(elsewhere), "--same-tasks"), "different collections"),
        ((str(tmp_path / "nothing"),), "neither a run's folder nor a recipe's"),
        ((str(folders), "--metric", "acuracy"), "accuracy"),
        ((str(folders), "--test", "z"), "no test 'z'"),
        ((str(folders), "--alpha", "2"), "between 0 and 1"),
        ((str(folders), "--out", str(tmp_path)), "is a folder"),
        ((str(folders), "--tables", str(tmp_path / "t"), "--as", "word"), "no format of tables 'word'"),
    ):
        code, _, err = call(capsys, "report", *arguments)
        assert code == 2 and words in err and len(err.strip().splitlines()) == 1, (arguments, err)


def test_ranks_over_data_sets_and_nemenyi(source, base):
    rng = np.random.default_rng(2)
    sets = np.repeat([f"d{i}" for i in range(8)], 5)
    frame = base.frame.with_columns(dataset=pl.Series(sets))
    level = rng.uniform(0.3, 0.6, 8).repeat(5)
    runs = {
        name: dataclasses.replace(base, frame=frame.with_columns(accuracy=pl.Series(level + add)), path=None)
        for name, add in (("a", 0.2), ("b", 0.1), ("c", 0.0))
    }
    (ranks,) = Report(runs, pictures=0).ranks
    assert ranks.over == "data sets" and ranks.ranking.n == 8 and list(ranks.ranking.ranks) == [1, 2, 3]
    assert ranks.groups == []
    (nemenyi,) = Report(runs, groups="nemenyi", pictures=0).ranks
    assert nemenyi.difference == pytest.approx(2.343 * np.sqrt(12 / 48), abs=1e-3)
    assert nemenyi.groups == [(0, 1), (1, 2)]
    assert "(Nemenyi)" in ranks_figure(nemenyi, 0.05).caption
    (tasks,) = Report(runs, over="tasks", pictures=0).ranks
    assert tasks.over == "tasks" and tasks.ranking.n == 40
