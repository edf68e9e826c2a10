"""Training in pieces: what the whole batch gives, to rounding, and the same bits on any number of cores."""

from __future__ import annotations

import copy
import threading
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from handful.methods import make, training
from handful.nets import build
from handful.nets.pieces import LEAST, MOST, count, in_pieces
from handful.tasks import NWay
from made.patterns import blobs


def trained(name: str, cores: int, images: int = 70, way: str = "forward"):
    """Output, gradients and state after two passes; no cores for the plain network."""
    net = build(name, (24, 24, 3), 0).train()
    random = torch.Generator().manual_seed(1)
    x = torch.rand(images, 3, 24, 24, generator=random)
    with in_pieces(net, cores) if cores else nullcontext():
        for _ in range(2):
            y = getattr(net, way)(x)
            y.backward(torch.randn(y.shape, generator=random))
    return y.detach(), {k: p.grad for k, p in net.named_parameters()}, net.state_dict()


# Without kinks (no pooling, no ReLU) rounding cannot choose another branch, and the gradients agree to rounding.
@pytest.mark.parametrize("net", ["conv4:filters=8,pools=0,leak=1", "conv4:filters=16,pools=0,leak=1,norm=group"])
@pytest.mark.parametrize("way", ["forward", "maps"])
def test_pieces_compute_what_the_whole_batch_does(net, way):
    (y, slopes, state), (y2, slopes2, state2) = trained(net, 0, way=way), trained(net, 2, way=way)
    torch.testing.assert_close(y2, y, rtol=1e-4, atol=1e-4)
    for name, value in state.items():
        torch.testing.assert_close(state2[name], value, rtol=1e-5, atol=1e-5)
    for name, slope in slopes.items():
        if not name.endswith("0.bias") or "norm=" in net:  # a bias before batch norm has no gradient but rounding
            assert float((slopes2[name] - slope).norm()) < 1e-4 * float(slope.norm()), name


@pytest.mark.parametrize(
    "net", ["conv4:filters=8", "conv4:filters=8,norm=layer", "vggs", pytest.param("resnet10", marks=pytest.mark.slow)]
)
def test_no_bit_of_a_gradient_depends_on_the_number_of_cores(net):
    y, slopes, state = trained(net, 1, 40)
    for cores in (2, 3):
        again, slopes2, state2 = trained(net, cores, 40)
        assert torch.equal(y, again)
        assert all(torch.equal(slopes[k], slopes2[k]) for k in slopes)
        assert all(torch.equal(state[k], state2[k]) for k in state)


def test_as_many_pieces_are_at_work_as_there_are_cores():
    at_work, most, lock = set(), [0], threading.Lock()

    def watch(net: nn.Module, cores: int) -> int:
        most[0] = 0
        convolve = nn.Conv2d._conv_forward

        def counted(self, *a):
            with lock:
                at_work.add(threading.get_ident())
                most[0] = max(most[0], len(at_work))
            threading.Event().wait(0.01)  # gives the others time to come in
            try:
                return convolve(self, *a)
            finally:
                with lock:
                    at_work.discard(threading.get_ident())

        with pytest.MonkeyPatch.context() as patch, in_pieces(net, cores):
            patch.setattr(nn.Conv2d, "_conv_forward", counted)
            net(torch.rand(80, 3, 24, 24)).sum().backward()
        return most[0]

    net = build("conv4:filters=8", (24, 24, 3), 0).train()
    assert [watch(net, cores) for cores in (1, 2, 3)] == [1, 2, 3]


def test_the_number_of_pieces_depends_on_the_batch_alone():
    assert [count(n) for n in (1, LEAST, 2 * LEAST, 64, 10_000)] == [1, 1, 2, 4, MOST]


@pytest.mark.parametrize("case", ["hook", "slope of the input", "evaluation", "own layer", "dropout", "few images"])
def test_where_pieces_would_not_be_the_same_the_batch_stays_whole(case, monkeypatch):
    net = build("resnet12" if case == "dropout" else "conv4:filters=8", (24, 24, 3), 0).train(case != "evaluation")
    x = torch.rand(8 if case == "few images" else 64, 3, 24, 24, requires_grad=case == "slope of the input")
    if case == "hook":
        net.blocks[0].register_forward_hook(lambda *a: None)
    if case == "own layer":
        net.blocks[0][2] = nn.Dropout(0.5)
    threads = set()
    convolve = nn.Conv2d._conv_forward
    watched = lambda *a: (threads.add(threading.get_ident()), convolve(*a))[1]  # noqa: E731
    monkeypatch.setattr(nn.Conv2d, "_conv_forward", watched)
    with in_pieces(net, 2):
        net(x)
    assert threads == {threading.get_ident()}


def test_an_error_in_one_piece_ends_all_of_them(monkeypatch):
    net = build("conv4:filters=8", (24, 24, 3), 0).train()
    convolve, calls = nn.Conv2d._conv_forward, iter(range(1000))

    def failing(*a):
        if next(calls) == 5:
            raise ValueError("planted")
        return convolve(*a)

    monkeypatch.setattr(nn.Conv2d, "_conv_forward", failing)
    with in_pieces(net, 2), pytest.raises(ValueError, match="planted"):
        net(torch.rand(80, 3, 24, 24))


def test_a_copy_of_the_network_computes_with_its_own_weights():
    net = build("conv4:filters=8", (24, 24, 3), 0).train()
    x = torch.rand(64, 3, 24, 24)
    with in_pieces(net, 1):
        other = copy.deepcopy(net)
        nn.init.zeros_(other.blocks[3][1].weight)
        assert float(other(x).detach().abs().max()) == 0 < float(net(x).detach().abs().max())


@pytest.mark.parametrize("name", ["protonet", "rfs-simple"])
def test_a_training_has_the_same_weights_on_any_number_of_cores(name, monkeypatch, tmp_path):
    source = blobs(n_classes=24, each=20)
    rule = NWay(source.train, 5, 3, 5)
    method = make(
        name, net="conv4:filters=8", **{"schedule.steps": 4, "schedule.batch": 64, "schedule.checkpoint_every": 2}
    )
    states = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(training, "cores", lambda n=cores: n)
        states.append(method.meta_fit(rule).modules.state_dict())
    # killed on three cores, gone on with on two
    save = training._Progress.save

    def killed(self, step, optimiser):
        save(self, step, optimiser)
        raise KeyboardInterrupt

    monkeypatch.setattr(training._Progress, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        method.meta_fit(rule, keep=tmp_path / "model")
    monkeypatch.setattr(training._Progress, "save", save)
    monkeypatch.setattr(training, "cores", lambda: 2)
    states.append(method.meta_fit(rule, keep=tmp_path / "model").modules.state_dict())
    for other in states[1:]:
        assert all(torch.equal(states[0][k], other[k]) for k in states[0])
