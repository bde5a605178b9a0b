"""The paper's sampler: what it draws, with which probability, and that refreshing keeps both right."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import naive
import softhash as sh
from cases import gaussian, queries_for
from softhash.kernels import tables as kernels
from softhash.lsh.tables import Tables

FRAMES = [("cosine", False), ("cosine", True), ("mips", False), ("mips", True)]
every_frame = pytest.mark.parametrize(("transform", "center"), FRAMES)
with_and_without_bias = pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])


@every_frame
@with_and_without_bias
def test_log_p_is_that_of_the_hashed_vectors(transform: str, center: bool, bias: bool) -> None:
    model = gaussian(400, 10, bias=bias)
    queries = queries_for(model)
    sample = sh.LSH(model, 3, 7, transform, center, rng=0).sample(queries)
    cosines = naive.hashed_cosines(model, queries, transform, center)
    for row, (ids, _, log_p) in zip(cosines, naive.segments(sample), strict=True):
        truth = [naive.log_inclusion(cosine, 3, 7) for cosine in row[ids]]
        np.testing.assert_allclose(log_p, truth, atol=2e-5)


@pytest.mark.parametrize("bits", [1, 5, 12, 13, 20, 21, 30])
def test_sample_is_the_union_of_the_buckets(bits: int) -> None:
    """Every K, direct and sorted tables; queries that are class vectors find at least themselves."""
    model = gaussian(300, 6)
    sampler = sh.LSH(model, bits, 5, center=False, rng=bits)
    planes = sampler.state()[1]["planes"]
    queries = np.concatenate([model.weights[:6], queries_for(model)])
    unions = naive.union(naive.codes(model.weights @ planes, bits), naive.codes(queries @ planes, bits))
    drawn = [set(ids.tolist()) for ids, _, _ in naive.segments(sampler.sample(queries))]
    assert drawn == unions
    assert all(i in drawn[i] for i in range(6))


@pytest.mark.parametrize("bits", [13, 16, 20])
def test_sorted_tables_equal_direct_ones(bits: int) -> None:
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 2**bits, (3, 200)).astype(np.uint32)
    codes[:, 100:] = codes[:, :100]
    wanted = np.concatenate([codes[:, :50], rng.integers(0, 2**bits, (3, 50)).astype(np.uint32)], axis=1)
    indirect = Tables.build(codes, bits)
    starts, ids = kernels.counting_sort(codes, 2**bits)
    direct = Tables(ids, starts, np.empty((3, 0), np.uint32))
    assert indirect.starts.size == 0
    for tables in (indirect, direct):
        np.testing.assert_array_equal(tables.codes(), codes)
        first, last = tables.buckets(wanted)
        for q, t in np.ndindex(first.shape):
            found = tables.ids[t, first[q, t] : last[q, t]]
            np.testing.assert_array_equal(found, np.flatnonzero(codes[t] == wanted[t, q]))


def index_of(sampler: sh.LSH) -> dict[str, NDArray]:
    return sampler.state()[1]


def assert_same_index(a: sh.LSH, b: sh.LSH) -> None:
    ours, theirs = index_of(a), index_of(b)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


@given(
    n=st.integers(1, 200),
    dim=st.integers(1, 8),
    bits=st.sampled_from([1, 4, 9, 14, 30]),
    tables=st.integers(1, 5),
    frame=st.sampled_from(FRAMES),
    bias=st.booleans(),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=40)
def test_refresh_of_some_rows_equals_rehashing_all(n, dim, bits, tables, frame, bias, seed) -> None:
    """In the same frame; rehashing only some of the changed rows is the control that must differ."""
    rng = np.random.default_rng(seed)
    model = gaussian(n, dim, bias=bias, seed=seed)
    some, all_rows, none = (sh.LSH(model, bits, tables, *frame, rng=seed) for _ in range(3))
    changed = np.flatnonzero(rng.random(n) < 0.4)
    model.weights[changed] = rng.standard_normal((len(changed), dim))
    if model.bias is not None:
        model.bias[changed] = rng.standard_normal(len(changed))
    some.refresh(rng.permutation(changed))
    all_rows.refresh(np.arange(n))
    if len(changed):
        assert_same_index(some, all_rows)
        assert not np.array_equal(index_of(none)["hashed"], index_of(some)["hashed"])
    if frame == ("cosine", False):
        assert_same_index(some, sh.LSH(model, bits, tables, *frame, rng=seed))


def test_a_class_that_outgrows_the_common_norm_rehashes_everything() -> None:
    model = gaussian(100, 5)
    sampler = sh.LSH(model, 4, 6, "mips", rng=0)
    model.weights[7] *= 10
    sampler.refresh([7])
    assert_same_index(sampler, sh.LSH(model, 4, 6, "mips", rng=0))


def test_changed_weights_without_a_snapshot_are_refused(tmp_path) -> None:
    model = gaussian(500, 8)
    sampler = sh.LSH(model, 4, 6, snapshot=False, rng=0)
    sampler.save(tmp_path / "index")
    queries = queries_for(model)
    model.weights[:] += 0.1
    for stale in (lambda: sampler.sample(queries), lambda: sh.load(tmp_path / "index", model)):
        with pytest.raises(ValueError, match=r"weights have changed .* refresh\(\).*snapshot=True"):
            stale()
    sampler.refresh()
    fresh = sh.LSH(model, 4, 6, snapshot=False, rng=0)
    np.testing.assert_array_equal(sampler.log_partition(queries).log_z, fresh.log_partition(queries).log_z)


@pytest.mark.parametrize("step", [1e-3, 1e-6])
def test_a_training_step_without_a_snapshot_is_refused(step: float) -> None:
    """Every row moves a little: the witness rows cannot miss it."""
    model = gaussian(5000, 8)
    sampler = sh.LSH(model, 4, 6, snapshot=False, rng=0)
    model.weights[:] *= np.float32(1 - step)
    with pytest.raises(ValueError, match="weights have changed"):
        sampler.sample(queries_for(model))


def test_size_cuts_the_union_and_scales_p() -> None:
    model = gaussian()
    queries = queries_for(model)
    whole, cut = sh.LSH(model, 4, 8, rng=0).sample(queries), sh.LSH(model, 4, 8, size=100, rng=0).sample(queries, rng=0)
    for (ids, _, log_p), (kept, _, log_count) in zip(naive.segments(whole), naive.segments(cut), strict=True):
        assert len(kept) == 100 < len(ids)
        of = dict(zip(ids.tolist(), log_p, strict=True))
        np.testing.assert_allclose(log_count, [of[i] + np.log(100 / len(ids)) for i in kept.tolist()], atol=1e-5)


def test_floor_bounds_every_weight() -> None:
    model = gaussian()
    sampler = sh.LSH(model, 12, 4, floor=40, rng=0)
    sample = sampler.sample(queries_for(model), rng=0)
    assert sample.log_expected_count.min() >= np.log(40 / 2000) - 1e-6
    assert (sampler.log_partition(queries_for(model), rng=0).evaluations >= 40).all()


@every_frame
@pytest.mark.parametrize("size", [50, 400])
def test_tuned_reaches_its_size(transform: str, center: bool, size: int) -> None:
    model = gaussian(4000, 16, bias=True)
    queries = queries_for(model, 64)
    sampler = sh.LSH.tuned(model, size, queries, transform=transform, center=center, rng=0)
    unions = sh.LSH(model, sampler.bits, sampler.tables, transform, center, rng=1).log_partition(queries).evaluations
    assert 0.8 * size <= unions.mean() <= 2 * size
    evaluations = sampler.log_partition(queries, rng=0).evaluations
    assert evaluations.max() == size
    assert evaluations.mean() >= 0.5 * size


def test_one_table_cannot_say_its_error() -> None:
    model = gaussian(200, 4)
    assert np.isnan(sh.LSH(model, 2, 1, rng=0).log_partition(queries_for(model)).std_error).all()


def test_memory_is_tables_and_little_else() -> None:
    n, bits, tables = 50_000, 10, 16
    model = gaussian(n, 64)
    sh.LSH(model, bits, tables)
    tracemalloc.start()
    sampler = sh.LSH(model, bits, tables)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sampler.nbytes <= 4 * n * tables + 4 * tables * 2**bits + 300 * 1024
    assert peak <= 2 * 4 * n * tables + 24 * 2**20, f"{peak / 2**20:.0f} MiB"
    assert peak < 4 * n * bits * tables, "as much as all projections at once"


def test_long_codes_take_no_bucket_table() -> None:
    assert sh.LSH(gaussian(1000, 8), 30, 10).nbytes <= 2 * 4 * 1000 * 10 + 300 * 1024
