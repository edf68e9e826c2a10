"""Each head against numbers computed another way: scikit-learn, ten lines of numpy, autograd, or by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

from handful.errors import BadInput
from handful.methods.batch import Batch, pad
from handful.methods.contract import make
from handful.methods.finetuning import rfs
from handful.methods.finetuning.contrastive import map_map, vector_map
from handful.methods.finetuning.lp_ft_fb import firth_loss
from handful.methods.finetuning.neg_cosine import margin_loss
from handful.methods.gradient.mtl import Scaled, descend
from handful.methods.gradient.sib import pullback
from handful.methods.layers.contrast import info_nce, nt_xent, supervised
from handful.methods.layers.local import by_class, descriptors
from handful.methods.layers.logistic import fit_logistic
from handful.methods.layers.ridge import ridge
from handful.methods.layers.rotation import rotated
from handful.methods.layers.views import random_view
from handful.methods.schedule import Schedule
from handful.nets import build
from handful.tasks.episode import Query, Support
from handful.tasks.nway import NWay
from made.patterns import blobs


def tasks(shapes=((5, 3, 7), (3, 1, 4), (7, 2, 5)), tail=(12,), seed=0) -> tuple[list, Batch]:
    """Tasks of (ways, shots, queries per class) and the padded batch of them; labels shuffled, features off centre."""
    rng = np.random.default_rng(seed)
    out = []
    for ways, shots, queries in shapes:
        means = rng.normal(0.7, 1, (ways, *tail))
        y = rng.permutation(np.repeat(np.arange(ways), shots))
        s = means[y] + rng.normal(0, 1, (len(y), *tail))
        q = means[np.repeat(np.arange(ways), queries)] + rng.normal(0, 1, (ways * queries, *tail))
        out.append((torch.tensor(s, dtype=torch.float32), y, torch.tensor(q, dtype=torch.float32)))
    return out, pad(out, [(w,) for w, _, _ in shapes], list(range(10, 10 + len(shapes))))


def cut(logits, given, i):
    return logits[i, : len(given[i][2]), : given[i][1].max() + 1].detach().numpy()


@pytest.mark.parametrize("strength", [0.1, 1.0, 20.0])
def test_logistic_regression_is_scikit_learns(strength):
    given, b = tasks()
    logits = fit_logistic(b, b.s, b.q, strength=strength)
    for i, (s, y, q) in enumerate(given):
        model = LogisticRegression(C=strength, max_iter=10_000, tol=1e-10).fit(s.double().numpy(), y)
        ours = torch.softmax(torch.tensor(cut(logits, given, i)), -1).numpy()
        np.testing.assert_allclose(ours, model.predict_proba(q.double().numpy()), atol=1e-4)


def test_rfs_is_logistic_regression_on_unit_features():
    given, b = tasks()
    logits = make("rfs-simple", net="pixels").head(None, b)
    for i, (s, y, q) in enumerate(given):
        s, q = (F.normalize(x, dim=-1).double().numpy() for x in (s, q))
        model = LogisticRegression(C=1.0, max_iter=10_000, tol=1e-10).fit(s, y)
        ours = torch.softmax(torch.tensor(cut(logits, given, i)), -1).numpy()
        np.testing.assert_allclose(ours, model.predict_proba(q), atol=1e-4)
    assert torch.isinf(logits[1, :, 3:]).all()


@pytest.mark.parametrize("n, d", [(4, 9), (9, 4)])
def test_ridge_is_scikit_learns_from_either_side(n, d):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, n, d)), rng.normal(size=(2, n, 3))
    ours = ridge(torch.tensor(x), torch.tensor(y), torch.tensor([0.5, 3.0], dtype=torch.float64))
    for i, penalty in enumerate((0.5, 3.0)):
        model = Ridge(alpha=penalty, fit_intercept=False).fit(x[i], y[i])
        np.testing.assert_allclose(ours[i].numpy().T, model.coef_, atol=1e-9)


def test_r2d2_is_ridge_on_one_hot_labels():
    given, b = tasks()
    method = make("r2d2", net="pixels", penalty=2.0, scale=3.0)
    logits = method.head(method.modules((12,), 2), b)
    for i, (s, y, q) in enumerate(given):
        x = np.c_[s.numpy(), np.ones(len(s))]
        w = np.linalg.solve(x.T @ x + 2 * np.eye(13), x.T @ np.eye(y.max() + 1)[y])
        np.testing.assert_allclose(cut(logits, given, i), 3 * np.c_[q.numpy(), np.ones(len(q))] @ w, atol=1e-4)


def test_k_nn_is_scikit_learns_and_ties_go_to_the_nearest():
    given, b = tasks()
    for k in (1, 3):
        logits = make("k-nn", net="pixels", k=k).head(None, b)
        for i, (s, y, q) in enumerate(given):
            near = KNeighborsClassifier(min(k, len(y))).fit(s.numpy(), y)
            votes = near.predict_proba(q.numpy())
            clear = np.sort(votes, 1)[:, -1] > np.sort(votes, 1)[:, -2] + 1e-9
            assert (cut(logits, given, i).argmax(1)[clear] == near.predict(q.numpy())[clear]).all()
    line = (torch.tensor([[0.0], [3.0]]), np.asarray([0, 1]), torch.tensor([[1.0], [2.0]]))
    assert make("k-nn", net="pixels", k=2).head(None, pad([line], [(2,)], [0]))[0].argmax(1).tolist() == [0, 1]


@pytest.mark.parametrize("side, channels", [(1, 12), (3, 4)])
def test_frn_reconstructs_as_written_with_either_system(side, channels):
    given, b = tasks(tail=(channels, side, side))
    method = make("frn", net="pixels")
    m = method.modules((side, side, channels), 2)
    with torch.no_grad():
        m["reconstruction"].alpha.fill_(0.3)
        m["reconstruction"].beta.fill_(-0.2)
        m["reconstruction"].gamma.fill_(1.7)
    logits = method.head(m, b)
    for i, (s, y, q) in enumerate(given):
        for c in range(y.max() + 1):
            S = s.numpy()[y == c].transpose(0, 2, 3, 1).reshape(-1, channels) / channels**0.5
            Q = q.numpy().transpose(0, 2, 3, 1).reshape(len(q), -1, channels) / channels**0.5
            penalty = len(S) / channels * np.exp(0.3)
            remade = np.exp(-0.2) * Q @ S.T @ np.linalg.inv(S @ S.T + penalty * np.eye(len(S))) @ S
            expected = -1.7 * ((Q - remade) ** 2).sum(-1).mean(-1)
            np.testing.assert_allclose(cut(logits, given, i)[:, c], expected, atol=2e-5)


def test_negative_margin_by_hand():
    cosines = torch.tensor([[0.5, 0.1]])
    expected = -np.log(np.exp(2 * 0.8) / (np.exp(2 * 0.8) + np.exp(2 * 0.1)))
    assert float(margin_loss(cosines, torch.tensor([0]), -0.3, 2.0)) == pytest.approx(expected, abs=1e-6)
    assert float(margin_loss(cosines, torch.tensor([1]), 0.0, 3.0)) == pytest.approx(
        float(F.cross_entropy(3 * cosines, torch.tensor([1])))
    )


def test_firth_by_hand():
    uniform = torch.zeros(3, 4)
    assert float(firth_loss(uniform, torch.tensor([0, 1, 2]), 0.5)) == pytest.approx(1.5 * np.log(4), abs=1e-6)
    p = np.asarray([0.7, 0.2, 0.1])
    loss = firth_loss(torch.tensor(np.log(p))[None], torch.tensor([0]), 2.0)
    assert float(loss) == pytest.approx(-np.log(0.7) - 2 * np.log(p).mean(), abs=1e-6)


def test_lp_ft_fb_probe_is_sgd_on_features_and_firth_softens_it():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 4)
    x = (rng.normal(size=(3, 6))[y] + 0.3 * rng.normal(size=(12, 6))).astype(np.float32)
    support = Support((3,), x, y, seed=4)
    entropies = []
    for firth in (0.0, 1.0, 10.0):
        options = {"probe_passes": 60, "probe_rate": 0.1, "probe_firth": firth, "task_batch": 0, "tune_passes": 0}
        method = make("lp-ft-fb", net="pixels", classifier="linear", **options)
        scores = torch.tensor(method.untrained((6,)).fit(support).predict(Query(x)))
        generator = torch.Generator().manual_seed(4)
        w, c = (((2 * torch.rand(*n, generator=generator) - 1) / 6**0.5).requires_grad_() for n in ((3, 6), (3,)))
        optimiser = torch.optim.SGD([w, c], 0.1, momentum=0.9, dampening=0.9, weight_decay=0.001)
        for _ in range(60):
            optimiser.zero_grad()
            logits = torch.tensor(x) @ w.T + c
            target = torch.eye(3)[y] + firth / 3
            (-(target * torch.log_softmax(logits, -1)).sum(1).mean()).backward()
            optimiser.step()
        np.testing.assert_allclose(scores.numpy(), (torch.tensor(x) @ w.T + c).detach().numpy(), atol=1e-4)
        entropies.append(float(torch.distributions.Categorical(logits=scores).entropy().mean()))
    assert entropies[0] < entropies[1] < entropies[2]


def test_lp_ft_fb_tunes_the_body_of_a_copy():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (6, 16, 16, 3), dtype=np.uint8)
    learner = make("lp-ft-fb", net="conv4:filters=4", probe_passes=2, tune_passes=2, tune_rate=0.1).untrained(
        (16, 16, 3)
    )
    before = {k: v.clone() for k, v in learner.state().items()}
    predictor = learner.fit(Support((2,), images, np.asarray([0, 0, 0, 1, 1, 1]), seed=1))
    assert all(torch.equal(before[k], v) for k, v in learner.state().items())
    moved = {k: not torch.equal(before[f"backbone.{k}"], v) for k, v in predictor.backbone.state_dict().items()}
    assert moved["blocks.0.0.weight"] and not any(moved[k] for k in moved if k.split(".")[2] == "1"), "batch norms stay"


def test_quarter_turns_and_their_labels():
    x = torch.arange(2 * 1 * 2 * 2).reshape(2, 1, 2, 2).float()
    turned, turns = rotated(x)
    assert turns.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert turned[2, 0].tolist() == [[1.0, 3.0], [0.0, 2.0]]
    assert torch.equal(turned[4], x[0].flip(1).flip(2))


def test_skd_asks_class_and_turn_of_every_turn():
    method = make("skd-gen0", net="conv4:filters=4", weight=2.0)
    m = method.modules((16, 16, 3), 3).eval()
    x, labels = torch.rand(5, 3, 16, 16), torch.tensor([0, 1, 2, 1, 0])
    with torch.no_grad():
        expected = []
        for k in range(4):
            scores = m["classifier"](m["backbone"](torch.rot90(x, k, (2, 3))))
            turn = m["turn"](scores)
            log_p, log_not = F.logsigmoid(turn), F.logsigmoid(-turn)
            right = torch.arange(4) == k
            bce = -(log_p[:, right].sum(1) + log_not[:, ~right].sum(1)) / 4
            expected.append(F.cross_entropy(scores, labels) + 2 * bce.mean())
        assert float(method.batch_loss(m, x, labels)) == pytest.approx(float(torch.stack(expected).mean()), abs=1e-5)


def test_generation_one_of_skd_is_its_loop():
    """DistillKL and the three lengths of brjathu/SKD's train_distillation.py at 0a28dc5, written out."""
    method = make("skd-gen0", net="conv4:filters=4", temperature=2.0, closeness=0.1)
    student, teacher = (method.modules((16, 16, 3), 3).eval() for _ in range(2))
    for p in teacher.parameters():
        p.data.add_(0.3 * torch.sin(torch.arange(p.numel()).float()).view_as(p))
    x = torch.rand(5, 3, 16, 16)
    scores = lambda m, x: m["classifier"](m["backbone"](x))  # noqa: E731
    with torch.no_grad():
        s, t = torch.log_softmax(scores(student, x) / 2, 1), torch.softmax(scores(teacher, x) / 2, 1)
        kl = float((t * (t.log() - s)).sum()) * 4 / 5
        away = [scores(student, torch.rot90(x, k, (2, 3))) - scores(student, x) for k in (1, 2, 3)]
        length = sum(float((d**2).sum(1).sqrt().mean()) for d in away) / 3
        assert kl > 0.01
        assert float(method.distilled(student, teacher, x)) == pytest.approx(kl + 0.1 * length, rel=1e-4)


def test_generation_one_of_skd_learns_from_generation_zero_and_brings_turns_nearer():
    """Scores of turned images come nearer to the image's; without steps there is no second stage."""
    train = NWay(blobs(n_classes=8, each=20).train, 5, 1, 5)
    first = Schedule(steps=20, batch=32)
    one = Schedule(steps=30, batch=32, rate=0.02, optimiser="sgd")
    zero = make("skd-gen0", net="conv4:filters=8", schedule=first).meta_fit(train)
    method = make("skd-gen0", net="conv4:filters=8", schedule=first, distil=one, closeness=5.0)
    after = method.meta_fit(train)

    def moved(learner):
        x = learner.backbone.normalise(torch.from_numpy(train.part.collection.read(np.arange(40))))
        with torch.no_grad():
            told = [learner.modules["classifier"](learner.backbone(torch.rot90(x, k, (2, 3)))) for k in range(4)]
        return float(sum((t - told[0]).norm(dim=1).mean() for t in told[1:]))

    assert moved(after) < 0.8 * moved(zero)
    assert not torch.equal(after.modules["classifier"].weight, zero.modules["classifier"].weight)
    assert [s.folder for s in method.stages()] == ["", "distil"] and len(make("skd-gen0").stages()) == 1


def test_copies_of_rfs_are_more_examples_of_the_same_classes(monkeypatch):
    """On images that crops, flips and jitter leave as they are, n copies are the regression with n times the strength."""
    colours = np.random.default_rng(0).integers(40, 200, (10, 1, 1, 3), dtype=np.uint8)
    images = np.broadcast_to(colours, (10, 16, 16, 3)).copy()
    support, query = Support.of(images[:6], np.array([0, 0, 0, 1, 1, 1]), seed=3), Query(images[6:])

    def scores(**options):
        return make("rfs-simple", net="pixels", **options).untrained((16, 16, 3), 4).fit(support).predict(query)

    with monkeypatch.context() as patched:
        patched.setattr(rfs, "KINDS", ("crop", "flip"))
        np.testing.assert_allclose(scores(copies=5), scores(strength=5.0), atol=1e-4)
    assert np.abs(scores(copies=5) - scores(strength=5.0)).max() > 1e-3  # with jitter they are other images
    assert np.array_equal(scores(copies=5), scores(copies=5))
    with pytest.raises(BadInput, match="copies"):
        make("rfs-simple", copies=-1)


def test_contrastive_losses_are_their_loops():
    rng = np.random.default_rng(0)
    a, b = torch.tensor(rng.normal(size=(2, 4, 6)), dtype=torch.float32)
    z = F.normalize(torch.cat([a, b]), dim=-1).numpy()
    e = np.exp(z @ z.T / 0.5)
    pairs = [-np.log(e[i, (i + 4) % 8] / (e[i].sum() - e[i, i])) for i in range(8)]
    assert float(nt_xent(a, b, 0.5)) == pytest.approx(np.mean(pairs), abs=1e-5)
    labels = [0, 0, 1, 2, 1, 0, 1, 3]
    each = []
    for i in range(8):
        same = [j for j in range(8) if j != i and labels[j] == labels[i]]
        if same:
            each.append(np.mean([-np.log(e[i, j] / (e[i].sum() - e[i, i])) for j in same]))
    assert float(supervised(torch.cat([a, b]), torch.tensor(labels), 0.5)) == pytest.approx(np.mean(each), abs=1e-5)
    assert float(info_nce(torch.eye(3) * 2, 1.0)) == pytest.approx(-np.log(np.exp(2) / (np.exp(2) + 2)), abs=1e-6)


def test_local_similarities_are_their_loops():
    g = torch.Generator().manual_seed(0)
    z, u = torch.randn(3, 5, generator=g), torch.randn(3, 4, 5, generator=g)
    q, k, v, w = (torch.randn(3, 4, 5, generator=g) for _ in range(4))
    for i in range(3):
        for j in range(3):
            near = F.cosine_similarity(z[i][None], u[j]).mean()
            assert float(vector_map(z, u)[i, j]) == pytest.approx(float(near), abs=1e-6)
            aligned = torch.softmax(q[i] @ k[j].T / 5**0.5, -1) @ w[j]
            near = F.cosine_similarity(v[i], aligned).mean()
            assert float(map_map(q, k, v, w)[i, j]) == pytest.approx(float(near), abs=1e-6)


def test_random_views_keep_shape_follow_the_seed_and_differ():
    x = torch.rand(4, 3, 20, 20)
    torch.manual_seed(1)
    a, b = random_view(x), random_view(x)
    torch.manual_seed(1)
    assert torch.equal(a, random_view(x)) and not torch.allclose(a, b) and a.shape == x.shape
    flat = random_view(torch.full((2, 3, 8, 8), 0.4), contrast=0.0)
    np.testing.assert_allclose(flat.numpy(), 0.4, atol=1e-5)


def test_versa_without_spread_is_its_mean_classifier_and_with_it_the_mean_of_samples():
    given, b = tasks()
    method = make("versa", net="pixels", features=6, samples=4, log_variance=0.0)
    m = method.modules((12,), 2)
    a = m["amortised"]
    with torch.no_grad():
        logits = method.head(m, b)
        noise = method.noise(b, 7)
        for i, (s, y, q) in enumerate(given):
            n = y.max() + 1
            means = torch.stack([a.reduce(s[torch.tensor(y == c)]).mean(0) for c in range(n)])
            probability = 0
            for l in range(4):
                w = a.weight_mean(means) + (0.5 * a.weight_spread(means)).exp() * noise[i, l, :n, :6]
                c = a.bias_mean(means)[:, 0] + (0.5 * a.bias_spread(means)).exp()[:, 0] * noise[i, l, :n, 6]
                probability = probability + torch.softmax(a.reduce(q) @ w.T + c, -1) / 4
            np.testing.assert_allclose(cut(logits.exp(), given, i), probability.numpy(), atol=1e-5)
        for spread in (a.weight_spread, a.bias_spread):
            spread[-1].weight.zero_()
            spread[-1].bias.fill_(-80.0)
        still = method.head(m, b)
        s, y, q = given[0]
        means = torch.stack([a.reduce(s[torch.tensor(y == c)]).mean(0) for c in range(5)])
        expected = torch.log_softmax(a.reduce(q) @ a.weight_mean(means).T + a.bias_mean(means)[:, 0], -1)
        np.testing.assert_allclose(cut(still, given, 0), expected.numpy(), atol=1e-5)


def test_sib_pulls_back_as_autograd_does_and_starts_at_the_prototypes():
    given, b = tasks()
    g = torch.Generator().manual_seed(0)
    q, theta, slope = (torch.randn(2, n, 12, generator=g) for n in (6, 3, 6))
    theta.requires_grad_()
    scores = 7.0 * F.normalize(q, dim=-1) @ F.normalize(theta, dim=-1).transpose(1, 2)
    expected = torch.autograd.grad(scores, theta, slope[..., :3])[0]
    ours = pullback(slope[..., :3], F.normalize(q, dim=-1), theta, torch.tensor(7.0))
    np.testing.assert_allclose(ours.detach().numpy(), expected.numpy(), atol=1e-5)
    method = make("sib", net="pixels", refine=0)
    logits = method.head(method.modules((12,), 2), b)
    for i, (s, y, q) in enumerate(given):
        means = np.stack([F.normalize(s, dim=-1).numpy()[y == c].mean(0) for c in range(y.max() + 1)])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        np.testing.assert_allclose(cut(logits, given, i), 10 * F.normalize(q, dim=-1).numpy() @ means.T, atol=1e-4)


def test_mtl_descends_as_autograd_does():
    given, b = tasks()
    start_w, start_c = 0.1 * torch.randn(7, 12, generator=torch.Generator().manual_seed(3)), torch.zeros(7)
    logits = descend(b, start_w, start_c, 0.5, 6)
    for i, (s, y, q) in enumerate(given):
        n = y.max() + 1
        length = s.square().sum(1).mean().sqrt()
        w, c = start_w[:n].clone().requires_grad_(), start_c[:n].clone().requires_grad_()
        for _ in range(6):
            loss = F.cross_entropy(s / length @ w.T + c, torch.tensor(y))
            gw, gc = torch.autograd.grad(loss, (w, c))
            w, c = (w - 0.5 * gw).detach().requires_grad_(), (c - 0.5 * gc).detach().requires_grad_()
        np.testing.assert_allclose(cut(logits, given, i), (q / length @ w.T + c).detach().numpy(), atol=1e-4)


def test_mtl_scales_and_shifts_convolutions_only():
    net = build("conv4:filters=4", (16, 16, 3))
    scaled = Scaled(net).eval()
    x = torch.rand(2, 3, 16, 16)
    assert torch.equal(scaled(x), net(x))
    with torch.no_grad():
        scaled.scale[0].fill_(2.0)
        scaled.shift[0].fill_(0.5)
        first = net.blocks[0][0]
        expected = 2 * F.conv2d(x, first.weight, padding=1) + (first.bias + 0.5).view(1, -1, 1, 1)
        for layer in (*net.blocks[0][1:], *net.blocks[1:]):
            expected = layer(expected)
        np.testing.assert_allclose(scaled(x).numpy(), expected.flatten(1).numpy(), atol=1e-5)
    assert scaled.scale[1].shape == (4, 4, 1, 1) and len(scaled.scale) == 4


def test_boil_leaves_the_last_layer_and_moves_the_body_by_the_gradient():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (6, 16, 16, 3), dtype=np.uint8)
    y = np.asarray([0, 1, 2, 0, 1, 2])
    method = make("boil", net="conv4:filters=4", inner_rate=0.3, test_steps=1, ways=3)
    learner = method.untrained((16, 16, 3))
    backbone, last = learner.modules["backbone"], learner.modules["last"]
    predictor = learner.fit(Support((3,), images, y))
    backbone.train()
    loss = F.cross_entropy(last(backbone(backbone.normalise(torch.from_numpy(images)))), torch.tensor(y))
    named = dict(backbone.named_parameters())
    grads = dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))
    for name, value in named.items():
        moved = predictor.params[f"backbone.{name}"]
        np.testing.assert_allclose(moved.numpy(), (value - 0.3 * grads[name]).detach().numpy(), atol=1e-5)
    assert torch.equal(predictor.params["last.weight"], last.weight) and torch.equal(
        predictor.params["last.bias"], last.bias
    )


def test_descriptors_are_gathered_by_class():
    maps = torch.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2)
    assert descriptors(maps)[1, 2].tolist() == [14, 18, 22]
    given, b = tasks()
    sets, mask = by_class(b, b.s)
    for i, (s, y, _) in enumerate(given):
        for c in range(b.C):
            mine = s[torch.tensor(y == c)] if c <= y.max() else s[:0]
            assert int(mask[i, c].sum()) == len(mine)
            assert torch.equal(sets[i, c][mask[i, c]], mine)
            assert not sets[i, c][~mask[i, c]].any()


@pytest.mark.parametrize("name", ["rfs-simple", "frn", "k-nn", "r2d2", "versa", "sib", "mtl", "contrastive", "linear"])
def test_a_task_among_others_is_answered_as_alone(name):
    method = make(name, net="pixels")
    given, b = tasks(tail=(12, 1, 1) if method.maps else (12,))
    m = method.modules((12,), 2)
    with torch.no_grad():
        together = method.head(m, b)
        for i, task in enumerate(given):
            ways = task[1].max() + 1
            alone = method.head(m, pad([task], [(ways,)], [b.seeds[i]]))[0]
            np.testing.assert_allclose(cut(together, given, i), alone.numpy(), atol=1e-4)


def test_matching_networks_sum_the_attention_of_each_class():
    given, b = tasks()
    logits = make("matchingnet", net="pixels", scale=4.0).head(None, b)
    for i, (s, y, q) in enumerate(given):
        a = torch.softmax(4 * F.normalize(q, dim=-1) @ F.normalize(s, dim=-1).T, -1).numpy()
        expected = np.stack([a[:, y == c].sum(1) for c in range(y.max() + 1)], 1)
        np.testing.assert_allclose(np.exp(cut(logits, given, i)), expected, atol=1e-5)
