"""PriorityGumbel against plain loops, and how its error falls with its size."""

from __future__ import annotations

import numpy as np
import pytest

import naive
import softhash as sh
from cases import gaussian, queries_for
from errors import fails
from softhash.demo import true_log_z
from test_gumbel import three_models

SIZES = (50, 200, 800)


@pytest.mark.parametrize("size", [1, 7, 60, 399])
@pytest.mark.parametrize("scale", [0, 1, 1e4])
def test_it_is_priority_sampling(size: int, scale: float) -> None:
    model = gaussian(400, 6, bias=True)
    queries = scale * queries_for(model)
    estimator = sh.PriorityGumbel(model, size)
    expected = naive.priority_log_z(naive.logits(model, queries), -estimator._boost.astype(np.float64), size)
    np.testing.assert_allclose(estimator.log_partition(queries).log_z, expected, rtol=1e-6, atol=1e-5)


def test_equal_keys_are_all_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = sh.LogLinear(np.zeros((500, 3)))
    estimator = sh.PriorityGumbel(model, 20)
    monkeypatch.setattr(estimator, "_boost", np.zeros(500, np.float32))
    assert np.isclose(estimator.log_partition(np.ones((1, 3))).log_z[0], np.log(20))


@pytest.mark.parametrize("size", [30, 31])
def test_every_class_is_exact(size: int) -> None:
    model = gaussian(30, 4)
    estimate = sh.PriorityGumbel(model, size).log_partition(queries_for(model))
    np.testing.assert_allclose(estimate.log_z, naive.log_z(model, queries_for(model)), atol=1e-5)
    assert (estimate.std_error == 0).all()


@three_models
def test_error_falls_with_size_and_is_below_exact_gumbel(make) -> None:
    model, queries = make()
    truth = true_log_z(model, queries)

    def error(size: int) -> float:
        found = [sh.PriorityGumbel(model, size, rng=seed).log_partition(queries).log_z - truth for seed in range(8)]
        return float(np.abs(found).mean())

    errors = np.array([error(size) for size in SIZES])
    assert (errors < 0.8 / np.sqrt(SIZES)).all()
    assert (errors[1:] < 0.6 * errors[:-1]).all()
    rival = np.abs(sh.ExactGumbel(model).log_partition(queries, rng=0).log_z - truth).mean()
    assert errors[1] < rival


def test_refresh_draws_anew_and_follows_weights() -> None:
    model = gaussian(600, 6)
    estimator, queries = sh.PriorityGumbel(model, 40, "Flat"), queries_for(model)
    before = estimator.log_partition(queries).log_z
    np.testing.assert_array_equal(estimator.log_partition(queries).log_z, before)
    model.weights[:] += 1
    estimator.refresh()
    after = estimator.log_partition(queries).log_z
    assert (after != before).all()
    assert np.abs(after - naive.log_z(model, queries)).max() < 0.6


@pytest.mark.parametrize("bias", [True, False])
def test_a_flat_index_is_exact_search(bias: bool) -> None:
    model = gaussian(3000, 16, bias=bias)
    queries = queries_for(model, 20)
    exact, flat, graph = (
        sh.PriorityGumbel(model, 100, index, search=search).log_partition(queries)
        for index, search in ((None, None), ("Flat", None), ("HNSW32", "efSearch=800"))
    )
    for mine, other in zip(exact[:2], flat[:2], strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-5)
    assert (flat.evaluations == 101).all()
    assert np.abs(graph.log_z - exact.log_z).mean() < 0.1


def test_an_index_that_finds_too_few_still_answers() -> None:
    model = gaussian(400, 8)
    estimate = sh.PriorityGumbel(model, 200, "IVF40,Flat", search="nprobe=1").log_partition(queries_for(model))
    assert np.isfinite(estimate.log_z).all()
    assert (estimate.evaluations < 100).all()


def test_wrong_settings_are_refused() -> None:
    model = gaussian(50, 4)
    fails(lambda: sh.PriorityGumbel(model, 0), "size is 0")
    fails(lambda: sh.PriorityGumbel(model, 5, "Flatt"), "index is 'Flatt'", "HNSW32")
    fails(lambda: sh.PriorityGumbel(model, 5, search="nprobe=4"), "search is 'nprobe=4'", "pass index")
    fails(lambda: sh.PriorityGumbel(model, 5, "Flat", search="speed=4"), "search is 'speed=4'")
