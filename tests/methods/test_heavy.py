"""RENet, HTS, TSA and DETA."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from handful.errors import BadInput, Mismatch
from handful.methods.metric.deta import DETA, compactness, region_weights
from handful.methods.metric.renet import CrossCorrelation, RENet, SelfCorrelation, Separable4d, standard
from handful.methods.metric.tsa import TSA, AdaptedLearner, Adapter, with_adapters
from handful.methods.selfsupervised.hts import HTS, TreeGates
from handful.nets import build
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from handful.tasks.episode import Query
from handful.tasks.nway import NWay
from made.zoo import NOISY, batch_of, padded_is_alone, random_task


@pytest.mark.parametrize("method", [RENet(hidden=16), HTS()], ids=lambda m: m.name)
def test_padding_changes_no_answer(method):
    if method.name == "hts":
        m = method.untrained((32, 32, 3), 4).modules
        tasks = [random_task(0, (4 * 256,), ways=3, shots=1), random_task(1, (4 * 256,), labels=[0, 0, 1, 2, 3, 3])]
        with torch.no_grad():
            together = method.head(m, batch_of(*tasks))
            for i, task in enumerate(tasks):
                alone = method.head(m, batch_of(task))[0]
                torch.testing.assert_close(together[i, :, : alone.shape[1]], alone, atol=1e-4, rtol=1e-4)
    else:
        padded_is_alone(method)


def test_neighbourhoods_are_products_of_unit_vectors():
    layer = SelfCorrelation(3, 2)
    x = torch.rand(1, 3, 4, 4)
    got = layer.neighbourhoods(x)[0]
    unit = (x / x.norm(dim=1, keepdim=True))[0].numpy()
    for i in range(4):
        for j in range(4):
            for u in range(5):
                for v in range(5):
                    a, b = i + u - 2, j + v - 2
                    want = unit[:, i, j] * unit[:, a, b] if 0 <= a < 4 and 0 <= b < 4 else np.zeros(3)
                    assert got[i * 4 + j, :, u, v].numpy() == pytest.approx(want, abs=1e-6)
    assert got[:, :, 2, 2].sum(1).numpy() == pytest.approx(np.ones(16), abs=1e-5)


def test_a_separable_4d_convolution_is_two_2d_ones():
    layer = Separable4d(1, 1).eval()
    x = torch.rand(1, 1, 3, 4, 5, 2)
    with torch.no_grad():
        got = layer(x)[0, 0]
        scale = 1 / np.sqrt(1 + 1e-5)
        first = torch.stack(
            [F.conv2d(x[:, :, :, :, d, e], layer.first.weight, padding=1) for d in range(5) for e in range(2)], -1
        )
        first = F.relu(first * scale)[0, 0].view(3, 4, 5, 2)
        want = torch.stack(
            [
                F.conv2d(first[a, b][None, None], layer.second.weight, padding=1)[0, 0]
                for a in range(3)
                for b in range(4)
            ]
        ).view(3, 4, 5, 2)
    torch.testing.assert_close(got, want * scale * layer.project.weight.item() * scale, atol=1e-5, rtol=1e-4)


def test_swapping_the_two_maps_swaps_the_correlation():
    cross = CrossCorrelation(4, 3, channels=2).eval()
    x = torch.rand(2, 3, 3, 3, 3)
    with torch.no_grad():
        torch.testing.assert_close(
            cross(x.permute(0, 3, 4, 1, 2)), cross(x).permute(0, 3, 4, 1, 2), atol=1e-5, rtol=1e-4
        )


def test_standard_scores_have_mean_zero_and_variance_one():
    x = standard(torch.randn(2, 50, 3) * 7 + 3, 1)
    assert float(x.mean(1).abs().max()) < 1e-5 and float((x.var(1) - 1).abs().max()) < 1e-3
    assert torch.isfinite(standard(torch.ones(2, 1), 1)).all()


def test_renet_in_training_is_the_public_codes():
    """`encode` and `cca` of dahyun-kang/renet at 43a4e5a in training mode and double precision: two classes of one shot, three
    queries, maps and weights of sines. Its self-correlation normalises support and queries together."""
    wave = lambda step, *shape: torch.sin(step * torch.arange(math.prod(shape)).double()).view(*shape)  # noqa: E731
    encoded = [
        [0.98917, 0.63085, 0.58399, 0.99274],
        [0.35262, 0.49258, 0.50282, 0.36109],
        [0.30456, 0.49507, 0.55392, 0.30533],
        [0.30469, 0.52531, 0.57855, 0.30482],
        [0.29342, 0.52665, 0.54051, 0.29297],
    ]
    logits = [[-4.84722, 4.96639], [-4.92954, 4.9972], [-4.99437, 4.93091]]
    m = torch.nn.ModuleDict({"around": SelfCorrelation(4, 3), "cross": CrossCorrelation(4, 3)}).double().train()
    inner, outer, layers = m["around"].inner, m["around"].outer, m["cross"].layers
    weights = [inner[0].weight, inner[3].weight, inner[6].weight, outer[0].weight, m["cross"].reduce[0].weight]
    pairs = [layer.weight for i in (0, 2) for layer in (layers[i].first, layers[i].second, layers[i].project)]
    with torch.no_grad():
        for i, w in enumerate(weights):
            w.copy_(wave(1.1 + 0.1 * i, *w.shape))
        for i, w in enumerate(pairs):
            w.copy_(wave(1.7 + 0.1 * i, *w.shape))
        x = wave(0.7, 5, 4, 3, 3)
        b = batch_of((x[:2], np.arange(2), x[2:]))
        s, q = RENet().encoded(m, b)
        means = np.array(encoded)
        got = torch.cat([s[0], q[0]]).mean((2, 3)).numpy()
        assert got == pytest.approx(means - means.mean(1, keepdims=True), abs=2e-5)
        assert RENet().compared(m, b, s, q)[0].numpy() == pytest.approx(np.array(logits), abs=2e-5)


def test_renet_with_flat_attention_is_the_cosine_of_the_averaged_maps():
    method = RENet(attention=1e9, hidden=8)
    m = method.untrained((32, 32, 3), 4).modules
    b = batch_of(random_task(0, (64, 2, 2), ways=3, shots=1))
    with torch.no_grad():
        got = method.head(m, b)[0]
        s, q = (x[0].mean((2, 3)) for x in method.encoded(m, b))
    order = torch.argsort(b.y[0])
    want = F.cosine_similarity(q[:, None], s[order][None], -1) / 0.2
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


def test_tree_gates_by_hand():
    gates = TreeGates(1)
    with torch.no_grad():
        for p in gates.parameters():
            p.fill_(0.5)
        root, below = gates(torch.tensor([2.0]), torch.tensor([[1.0], [-1.0]]))
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    c = [sigmoid(1.0) * np.tanh(1.0), sigmoid(0.0) * np.tanh(0.0)]
    h = [sigmoid(1.0) * np.tanh(c[0]), sigmoid(0.0) * np.tanh(c[1])]
    z = 0.5 * 2 + 0.5 + 0.5 * sum(h)
    kept = [sigmoid(0.5 * 2 + 0.5 + 0.5 * x) for x in h]
    top = sigmoid(z) * np.tanh(z) + kept[0] * c[0] + kept[1] * c[1]
    assert below[:, 0].tolist() == pytest.approx(h, abs=1e-6)
    assert float(root) == pytest.approx(sigmoid(z) * np.tanh(top), abs=1e-6)


def test_the_order_of_leaves_does_not_matter_to_the_root():
    gates = TreeGates(6)
    root, leaves = torch.randn(3, 6), torch.randn(3, 4, 6)
    with torch.no_grad():
        torch.testing.assert_close(gates(root, leaves)[0], gates(root, leaves.flip(1))[0], atol=1e-6, rtol=1e-5)


def test_a_tree_of_two_levels_is_two_trees_of_one():
    """The paper's recursion: what a turn becomes is the root of the tree below it, gate for gate."""
    gates = TreeGates(3)
    root, turns, colours = torch.randn(2, 3), torch.randn(2, 4, 3), torch.randn(2, 4, 5, 3)
    with torch.no_grad():
        found, middle, below = gates(root, turns, colours)
        torch.testing.assert_close(middle, gates(turns, colours)[0])
        torch.testing.assert_close(below, gates(colours[..., 0, :], colours)[1])
        # A forget gate shut for one turn leaves the root without its cell, whatever hangs below it.
        flat = gates(root, turns)[0]
    assert not torch.allclose(found, flat, atol=1e-3)


def test_permuted_colours_hang_below_their_own_turn():
    """Of an image that is one colour all turns look alike, and its `gbr` is what the image of the permuted colour is."""
    method = HTS(net="conv4:filters=8", colours=("rgb", "gbr"))
    m = method.untrained((16, 16, 3), 4).modules
    image = torch.rand(1, 3, 16, 16)
    with torch.no_grad():
        x = m["backbone"](torch.cat([image, image[:, [1, 2, 0]]])).unflatten(-1, (2, 4, -1))
        torch.testing.assert_close(x[0, 1], x[1, 0])  # the second image's plain turns are the first's permuted ones
        levels = []
        m["gates"].register_forward_pre_hook(lambda _, inputs: levels.extend(inputs))
        method.trees(m, m["backbone"](image)[None])
    root, turns, colours = levels
    torch.testing.assert_close(root[0, 0], x[0, 0, 0])
    torch.testing.assert_close(turns[0, 0], x[0, 0])
    torch.testing.assert_close(colours[0, 0, :, 0], x[0, 0])
    torch.testing.assert_close(colours[0, 0, :, 1], x[1, 0])


def test_each_level_of_a_tree_is_asked_for_its_name():
    """With answers that name no turn and no colour, each level costs the logarithm of how many it could be, times β."""

    def loss(**options):
        method = HTS(net="conv4:filters=8", weight=1.0, **options)
        m = method.untrained((16, 16, 3), 4).modules
        for name in {"turn", "colour"} & set(m):
            torch.nn.init.zeros_(m[name].weight)
            torch.nn.init.zeros_(m[name].bias)
        b = batch_of(random_task(0, (4 * len(method.seen) * 8,), ways=2, shots=1))
        labels = torch.zeros(b.q.shape[:2], dtype=torch.long)
        with torch.no_grad():
            logits = method.head(m, b).flatten(0, 1)
            return float(method.task_loss(m, b, labels)) - float(F.cross_entropy(logits, labels.flatten()))

    assert loss() == pytest.approx(np.log(4), abs=1e-5)
    assert loss(colours=("rgb", "gbr", "brg")) == pytest.approx(np.log(4) + np.log(3), abs=1e-5)


def test_hts_refuses_colours_of_grey_images():
    with pytest.raises(Mismatch, match="colour channels"):
        HTS(colours=("gbr",)).untrained((16, 16, 1), 4)
    with pytest.raises(BadInput, match="twice"):
        HTS(colours=("gbr", "gbr"))


def test_hts_refuses_turns_that_are_none():
    with pytest.raises(BadInput, match="turns"):
        HTS(turns=(0, 5))


def test_a_residual_adapter_is_a_change_of_the_kernels_centre():
    layer = torch.nn.Conv2d(3, 5, 3, stride=2, padding=1)
    adapter = Adapter(layer)
    with torch.no_grad():
        adapter.alpha.normal_()
        changed = layer.weight.clone()
        changed[:, :, 1, 1] += adapter.alpha[:, :, 0, 0]
        x = torch.randn(2, 3, 8, 8)
        torch.testing.assert_close(adapter(x), F.conv2d(x, changed, layer.bias, 2, 1), atol=1e-5, rtol=1e-4)


def support_of(method, shots=2, seed=0):
    test = NWay(NOISY.test, 4, shots, 5)
    learner = method.untrained(test.image_shape, 5)
    return learner, test.read(test.draw(seed, 0))


def test_tsa_before_any_step_is_the_nearest_mean_by_cosine():
    learner, task = support_of(TSA(net="conv4:filters=8", steps=0))
    got = learner.fit(task.support).predict(task.query)
    net = with_adapters(learner.backbone)
    s, q = (embed_images(net, x.images, Compute()) for x in (task.support, task.query))
    means = torch.stack([s[torch.as_tensor(task.support.labels == c)].mean(0) for c in range(4)])
    assert got == pytest.approx(10 * F.cosine_similarity(q[:, None], means[None], -1).numpy(), abs=1e-4)
    plain = embed_images(learner.backbone, task.query.images, Compute())
    assert plain.numpy() == pytest.approx(q.numpy(), rel=1e-2, abs=1e-2)


def test_tsa_adapts_as_the_public_loop_does_for_unseen_data_sets():
    """40 steps of torch's Adadelta, at 0.5 for the adapters and 1 for β."""
    learner, task = support_of(TSA(net="conv4:filters=4"))
    got = learner.fit(task.support).predict(task.query)
    net, y = with_adapters(learner.backbone), torch.as_tensor(task.support.labels)
    support, query = (net.normalise(torch.from_numpy(t.images.copy())) for t in (task.support, task.query))
    beta = torch.eye(net.width).requires_grad_()
    alphas = [p for n, p in net.named_parameters() if "alpha" in n]
    adadelta = torch.optim.Adadelta([{"params": alphas}, {"params": [beta], "lr": 1.0}], lr=0.5)

    def scores(x):
        s = net(support) @ beta.T
        means = torch.stack([s[y == c].mean(0) for c in range(4)])
        return 10 * F.cosine_similarity((net(x) @ beta.T)[:, None], means[None], -1)

    for _ in range(40):
        adadelta.zero_grad()
        F.cross_entropy(scores(support), y).backward()
        adadelta.step()
    assert got == pytest.approx(scores(query).detach().numpy(), abs=0.05)


def test_a_resnets_stem_is_not_adapted():
    net = with_adapters(build("resnet10", (32, 32, 3)))
    assert sum(isinstance(layer, Adapter) for layer in net.modules()) == 8
    assert isinstance(net.conv1, torch.nn.Conv2d)


def test_adapting_lowers_the_supports_loss_and_leaves_the_learner_alone():
    method = TSA(net="conv4:filters=8", steps=10)
    learner, task = support_of(method, shots=4)
    before = {k: v.clone() for k, v in learner.state().items()}

    def loss(steps):
        scores = learner.method.with_options(steps=steps)
        fitted = AdaptedLearner(scores, learner.modules, learner.shape, 5, Compute()).fit(task.support)
        logits = torch.as_tensor(fitted.predict(Query(task.support.images)))
        return float(F.cross_entropy(logits, torch.as_tensor(task.support.labels)))

    assert loss(10) < loss(0) - 0.01
    for name, value in learner.state().items():
        assert torch.equal(value, before[name]), name


def test_region_weights_are_the_loops_of_the_paper():
    torch.manual_seed(0)
    z, image = torch.randn(8, 5).double(), torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])
    labels = torch.tensor([0, 0, 1, 1])[image]
    unit = (z / z.norm(dim=1, keepdim=True)).numpy()
    phi, psi = np.zeros(8), np.zeros(8)
    for i in range(8):
        mine = [unit[i] @ unit[j] for j in range(8) if labels[j] == labels[i] and image[j] != image[i]]
        other = [unit[i] @ unit[j] for j in range(8) if labels[j] != labels[i]]
        phi[i], psi[i] = np.mean(mine), np.mean(other)
    want = np.zeros(8)
    for c in range(2):
        at = (labels == c).numpy()
        a, b = np.exp(phi[at] / 0.5), np.exp(psi[at] / 0.5)
        want[at] = (a / a.sum()) / (b / b.sum())
    assert region_weights(z, labels, image).numpy() == pytest.approx(want, abs=1e-9)


def test_a_mislabelled_image_is_trusted_least():
    centres = torch.eye(3)
    labels = torch.arange(3).repeat_interleave(4)
    truth = labels.clone()
    truth[0] = 1
    z = centres[truth] + 0.05 * torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    weight = region_weights(z, labels, torch.arange(12))
    assert int(weight.argmin()) == 0


def test_compactness_with_equal_weights_is_the_supervised_contrastive_loss():
    torch.manual_seed(1)
    q, labels = F.normalize(torch.randn(6, 4), dim=1), torch.tensor([0, 0, 1, 1, 1, 0])
    losses = []
    for i in range(6):
        every = sum(np.exp(float(q[i] @ q[k]) / 0.5) for k in range(6) if k != i)
        mine = [j for j in range(6) if j != i and labels[j] == labels[i]]
        losses.append(-np.mean([float(q[i] @ q[j]) / 0.5 - np.log(every) for j in mine]))
    assert float(compactness(q, labels, torch.ones(6), 0.5)) == pytest.approx(np.mean(losses), abs=1e-5)


def test_deta_repeats_itself_and_weighs_its_support():
    method = DETA(net="conv4:filters=8", steps=2, plain=0, regions=2)
    learner, task = support_of(method)
    a, b = (learner.fit(task.support).predict(task.query) for _ in range(2))
    assert np.array_equal(a, b)
    regions, image = method.cut(torch.rand(3, 3, 32, 32), torch.Generator().manual_seed(0))
    assert regions.shape == (6, 3, 32, 32) and image.tolist() == [0, 1, 2, 0, 1, 2]


def test_deta_begins_as_tsa_and_then_cuts_regions_of_two_sizes():
    """Up to its plain steps it is TSA to the bit; one step later it is not."""
    learner, task = support_of(TSA(net="conv4:filters=8", rate=0.1, steps=3))

    def answer(method):
        return (
            AdaptedLearner(method, learner.modules, learner.shape, 5, Compute()).fit(task.support).predict(task.query)
        )

    deta = DETA(net="conv4:filters=8", steps=3, regions=2)
    assert np.array_equal(answer(deta), answer(learner.method))
    assert not np.allclose(answer(deta.with_options(plain=2)), answer(learner.method), atol=1e-4)
    ramp = torch.arange(224.0).expand(1, 1, 224, 224)
    g = torch.Generator().manual_seed(0)
    widths = {round(float(r[0, 0, -1] - r[0, 0, 0]) + 1) for _ in range(20) for r in deta.cut(ramp, g)[0]}
    assert widths == {84, 128}
    assert DETA(side=0.5).side == (0.5,)
