"""The paper's theorems, checked by simulation; each check rejects a twin wrong in a likely way."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import naive
import softhash as sh
from cases import gaussian, queries_for
from softhash.kernels import ragged
from softhash.lsh import simhash
from stats import assert_frequencies, assert_mean, assert_proportions, assert_unbiased, rejects

pytestmark = pytest.mark.usefixtures("one_thread")
DRAWS = 20_000
LOGITS = np.array([0.3, -1.0, 1.2, 0.1, -0.4, 0.8, 2.0, -2.0])
Z = np.exp(LOGITS).sum()


class Design(NamedTuple):
    """A random choice among a few sets of classes: as correlated as designs get, with every moment known.

    Attributes:
        sets: bool[M, N].
        chance: float64[M], of each set.
    """

    sets: NDArray[np.bool_]
    chance: NDArray[np.float64]

    @classmethod
    def correlated(cls, seed: int, classes: int = len(LOGITS)) -> Self:
        rng = np.random.default_rng(seed)
        sets = rng.random((12, classes)) < 0.4
        sets = np.vstack([sets, ~sets.any(axis=0), np.zeros(classes, bool)])
        return cls(sets, rng.dirichlet(np.ones(len(sets))))

    @classmethod
    def independent(cls, p: NDArray[np.float64]) -> Self:
        """Every subset, class i in it with probability p_i independently of the others."""
        sets = (np.arange(2 ** len(p))[:, None] >> np.arange(len(p)) & 1).astype(bool)
        return cls(sets, np.where(sets, p, 1 - p).prod(axis=1))

    def pairs(self) -> NDArray[np.float64]:
        """p_ij, the probability that i and j are drawn together; p_i on the diagonal."""
        return (self.sets.T * self.chance) @ self.sets

    def draw(self, count: int, log_p: NDArray[np.float64]) -> sh.Sample:
        """`count` queries' samples, each class weighted by the probabilities given."""
        rng = np.random.default_rng(99)
        drawn = self.sets[rng.choice(len(self.sets), size=count, p=self.chance / self.chance.sum())]
        ids = np.nonzero(drawn)[1].astype(np.int32)
        offsets = ragged.offsets_from_sizes(drawn.sum(axis=1))
        return sh.Sample(offsets, ids, LOGITS[ids].astype(np.float32), log_p[ids].astype(np.float32))


def variance(pairs: NDArray, terms: NDArray, *, covariance: bool = True) -> float:
    """Σ_i f_i² (1 − p_i)/p_i + Σ_{i≠j} f_i f_j (p_ij − p_i p_j)/(p_i p_j), the second sum at will."""
    p = np.diag(pairs)
    moments = np.outer(terms, terms) * (pairs - np.outer(p, p)) / np.outer(p, p)
    return float(moments.sum() if covariance else np.trace(moments))


def squared_errors(sample: sh.Sample) -> NDArray[np.float64]:
    return (np.exp(sample.log_partition().log_z) - Z) ** 2


def claimed_variance(sample: sh.Sample) -> NDArray[np.float64]:
    """Σ_S (f/p)² (1 − p), which knows of no covariance."""
    error = ragged.poisson_error(sample.offsets, sample.logits, sample.log_expected_count)
    return np.where(np.diff(sample.offsets) > 0, error * np.exp(sample.log_partition().log_z), 0) ** 2


@pytest.mark.parametrize("seed", range(4))
def test_unbiased_for_any_correlated_design(seed: int) -> None:
    design = Design.correlated(seed)
    p = np.diag(design.pairs())
    ratios = np.exp(design.draw(DRAWS, np.log(p)).log_partition().log_z) / Z
    assert_unbiased(ratios)
    blind = np.full(len(p), np.log(p.mean()))
    assert rejects(assert_unbiased, np.exp(design.draw(DRAWS, blind).log_partition().log_z) / Z)


def test_unbiased_when_classes_are_counted_several_times() -> None:
    """With an expected count in place of a probability, repeats are simply added."""
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(len(LOGITS)))
    ids = rng.choice(len(q), size=(DRAWS, 3), p=q).astype(np.int32).ravel()
    sample = sh.Sample(np.arange(0, 3 * DRAWS + 1, 3), ids, LOGITS[ids].astype("f"), np.log(3 * q[ids]).astype("f"))
    assert_unbiased(np.exp(sample.log_partition().log_z) / Z, power=0.1)
    at_least_once = np.log1p(-((1 - q) ** 3))
    twin = sample._replace(log_expected_count=at_least_once[ids].astype("f"))
    assert rejects(assert_unbiased, np.exp(twin.log_partition().log_z) / Z, power=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_variance_has_a_covariance_term(seed: int) -> None:
    design = Design.correlated(seed)
    pairs, terms = design.pairs(), np.exp(LOGITS)
    exactly = design.chance @ (design.sets @ (terms / np.diag(pairs)) - Z) ** 2
    assert np.isclose(variance(pairs, terms), exactly, rtol=1e-12)
    squares = squared_errors(design.draw(DRAWS, np.log(np.diag(pairs))))
    assert_mean(squares, variance(pairs, terms))
    assert rejects(assert_mean, squares, variance(pairs, terms, covariance=False))


def test_independent_draws_have_no_covariance_term() -> None:
    p = np.random.default_rng(1).uniform(0.2, 0.9, len(LOGITS))
    design, terms = Design.independent(p), np.exp(LOGITS)
    expected = ((terms**2) * (1 - p) / p).sum()
    assert np.isclose(variance(design.pairs(), terms), expected)
    sample = design.draw(DRAWS, np.log(p))
    assert_mean(squared_errors(sample), expected)
    assert_mean(claimed_variance(sample), expected)
    correlated = Design.correlated(0)
    claimed = claimed_variance(correlated.draw(DRAWS, np.log(np.diag(correlated.pairs()))))
    assert rejects(assert_mean, claimed, variance(correlated.pairs(), terms))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_mips_ranks_probabilities_as_logits(center: bool, bias: bool) -> None:
    """Theorem: with the completing coordinate, logit_i > logit_j implies p_i ≥ p_j; by angles alone it does not."""
    model = gaussian(500, 8, bias=bias)
    for transform, holds in (("mips", True), ("cosine", False)):
        sampler = sh.LSH(model, 2, 6, transform=transform, center=center, rng=0)
        for _, logits, log_p in naive.segments(sampler.sample(queries_for(model))):
            steps = np.diff(log_p[np.argsort(logits)])
            assert (steps.min() > -1e-5) == holds


def test_cosine_prefers_a_smaller_logit() -> None:
    """(1, 0) points along the query and (10, 10) does not, yet scores ten times as much."""
    model = sh.LogLinear([[1.0, 0.0], [10.0, 10.0]])
    sample = sh.LSH(model, 1, 12, center=False, rng=0).sample([[1.0, 0.0]])
    logit, log_p = (dict(zip(sample.ids.tolist(), column, strict=True)) for column in (sample.logits, sample[3]))
    assert logit[1] == 10 * logit[0]
    assert log_p[1] < log_p[0]


ANGLES = np.linspace(0.05, 0.9, 12) * np.pi
ON_A_CIRCLE = sh.LogLinear(np.column_stack([np.cos(ANGLES), np.sin(ANGLES)]) * np.linspace(0.5, 3, 12)[:, None])


def test_bucket_frequencies_are_binomial() -> None:
    """Of L tables, class i shares the query's bucket in a Binomial(L, p^K) number."""
    bits, tables, i = 2, 6, 4
    p = float(np.exp(simhash.log_inclusion(np.cos(ANGLES[i]), bits, 1)))
    outcomes = np.arange(tables + 1)
    counts = np.zeros(tables + 1)
    for seed in range(1500):
        state = sh.LSH(ON_A_CIRCLE, bits, tables, center=False, rng=seed).state()[1]
        query_codes = naive.codes(np.array([[1.0, 0.0]]) @ state["planes"], bits)
        class_codes = naive.codes(ON_A_CIRCLE.weights[[i]] @ state["planes"], bits)
        counts[(query_codes == class_codes).sum()] += 1
    assert_frequencies(counts, counts.sum() * binom.pmf(outcomes, tables, p))
    assert rejects(assert_frequencies, counts, counts.sum() * binom.pmf(outcomes, tables, p**1.2))


@pytest.mark.parametrize(("transform", "center"), [("cosine", False), ("cosine", True), ("mips", True)])
def test_union_frequencies_are_the_closed_form(transform: str, center: bool) -> None:
    """Classes share planes, so each is counted over indexes of its own."""
    bits, tables, n = 3, 4, ON_A_CIRCLE.n_classes
    cosines = naive.hashed_cosines(ON_A_CIRCLE, np.array([[1.0, 0.0]]), transform, center)[0]
    hits, trials = np.zeros(n), np.full(n, 200)
    for seed in range(200 * n):
        sampler = sh.LSH(ON_A_CIRCLE, bits, tables, transform, center, rng=seed)
        hits[seed % n] += seed % n in sampler.sample([[1.0, 0.0]]).ids
    p = np.exp([naive.log_inclusion(cosine, bits, tables) for cosine in cosines])
    assert_proportions(hits, trials, p)
    one_table_more = simhash.log_inclusion(cosines, bits, tables + 1)
    sum_of_tables = np.log(tables) + simhash.log_inclusion(cosines, bits, 1)
    for twin in (one_table_more, sum_of_tables.clip(max=-1e-3)):
        assert rejects(assert_proportions, hits, trials, np.exp(twin))
