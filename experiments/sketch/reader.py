"""How a sketched inner product is best read: the gain on the sign bits and the allowance for what they leave open.

For each pair (gain, fuzz), classes get weights exp(prior + leading part + gain·T + fuzz·σ²), T the sketched remainder
and σ² its variance before it is read. The error is the relative standard deviation of Poisson draws with those weights,
which has a closed form, so nothing is drawn. Coordinates are not quantised here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments import record
from experiments.data import Problem, smollm2
from softhash.sketch import balance
from softhash.sketch.codes import Projection, default_rank

GAINS = (0.0, 0.55, 2 / np.pi, 0.75, 0.85, 1.0)
FUZZES = (0.0, 0.2, 1 - 2 / np.pi, 0.5, 0.9, 1.0, 1.3)
SIZE = 200
QUERIES = 64
FLOOR = 1e-3


class Reading(NamedTuple):
    """Float arrays (queries, N): the part of a logit known exactly, the rest, the sketched rest, its prior variance."""

    known: NDArray
    rest: NDArray
    sketched: NDArray
    variance: NDArray


def read(problem: Problem, queries: NDArray) -> Reading:
    """Every class for every query."""
    rank = default_rank(problem.model.dim)
    moments = balance.query_moments(problem.calibration, problem.model.dim)
    projection = Projection.build(balance.fit(problem.model, moments), rank, np.random.default_rng(0))
    classes = (problem.model.weights - projection.class_mean) @ projection.for_classes
    seen = (queries - projection.query_mean) @ projection.for_queries
    rest = classes[:, rank:]
    scale = np.square(rest).sum(axis=1) / np.abs(rest).sum(axis=1)
    return Reading(
        seen[:, :rank] @ classes[:, :rank].T + problem.model.weights @ projection.query_mean,
        seen[:, rank:] @ rest.T,
        scale * (seen[:, rank:] @ np.sign(rest).T),
        2 / np.pi * scale**2 * np.square(seen[:, rank:]).sum(axis=1, keepdims=True),
    )


def poisson_error(scores: NDArray, logits: NDArray) -> float:
    """Mean over queries of √(Σ f² (1/p − 1)) / Z with p = min(1, w/τ), w = exp(score) and a small floor."""
    errors = []
    for score, logit in zip(scores, logits, strict=True):
        weight, mass = np.exp(score - score.max()), np.exp(logit - logit.max())
        p = inclusion(weight + FLOOR * weight.mean())
        errors.append(np.sqrt((mass**2 * (1 / p - 1)).sum()) / mass.sum())
    return float(np.mean(errors))


def inclusion(weights: NDArray) -> NDArray:
    """min(1, w/τ) with Σ = SIZE."""
    tau = weights.sum() / SIZE
    while True:
        certain = weights >= tau
        lower = weights[~certain].sum() / (SIZE - certain.sum())
        if not lower < tau * (1 - 1e-9):
            return np.minimum(1, weights / tau)
        tau = lower


def run(quick: bool) -> None:
    """The grid, the best slope measured, and the remaining variance, beside what theory says."""
    problem = smollm2()
    step = len(problem.queries) // (16 if quick else QUERIES)
    reading = read(problem, problem.queries[::step])
    slope = (reading.rest * reading.sketched).sum() / np.square(reading.sketched).sum()
    left = np.square(reading.rest - 2 / np.pi * reading.sketched).mean() / reading.variance.mean()
    print(f"slope of the rest on its sketch {slope:.3f} (2/π = 0.637), variance left {left:.3f} σ² (1 − 2/π = 0.363)")
    rows = []
    for gain in GAINS:
        row: dict[str, object] = {"gain": float(gain), "queries": len(reading.known)}
        for fuzz in FUZZES:
            scores = reading.known + np.float32(gain) * reading.sketched + np.float32(fuzz) * reading.variance
            row[f"fuzz {fuzz:.2f}"] = poisson_error(scores, reading.known + reading.rest)
        rows.append(row | {"slope": float(slope), "variance_left": float(left)})
    title = f"Relative standard deviation of Poisson draws at size {SIZE}"
    record.save("sketch-reader", rows, seeds="rotation 0", quick=quick, title=title)
