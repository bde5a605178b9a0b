"""Statistical checks with an error budget, and the means to show that each would notice being wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

ROUNDING = 1e-5
"""float32 logits allow no closer agreement than this."""


def assert_unbiased(ratios: ArrayLike, *, sigmas: float = 4.0, power: float = 0.03) -> None:
    """Ẑ/Z averages to 1 within `sigmas` standard errors, which are themselves at most `power`.

    Args:
        ratios: (draws,) or (draws, queries); queries that share a draw count as one observation.
        power: largest standard error at which the check means anything.
    """
    draws = np.asarray(ratios, np.float64).reshape(len(np.asarray(ratios)), -1).mean(axis=1)
    error = draws.std(ddof=1) / np.sqrt(len(draws))
    assert error <= power, f"standard error {error:.3g} over {len(draws)} draws: too noisy to tell"
    away = abs(draws.mean() - 1)
    assert away <= sigmas * error + ROUNDING, f"mean {draws.mean():.5f} is {away / error:.1f} standard errors from 1"


def assert_mean(values: ArrayLike, expected: float, *, sigmas: float = 4.0) -> None:
    """The mean of independent values is `expected`, within `sigmas` standard errors."""
    assert_unbiased(np.asarray(values, np.float64) / expected, sigmas=sigmas)


def assert_frequencies(observed: ArrayLike, expected: ArrayLike, *, level: float = 1e-4) -> None:
    """Counts of exclusive outcomes fit their expectation (Pearson's chi-square); thin cells are pooled."""
    observed, expected = _pool(np.asarray(observed, np.float64), np.asarray(expected, np.float64))
    _chi_square(((observed - expected) ** 2 / expected).sum(), len(expected) - 1, level)


def assert_proportions(hits: ArrayLike, trials: ArrayLike, p: ArrayLike, *, level: float = 1e-4) -> None:
    """Independent binomial counts fit their own probabilities (chi-square, one degree of freedom each)."""
    hits, trials, p = (np.asarray(array, np.float64) for array in (hits, trials, p))
    _chi_square(((hits - trials * p) ** 2 / (trials * p * (1 - p))).sum(), len(hits), level)


def rejects(check: Callable[..., None], *args: Any, **settings: Any) -> bool:
    """Whether a check fails, as it must on a deliberately broken twin."""
    try:
        check(*args, **settings)
    except AssertionError:
        return True
    return False


def _pool(observed: NDArray, expected: NDArray, least: float = 5.0) -> tuple[NDArray, NDArray]:
    thin = expected < least
    if not thin.any():
        return observed, expected
    pooled = [np.append(array[~thin], array[thin].sum()) for array in (observed, expected)]
    return pooled[0], pooled[1]


def _chi_square(statistic: float, degrees: int, level: float) -> None:
    chance = stats.chi2.sf(statistic, degrees)
    assert chance > level, f"chi-square {statistic:.1f} on {degrees} degrees of freedom has probability {chance:.2g}"
