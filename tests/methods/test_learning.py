"""Each method learns: after a short training on a small world it beats itself untrained, on the same tasks of new classes."""

from __future__ import annotations

import sys

import pytest

import learning
from documents import ROOT
from handful import registry
from handful.methods.contract import make
from handful.tasks.nway import NWay
from learning import decide
from made.patterns import blobs

sys.path.insert(0, str(ROOT / "benchmarks"))
from zoo_learns import METHODS, gain

# Methods that learn anew from every task for a while: their gains are large enough to be seen on fewer tasks.
DEAR = ("lp-ft-fb", "fo-maml", "anil", "putm", "tsa", "tsa+deta", "maml+ifsl", "mtl+ifsl", "sib+ifsl")
# Methods whose gain on glyphs of many colours, learnt this briefly, is too near to none.
EASIER = ("contrastive", "covamnet", "neg-cosine", "baseline++", "anil")
# Four seconds of processor time and more, training and answering, or a relative of one that stays: left to make test-all.
SLOW = (
    *("cosine", "linear", "versa", "skd-gen0", "can+t", "cdkt+ml", "covamnet", "deepbdc"),
    *("lp-ft-fb", "fo-maml", "putm", "tsa", "tsa+deta", "tpn", "tpn+lrp"),
    *("relationnet+ft", "bf3s", "bf3s-cosine", "hts", "sla", "contrastive"),
)
FAMILIES = ("metric", "finetuning", "gradient", "crossdomain", "causal", "selfsupervised")


@pytest.mark.learning
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name, options in METHODS.items()
        if not options.get("slow")
    ],
)
def test_trained_beats_untrained_on_the_world(name):
    tasks = 60 if name in DEAR else 200
    decide(gain(name, tasks, seed=learning.SEED, easier=name in EASIER).difference, above=0)


def test_no_method_is_forgotten():
    """All that train, by family; what does not train has nothing to show."""
    theirs = {
        name
        for name, place in registry.BUILTIN["methods"].items()
        if place.split(".")[2] in FAMILIES and make(name).trains != "no"
    }
    assert theirs == set(METHODS)


def test_frozen_stage_leaves_the_backbone_alone():
    """Between the stages of MTL and SIB, weights and batch statistics of the pre-trained network stay to the bit."""
    train = NWay(blobs(n_classes=24, each=40, noise=110.0).train, 5, 1, 5)
    for name, kept in (("sib", "backbone."), ("mtl", "backbone.net.")):
        states = []
        for steps in (0, 3):
            method = make(name, net="conv4:filters=8", schedule={"steps": steps}, pretrain={"steps": 5, "augment": ()})
            states.append(method.meta_fit(train).state())
        same = {k: bool((states[0][k] == states[1][k]).all()) for k in states[0]}
        assert all(v for k, v in same.items() if k.startswith(kept))
        assert not all(same.values())
