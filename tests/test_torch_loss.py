"""The sampled loss: equal to the softmax loss where everything is drawn, right in its gradients, honest on average."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naive
import softhash as sh
from errors import fails
from softhash.kernels import pairs as kernels
from softhash.synthetic import lm_like

torch = pytest.importorskip("torch")
F = torch.nn.functional

from softhash.torch import SampledSoftmaxLoss, clip_grad_norm_, sampled_softmax_loss  # noqa: E402
from softhash.torch import pairs as torch_pairs  # noqa: E402
from softhash.torch.pairs import Room  # noqa: E402

N, DIM, QUERIES = 50, 7, 9
SETTINGS: dict[str, dict[str, Any]] = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "class weights": {"class_weight": True},
    "smoothed": {"label_smoothing": 0.1},
    "smoothed, class weights": {"label_smoothing": 0.1, "class_weight": True},
}
every_setting = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())


def problem(dtype: Any = torch.float32, seed: int = 0) -> tuple[Any, ...]:
    """(hidden, weight, bias, targets), the first three to be differentiated."""
    made = torch.Generator().manual_seed(seed)
    parts = [torch.randn(*shape, generator=made, dtype=dtype) for shape in ((QUERIES, DIM), (N, DIM), (N,))]
    return *(part.requires_grad_() for part in parts), torch.randint(0, N, (QUERIES,), generator=made)


def drawn(hidden: Any, weight: Any, bias: Any, size: int) -> sh.Sample:
    model = sh.LogLinear(weight.detach().numpy(), bias.detach().numpy())
    return sh.Uniform(model, size=size).sample(hidden.detach().numpy(), rng=0)


@every_setting
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_everything_drawn_is_the_softmax_loss(settings: dict[str, Any], dtype: Any) -> None:
    hidden, weight, bias, targets = problem(dtype)
    ours, theirs = dict(settings), dict(settings)
    if theirs.pop("class_weight", None):
        ours["class_weight"] = theirs["weight"] = torch.rand(N, dtype=dtype)
    loss = sampled_softmax_loss(hidden, weight, bias, targets, drawn(hidden, weight, bias, N), **ours).loss
    truth = F.cross_entropy(hidden @ weight.T + bias, targets, **theirs)
    torch.testing.assert_close(loss, truth)
    found, wanted = (torch.autograd.grad(value.sum(), (hidden, weight, bias)) for value in (loss, truth))
    torch.testing.assert_close(found, wanted)


@every_setting
def test_gradcheck(settings: dict[str, Any]) -> None:
    hidden, weight, bias, targets = problem(torch.float64)
    sample = drawn(hidden, weight, bias, 12)
    if settings.get("class_weight"):
        settings = settings | {"class_weight": torch.rand(N, dtype=torch.float64)}

    def loss(hidden: Any, weight: Any, bias: Any) -> Any:
        return tuple(sampled_softmax_loss(hidden, weight, bias, targets, sample, **settings))

    assert torch.autograd.gradcheck(loss, (hidden, weight, bias))


def test_kernels_and_torch_operations_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight, bias, targets = problem()
    sample = drawn(hidden, weight, bias, 12)

    def gradients(sparse: bool) -> list[Any]:
        loss = sampled_softmax_loss(hidden, weight, bias, targets, sample, sparse=sparse).loss
        found = [loss, *torch.autograd.grad(loss, (hidden, weight, bias))]
        return [part.detach().to_dense() for part in found]

    results = [gradients(False), gradients(True)]
    monkeypatch.setattr(torch_pairs, "compiled", lambda *tensors: False)
    monkeypatch.setattr(torch_pairs, "ELEMENTS_PER_BLOCK", 64)
    results += [gradients(False), gradients(True)]
    for result in results[1:]:
        for found, wanted in zip(result, results[0], strict=True):
            torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("dense", [True, False])
def test_gradient_kernels_are_the_loops(dense: bool) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 9, 30)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ids = rng.integers(0, 20, offsets[-1]).astype(np.int32)
    g, x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((len(ids),), (30, 5), (20, 5)))
    for_classes, for_bias, for_queries = naive.pair_gradients(g, x, w, offsets, ids)
    found = kernels.gradients(g, x, w, offsets, ids, np.full((20, 5), np.nan, np.float32) if dense else None)
    where = np.arange(20) if dense else found.classes
    np.testing.assert_allclose(found.rows, for_classes[where], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.bias, for_bias[where], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.queries, for_queries, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n_pairs", [0, 1, 3])
def test_gradients_of_few_pairs(n_pairs: int) -> None:
    offsets, ids = np.array([0, n_pairs]), np.full(n_pairs, 7, np.int32)
    g, x, w = np.ones(n_pairs, np.float32), np.ones((1, 3), np.float32), np.ones((9, 3), np.float32)
    found = kernels.gradients(g, x, w, offsets, ids, np.full((9, 3), np.nan, np.float32))
    np.testing.assert_array_equal(found.rows, n_pairs * (np.arange(9) == 7)[:, None] * np.ones((1, 3)))
    np.testing.assert_array_equal(found.queries, np.full((1, 3), n_pairs))


def test_room_is_given_again_once_it_is_free() -> None:
    room = Room()
    first = torch.from_numpy(room.array((4, 2)))
    second = torch.from_numpy(room.array((4, 2)))
    assert first.data_ptr() != second.data_ptr()
    address = second.data_ptr()
    view = second.detach()[1:]
    del second
    assert room.array((4, 2)).ctypes.data != address
    del first, view
    address = room.array((4, 2)).ctypes.data
    assert room.array((4, 2)).ctypes.data == address
    assert room.array((5, 2)).shape == (5, 2)


def test_log_z_is_differentiable() -> None:
    hidden, weight, bias, targets = problem()
    loss, log_z = sampled_softmax_loss(hidden, weight, bias, targets, drawn(hidden, weight, bias, N))
    (ours,) = torch.autograd.grad(loss + 0.1 * log_z.square().mean(), hidden)
    logits = hidden @ weight.T + bias
    truth = F.cross_entropy(logits, targets) + 0.1 * logits.logsumexp(1).square().mean()
    torch.testing.assert_close(ours, torch.autograd.grad(truth, hidden)[0])


def test_a_cap_on_weights_lowers_log_z() -> None:
    hidden, weight, bias, targets = problem()
    sample = drawn(hidden, weight, bias, 5)
    plain, capped = (
        sampled_softmax_loss(hidden, weight, bias, targets, sample, largest_weight=cap).log_z for cap in (None, 2.0)
    )
    assert bool((capped < plain).all())
    fails(lambda: sampled_softmax_loss(hidden, weight, bias, targets, sample, largest_weight=0.5), "largest_weight")


def mean_gradient(head: Any, hidden: Any, targets: Any, draws: int, break_it: bool = False) -> Any:
    """The mean of the weight's gradient over fresh draws; broken: as if every class had been drawn with certainty."""
    total = 0
    for seed in range(draws):
        queries = hidden.numpy()
        head.index.step = seed
        sample, _ = head.index.sample(head.weight, head.bias, queries, targets.numpy())
        if break_it:
            sample = sample._replace(log_expected_count=np.zeros_like(sample.log_expected_count))
        loss = sampled_softmax_loss(hidden, head.weight, head.bias, targets, sample).loss
        total = total + torch.autograd.grad(loss, head.weight)[0]
    return total / draws


def test_the_gradient_averages_to_the_exact_one() -> None:
    model, queries = lm_like(2000, 32, 48)
    head = SampledSoftmaxLoss(32, 2000, size=50, refresh_every=10_000)
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(model.weights))
        torch.nn.init.zeros_(head.get_parameter("bias"))
    hidden, targets = torch.from_numpy(queries[:16]), torch.arange(16) * 100
    exact = torch.autograd.grad(F.cross_entropy(hidden @ head.weight.T, targets), head.weight)[0]

    def cosine(gradient: Any) -> float:
        return float(F.cosine_similarity(gradient.flatten(), exact.flatten(), dim=0))

    assert cosine(mean_gradient(head, hidden, targets, 200)) > 0.999
    assert cosine(mean_gradient(head, hidden, targets, 200, break_it=True)) < 0.998


def test_clipping_is_that_of_pytorch() -> None:
    hidden, weight, bias, targets = problem()
    sample = drawn(hidden, weight, bias, 12)

    def leaves() -> list[Any]:
        return [torch.nn.Parameter(part.detach().clone()) for part in (weight, bias)]

    norms = []
    for sparse in (False, True):
        parameters = leaves()
        sampled_softmax_loss(
            hidden.detach(), parameters[0], parameters[1], targets, sample, sparse=sparse
        ).loss.backward()
        before = clip_grad_norm_(parameters, 0.01)
        norms.append((float(before), [p.grad.to_dense() for p in parameters if p.grad is not None]))
    reference = leaves()
    sampled_softmax_loss(hidden.detach(), reference[0], reference[1], targets, sample).loss.backward()
    wanted = float(torch.nn.utils.clip_grad_norm_(reference, 0.01))
    for norm, gradients in norms:
        assert norm == pytest.approx(wanted, rel=1e-5)
        for found, parameter in zip(gradients, reference, strict=True):
            torch.testing.assert_close(found, parameter.grad)
    assert float(clip_grad_norm_([torch.nn.Parameter(torch.ones(2))], 1.0)) == 0


def test_mismatched_arguments() -> None:
    hidden, weight, bias, targets = problem()
    sample = drawn(hidden, weight, bias, 5)
    fails(lambda: sampled_softmax_loss(hidden, weight, bias, targets[:-1], sample), "targets", "8", "9")
    fails(lambda: sampled_softmax_loss(hidden[:-1], weight, bias, targets[:-1], sample), "sample", "9", "8")
    fails(lambda: sampled_softmax_loss(hidden, weight, bias, targets, sample, reduction="max"), "reduction", "'max'")
