"""The contract: every registered method and every rule keeps it, as scikit-learn's estimators keep theirs."""

from __future__ import annotations

import dataclasses
import inspect
import re

import numpy as np
import pytest

from handful import registry
from handful.errors import BadInput, Infeasible
from handful.methods.contract import load, make
from handful.methods.embedded import EmbeddedLearner
from handful.methods.schedule import Schedule
from handful.nets.given import Net
from handful.options import parameters
from handful.runs.embedding import embed_needed
from handful.runs.evaluate import evaluate
from handful.runs.scoring import ScoringJob, embedded_scores
from handful.tasks import NWay
from handful.tasks.episode import Episode, Query
from made.benches import BENCHES, MORE_RULES, quick, rules_for, small

METHODS = registry.names("methods")


def learner_for(name):
    method = quick(name)
    rules = rules_for(method)
    assert rules, f"no small benchmark asks what {name} answers; add one to made/benches.py"
    rule = rules[0]
    return method.untrained(rule.image_shape, 6), rules


@pytest.mark.parametrize("name", METHODS)
def test_scores_have_the_shape_of_the_question_and_repeat(name):
    learner, rules = learner_for(name)
    for rule in rules:
        for number in range(2):
            task = rule.read(rule.draw(3, number))
            scores = learner.fit(task.support).predict(task.query)
            assert scores.shape == (len(task.query), task.episode.n_classes)
            assert scores.dtype == np.float32
            assert not np.isnan(scores).any()
            again = learner.fit(task.support).predict(task.query)
            np.testing.assert_array_equal(scores, again)


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_the_queries_does_not_matter(name):
    learner, rules = learner_for(name)
    for rule in rules:
        task = rule.read(rule.draw(5, 0))
        predictor = learner.fit(task.support)
        order = np.random.default_rng(0).permutation(len(task.query))
        straight = probabilities(predictor.predict(task.query))
        shuffled = probabilities(predictor.predict(Query(task.query.images[order])))
        np.testing.assert_allclose(straight[order], shuffled, atol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_an_answer_does_not_depend_on_other_queries_unless_declared(name):
    learner, rules = learner_for(name)
    if learner.method.transductive:
        return
    for rule in rules:
        task = rule.read(rule.draw(7, 1))
        predictor = learner.fit(task.support)
        together = probabilities(predictor.predict(task.query))
        alone = np.concatenate(
            [probabilities(predictor.predict(Query(task.query.images[i : i + 1]))) for i in range(3)]
        )
        np.testing.assert_allclose(together[:3], alone, atol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_a_padded_batch_answers_as_single_tasks_do(name):
    learner, rules = learner_for(name)
    if not isinstance(learner, EmbeddedLearner):
        return
    for rule in rules:
        job = ScoringJob(learner, rule, rule.metrics, (0,), 5, False)
        job.features = embed_needed(job, [0], 1, None)
        episodes = job.episodes(0)
        for episode, (scores, _) in zip(episodes, embedded_scores(job, episodes), strict=True):
            task = rule.read(episode)
            alone = learner.fit(task.support).predict(task.query)
            np.testing.assert_allclose(probabilities(scores), probabilities(alone), atol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_a_saved_learner_answers_the_same(name, tmp_path):
    learner, rules = learner_for(name)
    task = rules[0].read(rules[0].draw(1, 1))
    before = learner.fit(task.support).predict(task.query)
    learner.save(tmp_path / "model")
    after = load(tmp_path / "model").fit(task.support).predict(task.query)
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("name", METHODS)
def test_meta_training_runs_and_evaluates(name):
    method = quick(name)
    train, test = rules_for(method, "train"), rules_for(method, "test")
    learner = method.meta_fit(getattr(train[0], "of", train[0]), None)
    run = evaluate(learner, test[0], n=3)
    assert len(run.frame) == 3
    assert np.isfinite(run.frame[run.main].to_numpy()).all()


@pytest.mark.parametrize("name", METHODS)
def test_an_unknown_option_is_refused_with_the_nearest(name):
    with pytest.raises(BadInput, match="no option"):
        make(name, no_such_option=1)
    cls = registry.get("methods", name)
    assert cls.name == name
    assert cls.__doc__ and dataclasses.is_dataclass(cls)


def options_of_everything():
    """Every option of every method, rule, net and importer, and of what methods nest."""
    for kind in ("methods", "rules", "nets", "importers"):
        for name in registry.names(kind):
            cls = registry.get(kind, name)
            on = {"rules": small().test, "nets": (16, 16, 3)}.get(kind)
            first = () if on is None else (on,)
            for option in list(parameters(cls))[len(first) :]:
                yield pytest.param(kind, name, cls, first, option, id=f"{kind}-{name}-{option}")


@pytest.mark.parametrize(("kind", "name", "cls", "first", "option"), options_of_everything())
def test_a_wrong_value_of_any_option_is_refused_from_python_and_by_name(kind, name, cls, first, option):
    """Neither an object of no kind nor, for an option with named choices or numbers, a word that is none of them."""
    wrong = [object()]
    if parameters(cls)[option] not in (str, tuple[str, ...], Net) and "Semantics" not in str(parameters(cls)[option]):
        wrong.append("no such value")
    for value in wrong:
        for make_it in (lambda v: cls(*first, **{option: v}), lambda v: registry.make(kind, name, {option: v}, *first)):
            with pytest.raises(BadInput, match=f"option {option} cannot be") as caught:
                make_it(value)
            assert (
                {name, cls.__name__} & set(re.split(r"[ :]", str(caught.value)))
                and "; give " in str(caught.value)
                and "\n" not in str(caught.value)
            )


@pytest.mark.parametrize(
    ("make_it", "words"),
    [
        (lambda: registry.get("methods", "nearest-centroid")(distance="manhattan"), "give euclidean or cosine"),
        (
            lambda: Schedule(optimiser="rmsprop"),
            "schedule: option optimiser cannot be 'rmsprop'; give adam, adamw or sgd",
        ),
        (lambda: Schedule(augment=("flop",)), "give any number of: crop, resized-crop, flip or jitter"),
        (lambda: Schedule(step=3), "schedule has no option 'step'; did you mean steps"),
        (lambda: make("protonet", schedule={"optimiser": "rmsprop"}), "protonet.schedule: option optimiser"),
        (lambda: make("protonet", **{"schedule.steps": "many"}), "cannot be 'many'; give a whole number"),
        (lambda: NWay(small()), "a part of a collection, such as collection.test"),
        (lambda: NWay(small().test, ways=True), "cannot be True"),
        (lambda: registry.make("rules", "clustering", {"of": {"rule": "n-wya"}}, small().test), "did you mean n-way"),
        (lambda: registry.make("engines", "processes", {"worker": 2}), "did you mean workers"),
        (lambda: registry.make("metrics", "acuracy"), "there is no metric named 'acuracy'; did you mean accuracy"),
        (lambda: registry.make("nets", "conv4", {"filters": "a few"}, (16, 16, 3)), "the net conv4: option filters"),
    ],
)
def test_wrong_options_are_named_with_what_would_fit(make_it, words):
    with pytest.raises(BadInput) as caught:
        make_it()
    assert words in str(caught.value)


def test_options_are_read_from_text_as_their_annotations_ask():
    assert registry.make("rules", "any-way", {"ways": "2-5", "shots": "3"}, small().test).ways == (2, 5)
    assert make("protonet", **{"schedule.augment": "crop+flip"}).schedule.augment == ("crop", "flip")
    assert make("protonet", **{"schedule.augment": "resized-crop, flip"}).schedule.augment == ("resized-crop", "flip")
    assert make("protonet", **{"schedule.milestones": "5,8"}).schedule.milestones == (5, 8)
    part = Schedule(steps=7, rate=0.5)
    assert make("protonet", schedule={"steps": 7, "rate": "0.5"}).schedule == dataclasses.replace(
        make("protonet").schedule, steps=part.steps, rate=part.rate
    )


@pytest.mark.parametrize("name", METHODS)
def test_a_signature_shows_the_options(name):
    cls = registry.get("methods", name)
    assert list(inspect.signature(cls).parameters) == [f.name for f in dataclasses.fields(cls)]


def all_rules():
    for kind, bench in {**BENCHES, **MORE_RULES}.items():
        for i, rule in enumerate(bench("test")):
            yield pytest.param(rule, id=f"{kind}-{i}-{rule.name}")


def test_every_registered_rule_is_held_to_the_contract():
    met = {p.values[0].name for p in all_rules()}
    assert not set(registry.names("rules")) - met, "give these a bench in tests/made/benches.py"


def same(a: Episode, b: Episode) -> bool:
    return a.as_dict() == b.as_dict()


@pytest.mark.parametrize("rule", all_rules())
def test_a_task_is_a_pure_function_of_seed_and_number(rule):
    block = rule.draw_block(11, 0, 20)
    for number in (0, 7, 19):
        assert same(block[number], rule.draw(11, number))
        assert same(block[number], rule.draw_block(11, number, number + 2)[0])
    assert (
        not all(same(a, b) for a, b in zip(block, rule.draw_block(12, 0, 20), strict=True)) or rule.name == "zero-shot"
    )


@pytest.mark.parametrize("rule", all_rules())
def test_support_and_query_never_share_an_image(rule):
    for episode in rule.draw_block(2, 0, 40):
        assert not set(episode.support.tolist()) & set(episode.query.tolist())
        assert len(set(episode.support.tolist())) == len(episode.support)
        assert set(np.concatenate([episode.support, episode.query]).tolist()) <= set(range(len(rule.part.collection)))


@pytest.mark.parametrize("rule", all_rules())
def test_nothing_hidden_reaches_the_learner(rule):
    episode = rule.draw(4, 3)
    assert episode.shows <= {"images", "labels", "descriptions", "sizes", "texts"}
    support = rule.support(episode)
    hidden = {"number", "names", "side", "seen", "query", "query_labels", "support"}
    assert not hidden & {f.name for f in dataclasses.fields(support)}
    for what in ("labels", "sizes", "descriptions", "texts", "images"):
        if what not in episode.shows:
            assert getattr(support, what) is None
    assert {f.name for f in dataclasses.fields(rule.read(episode).query)} == {"images"}


@pytest.mark.parametrize("rule", all_rules())
def test_the_place_of_a_query_tells_nothing(rule):
    episodes = [e for e in rule.draw_block(6, 0, 60) if len(set(e.query_labels.tolist())) > 1]
    if episodes:
        in_order = [bool((np.diff(e.query_labels) >= 0).all()) for e in episodes]
        assert np.mean(in_order) < 0.5


@pytest.mark.parametrize("rule", all_rules())
def test_episodes_survive_json(rule):
    import json

    episode = rule.draw(8, 5)
    back = Episode.from_dict(json.loads(json.dumps(episode.as_dict())))
    assert same(episode, back)


@pytest.mark.parametrize("rule", all_rules())
def test_what_a_collection_cannot_serve_is_refused_by_name(rule):
    fields = {f.name for f in dataclasses.fields(rule)}
    changes = {k: v for k, v in {"ways": 500, "shots": 500, "queries": 5000, "primitives": 500}.items() if k in fields}
    if changes:
        with pytest.raises(Infeasible):
            dataclasses.replace(rule, **changes).check()


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Softmax, so that tolerance is in what an answer means."""
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)
