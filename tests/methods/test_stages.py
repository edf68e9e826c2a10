"""Training as stages: what follows from them is true, and agrees with MetaCoCo's tables or differs for a reason."""

from __future__ import annotations

import pytest
import torch

from handful import registry
from handful.methods.contract import make
from handful.methods.metric.protonet import ProtoNet
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage, marks, trained_on
from handful.tasks import NWay
from made.benches import few_shot, quick, rules_for

# Tables 2 and 3 of MetaCoCo (ICLR 2024), as printed; Linear's marks are blank there.
PUBLISHED = {
    "GL": "covamnet dn4",
    "GL+TT": "baseline baseline++ rfs-simple neg-cosine skd-gen0 frn contrastive cosine k-nn",
    "GL+LL+TT": "lp-ft-fb mtl mtl+ifsl",
    "LL+TT": "maml versa r2d2 anil boil cdkt+ml cdkt+pl deepbdc fgfl putm tsa+deta moco simclr sib maml+ifsl sib+ifsl",
    "GL+LL": "can",
    "LL": "protonet ssfsl hts sla bf3s relationnet gnn tpn matchingnet matchingnet+ifsl relationnet+ata relationnet+ft "
    "gnn+ata gnn+ft tpn+ata tpn+ft",
}
# Where a method's stages and head say something else, and why.
DIFFERENT = {
    "covamnet": ("LL", "trained on tasks alone"),
    "dn4": ("LL", "trained on tasks alone"),
    "frn": ("GL+LL", "tasks follow the pre-training; nothing is fitted to the support"),
    "contrastive": ("GL+LL", "tasks follow the pre-training; tasks are answered by class means"),
    "k-nn": ("GL", "neighbours are looked up, nothing is optimised"),
    "lp-ft-fb": ("GL+TT", "trained on batches alone"),
    "versa": ("LL", "the classifier comes from one pass of a network"),
    "deepbdc": ("GL+LL", "pre-trained with the training classes; tasks are answered by class means"),
    "fgfl": ("GL+LL", "pre-trained with the training classes; tasks are answered by class means"),
    "putm": ("GL+TT", "the backbone is pre-trained on batches with the training classes"),
    "tsa+deta": ("GL+TT", "the backbone is pre-trained on batches with the training classes"),
    "moco": ("", "no label is used in training, and the usual read-out is a class mean"),
    "simclr": ("", "no label is used in training, and the usual read-out is a class mean"),
    "sib": ("GL+LL+TT", "pre-trained with the training classes"),
    "maml+ifsl": ("GL+LL+TT", "pre-trained with the training classes"),
    "sib+ifsl": ("GL+LL+TT", "pre-trained with the training classes"),
    "matchingnet+ifsl": ("GL+LL", "pre-trained with the training classes"),
}


def test_the_marks_that_follow_from_the_stages_are_metacocos_or_differ_for_a_reason():
    published = {name: mark for mark, names in PUBLISHED.items() for name in names.split()}
    for name, mark in published.items():
        expected = DIFFERENT[name][0] if name in DIFFERENT else mark
        assert make(name).learning == expected, name
    assert all(published[name] != derived for name, (derived, _) in DIFFERENT.items())


@pytest.mark.parametrize("name", registry.names("methods"))
def test_a_stage_uses_global_labels_exactly_if_something_is_learned_for_each_training_class(name):
    method = quick(name)
    if method.axes == 2 or "images" not in method.needs:
        return
    shape = rules_for(method)[0].image_shape
    sizes = [{k: v.shape for k, v in method.untrained(shape, n).state().items()} for n in (7, 9)]
    # MAML's kin and clustering networks have states that no training class enters.
    assert ("GL" in method.learning) == (sizes[0] != sizes[1]), (name, method.learning)


def test_a_readout_that_is_fitted_to_the_support_tunes_at_test():
    assert make("simclr", readout="logistic").learning == "TT"
    assert make("simclr").learning == ""


def test_what_a_method_trains_on_follows_from_its_stages():
    batches, tasks = Stage("batches", Schedule()), Stage("tasks", Schedule())
    assert [trained_on(s) for s in ([], [batches], [batches, tasks])] == ["no", "batches", "tasks"]
    assert marks([batches, tasks], True) == "GL+LL+TT" and marks([], False) == ""
    assert make("kmeans").trains == make("nearest-centroid").trains == "no"


def test_stages_are_walked_in_order_with_what_each_declares(tmp_path):
    """Modules that learn, folders, own losses and work without steps, of a method that is made of declarations alone."""
    seen = []

    class Declared(ProtoNet):
        name = "declared"

        def extras(self, backbone, n_classes):
            return {"classifier": torch.nn.Linear(backbone.width, n_classes)}

        def batch_loss(self, m, x, labels):
            return torch.nn.functional.cross_entropy(m["classifier"](m["backbone"](x)), labels)

        def stages(self):
            short = Schedule(steps=2, batch=8, validate_every=1, validate_tasks=2)
            return [
                Stage("batches", short, learns=("classifier",), folder="first", validates=False),
                Stage("batches", work=self.look),
                Stage("tasks", short, learns=("backbone",)),
            ]

        def look(self, learner, train, valid):
            seen.append({k: v.clone() for k, v in learner.state().items()})

    method = Declared(net="conv4:filters=4")
    start = method.untrained(few_shot("train")[0].image_shape, few_shot("train")[0].n_classes).state()
    after = method.meta_fit(few_shot("train")[0], few_shot("valid")[0], keep=tmp_path).state()
    changed = lambda a, b, part: any(bool((a[k] != b[k]).any()) for k in a if k.startswith(part))  # noqa: E731
    assert changed(start, seen[0], "classifier") and not changed(start, seen[0], "backbone")
    assert changed(seen[0], after, "backbone") and not changed(seen[0], after, "classifier")
    files = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file())
    assert files == ["checkpoint.pt", "first/checkpoint.pt", "first/log.csv", "log.csv"]
    validated = ["valid" in row.read_text() and row.read_text().splitlines()[1].split(",")[3] != "" for row in
                 (tmp_path / "first" / "log.csv", tmp_path / "log.csv")]  # fmt: skip
    assert validated == [False, True]


def test_a_rule_that_cannot_serve_tasks_can_still_give_batches():
    part = few_shot("train")[0].part
    too_many = NWay(part, 3, 500, 1)
    quick("baseline", net="conv4:filters=4").meta_fit(too_many)
    with pytest.raises(Exception, match="500"):
        quick("protonet", net="conv4:filters=4").meta_fit(too_many)
