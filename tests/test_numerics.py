"""Error budgets of everything computed in logarithms, at the edges of the floating-point range."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import naive
import softhash as sh
from cases import gaussian, queries_for
from softhash.kernels import collide, draws, ragged
from softhash.lsh import simhash
from stats import assert_frequencies, rejects

SHAPES = [(1, 1), (1, 1000), (2, 3), (4, 16), (10, 16), (16, 64), (30, 1), (30, 1000)]
NEAR = np.array([0, 1e-16, 1e-14, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3])
EDGES = np.array([-0.94, -0.9399, 0.9399, 0.94])
COSINES = np.unique(np.concatenate([np.linspace(-1, 1, 33), NEAR - 1, 1 - NEAR, NEAR, -NEAR, EDGES]))
FLOATS = st.tuples(st.floats(-1e4, 1e4, width=32), st.floats(-600, 0, width=32))


def interpolated(cosines: NDArray, bits: int, tables: int) -> NDArray[np.float64]:
    """log p as kernels compute it."""
    nodes = simhash.log_inclusion_table(bits, tables)
    return np.array([collide.log_inclusion(c, nodes, simhash.INTERPOLATED, bits, tables) for c in cosines])


every_shape = pytest.mark.parametrize(("bits", "tables"), SHAPES)


@every_shape
def test_log_inclusion_to_a_billionth(bits: int, tables: int) -> None:
    truth = np.array([naive.log_inclusion(cosine, bits, tables) for cosine in COSINES])
    assert np.isneginf(truth[0])
    assert truth[-1] == 0
    for ours in (simhash.log_inclusion(COSINES, bits, tables), interpolated(COSINES, bits, tables)):
        np.testing.assert_array_equal(np.isneginf(ours), np.isneginf(truth))
        np.testing.assert_allclose(ours[1:], truth[1:], rtol=0, atol=1e-9)
        assert (ours <= 0).all()


def test_log_inclusion_as_written_in_float32_fails() -> None:
    """The control: the formula in float32 is already log 0 where the paper's settings need it."""
    p = 1 - np.arccos(np.float32(-0.85)) / np.float32(np.pi)
    with np.errstate(divide="ignore"):
        assert np.isneginf(np.log(1 - (1 - np.float32(p) ** 10) ** 16))
    assert np.isclose(simhash.log_inclusion(-0.85, 10, 16), naive.log_inclusion(-0.85, 10, 16))


@every_shape
def test_interpolation_between_its_nodes(bits: int, tables: int) -> None:
    """Midway between nodes is where it is worst."""
    nodes = np.linspace(-simhash.INTERPOLATED, simhash.INTERPOLATED, simhash.NODES)
    cosines = (nodes[1:] + nodes[:-1]) / 2
    ours, truth = interpolated(cosines, bits, tables), simhash.log_inclusion(cosines, bits, tables)
    np.testing.assert_allclose(ours, truth, rtol=0, atol=1e-9)


@pytest.mark.parametrize("cosine", [1 + 1e-7, 5.0, -1 - 1e-7, -5.0])
def test_cosines_rounded_past_one_are_one(cosine: float) -> None:
    at_one = simhash.log_inclusion(np.sign(cosine), 4, 8)
    assert simhash.log_inclusion(cosine, 4, 8) == at_one
    assert interpolated(np.array([cosine]), 4, 8)[0] == at_one


@given(st.lists(st.lists(FLOATS, max_size=5), min_size=1))
def test_log_sum_over_any_segments(rows: list[list[tuple[float, float]]]) -> None:
    flat = np.array([pair for row in rows for pair in row], np.float32).reshape(-1, 2)
    offsets = ragged.offsets_from_sizes(np.array([len(row) for row in rows]))
    ids = np.zeros(len(flat), np.int32)
    sample = sh.Sample(offsets, ids, flat[:, 0].copy(), flat[:, 1].copy())
    np.testing.assert_allclose(sample.log_partition().log_z, naive.log_partition(sample), rtol=1e-14, atol=1e-12)


def test_log_sum_extremes() -> None:
    huge, sizes = np.float32(3e38), np.array([2, 2, 0, 2])
    logits = np.array([1e4, 1e4, -1e4, -1e4, -huge, huge], np.float32)
    log_z, second = ragged.log_sum(ragged.offsets_from_sizes(sizes), logits, np.zeros(6, np.float32))
    np.testing.assert_allclose(log_z, [1e4 + math.log(2), -1e4 + math.log(2), -np.inf, float(huge)], rtol=1e-12)
    np.testing.assert_allclose(second, [0.5, 0.5, np.nan, 1])


@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=60))
def test_alias_table_draws_from_its_distribution(weights: list[float]) -> None:
    probabilities = np.array(weights) / np.sum(weights)
    keep, other = draws.alias_table(probabilities)
    np.testing.assert_allclose(naive.alias_probabilities(keep, other), probabilities, rtol=0, atol=1e-15 * len(weights))
    assert ((keep >= 0) & (keep <= 1 + 1e-12)).all()


def test_alias_draws_fit_their_frequencies() -> None:
    probabilities = np.random.default_rng(0).dirichlet(np.ones(30))
    ids = draws.from_alias(np.arange(2000, dtype=np.uint64), 100, *draws.alias_table(probabilities))
    counts = np.bincount(ids.ravel(), minlength=30)
    assert_frequencies(counts, probabilities * ids.size)
    assert rejects(assert_frequencies, counts, np.full(30, ids.size / 30))


def test_draws_reach_every_class_beyond_float32() -> None:
    """Above 2^24 float32 holds even numbers only."""
    ids = draws.with_replacement(np.arange(50, dtype=np.uint64), 40, 2**30 + 1)
    assert_frequencies(np.bincount(ids.ravel() % 2, minlength=2), [1000, 1000])
    assert rejects(assert_frequencies, np.bincount(ids.ravel().astype("f").astype(int) % 2, minlength=2), [1000, 1000])


def test_draws_without_replacement_are_every_subset() -> None:
    ids = np.sort(draws.without_replacement(np.arange(6000, dtype=np.uint64), 3, 6), axis=1)
    _, counts = np.unique(ids, axis=0, return_counts=True)
    assert (np.diff(ids, axis=1) > 0).all()
    assert_frequencies(counts, np.full(20, 300))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("bias", [True, False])
def test_exact_is_no_worse_than_float32_can_be(scale: float, bias: bool) -> None:
    """Our error against float64 is at most that of the same sum done plainly in float32, plus rounding."""
    model = gaussian(5000, 48, bias=bias)
    queries = scale * queries_for(model, 20)
    truth = naive.log_z(model, queries)
    plain = [naive.log_sum_exp(row) for row in model.logits(queries)]
    ours = sh.Exact(model).log_partition(queries).log_z
    assert np.abs(ours - truth).max() <= np.abs(plain - truth).max() + 4e-7 * np.abs(truth).max()


@pytest.mark.parametrize(("classes", "queries"), [(1, 1), (63, 1), (64, 1500), (5000, 1025)])
def test_exact_in_blocks_is_exact(classes: int, queries: int) -> None:
    model = gaussian(classes, 5, bias=True)
    batch = queries_for(model, queries)
    ours = sh.Exact(model, memory=2**20).log_partition(batch).log_z
    np.testing.assert_allclose(ours, naive.log_z(model, batch), atol=1e-5)
