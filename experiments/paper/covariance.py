"""The variance theorem of the paper on a trained model: the covariance term that its Note 2 calls very negative.

    Var Ẑ = Σ_i f_i² (1/p_i − 1)  +  Σ_{i≠j} f_i f_j Cov(1_i, 1_j) / (p_i p_j)

Found twice, for some contexts: in closed form, from the angles of all pairs of classes; and over draws of the hash
functions, as the mean of (Ẑ − Z)² − Σ_{i∈S} f_i² (1 − p_i)/p_i², for the mean of its second part is the first sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import softhash as sh
from experiments import record
from experiments.data import Problem
from experiments.paper import joint
from experiments.paper.joint import BITS, TABLES
from experiments.paper.problem import trained
from softhash.demo import true_log_z
from softhash.kernels import ragged
from softhash.lsh import simhash

DRAWS, QUICK_DRAWS = {"ptb": 200, "text8": 60}, 10
CONTEXTS, QUICK_CONTEXTS = {"ptb": 96, "text8": 8}, 4
WAYS = {"raw": ("cosine", False), "centred": ("cosine", True), "mips": ("mips", True)}


class Geometry(NamedTuple):
    """What is hashed: unit vectors of classes (N, d') and of contexts (Q, d')."""

    classes: NDArray[np.float32]
    contexts: NDArray[np.float32]


def geometry(problem: Problem, transform: str, center: bool) -> Geometry:
    """Centred, with a coordinate for the bias and one that completes the norm, and scaled to length 1."""
    model = problem.model
    vectors = np.column_stack([model.weights, model.bias_or_zeros * np.ones(model.n_classes)]).astype(np.float64)
    wide = np.column_stack([problem.queries, np.full(len(problem.queries), model.bias is not None)])
    vectors -= vectors.mean(axis=0) if center else 0
    norms = np.linalg.norm(vectors, axis=1)
    if transform == "mips":
        vectors = np.column_stack([vectors, np.sqrt(norms.max() ** 2 - norms**2)])
        wide, norms = np.column_stack([wide, np.zeros(len(wide))]), norms.max()
    vectors /= np.reshape(norms, (-1, 1))
    return Geometry(vectors.astype(np.float32), (wide / np.linalg.norm(wide, axis=1)[:, None]).astype(np.float32))


def closed_form(problem: Problem, log_z: NDArray, hashed: Geometry) -> dict[str, float]:
    """Means over contexts, relative to Z²: both sums, and the variance of uniform samples of the same mean size.

    Also the cosines of the class of largest logit and of the median class, and (geometric mean) how much likelier the
    former is to be drawn.
    """
    cosines = (hashed.contexts @ hashed.classes.T).astype(np.float64)
    log_p = simhash.log_inclusion(cosines, BITS, TABLES)
    share = problem.model.logits(problem.queries) - log_z[:, None]
    best = (np.arange(len(share)), share.argmax(axis=1))
    p, n = np.exp(log_p), problem.model.n_classes
    size = float(p.sum(axis=1).mean())
    independent = (np.exp(2 * share - log_p) * -np.expm1(log_p)).sum(axis=1)
    pairs = joint.covariance(hashed.classes, cosines, np.exp(share - log_p))
    total = pairs.positive + pairs.negative
    return {
        "best_cosine": float(cosines[best].mean()), "median_cosine": float(np.median(cosines, axis=1).mean()),
        "best_over_median": float(np.exp(np.mean(log_p[best] - np.median(log_p, axis=1)))),
        "size": size, "uniform": n * (n / size - 1) * float(np.exp(share).var(axis=1, ddof=1).mean()),
        "independent": float(independent.mean()), "covariance": float(total.mean()),
        "positive": float(pairs.positive.mean()), "negative": float(pairs.negative.mean()),
        "contexts_positive": float((total > 0).mean()), "negative_pairs": float(pairs.negative_share.mean()),
        "size_sd_if_independent": float(np.sqrt((p * (1 - p)).sum(axis=1).mean())),
    }  # fmt: skip


def by_draws(problem: Problem, log_z: NDArray, transform: str, center: bool, draws: int) -> dict[str, object]:
    """The covariance term over new hash functions, and the standard deviation of the number of classes."""
    square, own, sizes = [], [], []
    for seed in range(draws):
        sample = sh.LSH(problem.model, BITS, TABLES, transform, center, rng=seed).sample(problem.queries)
        ratio = np.exp(sample.log_partition().log_z - log_z)
        claimed = ragged.poisson_error(sample.offsets, sample.logits, sample.log_expected_count)
        square.append((ratio - 1) ** 2)
        own.append(np.where(ratio > 0, claimed * ratio, 0) ** 2)
        sizes.append(np.diff(sample.offsets))
    terms = (np.array(square) - np.array(own)).mean(axis=1)
    return {
        "draws": draws, "drawn_variance": float(np.mean(square)), "drawn_covariance": float(terms.mean()),
        "drawn_covariance_se": float(terms.std(ddof=1) / np.sqrt(draws)),
        "size_sd": float(np.sqrt(np.var(sizes, axis=0, ddof=1).mean())),
    }  # fmt: skip


def measure(problem: Problem, draws: int, contexts: int) -> list[record.Row]:
    """One row for each way of hashing."""
    some = np.linspace(0, len(problem.queries) - 1, contexts).astype(np.int64)
    problem = problem._replace(queries=problem.queries[some])
    log_z = true_log_z(problem.model, problem.queries)
    rows: list[record.Row] = []
    for name, (transform, center) in WAYS.items():
        print(f"{problem.name}, {name}: all pairs of classes for {contexts} contexts", flush=True)
        row: dict[str, object] = {"dataset": problem.name, "hashing": name, "bits": BITS, "tables": TABLES}
        row |= {"contexts": contexts} | closed_form(problem, log_z, geometry(problem, transform, center))
        print(f"{problem.name}, {name}: covariance term {row['covariance']:.3g}; {draws} draws", flush=True)
        rows.append(row | by_draws(problem, log_z, transform, center, draws))
    return rows


def run(datasets: Sequence[str], quick: bool) -> None:
    """A file for each data set."""
    for name in datasets:
        draws = QUICK_DRAWS if quick else DRAWS[name]
        rows = measure(trained(name), draws, QUICK_CONTEXTS if quick else CONTEXTS[name])
        title = f"Variance of Ẑ/Z under LSH, mean over contexts, {name}"
        record.save(f"paper-covariance-{name}", rows, seeds=f"0-{draws - 1}", quick=quick, title=title)
