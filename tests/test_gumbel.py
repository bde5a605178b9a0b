"""ExactGumbel and MipsGumbel against plain loops, and what they promise on average."""

from __future__ import annotations

import numpy as np
import pytest
from experiments import data
from numpy.typing import NDArray

import naive
import softhash as sh
from cases import gaussian, queries_for
from errors import fails
from softhash.demo import true_log_z
from softhash.kernels import gumbel
from softhash.synthetic import lm_like
from stats import assert_unbiased, rejects


def peaked() -> tuple[sh.LogLinear, NDArray]:
    model = gaussian(700, 6, bias=True)
    return model, 12 * queries_for(model)


def flat() -> tuple[sh.LogLinear, NDArray]:
    return sh.LogLinear(np.zeros((300, 3))), np.ones((4, 3), np.float32)


def far_apart() -> tuple[sh.LogLinear, NDArray]:
    """Logits up to 1e4 apart: the second largest is out of the range of exp."""
    model = sh.LogLinear(np.linspace(-1, 1, 40)[:, None] * np.ones(4))
    return model, np.full((2, 4), 2500, np.float32) * [[1], [-1]]


def few(n: int) -> tuple[sh.LogLinear, NDArray]:
    model = gaussian(n, 4)
    return model, queries_for(model)


MODELS = {"peaked": peaked, "flat": flat, "far apart": far_apart, "one": lambda: few(1), "three": lambda: few(3)}
models = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())


@models
@pytest.mark.parametrize("rank", [1, 2])
def test_exact_gumbel_is_exact(make, rank: int) -> None:
    model, queries = make()
    if rank > model.n_classes:
        fails(lambda: sh.ExactGumbel(model, rank=rank), "rank is 2", "between 1 and 1")
        return
    estimator = sh.ExactGumbel(model, draws=12, bank=12, rank=rank, rng=3)
    noise = naive.gumbel_noise(estimator._seeds, model.n_classes)
    perturbed = [[row + column for column in noise] for row in naive.logits(model, queries)]
    expected = naive.gumbel_log_z(perturbed, rank)
    np.testing.assert_allclose(estimator.log_partition(queries, rng=0).log_z, expected, rtol=1e-6, atol=1e-5)


def test_short_lists_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a list ends before a maximum is certain, every class is tried."""
    model, queries = peaked()
    expected = sh.ExactGumbel(model, draws=40, bank=40).log_partition(queries, rng=0).log_z
    monkeypatch.setattr("softhash.gumbel.LIST_LENGTH", 0)
    found = sh.ExactGumbel(model, draws=40, bank=40)
    monkeypatch.setattr(found, "_earliest", found._earliest[:, :2])
    np.testing.assert_array_equal(found.log_partition(queries, rng=0).log_z, expected)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("listed", [3, 60])
def test_maxima_name_their_classes(rank: int, listed: int) -> None:
    """Among all classes and among those that share a code; with lists that end too soon and that do not."""
    model = gaussian(400, 6)
    queries = queries_for(model, 7)
    logits, rng = naive.logits(model, queries).astype(np.float32), np.random.default_rng(0)
    seeds = rng.integers(0, 2**63, 5).astype(np.uint64)
    columns, noise = np.tile(np.arange(5, dtype=np.int32), (7, 1)), naive.gumbel_noise(seeds, 400)
    projections, planes = (rng.standard_normal((n, 6)).astype(np.float32) for n in (7, 5))
    for codes in (np.empty((400, 0), np.uint8), rng.integers(0, 4, (400, 3)).astype(np.uint8)):
        width = 2 * codes.shape[1]
        values, classes = gumbel.maxima(
            logits, columns, seeds, gumbel.earliest(seeds, 400, listed), codes, projections[:, :width],
            planes[:, :width].copy(), 2, rank,
        )  # fmt: skip
        for q in range(7):
            for j in range(5):
                bits = (projections[q, :width] + planes[j, :width] > 0).reshape(-1, 2) @ [1, 2]
                found = np.flatnonzero((codes == bits).any(1)) if width else np.arange(400)
                perturbed = (logits[q] + noise[j])[found]
                wanted = found[np.argsort(-perturbed)[rank - 1]]
                assert classes[q, j] == wanted
                assert abs(values[q, j] - np.sort(perturbed)[-rank]) < 1e-5


def test_inverse_is_unbiased_and_knows_its_error() -> None:
    """1/Ẑ averages to 1/Z over banks; Ẑ itself is too large by draws/(draws − 1), and the check sees it."""
    model, draws = gaussian(400, 8), 8
    queries = queries_for(model)
    truth, inverse, claimed = naive.log_z(model, queries), [], []
    for seed in range(2500):
        estimate = sh.ExactGumbel(model, draws, draws, rng=seed).log_partition(queries, rng=0)
        inverse.append(np.exp(truth - estimate.log_z))
        claimed.append(estimate.std_error * inverse[-1])
    assert_unbiased(inverse)
    assert rejects(assert_unbiased, 1 / np.array(inverse))
    actual = np.std(inverse, axis=0, ddof=1)
    assert np.isclose(np.sqrt(np.mean(np.square(claimed), axis=0)) / actual, 1, atol=0.1).all()


def smollm2() -> tuple[sh.LogLinear, NDArray]:
    try:
        problem = data.smollm2()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    return problem.model, problem.queries[:64]


def language_model() -> tuple[sh.LogLinear, NDArray]:
    return lm_like(3000, 32, 64)


REAL = {"Gaussian": lambda: (gaussian(), queries_for(gaussian(), 64)), "lm_like": language_model, "SmolLM2": smollm2}
three_models = pytest.mark.parametrize("make", REAL.values(), ids=REAL.keys())


@three_models
def test_error_depends_on_draws_alone(make) -> None:
    model, queries = make()
    truth = true_log_z(model, queries)
    for draws, bank in ((50, 1000), (200, 1000)):
        errors = [
            np.abs(sh.ExactGumbel(model, draws, bank, rng=seed).log_partition(queries, rng=seed).log_z - truth).mean()
            for seed in range(8)
        ]
        assert np.isclose(np.mean(errors) * np.sqrt(draws), 0.8, rtol=0.15)


@three_models
def test_second_largest_is_far_off(make) -> None:
    model, queries = make()
    truth = true_log_z(model, queries)
    first, second = (sh.ExactGumbel(model, 200, rank=rank).log_partition(queries, rng=0).log_z for rank in (1, 2))
    assert (second < first).all()
    assert np.abs(second - truth).mean() > 5 * np.abs(first - truth).mean()


def naive_mips(estimator: sh.MipsGumbel, queries: NDArray) -> NDArray[np.float64]:
    """Hash (θ, b, G) and (x, 1, e_j), unite buckets, take maxima; every column is drawn."""
    model, planes = estimator.model, np.vstack([estimator._planes, estimator._column_planes])
    noise = naive.gumbel_noise(estimator._seeds, model.n_classes).astype(np.float32)
    bias = [] if model.bias is None else [model.bias]
    class_codes = naive.codes(np.column_stack([model.weights, *bias, *noise]) @ planes, estimator.bits)
    perturbed = []
    for x, row in zip(queries, naive.logits(model, queries), strict=True):
        one = [] if model.bias is None else [np.ones(estimator.bank)]
        wide = np.column_stack([np.tile(x, (estimator.bank, 1)), *one, np.eye(estimator.bank)])
        sets = naive.union(class_codes, naive.codes(wide.astype(np.float32) @ planes, estimator.bits))
        perturbed.append([(row + column)[sorted(found)] for found, column in zip(sets, noise, strict=True)])
    return naive.gumbel_log_z(perturbed)


@pytest.mark.parametrize(
    ("bits", "tables", "dense"), [(2, 6, True), (5, 16, True), (9, 1, False), (13, 2, False), (28, 1, False)]
)
@pytest.mark.parametrize("bias", [True, False])
def test_mips_gumbel_is_the_maximum_over_buckets(bits: int, tables: int, dense: bool, bias: bool) -> None:
    """By matrix product, by buckets, and where buckets are empty."""
    model = gaussian(500, 6, bias=bias)
    queries = queries_for(model, 5)
    estimator = sh.MipsGumbel(model, 4, bits, tables, rng=1, bank=4)
    assert estimator._dense == dense
    estimate = estimator.log_partition(queries, rng=0)
    np.testing.assert_allclose(estimate.log_z, naive_mips(estimator, queries), atol=1e-5)
    assert (estimate.evaluations == 500).all() if dense else (estimate.evaluations < 60).all()
    np.testing.assert_array_equal(np.isneginf(estimate.log_z), estimate.evaluations == 0)
    assert np.isneginf(estimate.log_z).any() or bits < 28


def test_both_ways_find_the_same_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    model = gaussian(2000, 8, bias=True)
    queries = queries_for(model, 40)
    by_product = sh.MipsGumbel(model, 20, 4, 8).log_partition(queries, rng=0)
    monkeypatch.setattr("softhash.gumbel.WORTH_A_PRODUCT", 1.0)
    by_bucket = sh.MipsGumbel(model, 20, 4, 8).log_partition(queries, rng=0)
    np.testing.assert_allclose(by_bucket.log_z, by_product.log_z, atol=1e-5)
    assert (by_bucket.evaluations <= 2000).all()


@three_models
def test_mips_gumbel_is_biased_and_improves_with_tables(make) -> None:
    model, queries = make()
    truth = true_log_z(model, queries)
    away = [
        (sh.MipsGumbel(model, 200, tables=tables).log_partition(queries, rng=0).log_z - truth) for tables in (2, 8, 64)
    ]
    errors = [np.abs(each).mean() for each in away]
    assert away[1].mean() < -0.3
    assert errors[0] > errors[1] > errors[2]


def test_mips_gumbel_refreshes() -> None:
    model = gaussian(300, 6)
    estimator = sh.MipsGumbel(model, 10, bank=10)
    model.weights[:] = gaussian(300, 6, seed=9).weights
    estimator.refresh()
    again = sh.MipsGumbel(model, 10, bank=10)
    for mine, other in zip(*(e.log_partition(queries_for(model), rng=0) for e in (estimator, again)), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_wrong_settings_are_refused() -> None:
    model = gaussian(20, 4)
    fails(lambda: sh.ExactGumbel(model, draws=11, bank=10), "draws is 11", "between 1 and 10")
    fails(lambda: sh.ExactGumbel(model, rank=3), "rank is 3", "between 1 and 2")
    fails(lambda: sh.MipsGumbel(model, draws=0), "draws is 0")
    fails(lambda: sh.MipsGumbel(model, bits=31), "bits is 31")
