"""TopK: any head, however bad, leaves the estimate unbiased; better coordinates leave less to the tail."""

from __future__ import annotations

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

import naive
import softhash as sh
from cases import gaussian, queries_for
from errors import fails
from real import smollm2_head
from softhash.demo import true_log_z
from softhash.kernels import outside
from softhash.sketch import balance
from stats import assert_frequencies, assert_unbiased, rejects

MODEL = gaussian(400, 8, bias=True)
QUERIES = queries_for(MODEL, 4)


def _finding(found: NDArray, **settings) -> sh.TopK:
    """A sampler whose index finds the same classes for every query."""
    sampler = sh.TopK(MODEL, head=len(found), tail=60, index="Flat", **settings)
    sampler.found = lambda queries: np.tile(found, (len(np.asarray(queries)), 1))
    return sampler


def _ratios(sampler: sh.Sampler, model: sh.LogLinear, draws: int = 400) -> NDArray[np.float64]:
    rng, log_z = np.random.default_rng(3), naive.log_z(model, QUERIES)
    return np.exp([sampler.log_partition(QUERIES, rng=rng).log_z - log_z for _ in range(draws)])


HEADS = {
    "nothing found": np.full(30, -1),
    "some twice": np.repeat(np.arange(15), 2),
    "some missing": np.where(np.arange(30) % 3 == 0, -1, np.arange(30)),
    "the lightest": np.argsort(naive.logits(MODEL, QUERIES).mean(axis=0))[:30],
    "beyond the classes": np.arange(385, 415),
}
heads = pytest.mark.parametrize("found", HEADS.values(), ids=HEADS.keys())
priors = pytest.mark.parametrize("prior", [None, 1 / (1 + np.arange(400.0))], ids=["even", "prior"])


@heads
@priors
def test_unbiased_whatever_the_index_finds(found: NDArray, prior: NDArray | None) -> None:
    assert_unbiased(_ratios(_finding(found, probabilities=prior), MODEL, 800), power=0.02)


@heads
def test_each_class_of_the_head_is_counted_once_and_none_of_them_in_the_tail(found: NDArray) -> None:
    expected = np.unique(found[(found >= 0) & (found < 400)])
    for ids, _, log_count in naive.segments(_finding(found).sample(QUERIES, rng=0)):
        np.testing.assert_array_equal(ids[log_count == 0], expected)
        assert len(np.unique(ids)) == len(expected) + 60
        np.testing.assert_allclose(log_count[log_count < 0], np.log(60 / (400 - len(expected))), rtol=1e-6)


def test_a_head_counted_in_the_tail_too_is_noticed() -> None:
    found = np.argsort(-naive.logits(MODEL, QUERIES)[0])[:30]

    def twice(sample: sh.Sample) -> sh.Sample:
        return sample._replace(log_expected_count=np.minimum(sample.log_expected_count, -0.5))

    sampler, log_z = _finding(found), naive.log_z(MODEL, QUERIES)
    ratios = [np.exp(twice(sampler.sample(QUERIES, rng=i)).log_partition().log_z - log_z) for i in range(400)]
    assert rejects(assert_unbiased, ratios)


def test_the_tail_is_drawn_evenly_outside_the_head() -> None:
    found = np.tile([7, 3, 3, -1, 19], (4000, 1))
    _, ids, _, counts, drawn = outside.draw(found, np.arange(4000, dtype=np.uint64), 20, 5, None)
    assert (counts == 3).all()
    assert (drawn == 5).all()
    observed = np.bincount(ids, minlength=20)
    np.testing.assert_array_equal(observed[[3, 7, 19]], 4000)
    others = np.setdiff1d(np.arange(20), [3, 7, 19])
    assert_frequencies(observed[others], np.full(17, 4000 * 5 / 17))
    ranks = np.bincount(ids - np.searchsorted([3, 7, 19], ids), minlength=20)
    assert rejects(assert_frequencies, ranks[others], np.full(17, 4000 * 5 / 17))


@pytest.mark.parametrize("coordinates", ["plain", "centred", "balanced"])
def test_every_coordinate_system_finds_the_heaviest(coordinates: str) -> None:
    sampler = sh.TopK(MODEL, head=20, tail=20, index="Flat", coordinates=coordinates)
    best = np.argsort(-naive.logits(MODEL, QUERIES), axis=1)[:, :20]
    np.testing.assert_array_equal(np.sort(sampler.found(QUERIES)), np.sort(best))


def test_unbiased_when_stale() -> None:
    model = gaussian(400, 8, seed=5)
    sampler = sh.TopK(model, head=40, tail=40, index="IVF4,Flat")
    model.weights[:] = gaussian(400, 8, seed=6).weights
    assert_unbiased(_ratios(sampler, model))
    stale = sampler.found(QUERIES)
    sampler.refresh([1])
    assert not np.array_equal(stale, sampler.found(QUERIES))


def test_a_ready_index_is_used_as_it_is() -> None:
    model = gaussian(300, 8)
    index = faiss.index_factory(8, "IVF4,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(model.weights)
    index.add(model.weights)
    sampler = sh.TopK(model, head=10, tail=10, index=index, search="nprobe=4")
    np.testing.assert_array_equal(sampler.found(QUERIES), index.search(QUERIES, 10)[1])


def test_resized_shares_the_index_and_each_keeps_its_search() -> None:
    narrow = sh.TopK(gaussian(2000, 8), head=50, tail=10, index="IVF64,Flat", search="nprobe=1")
    before = narrow.found(QUERIES)
    wide = narrow.resized(50, 10, search="nprobe=64")
    exact = sh.TopK(gaussian(2000, 8), head=50, tail=10, index="Flat")
    np.testing.assert_array_equal(np.sort(wide.found(QUERIES)), np.sort(exact.found(QUERIES)))
    np.testing.assert_array_equal(narrow.found(QUERIES), before)
    assert not np.array_equal(np.sort(before), np.sort(exact.found(QUERIES)))


def test_errors() -> None:
    def topk(**settings):
        return lambda: sh.TopK(MODEL, **settings)

    fails(topk(index="Bogus"), "index", "Bogus", "HNSW32")
    fails(topk(index=3), "index", "FAISS")
    fails(topk(index=faiss.IndexFlatL2(9)), "inner product")
    fails(topk(index=faiss.IndexFlatIP(8)), "dimension 8", "9")
    fails(topk(index="Flat", search="nprobe=3"), "search", "nprobe=3", "efSearch")
    fails(topk(index="Flat", queries=QUERIES), "coordinates")
    fails(topk(index="Flat", coordinates="round"), "coordinates", "balanced")
    fails(topk(head=0), "head", "0")
    fails(topk(index="Flat", probabilities=np.zeros(400)), "probabilities")


@pytest.mark.usefixtures("one_thread")
def test_a_perfect_index_on_a_real_model() -> None:
    """Best 200 and 200 others: within 0.04 nats, and within the claimed error as often as it says."""
    weights, queries = smollm2_head()
    model, queries = sh.LogLinear(weights), queries[-256:]
    estimate = sh.TopK(model, 200, 200, "Flat").log_partition(queries, rng=0)
    away = estimate.log_z - true_log_z(model, queries)
    assert np.abs(away).mean() < 0.04
    assert (np.abs(away) < 1.96 * estimate.std_error).mean() > 0.7


def test_a_graph_finds_more_in_balanced_coordinates() -> None:
    weights, queries = smollm2_head()
    model, calibration, queries = sh.LogLinear(weights[:12_000]), queries[:1024], queries[-128:]
    best = np.argsort(-(queries @ model.weights.T), axis=1)[:, :50]

    def recall(**settings) -> float:
        found = sh.TopK(model, 50, 50, "HNSW16", search="efSearch=64", **settings).found(queries)
        return float(np.mean([np.isin(*pair).mean() for pair in zip(best, found, strict=True)]))

    assert recall(coordinates="balanced", queries=calibration) > recall() + 0.1


def test_balanced_coordinates_leave_inner_products_alone() -> None:
    rng = np.random.default_rng(0)
    typical = queries_for(MODEL, 200) * np.linspace(0.2, 3, 8, dtype=np.float32)
    fitted = balance.fit(MODEL, balance.query_moments(typical, 8))
    x = rng.standard_normal((3, 8))
    np.testing.assert_allclose(
        (x @ fitted.for_queries) @ (MODEL.weights @ fitted.for_classes).T, x @ MODEL.weights.T, atol=1e-4
    )
