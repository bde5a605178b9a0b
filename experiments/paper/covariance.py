"""The variance theorem of the paper on a trained model: the covariance term that its Note 2 calls very negative.

    Var Ẑ = Σ_i f_i² (1/p_i − 1)  +  Σ_{i≠j} f_i f_j Cov(1_i, 1_j) / (p_i p_j)

The first sum is computed from all p_i. The second is the mean, over draws of the hash functions, of
(Ẑ − Z)² − Σ_{i∈S} f_i² (1 − p_i)/p_i², whose second part has the first sum as its mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import softhash as sh
from experiments import record
from experiments.data import Problem
from experiments.paper.problem import trained
from softhash.demo import true_log_z
from softhash.kernels import ragged
from softhash.lsh import simhash

BITS, TABLES = 10, 16
DRAWS, QUICK_DRAWS = 200, 10
CONTEXTS_PER_BLOCK = 64
WAYS = {"raw": ("cosine", False), "centred": ("cosine", True), "mips": ("mips", True)}


def log_inclusions(problem: Problem, transform: str, center: bool, queries: NDArray) -> NDArray[np.float64]:
    """log p (contexts, N) under the paper's K and L."""
    model = problem.model
    vectors = np.column_stack([model.weights, model.bias_or_zeros * np.ones(model.n_classes)]).astype(np.float64)
    wide = np.column_stack([queries, np.full(len(queries), model.bias is not None)]).astype(np.float64)
    vectors -= vectors.mean(axis=0) if center else 0
    norms = np.linalg.norm(vectors, axis=1)
    norms = np.full(len(norms), norms.max()) if transform == "mips" else norms
    cosines = wide @ vectors.T / np.outer(np.linalg.norm(wide, axis=1), norms)
    return simhash.log_inclusion(cosines, BITS, TABLES)


def closed_form(problem: Problem, log_z: NDArray, transform: str, center: bool) -> tuple[NDArray, NDArray, NDArray]:
    """For each context: Σ f² (1/p − 1) / Z², Σ p, and Σ p(1 − p), the variance of |S| if classes were independent."""
    parts = []
    for start in range(0, len(log_z), CONTEXTS_PER_BLOCK):
        block = slice(start, start + CONTEXTS_PER_BLOCK)
        log_p = log_inclusions(problem, transform, center, problem.queries[block])
        share = problem.model.logits(problem.queries[block]) - log_z[block, None]
        p = np.exp(log_p)
        parts.append(((np.exp(2 * share - log_p) * -np.expm1(log_p)).sum(1), p.sum(1), (p * (1 - p)).sum(1)))
    variance, size, spread = map(np.concatenate, zip(*parts, strict=True))
    return variance, size, spread


def measure(problem: Problem, draws: int) -> list[record.Row]:
    """One row for each way of hashing."""
    log_z = true_log_z(problem.model, problem.queries)
    rows: list[record.Row] = []
    for name, (transform, center) in WAYS.items():
        independent, expected, spread = closed_form(problem, log_z, transform, center)
        square, own, sizes = [], [], []
        for seed in range(draws):
            sample = sh.LSH(problem.model, BITS, TABLES, transform, center, rng=seed).sample(problem.queries)
            ratio = np.exp(sample.log_partition().log_z - log_z)
            claimed = ragged.poisson_error(sample.offsets, sample.logits, sample.log_expected_count)
            square.append((ratio - 1) ** 2)
            own.append(np.where(ratio > 0, claimed * ratio, 0) ** 2)
            sizes.append(np.diff(sample.offsets))
        covariance = np.array(square) - np.array(own)
        by_draw = covariance.mean(axis=1)
        size_covariance = np.var(sizes, axis=0, ddof=1) - spread
        rows.append(
            {"dataset": problem.name, "hashing": name, "bits": BITS, "tables": TABLES, "draws": draws,
             "size": float(np.mean(sizes)), "expected_size": float(expected.mean()),
             "independent": float(independent.mean()), "covariance": float(by_draw.mean()),
             "covariance_se": float(by_draw.std(ddof=1) / np.sqrt(draws)),
             "measured_variance": float(np.mean(square)),
             "contexts_positive": float((covariance.mean(axis=0) > 0).mean()),
             "size_variance": float(np.var(sizes, axis=0, ddof=1).mean()),
             "size_variance_if_independent": float(spread.mean()),
             "pairs_covariance": float((size_covariance / (problem.model.n_classes**2)).mean())}
        )  # fmt: skip
        print(f"{problem.name}, {name}: covariance term {by_draw.mean():.3g}", flush=True)
    return rows


def run(datasets: Sequence[str], quick: bool) -> None:
    """Every data set."""
    draws = QUICK_DRAWS if quick else DRAWS
    rows = [row for dataset in datasets for row in measure(trained(dataset), draws)]
    title = "Variance of Ẑ/Z under LSH, mean over contexts"
    record.save("paper-covariance", rows, seeds=f"0-{draws - 1}", quick=quick, title=title)
