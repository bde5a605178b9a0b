"""What every sampler and estimator promises, whatever its method."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import naive
import softhash as sh
from cases import Case, every_case, every_sampler, gaussian, over, queries_for, replicate, sampler_of

BIASED = gaussian(600, 12, bias=True)
PLAIN = gaussian(600, 12)
QUERIES = queries_for(PLAIN, 9)


def assert_same(a: sh.Estimate, b: sh.Estimate) -> None:
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


@every_case
def test_estimate_has_its_shapes_and_dtypes(case: Case) -> None:
    estimate = case.make(BIASED, 0).log_partition(QUERIES, rng=0)
    assert [array.dtype for array in estimate] == [np.float64, np.float64, np.int64]
    assert all(array.shape == (len(QUERIES),) for array in estimate)
    assert isinstance(case.make(BIASED, 0), sh.Estimator)
    assert np.isfinite(estimate.log_z).all()
    assert (estimate.evaluations >= 0).all()


@every_case
def test_std_error_is_zero_finite_or_nan_as_declared(case: Case) -> None:
    error = case.make(PLAIN, 0).log_partition(QUERIES, rng=0).std_error
    holds = {"zero": error == 0, "finite": np.isfinite(error) & (error > 0), "nan": np.isnan(error)}
    assert holds[case.std_error].all()


@every_sampler
def test_sample_has_its_shapes_and_dtypes(case: Case) -> None:
    sampler = sampler_of(case, BIASED)
    sample = sampler.sample(QUERIES, rng=0)
    assert [array.dtype for array in sample[:4]] == [np.int64, np.int32, np.float32, np.float32]
    assert sample.offsets.shape == (len(QUERIES) + 1,)
    assert sample.offsets[0] == 0
    assert (np.diff(sample.offsets) >= 0).all()
    assert len(sample.ids) == len(sample.logits) == len(sample.log_expected_count) == sample.offsets[-1]
    assert isinstance(sampler, sh.Sampler)


@every_sampler
def test_sample_makes_the_estimate(case: Case) -> None:
    sampler = sampler_of(case, BIASED)
    sample = sampler.sample(QUERIES, rng=5)
    assert_same(sample.log_partition(), sampler.log_partition(QUERIES, rng=5))
    np.testing.assert_allclose(sample.log_partition().log_z, naive.log_partition(sample), atol=1e-9)


@every_sampler
@pytest.mark.parametrize("model", [PLAIN, BIASED], ids=["plain", "bias"])
def test_logits_in_the_sample_are_exact(case: Case, model: sh.LogLinear) -> None:
    sample = sampler_of(case, model).sample(QUERIES, rng=0)
    for row, (ids, logits, _) in zip(naive.logits(model, QUERIES), naive.segments(sample), strict=True):
        np.testing.assert_allclose(logits, row[ids], atol=1e-5)


@over(lambda case: case.sampler and case.once)
def test_expected_counts_are_probabilities_of_distinct_classes(case: Case) -> None:
    for ids, _, log_count in naive.segments(sampler_of(case, PLAIN).sample(QUERIES, rng=0)):
        assert (log_count <= 0).all()
        assert len(np.unique(ids)) == len(ids)


@every_case
def test_same_seed_same_result_at_any_thread_count(case: Case) -> None:
    results = []
    try:
        for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):  # type: ignore[attr-defined]
            numba.set_num_threads(threads)
            results.append(case.make(BIASED, 3).log_partition(np.tile(QUERIES, (40, 1)), rng=7))
    finally:
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    assert_same(results[0], results[1])


@every_case
def test_generator_is_a_seed_that_moves_on(case: Case) -> None:
    estimator, rng = case.make(PLAIN, 0), np.random.default_rng(4)
    first, second = estimator.log_partition(QUERIES, rng=rng), estimator.log_partition(QUERIES, rng=rng)
    assert_same(first, estimator.log_partition(QUERIES, rng=4))
    assert (case.redraw == "rng") <= (not np.array_equal(first.log_z, second.log_z))


@every_case
def test_a_query_alone_is_as_in_a_batch(case: Case) -> None:
    estimator = case.make(BIASED, 0)
    alone = estimator.log_partition(QUERIES[:1], rng=2)
    batch = estimator.log_partition(np.tile(QUERIES, (120, 1)), rng=2)
    assert len(batch.log_z) == 120 * len(QUERIES)
    np.testing.assert_allclose(alone.log_z[0], batch.log_z[0], atol=1e-5)
    assert alone.evaluations[0] == batch.evaluations[0]


@every_sampler
def test_with_targets_has_the_target_once_and_certain(case: Case) -> None:
    sample = sampler_of(case, BIASED).sample(QUERIES, rng=0)
    drawn = [ids[0] for ids, _, _ in naive.segments(sample)]
    targets = np.where(np.arange(len(QUERIES)) % 2, drawn, BIASED.n_classes - 1)
    edited = sample.with_targets(BIASED, QUERIES, targets)
    exact = naive.logits(BIASED, QUERIES)[np.arange(len(QUERIES)), targets]
    for q, (before, after) in enumerate(zip(naive.segments(sample), naive.segments(edited), strict=True)):
        at = after[0] == targets[q]
        assert at.sum() == 1
        assert after[2][at] == 0
        np.testing.assert_allclose(after[1][at], exact[q], atol=1e-5)
        others = before[0] != targets[q]
        for old, new in zip(before, after, strict=True):
            np.testing.assert_array_equal(old[others], new[~at])
    assert (exact - edited.log_partition().log_z <= 1e-5).all()


@every_case
@pytest.mark.usefixtures("one_thread")
def test_bias_is_in_the_estimate(case: Case) -> None:
    """A bias that dominates everything moves log Z by as much."""
    raised = sh.LogLinear(PLAIN.weights, np.full(PLAIN.n_classes, 5.0))
    estimate = replicate(case, raised, QUERIES, 20).log_z.mean(axis=0)
    assert np.abs(estimate - naive.log_z(PLAIN, QUERIES) - 5).max() < 1.5


@every_case
def test_log_prob_uses_the_estimate(case: Case) -> None:
    estimator, targets = case.make(BIASED, 0), np.arange(len(QUERIES))
    log_prob = sh.log_prob(BIASED, QUERIES, targets, estimator, rng=1)
    logits = naive.logits(BIASED, QUERIES)[targets, targets]
    np.testing.assert_allclose(log_prob, logits - estimator.log_partition(QUERIES, rng=1).log_z, atol=1e-5)


@every_sampler
@pytest.mark.parametrize("model", [PLAIN, BIASED], ids=["plain", "bias"])
def test_save_and_load_give_the_same_sampler(case: Case, model: sh.LogLinear, tmp_path) -> None:
    sampler = sampler_of(case, model)
    sampler.save(tmp_path / "index.safetensors")
    loaded = sh.load(tmp_path / "index.safetensors", model)
    assert type(loaded) is type(sampler)
    assert_same(loaded.log_partition(QUERIES, rng=9), sampler.log_partition(QUERIES, rng=9))
    loaded.refresh()
    sampler.refresh()
    assert_same(loaded.log_partition(QUERIES, rng=9), sampler.log_partition(QUERIES, rng=9))


@every_sampler
def test_refresh_without_change_changes_nothing(case: Case) -> None:
    sampler = sampler_of(case, BIASED)
    before = sampler.log_partition(QUERIES, rng=1)
    for ids in ([3, 1, 3], [], *([None] if case.settled else [])):
        sampler.refresh(ids)
        assert_same(sampler.log_partition(QUERIES, rng=1), before)


@every_case
def test_memory_mapped_weights(case: Case, tmp_path) -> None:
    np.save(tmp_path / "weights.npy", BIASED.weights)
    mapped = sh.LogLinear(np.load(tmp_path / "weights.npy", mmap_mode="r"), BIASED.bias)
    assert not mapped.weights.flags.owndata
    results = [case.make(model, 0).log_partition(QUERIES, rng=0) for model in (mapped, BIASED)]
    assert_same(results[0], results[1])
