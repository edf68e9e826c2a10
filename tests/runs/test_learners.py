"""One path from what a person names to a scored learner; rules and parts compare."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import handful as hf
from handful.errors import BadInput, Mismatch
from handful.runs.learners import chosen, training
from handful.runs.replay import replay_rule
from handful.tasks import NWay
from made.benches import small


def few() -> NWay:
    return NWay(small().test, 3, 1, 3)


def test_a_name_a_method_a_learner_and_a_model_folder_give_the_same_run(tmp_path):
    by_name = hf.evaluate("nearest-centroid", few(), n=8)
    method = hf.methods.NearestCentroid()
    learner = method.untrained(few().image_shape)
    learner.save(tmp_path / "model")
    for spec in (method, learner, tmp_path / "model", str(tmp_path / "model")):
        assert hf.evaluate(spec, few(), n=8).frame.equals(by_name.frame)


def test_a_method_that_trains_is_trained_on_the_train_split_as_the_command_line_does(capsys):
    import json

    from handful.cli import main

    spec = "world:classes=12,images=12,size=16"
    method = hf.methods.ProtoNet(net="conv4:filters=4", schedule=hf.Schedule(steps=3))
    run = hf.evaluate(method, NWay(hf.open(spec).test, 2, 1, 3), n=5)
    with pytest.raises(SystemExit):
        main(
            f"eval protonet {spec} --ways 2 --shots 1 --queries 3 --tasks 5 --json -s net=conv4:filters=4 "
            "-s schedule.steps=3".split()
        )
    told = json.loads(capsys.readouterr().out)
    assert told["identity"]["weights"] == run.identity["weights"]
    untrained = method.untrained((16, 16, 3))
    assert hf.evaluate(untrained, NWay(hf.open(spec).test, 2, 1, 3), n=5).identity["weights"] != run.identity["weights"]


def test_where_nobody_names_training_tasks_they_are_chosen_in_one_place():
    protonet, seen = hf.methods.ProtoNet(), small().train
    assert training(protonet, few()) == (NWay(seen, 3, 1, 3), None)
    assert training(protonet, hf.tasks.AnyWay(small().test, (2, 20), (1, 9), 40)) == (NWay(seen, 5, 5, 15), None)
    assert training(protonet, hf.tasks.Clustering(of=few()), 2, 4, 1)[0] == NWay(seen, 2, 4, 1)
    assert training(hf.methods.NearestCentroid(), few()) == (None, None)
    assert training(protonet, few(), rule=few()) == (few(), None)


def test_described_classes_are_learned_alike_from_python_and_the_command_line(capsys):
    import json

    from handful.cli import main

    spec = "world:label=colour+border,mask=0.4,images=6,classes=20,size=16,splits=0.5+0.25+0.25"
    rule = hf.tasks.ZeroShot(hf.open(spec).test)
    assert [r.part.split for r in training(hf.methods.ESZSL(), rule)] == ["train", "valid"]
    run = hf.evaluate("eszsl", rule, n=rule.size)
    with pytest.raises(SystemExit):
        main(f"eval eszsl {spec} --rule zero-shot --json".split())
    told = json.loads(capsys.readouterr().out)
    assert told["identity"]["weights"] == run.identity["weights"]
    assert told["identity"]["method"] == run.identity["method"]


def test_a_collection_a_part_and_a_text_are_asked_the_usual_tasks():
    spec = "world:classes=40,images=24,size=16"
    whole = hf.evaluate("nearest-centroid", hf.open(spec), n=3)
    assert whole.identity["rule"]["ways"] == 5 and "split/test" in whole.identity["part"]
    for asked in (spec, hf.open(spec).test):
        assert hf.evaluate("nearest-centroid", asked, n=3).frame.equals(whole.frame)
    with pytest.raises(BadInput, match="give a rule such as"):
        hf.evaluate("nearest-centroid", 3)
    with pytest.raises(BadInput, match="give a name"):
        hf.evaluate(3, few())
    with pytest.raises(BadInput, match="did you mean protonet"):
        hf.evaluate("protonett", few())


def test_one_metric_may_be_given_by_its_name():
    run = hf.evaluate("nearest-centroid", few(), n=3, metrics="accuracy")
    assert run.identity["metrics"] == ["accuracy"]
    with pytest.raises(BadInput, match="did you mean accuracy"):
        hf.evaluate("nearest-centroid", few(), n=3, metrics="acuracy")


def test_rules_and_parts_are_equal_by_what_they_are():
    assert few() == few() and few() != NWay(small().test, 3, 2, 3) and few() != NWay(small().train, 3, 1, 3)
    assert small().test == small().test and len({small().test, small().part("test")}) == 1
    assert hf.tasks.Clustering(of=few()) == hf.tasks.Clustering(of=few())
    assert few() == dataclasses.replace(few(), ways=3)


def test_a_run_says_whether_its_method_is_transductive():
    for name, said in (("nearest-centroid", False), ("tpn", True)):
        learner = hf.methods.make(name).untrained(few().image_shape)
        run = hf.evaluate(learner, few(), n=2)
        assert run.facts["transductive"] is said and run.transductive is said


def test_the_tasks_of_a_part_that_no_split_made_are_drawn_again():
    world = hf.open("world:classes=12,images=12,size=16")
    part = world.test.where(np.arange(len(world.test)) % 3 > 0, "two thirds")
    run = hf.evaluate("nearest-centroid", NWay(part, 2, 1, 2), n=4)
    again = replay_rule(run)
    assert again == NWay(part, 2, 1, 2)
    assert [e.as_dict() for e in again.draw_block(0, 0, 4)] == [
        e.as_dict() for e in NWay(part, 2, 1, 2).draw_block(0, 0, 4)
    ]
    run.facts.pop("rows")
    with pytest.raises(Mismatch, match="cannot be cut out"):
        replay_rule(run)


def test_a_misspelt_packaged_model_is_told_the_packaged_ones():
    with pytest.raises(BadInput, match=r"no packaged model named 'cifar-fs/protonett'; did you mean cifar-fs/protonet"):
        chosen("cifar-fs/protonett")
    with pytest.raises(BadInput, match="did you mean"):
        chosen("protonett")


def test_a_learner_of_images_of_another_size_is_refused_in_one_sentence():
    other = hf.world(size=16, classes=12, images=12)
    learner = hf.methods.make("protonet", net="conv4:filters=4").untrained((32, 32, 3))
    for method in (learner, *(hf.methods.make(name).untrained((32, 32, 3)) for name in ("fo-maml", "lp-ft-fb"))):
        words = r"made for images of \(32, 32, 3\), world has \(16, 16, 3\); pack them"
        with pytest.raises(Mismatch, match=words) as caught:
            hf.evaluate(method, NWay(other.test, 2, 1, 1), n=2)
        assert "\n" not in str(caught.value)
