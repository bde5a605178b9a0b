"""Errors of an estimator over queries and draws, and sketches that share one index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import softhash as sh
from softhash.types import Estimator

SIGMAS_95 = 1.96


def error(estimator: Estimator, queries: NDArray, log_z: NDArray, *, draws: int = 1, seed: int = 0) -> float:
    """Mean |log Ẑ − log Z| in nats."""
    found = [estimator.log_partition(queries, rng=seed + draw).log_z for draw in range(draws)]
    return float(np.abs(np.array(found) - log_z).mean())


def over_draws(estimator: Estimator, queries: NDArray, log_z: NDArray, draws: int, seed: int) -> dict[str, float]:
    """Error, bias and honesty of error bars over fresh draws from one index.

    error: mean |log Ẑ − log Z|. bias, bias_se: mean of Ẑ/Z − 1, and its standard error over draws. coverage: share of
    95 % intervals that hold log Z. claimed_to_real: median claimed standard error, over the median over queries of the
    root mean square of Ẑ/Z − 1 over draws. scored: classes scored.
    """
    estimates = [estimator.log_partition(queries, rng=seed + draw) for draw in range(draws)]
    away = np.array([estimate.log_z for estimate in estimates]) - log_z
    claimed = np.array([estimate.std_error for estimate in estimates])
    ratio = np.expm1(away)
    per_draw = ratio.mean(axis=1)
    return {
        "scored": float(np.mean([estimate.evaluations.mean() for estimate in estimates])),
        "error": float(np.abs(away).mean()),
        "bias": float(per_draw.mean()),
        "bias_se": float(per_draw.std(ddof=1) / np.sqrt(draws)),
        "coverage": float((np.abs(away) <= SIGMAS_95 * claimed).mean()),
        "claimed_to_real": float(np.median(claimed) / np.median(np.sqrt((ratio**2).mean(axis=0)))),
    }


def variant(sketch: sh.Sketch, **settings: Any) -> sh.Sketch:
    """A sketch over the same index that draws otherwise: size, probes, refine, query_bits, design, replicates."""
    held, arrays = sketch.state()
    return sh.Sketch.restore(sketch.model, held | settings, arrays)
