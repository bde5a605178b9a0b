"""The methods compared, each built for a number of samples: classes scored, or maxima for the Gumbel methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import softhash as sh
from experiments.data import Problem
from softhash.types import Estimator

BANK = 1000
OVERSHOOT = 1.3
MOST_TABLES = 48
HASHING_SHARE = 2
"""Inner products with planes, for each class scored, that a query's hashing may take."""
_TUNED: dict[tuple, tuple[int, int]] = {}


class Method(NamedTuple):
    """A label, and how to build the method for (problem, samples, seed)."""

    label: str
    build: Callable[[Problem, int, int], Estimator]


def _lsh(transform: str, center: bool) -> Callable[[Problem, int, int], Estimator]:
    def build(problem: Problem, samples: int, seed: int) -> Estimator:
        key = (problem.name, samples, transform, center)
        if key not in _TUNED:
            _TUNED[key] = lsh_shape(problem, samples, transform, center)
        bits, tables = _TUNED[key]
        return sh.LSH(problem.model, bits, tables, transform, center, samples, rng=seed)

    return build


def lsh_shape(problem: Problem, samples: int, transform: str, center: bool) -> tuple[int, int]:
    """(K, L) whose unions hold somewhat more than `samples`, the longest codes that are still cheap to compute.

    A query is hashed by K·L inner products with planes, which are to be at most HASHING_SHARE for each class scored.
    """
    most = MOST_TABLES
    while True:
        bits, tables = longest_codes(problem, samples, most, transform, center)
        if bits * tables <= HASHING_SHARE * samples or most == 1:
            return bits, tables
        most = max(1, min(most, tables) - 1)


def longest_codes(problem: Problem, samples: int, most: int, transform: str, center: bool) -> tuple[int, int]:
    """The same (K, L) with at most so many tables."""
    tuned = sh.LSH.tuned(
        problem.model, round(OVERSHOOT * samples), problem.calibration, max_tables=most, rng=0,
        transform=transform, center=center,
    )  # fmt: skip
    return tuned.bits, tuned.tables


def _gumbel(kind: type, **settings: int) -> Callable[[Problem, int, int], Estimator]:
    def build(problem: Problem, samples: int, seed: int) -> Estimator:
        return kind(problem.model, draws=samples, bank=max(BANK, samples), rng=seed, **settings)

    return build


METHODS = (
    Method("Uniform", lambda problem, samples, seed: sh.Uniform(problem.model, samples)),
    Method("LSH", _lsh("cosine", True)),
    Method("LSH, not centred", _lsh("cosine", False)),
    Method("LSH, mips", _lsh("mips", True)),
    Method("Exact Gumbel", _gumbel(sh.ExactGumbel)),
    Method("MIPS Gumbel", _gumbel(sh.MipsGumbel)),
    Method("Prior", lambda problem, samples, seed: sh.Prior(problem.model, samples, queries=problem.calibration)),
    Method("PriorityGumbel", lambda problem, samples, seed: sh.PriorityGumbel(problem.model, samples, rng=seed)),
    Method("Sketch", lambda problem, samples, seed: sh.Sketch(problem.model, samples, problem.calibration, rng=seed)),
)
SECOND_LARGEST = Method("Exact Gumbel, second largest", _gumbel(sh.ExactGumbel, rank=2))


def named(label: str) -> Method:
    """The method with this label."""
    return next(method for method in METHODS if method.label == label)


def shape_of(estimator: Estimator | None) -> dict[str, object]:
    """K and L of a method that hashes."""
    if isinstance(estimator, sh.LSH | sh.MipsGumbel):
        return {"bits": estimator.bits, "tables": estimator.tables}
    return {}


def errors(estimates: np.ndarray, log_z: np.ndarray) -> dict[str, object]:
    """What a method's log Ẑ (seeds, contexts) is off by.

    error: mean |log Ẑ − log Z| in nats where anything was drawn; relative: mean |Ẑ − Z|/Z; each with its standard
    deviation over seeds. bias, bias_se: mean of Ẑ/Z − 1, and its standard error over seeds. empty: contexts
    for which nothing was drawn, in all.
    """
    away = estimates - log_z
    ratio = np.expm1(away)
    drawn = np.isfinite(away)
    by_seed = np.where(drawn, np.abs(away), 0).sum(axis=1) / np.maximum(drawn.sum(axis=1), 1)
    relative, bias = np.abs(ratio).mean(axis=1), ratio.mean(axis=1)
    return {
        "error": float(by_seed.mean()), "error_sd": float(by_seed.std(ddof=1)),
        "relative": float(relative.mean()), "relative_sd": float(relative.std(ddof=1)),
        "bias": float(bias.mean()), "bias_se": float(bias.std(ddof=1) / np.sqrt(len(bias))),
        "empty": int((~drawn).sum()),
    }  # fmt: skip
