"""SimHash: sign bits of Gaussian projections, and the closed-form probability that two codes meet."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import checks

MAX_BITS = 30
MAX_TABLES = 32_767
NODES = 4096
INTERPOLATED = 0.94


def planes(dim: int, bits: int, tables: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """(dim, tables·bits) Gaussian directions; table t owns the columns t·bits to (t+1)·bits."""
    return rng.standard_normal((dim, tables * bits), dtype=np.float32)


def log_inclusion(cosine: ArrayLike, bits: int, tables: int) -> NDArray[np.float64]:
    """log p for a class at this cosine to the query, p = 1 − (1 − p_bit^K)^L with p_bit = 1 − arccos(cosine)/π.

    Accurate to 1e-9 over the whole range, where the formula as written returns log 0 as soon as p_bit^K rounds away.

    Args:
        cosine: any shape, in [−1, 1].
        bits: K, bits per code.
        tables: L, codes per class.

    Example:
        >>> round(float(log_inclusion(0.0, bits=10, tables=1)), 6)  # -10 log 2
        -6.931472

    Reference: Spring & Shrivastava (2017), section 4; Charikar (2002) for p_bit.
    """
    cosine = np.clip(np.asarray(cosine, dtype=np.float64), -1, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # π − arccos(c) = arccos(−c), without the cancellation near −1.
        log_bit = np.where(cosine < 0, np.log(np.arccos(-cosine) / np.pi), np.log1p(-np.arccos(cosine) / np.pi))
        log_code = bits * log_bit
        log_miss = tables * _log1mexp(log_code)
        rare = np.log(tables) + log_code + np.log1p(-(tables - 1) / 2 * np.exp(log_code))
        return np.where(log_code < -40, rare, _log1mexp(log_miss))


def _log1mexp(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """log(1 − exp(x)) for x ≤ 0."""
    return np.where(x > -np.log(2), np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


def log_inclusion_table(bits: int, tables: int) -> NDArray[np.float64]:
    """(NODES, 2) values of log p on |cosine| ≤ 0.94 and rises per step, for cubic interpolation to 1e-9 in kernels."""
    cosine = np.linspace(-INTERPOLATED, INTERPOLATED, NODES)
    log_p = log_inclusion(cosine, bits, tables)
    log_bit = np.log(np.arccos(-cosine) / np.pi)
    log_slope_of_bit = -np.log(np.pi) - 0.5 * np.log1p(-(cosine**2))
    log_slope = (
        np.log(tables)
        + (tables - 1) * _log1mexp(bits * log_bit)
        + np.log(bits)
        + (bits - 1) * log_bit
        + log_slope_of_bit
        - log_p
    )
    return np.stack([log_p, np.exp(log_slope) * (cosine[1] - cosine[0])], axis=1)


def check_shape(bits: int, tables: int) -> tuple[int, int]:
    """Validated (K, L)."""
    bits = checks.positive_int("bits", bits, most=MAX_BITS)
    return bits, checks.positive_int("tables", tables, most=MAX_TABLES)
