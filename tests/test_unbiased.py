"""The two promises that need many draws: Ẑ averages to Z, and the error it claims is the error it has."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

import naive
import softhash as sh
from cases import Case, gaussian, over, queries_for, redrawn, replicate
from stats import assert_unbiased, rejects

pytestmark = pytest.mark.usefixtures("one_thread")
DRAWS = 300
PLAIN, BIASED = gaussian(bias=False), gaussian(bias=True)
QUERIES = queries_for(PLAIN)


@over(lambda case: case.redraw != "never")
@pytest.mark.parametrize("model", [PLAIN, BIASED], ids=["plain", "bias"])
def test_unbiased_with_an_honest_error(case: Case, model: sh.LogLinear) -> None:
    estimates = replicate(case, model, QUERIES, DRAWS)
    ratios = np.exp(estimates.log_z - naive.log_z(model, QUERIES))
    assert_unbiased(ratios)
    if case.std_error == "finite":
        assert_honest(estimates.std_error, ratios, case.honest)


def assert_honest(claimed: np.ndarray, ratios: np.ndarray, bounds: tuple[float, float]) -> None:
    """Claimed errors, in the mean square over draws and the typical query, match the spread of Ẑ/Z."""
    share = np.sqrt((claimed**2).mean(axis=0)) / ratios.std(axis=0, ddof=1)
    typical = np.exp(np.log(share).mean())
    assert bounds[0] <= typical <= bounds[1], f"claimed error is {typical:.2f} of the actual spread"


def test_honesty_check_rejects_twice_and_half_the_error() -> None:
    ratios = 1 + 0.1 * np.random.default_rng(0).standard_normal((DRAWS, 8))
    claimed = np.full((DRAWS, 8), 0.1)
    assert_honest(claimed, ratios, (0.75, 1.33))
    for factor in (0.5, 2.0):
        assert rejects(assert_honest, factor * claimed, ratios, (0.75, 1.33))


@over(lambda case: case.sampler and case.redraw != "never")
def test_unbiased_check_rejects_probabilities_off_by_a_third(case: Case) -> None:
    """The twin divides by 1.33·p."""
    truth, ratios = naive.log_z(PLAIN, QUERIES), []
    for seed, sampler in enumerate(redrawn(case, PLAIN, DRAWS)):
        sample = cast(sh.Sampler, sampler).sample(QUERIES, rng=seed)
        twin = sample._replace(log_expected_count=sample.log_expected_count + np.float32(np.log(1.33)))
        ratios.append(np.exp(twin.log_partition().log_z - truth))
    assert rejects(assert_unbiased, ratios, power=np.inf)


@over(lambda case: case.sampler and case.redraw != "never")
def test_targets_leave_it_unbiased(case: Case) -> None:
    targets, truth, ratios = np.arange(len(QUERIES)), naive.log_z(BIASED, QUERIES), []
    rng = np.random.default_rng(0)
    for sampler in redrawn(case, BIASED, DRAWS):
        sample = cast(sh.Sampler, sampler).sample(QUERIES, rng=rng)
        ratios.append(np.exp(sample.with_targets(BIASED, QUERIES, targets).log_partition().log_z - truth))
    assert_unbiased(ratios)
