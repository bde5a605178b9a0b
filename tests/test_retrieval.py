"""The most probable classes: exactly, through samplers, and the recall that is reported."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import naive
import softhash as sh
from cases import Case, every_sampler, gaussian, queries_for, sampler_of
from errors import fails

MODEL = gaussian(5000, 12, bias=True)
QUERIES = 3 * queries_for(MODEL, 40)


def best(model: sh.LogLinear, queries: NDArray, k: int) -> NDArray:
    return np.argsort(-naive.logits(model, queries), axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("k", [1, 7, 300, 5000])
def test_exact(k: int) -> None:
    found = sh.top_k(sh.Exact(MODEL), QUERIES, k)
    logits = naive.logits(MODEL, QUERIES)
    expected = np.take_along_axis(logits, best(MODEL, QUERIES, k), axis=1) - naive.log_z(MODEL, QUERIES)[:, None]
    np.testing.assert_allclose(found.log_prob, expected, atol=2e-5)
    np.testing.assert_allclose(np.take_along_axis(logits, found.ids, axis=1), expected
                               + naive.log_z(MODEL, QUERIES)[:, None], atol=1e-5)  # fmt: skip
    assert found.recall == 1
    assert (found.ids.dtype, found.log_prob.dtype) == (np.int32, np.float64)


def test_equal_classes_come_in_order() -> None:
    found = sh.top_k(sh.LogLinear(np.zeros((5000, 2))), np.ones((2, 2)), 4)
    np.testing.assert_array_equal(found.ids, [[0, 1, 2, 3]] * 2)


def test_more_classes_than_fit_one_pass() -> None:
    many = np.tile(QUERIES, (30, 1))
    np.testing.assert_array_equal(sh.top_k(MODEL, many, 3).ids, np.tile(sh.top_k(MODEL, QUERIES, 3).ids, (30, 1)))


@every_sampler
def test_a_sampler_gives_the_best_it_draws(case: Case) -> None:
    model = gaussian(600, 12, bias=True)
    sampler = sampler_of(case, model)
    found = sh.top_k(sampler, QUERIES, 5, rng=2)
    sample = sampler.sample(QUERIES, rng=2)
    log_z = sample.log_partition().log_z
    for q, (ids, logits, _) in enumerate(naive.segments(sample)):
        unique, first = np.unique(ids, return_index=True)
        order = np.argsort(-logits[first], kind="stable")[:5]
        np.testing.assert_array_equal(found.ids[q, : len(order)], unique[order])
        np.testing.assert_allclose(found.log_prob[q, : len(order)], logits[first][order] - log_z[q], atol=1e-6)
        assert (found.ids[q, len(order) :] == -1).all()
    truth = best(model, QUERIES, 5)
    recall = np.mean([np.isin(*pair).mean() for pair in zip(truth, found.ids, strict=True)])
    checked = sh.top_k(sampler, QUERIES, 5, rng=2, check=len(QUERIES)).recall
    np.testing.assert_allclose(checked, recall)


def test_recall_is_one_for_a_perfect_index_and_nan_unless_checked() -> None:
    sampler = sh.TopK(MODEL, 20, 20, "Flat")
    assert sh.top_k(sampler, QUERIES, 10, rng=0).recall == 1
    assert np.isnan(sh.top_k(sampler, QUERIES, 10, rng=0, check=0).recall)
    assert sh.top_k(sh.Uniform(MODEL, 20), QUERIES, 10, rng=0).recall < 0.1


def test_what_is_not_found_is_minus_one() -> None:
    found = sh.top_k(sh.Uniform(MODEL, 3), QUERIES, 5, rng=0)
    assert (found.ids[:, 3:] == -1).all()
    assert np.isneginf(found.log_prob[:, 3:]).all()
    assert (found.ids[:, :3] >= 0).all()


def test_errors() -> None:
    fails(lambda: sh.top_k(MODEL, QUERIES, 0), "k is 0")
    fails(lambda: sh.top_k(MODEL, QUERIES, 5001), "k is 5001", "5000")
    fails(lambda: sh.top_k(None, QUERIES, 1), "NoneType", "sampler")  # type: ignore[arg-type]
