"""The output layer with a sampled loss: a drop-in that can be saved, copied, compiled and resumed."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import softhash as sh
from errors import fails

torch = pytest.importorskip("torch")
F = torch.nn.functional

from softhash.torch import SampledSoftmaxLoss, clip_grad_norm_  # noqa: E402

N, DIM, QUERIES = 300, 12, 16
NAMES = ("sketch", "lsh", "uniform", "prior", "topk")
every_sampler = pytest.mark.parametrize("sampler", NAMES)


def batch(seed: int = 0, shape: tuple[int, ...] = (QUERIES,)) -> tuple[Any, Any]:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, DIM, generator=made), torch.randint(0, N, shape, generator=made)


def head_of(sampler: str = "sketch", **settings: Any) -> SampledSoftmaxLoss:
    torch.manual_seed(0)
    lsh = {"bits": 4, "tables": 8} if sampler == "lsh" else {"index": "Flat"} if sampler == "topk" else {}
    return SampledSoftmaxLoss(DIM, N, sampler=sampler, **{"size": 40, **lsh, **settings})


def train(head: SampledSoftmaxLoss, steps: int, first: int = 0, optimizer: Any = None) -> list[float]:
    """Losses of some steps on fixed batches."""
    optimizer = optimizer or torch.optim.SGD(head.parameters(), lr=0.5)
    losses = []
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss = head(*batch(step % 5))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@every_sampler
def test_every_sampler_learns(sampler: str) -> None:
    head = head_of(sampler, refresh_every=5)
    hidden, targets = batch()
    before = float(head.eval()(hidden, targets))
    train(head.train(), 40)
    assert float(head.eval()(hidden, targets)) < 0.7 * before


@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"sparse": True}, {"label_smoothing": 0.1, "sparse": True}])
def test_everything_drawn_is_linear_and_cross_entropy(settings: dict[str, Any]) -> None:
    head, (hidden, targets) = head_of("uniform", size=N, **settings), batch(shape=(4, 5))
    targets[0, 0] = targets[3, 2] = -100
    loss = head(hidden, targets)
    truth = F.cross_entropy(
        F.linear(hidden, head.weight, head.bias).flatten(0, 1), targets.flatten(),
        label_smoothing=head.label_smoothing,
    )  # fmt: skip
    torch.testing.assert_close(loss, truth)
    ours, theirs = (torch.autograd.grad(value, list(head.parameters())) for value in (loss, truth))
    for found, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found.to_dense(), wanted)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_evaluation_is_exact(reduction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softhash.torch.evaluation.LOGITS_PER_BLOCK", 1)
    weights = torch.rand(N)
    head = head_of(reduction=reduction, class_weight=weights, label_smoothing=0.2).eval()
    hidden, targets = batch()
    targets[3] = -100
    hidden.requires_grad_()
    logits = F.linear(hidden, head.weight, head.bias)
    truth = F.cross_entropy(logits, targets, weight=weights, label_smoothing=0.2, reduction=reduction)
    torch.testing.assert_close(head(hidden, targets), truth)
    inputs = (hidden, *head.parameters())
    ours, theirs = (torch.autograd.grad(value.sum(), inputs) for value in (head(hidden, targets), truth))
    torch.testing.assert_close(ours, theirs)
    log_p = logits.log_softmax(-1)
    torch.testing.assert_close(head.log_prob(hidden), log_p.detach())
    assert torch.equal(head.predict(hidden), log_p.argmax(-1))
    values, classes = head.top_k(hidden.view(2, -1, DIM), 5)
    torch.testing.assert_close(values.flatten(0, 1), log_p.topk(5).values.detach())
    assert torch.equal(classes.flatten(0, 1), log_p.topk(5).indices)


@pytest.mark.parametrize("refresh_every", [1, 7, "adaptive"])
@every_sampler
def test_a_resumed_run_is_the_same_run(sampler: str, refresh_every: int | str) -> None:
    head = head_of(sampler, refresh_every=refresh_every)
    train(head, 11)
    written = io.BytesIO()
    torch.save(head.state_dict(), written)
    twins = [copy.deepcopy(head), pickle.loads(pickle.dumps(head)), head_of(sampler, refresh_every=refresh_every)]
    written.seek(0)
    twins[2].load_state_dict(torch.load(written))
    losses = train(head, 20, first=11)
    for twin in twins:
        assert train(twin, 20, first=11) == losses


def test_another_seed_draws_otherwise() -> None:
    assert train(head_of(), 3) == train(head_of(), 3) != train(head_of(seed=1), 3)


@every_sampler
def test_sparse_gradients_train_like_dense_ones(sampler: str) -> None:
    losses = {}
    for sparse in (False, True):
        head = head_of(sampler, sparse=sparse)
        losses[sparse] = train(head, 8, optimizer=torch.optim.Adagrad(head.parameters(), lr=0.1))
        assert head.weight.grad is not None
        assert head.weight.grad.is_sparse == sparse
    np.testing.assert_allclose(losses[True], losses[False], rtol=1e-4)


def test_sparse_adam_and_clipping() -> None:
    head = head_of(sparse=True)
    optimizer = torch.optim.SparseAdam(list(head.parameters()), lr=0.01)
    before = float(head(*batch()).detach())
    for _ in range(20):
        optimizer.zero_grad()
        head(*batch()).backward()
        clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
    assert float(head(*batch()).detach()) < before


def test_gradients_touch_drawn_rows_only() -> None:
    head = head_of("uniform", size=5)
    head(*batch(shape=(2,))).backward()
    assert head.weight.grad is not None
    assert int((head.weight.grad.abs().sum(1) > 0).sum()) <= 2 * 6


def test_bfloat16() -> None:
    head = head_of("uniform", size=N)
    hidden, targets = batch()
    reference = head(hidden, targets)
    low = hidden.bfloat16().requires_grad_()
    loss = head(low, targets)
    loss.backward()
    assert (low.grad is not None and low.grad.dtype, loss.dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(loss, reference, rtol=0.02, atol=0.02)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(head(hidden, targets), reference)
    converted = head_of("sketch").to(torch.bfloat16)
    assert np.isfinite(train(converted, 5)).all()


def test_float64_follows_the_weights() -> None:
    head, twin = head_of("sketch", refresh_every=3).double(), head_of("sketch", refresh_every=3)
    for each in (head, twin):
        each.seed = 0
    losses = [float(h(x.to(h.weight.dtype), y)) for h in (head, twin) for x, y in [batch()]]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_torch_compile_leaves_the_number_alone() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.body, self.head = torch.nn.Linear(DIM, DIM), head_of()

        def forward(self, hidden: Any, targets: Any) -> Any:
            return self.head(torch.tanh(self.body(hidden)), targets)

    plain, compiled = Model(), torch.compile(Model(), backend="eager")
    for seed in range(3):
        torch.testing.assert_close(plain(*batch(seed)), compiled(*batch(seed)))


def test_nothing_to_learn_from() -> None:
    hidden, targets = batch()
    ignored = torch.full_like(targets, -100)
    for chosen in ((hidden, ignored), (hidden[:0], targets[:0])):
        assert bool(torch.isnan(head_of()(*chosen)))
        assert float(head_of(reduction="sum")(*chosen).detach()) == 0
        assert head_of(reduction="none")(*chosen).tolist() == [0.0] * len(chosen[1])


def test_ignored_targets_cost_and_change_nothing() -> None:
    hidden, targets = batch()
    kept = targets.clone()
    kept[::2] = 7
    losses = head_of("uniform", size=N, reduction="none", ignore_index=7)(hidden, kept)
    truth = F.cross_entropy(head_of().log_prob(hidden), kept, ignore_index=7, reduction="none")
    torch.testing.assert_close(losses, truth)


def test_log_z_comes_back_in_shape() -> None:
    head, (hidden, targets) = head_of("uniform", size=N), batch(shape=(2, 3))
    targets[1, 1] = -100
    loss, log_z = head(hidden, targets, return_log_z=True)
    truth = F.linear(hidden, head.weight, head.bias).logsumexp(-1) * (targets != -100)
    torch.testing.assert_close(log_z, truth)
    assert loss.shape == ()


def test_a_sampler_of_ones_own() -> None:
    def build(model: sh.LogLinear, seen: Any) -> sh.Sampler:
        assert seen.queries.shape[1] == DIM
        assert seen.frequencies.sum() > N
        return sh.Prior(model, 30, probabilities=seen.frequencies)

    head = SampledSoftmaxLoss(DIM, N, sampler=build)
    assert train(head, 10)[-1] < train(head_of(), 1)[0]
    fails(lambda: SampledSoftmaxLoss(DIM, N, sampler=build, bits=3), "bits")


def test_adaptive_refreshes_follow_the_error() -> None:
    head = head_of(refresh_every="adaptive")
    train(head, 30)
    assert 0 < head.index.refreshed < 30


def test_weights_changed_by_hand_are_seen_after_refresh() -> None:
    head, (hidden, targets) = head_of(size=30, refresh_every=1000), batch()
    head(hidden, targets)
    with torch.no_grad():
        head.weight.mul_(-8)
    head.refresh()
    hidden, targets = batch(seed=3, shape=(200,))
    exact = float(head.eval()(hidden, targets).detach())
    assert float(head.train()(hidden, targets).detach()) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize(
    ("change", "words"),
    {
        "nan": (lambda x, y: (x * float("nan"), y), ("hidden", "NaN")),
        "infinite": (lambda x, y: (x / 0, y), ("hidden", "infinity")),
        "integers": (lambda x, y: (x.long(), y), ("hidden", "int64")),
        "wrong width": (lambda x, y: (x[:, :3], y), ("hidden", "(16, 3)", "12")),
        "too large": (lambda x, y: (x, y + N), ("targets", "299")),
        "negative": (lambda x, y: (x, y - N), ("targets", "-100")),
        "float targets": (lambda x, y: (x, y.float()), ("targets", "float32", "long")),
        "fewer targets": (lambda x, y: (x, y[:3]), ("targets", "(3,)", "(16,)")),
    }.values(),
)
@pytest.mark.parametrize("mode", [True, False])
def test_wrong_input(change: Any, words: tuple[str, ...], mode: bool) -> None:
    head = head_of().train(mode)
    with pytest.raises((ValueError, TypeError, IndexError)) as raised:
        head(*change(*batch()))
    assert all(word in str(raised.value) for word in words), str(raised.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sampler": "magic"}, ("sampler", "'magic'", "sketch")),
        ({"size": 0}, ("size", "0")),
        ({"refresh_every": 0}, ("refresh_every", "0")),
        ({"refresh_every": "daily"}, ("refresh_every", "'daily'")),
        ({"reduction": "max"}, ("reduction", "'max'")),
        ({"label_smoothing": 2}, ("label_smoothing", "2")),
        ({"class_weight": torch.ones(3)}, ("class_weight", "(3,)", "300")),
    ],
)
def test_wrong_settings(settings: dict[str, Any], words: tuple[str, ...]) -> None:
    fails(lambda: SampledSoftmaxLoss(DIM, N, **settings), *words)


def test_weights_that_diverged_are_named() -> None:
    head = head_of(refresh_every=1)
    head(*batch())
    with torch.no_grad():
        head.weight[3, 3] = float("nan")
    with pytest.raises(ValueError, match="weight has NaN"):
        head(*batch())
