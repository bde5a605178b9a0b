"""The sketch sampler: what it draws with which probability, at any shape, fresh, stale, refreshed and loaded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import naive
import softhash as sh
from cases import gaussian, queries_for
from stats import assert_unbiased, rejects

pytestmark = pytest.mark.usefixtures("one_thread")
SIZE, DRAWS = 40, 2000
DESIGNS: dict[str, dict] = {
    "first look": {},
    "every code": {"clusters": 0},
    "tiles": {"clusters": 1, "probes": 2},
    "clusters": {"clusters": 7, "probes": 2},
    "poisson": {"clusters": 0, "design": "poisson"},
    "poisson tiles": {"clusters": 1, "probes": 1, "design": "poisson"},
    "poisson clusters": {"clusters": 7, "probes": 2, "design": "poisson"},
    "replicates": {"replicates": 5},
    "replicates tiles": {"clusters": 1, "probes": 2, "replicates": 5},
    "replicates clusters": {"clusters": 7, "probes": 2, "replicates": 5},
}
every_design = pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS.keys())
every_grouping = pytest.mark.parametrize("clusters", [0, 1, 6], ids=["every code", "first look", "clusters"])


def ratios(sampler: sh.Sampler, queries: NDArray, draws: int = DRAWS) -> NDArray[np.float64]:
    """Ẑ/Z of shape (draws, queries): one index, fresh draws."""
    log_z = sampler.log_partition(np.tile(queries, (draws, 1)), rng=1).log_z.reshape(draws, -1)
    return np.exp(log_z - naive.log_z(sampler.model, queries))


class Drawn(NamedTuple):
    """Per class: how often one query drew it, and the count it was said to expect (nan where never drawn)."""

    sizes: NDArray[np.int64]
    hits: NDArray[np.int64]
    expected: NDArray[np.float64]


def drawn(sampler: sh.Sampler, query: NDArray, draws: int = DRAWS) -> Drawn:
    sample = sampler.sample(np.tile(query, (draws, 1)), rng=3)
    n = sampler.model.n_classes
    expected = np.full(n, np.nan)
    expected[sample.ids] = np.exp(sample.log_expected_count.astype(np.float64))
    np.testing.assert_allclose(np.exp(sample.log_expected_count), expected[sample.ids], rtol=1e-3)
    return Drawn(np.diff(sample.offsets), np.bincount(sample.ids, minlength=n), expected)


def assert_drawn_as_expected(hits: NDArray, expected: NDArray, draws: int = DRAWS) -> None:
    """Each class within 5 standard deviations of a count no more variable than Poisson's."""
    seen = hits > 0
    away = (hits - draws * expected)[seen] / np.sqrt(draws * expected[seen])
    assert np.abs(away).max() <= 5, f"class {np.flatnonzero(seen)[np.abs(away).argmax()]} is {away} deviations off"
    assert (hits[expected == 1] >= draws).all()


@every_design
def test_classes_are_drawn_as_often_as_expected(design: dict) -> None:
    model = gaussian(200, 16, bias=True)
    found = drawn(sh.Sketch(model, SIZE, **design), 2 * queries_for(model, 1))
    assert_drawn_as_expected(found.hits, found.expected)
    assert rejects(assert_drawn_as_expected, found.hits, found.expected * 0.75)


@pytest.mark.parametrize("n", [63, 64, 65, 128, 200])
@pytest.mark.parametrize("clusters", [0, 1], ids=["every code", "first look"])
def test_expected_counts_add_up_to_the_size(n: int, clusters: int) -> None:
    """N a multiple of 64 or not, no class is forgotten, none invented."""
    model = gaussian(n, 16, bias=True)
    found = drawn(sh.Sketch(model, SIZE, clusters=clusters), queries_for(model, 1))
    assert (found.hits > 0).all()
    assert found.expected.sum() == pytest.approx(SIZE, rel=1e-3)


@every_design
def test_sample_sizes(design: dict) -> None:
    """One systematic draw is off by rounding only, R of them by at most R, a Poisson draw by its own spread.

    Poisson draws are a little fewer: a class hit twice by the process is drawn once.
    """
    model = gaussian(700, 16)
    sampler = sh.Sketch(model, SIZE, **design)
    sizes = np.diff(sampler.sample(np.tile(queries_for(model), (DRAWS // 8, 1)), rng=0).offsets)
    if design.get("design") == "poisson":
        assert 0.9 * SIZE <= sizes.mean() <= 1.02 * SIZE
        assert 0.5 * SIZE <= sizes.var() <= 1.2 * SIZE
    else:
        assert np.abs(sizes - SIZE).max() <= design.get("replicates", 1)


@every_grouping
@pytest.mark.parametrize("dim", [1, 3, 17, 64, 65, 100])
def test_any_dimension(dim: int, clusters: int) -> None:
    model = gaussian(333, dim, bias=True)
    queries = queries_for(model, 3)
    for calibration in (None, queries_for(model, 50, seed=7)):
        assert_unbiased(ratios(sh.Sketch(model, SIZE, calibration, clusters), queries, 500))


@pytest.mark.parametrize("rank", [1, 8, 13, 40])
@every_grouping
def test_any_rank(rank: int, clusters: int) -> None:
    """With every coordinate kept there is nothing left to sketch, and more kept is better."""
    model = gaussian(1000, 40)
    queries = queries_for(model, 6)
    kept = ratios(sh.Sketch(model, SIZE, clusters=clusters, probes=6, rank=rank), queries)
    assert_unbiased(kept)
    if rank == 40:
        assert kept.std() < 0.5 * ratios(sh.Sketch(model, SIZE, clusters=clusters, probes=6, rank=1), queries).std()


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_any_query_bits(bits: int) -> None:
    model = gaussian(500, 70)
    assert_unbiased(ratios(sh.Sketch(model, SIZE, clusters=0, rank=6, query_bits=bits), queries_for(model)))


def heavy_tailed() -> sh.LogLinear:
    """Norms over three orders of magnitude."""
    model = gaussian(400, 12)
    return sh.LogLinear(model.weights * np.random.default_rng(0).pareto(1.5, (400, 1)).astype(np.float32) / 3)


def repeated() -> sh.LogLinear:
    """Five rows, eighty times each, and forty zero rows."""
    return sh.LogLinear(np.concatenate([np.tile(gaussian(5, 12).weights, (72, 1)), np.zeros((40, 12))]))


def one_among_zeros() -> sh.LogLinear:
    weights = np.zeros((400, 12), np.float32)
    weights[399] = 2
    return sh.LogLinear(weights)


@pytest.mark.parametrize("make", [heavy_tailed, repeated, one_among_zeros])
@every_design
def test_awkward_classes(make, design: dict) -> None:
    model = make()
    queries = np.concatenate([queries_for(model, 4), np.zeros((1, 12), np.float32)])
    for column in ratios(sh.Sketch(model, SIZE, queries_for(model, 30, seed=5), **design), queries, 1500).T:
        assert_unbiased(column, power=0.1)


@pytest.mark.parametrize("scale", [1e4, -1e4, 1e-4])
@every_grouping
def test_logits_of_any_size(clusters: int, scale: float) -> None:
    """One class holds all the mass, tens of nats ahead of the next; or all hold the same.

    Unopened clusters are guessed from their variance, which says nothing a thousand nats out: with them log Ẑ may be
    far below, and must still be a number.
    """
    model = sh.LogLinear(np.linspace(-1, 1, 300)[:, None] * np.ones(4) / 4)
    queries = scale * np.array([np.ones(4), -np.ones(4)])
    estimate = sh.Sketch(model, SIZE, clusters=clusters, probes=2).log_partition(queries, rng=0)
    truth = naive.log_z(model, queries)
    assert np.isfinite(estimate.log_z).all()
    assert (estimate.log_z <= truth + 10).all()
    if clusters <= 1 or abs(scale) < 1:
        np.testing.assert_allclose(estimate.log_z, truth, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("size", [60, 61, 10_000])
@every_grouping
def test_a_size_of_every_class_is_exact(size: int, clusters: int) -> None:
    model = gaussian(60, 6, bias=True)
    queries = queries_for(model)
    estimate = sh.Sketch(model, size, clusters=clusters).log_partition(queries, rng=0)
    np.testing.assert_allclose(estimate.log_z, naive.log_z(model, queries), atol=1e-5)
    assert (estimate.std_error == 0).all()
    assert (estimate.evaluations == 60).all()


@pytest.mark.parametrize("n", [2, 3, 41, 42])
@every_grouping
def test_just_under_every_class(n: int, clusters: int) -> None:
    model = gaussian(n, 6)
    assert_unbiased(ratios(sh.Sketch(model, n - 1, clusters=min(clusters, n)), queries_for(model)), power=0.05)


def test_a_size_of_one() -> None:
    model = gaussian(300, 16)
    assert_unbiased(ratios(sh.Sketch(model, 1, clusters=0), queries_for(model)), power=0.05)


def moved(seed: int = 0, distance: float = 0.7) -> tuple[sh.LogLinear, NDArray[np.float32]]:
    """A peaked model, and by how much its weights are about to move."""
    noise = np.random.default_rng(seed).standard_normal((250, 16)).astype(np.float32)
    return gaussian(250, 16, bias=True), np.float32(distance) * noise


@every_design
def test_stale_is_unbiased(design: dict) -> None:
    model, step = moved()
    sampler = sh.Sketch(model, SIZE, **design)
    model.weights[:] += step
    assert_unbiased(ratios(sampler, 2 * queries_for(model), 4 * DRAWS))


@pytest.mark.parametrize("clusters", [0, 1], ids=["every code", "first look"])
def test_probabilities_of_today_on_the_draw_of_yesterday_are_rejected(clusters: int) -> None:
    """The twin: classes drawn by a stale sketch, weighted by what a refreshed one expects."""
    model, step = moved(distance=1.5)
    query = queries_for(model, 1)
    stale, fresh = (sh.Sketch(model, SIZE, clusters=clusters) for _ in range(2))
    model.weights[:] += step
    fresh.refresh()
    expected = drawn(fresh, query, 10 * DRAWS).expected
    assert np.isfinite(expected).all()
    sample = stale.sample(np.tile(query, (DRAWS, 1)), rng=1)
    twin = sample._replace(log_expected_count=np.log(expected[sample.ids]).astype(np.float32))
    truth = naive.log_z(model, query)
    assert_unbiased(np.exp(sample.log_partition().log_z - truth))
    assert rejects(assert_unbiased, np.exp(twin.log_partition().log_z - truth), power=np.inf)


@every_design
def test_refresh_of_all_and_of_some_is_unbiased(design: dict) -> None:
    model, step = moved()
    queries, third = 2 * queries_for(model), np.arange(0, 250, 3)
    sampler = sh.Sketch(model, SIZE, **design)
    model.weights[third] += step[third]
    stale = ratios(sampler, queries)
    sampler.refresh(third)
    some = ratios(sampler, queries)
    assert_unbiased(some)
    assert some.std() < 0.9 * stale.std()
    model.weights[:] += step[::-1]
    sampler.refresh()
    assert_unbiased(ratios(sampler, queries))


def assert_same_index(a: sh.Sampler, b: sh.Sampler) -> None:
    ours, theirs = a.state()[1], b.state()[1]
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def assert_close_index(a: sh.Sampler, b: sh.Sampler) -> None:
    """Equal up to the last bit of a matrix product, which depends on where in it a row stands."""
    ours, theirs = a.state()[1], b.state()[1]
    for name in ours:
        x, y = ours[name], theirs[name]
        if x.dtype.kind == "u":
            assert np.bitwise_count(x ^ y).sum() <= 2, name
        else:
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1 if x.dtype == np.int8 else 1e-5, err_msg=name)


@given(
    n=st.integers(1, 300),
    dim=st.integers(1, 70),
    clusters=st.sampled_from([0, 1, 1, 5]),
    bias=st.booleans(),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=25)
def test_refresh_of_some_rows_equals_encoding_all(n, dim, clusters, bias, seed) -> None:
    """In the same coordinates and clusters; leaving out the changed rows is the control that must differ."""
    rng = np.random.default_rng(seed)
    model = gaussian(n, dim, bias=bias, seed=seed)
    some, all_rows, none = (sh.Sketch(model, 9, clusters=min(clusters, n), rng=seed) for _ in range(3))
    changed = np.flatnonzero(rng.random(n) < 0.4)
    model.weights[changed] = 3 * rng.standard_normal((len(changed), dim))
    if model.bias is not None:
        model.bias[changed] = rng.standard_normal(len(changed))
    some.refresh(rng.permutation(changed))
    all_rows.refresh(np.arange(n))
    assert_close_index(some, all_rows)
    assert len(changed) == 0 or rejects(assert_close_index, none, some)


@given(n=st.integers(1, 300), dim=st.integers(1, 70), bias=st.booleans(), seed=st.integers(0, 2**20))
@settings(max_examples=15)
def test_refresh_of_all_equals_a_new_sketch(n, dim, bias, seed) -> None:
    model = gaussian(n, dim, bias=bias, seed=seed)
    sampler = sh.Sketch(model, 9, queries_for(model, 20), rng=seed)
    model.weights[:] *= np.random.default_rng(seed).standard_normal((n, 1), dtype=np.float32)
    sampler.refresh()
    assert_same_index(sampler, sh.Sketch(model, 9, queries_for(model, 20), rng=seed))


@every_design
def test_a_stale_index_survives_saving(design: dict, tmp_path) -> None:
    """The file holds what was encoded, not the weights: loaded after they moved, it draws as the original does."""
    model, step = moved()
    queries = queries_for(model)
    sampler = sh.Sketch(model, SIZE, queries_for(model, 30, seed=4), **design)
    before = sampler.sample(queries, rng=0)
    model.weights[:] += step
    sampler.save(tmp_path / "index")
    loaded = sh.load(tmp_path / "index", model)
    for mine, theirs, old in zip(sampler.sample(queries, rng=0), loaded.sample(queries, rng=0), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert np.asarray(mine).shape == np.asarray(old).shape
    model.weights[:50] += 1
    for refreshed in (sampler, loaded):
        refreshed.refresh(np.arange(50))
    assert_same_index(sampler, loaded)
    for refreshed in (sampler, loaded):
        refreshed.refresh()
    assert_same_index(sampler, loaded)


def test_seed_sets_the_index_and_generators_move_on() -> None:
    model = gaussian(300, 40)
    rng = np.random.default_rng(5)
    first, second = sh.Sketch(model, rng=rng), sh.Sketch(model, rng=rng)
    assert_same_index(first, sh.Sketch(model, rng=5))
    assert rejects(assert_same_index, first, second)


@pytest.mark.parametrize("dim", [8, 17, 64, 100])
@pytest.mark.parametrize("clusters", [0, None, 300])
def test_memory(dim: int, clusters: int | None) -> None:
    """At most N·(d/8 + 2·rank + 24) bytes, and something of the order of clusters·d + d²."""
    n, rank = 20_000, max(8, dim // 4)
    sampler = sh.Sketch(gaussian(n, dim), clusters=clusters, rank=rank)
    assert sampler.nbytes <= n * (dim / 8 + 2 * rank + 24) + 16 * ((clusters or 1) * dim + dim**2) + 2**14
