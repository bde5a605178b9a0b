"""Validation at the boundary: every error names the argument, shows what came, and says what to pass instead."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Seed: TypeAlias = int | np.integer | np.random.Generator | None

MAX_CLASSES = 2**31 - 1
ROWS_PER_SCAN = 65_536


def generator(rng: Seed) -> np.random.Generator:
    """A Generator from an int seed, a Generator (used as it is), or None (fresh entropy)."""
    if isinstance(rng, bool) or not (rng is None or isinstance(rng, int | np.integer | np.random.Generator)):
        raise TypeError(f"rng is {rng!r}; pass an int seed, a numpy.random.Generator or None")
    if isinstance(rng, int | np.integer) and rng < 0:
        raise ValueError(f"rng is {rng}; seeds must be non-negative")
    return np.random.default_rng(rng)


def seeds(rng: np.random.Generator, count: int) -> NDArray[np.uint64]:
    """One independent 64-bit seed per query, so that kernels give the same draws at any thread count."""
    return rng.integers(0, 2**64, size=count, dtype=np.uint64)


def positive_int(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """An integer in [least, most]."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}; pass an integer")
    if value < least or (most is not None and value > most):
        wanted = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ValueError(f"{name} is {value}; pass an integer {wanted}")
    return int(value)


def choice(name: str, value: Any, options: tuple[str, ...]) -> str:
    """One of a few names."""
    if value not in options:
        raise ValueError(f"{name} is {value!r}; pass one of {', '.join(map(repr, options))}")
    return value


def number(name: str, value: Any, *, least: float, most: float = np.inf) -> float:
    """A finite real number in [least, most]."""
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; pass a number") from None
    if not (least <= result <= most and np.isfinite(result)):
        raise ValueError(f"{name} is {value}; pass a number between {least} and {most}")
    return result


def same_length(name: str, length: int, other: str, expected: int) -> None:
    """Two arguments that must agree in length."""
    if length != expected:
        raise ValueError(f"{name} has {length} entries but {other} has {expected}; pass arrays of equal length")


def _real_array(name: str, value: ArrayLike) -> NDArray:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} has dtype {array.dtype}; pass real numbers, such as float32")
    return array


def _finite(name: str, array: NDArray) -> None:
    """Reject NaN and infinity, reading a bounded block at a time (a sum is finite only if every term is)."""
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(array), ROWS_PER_SCAN):
            if np.isfinite(array[start : start + ROWS_PER_SCAN].sum(dtype=np.float64)):
                continue
            rows = array[start : start + ROWS_PER_SCAN].reshape(min(ROWS_PER_SCAN, len(array) - start), -1)
            bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
            if len(bad):
                raise ValueError(f"{name} has NaN or infinity in row {start + bad[0]}; replace or remove such values")


def matrix(name: str, value: ArrayLike, columns: int | None = None) -> NDArray[np.float32]:
    """A finite, non-empty 2-D array as C-contiguous float32, without a copy where it already is one."""
    array = _real_array(name, value)
    if array.ndim != 2:
        hint = f"; for a single row pass {name}[None, :]" if array.ndim == 1 else ""
        raise ValueError(f"{name} has shape {array.shape}; pass a 2-D array{hint}")
    if array.size == 0:
        raise ValueError(f"{name} is empty, shape {array.shape}; pass at least one row and one column")
    if columns is not None and array.shape[1] != columns:
        raise ValueError(f"{name} has shape {array.shape} but the model's dimension is {columns}; pass (n, {columns})")
    with np.errstate(over="ignore"):
        result = np.ascontiguousarray(array, dtype=np.float32)
    _finite(name, result)
    return result


def queries(value: ArrayLike, dim: int) -> NDArray[np.float32]:
    """Queries of shape (Q, d)."""
    return matrix("queries", value, dim)


def vector(name: str, value: ArrayLike, length: int) -> NDArray[np.float32]:
    """A finite 1-D float32 array with one entry per class."""
    array = _real_array(name, value)
    if array.shape != (length,):
        raise ValueError(f"{name} has shape {array.shape}; pass one number for each of the {length} classes")
    result = np.ascontiguousarray(array, dtype=np.float32)
    _finite(name, result)
    return result


def class_ids(name: str, value: ArrayLike, n_classes: int) -> NDArray[np.int32]:
    """Class numbers in [0, N), any shape."""
    array = np.asarray(value)
    if array.size == 0:
        return np.zeros(array.shape, dtype=np.int32)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {array.dtype}; pass integer class numbers")
    if array.min() < 0 or array.max() >= n_classes:
        bad = array.ravel()[np.argmax((array.ravel() < 0) | (array.ravel() >= n_classes))]
        raise ValueError(f"{name} contains {bad}; class numbers run from 0 to {n_classes - 1}")
    return np.ascontiguousarray(array, dtype=np.int32)


def targets(value: ArrayLike, n_queries: int, n_classes: int) -> NDArray[np.int32]:
    """One class number per query."""
    ids = class_ids("targets", value, n_classes)
    if ids.shape != (n_queries,):
        raise ValueError(f"targets has shape {ids.shape}; pass one class for each of the {n_queries} queries")
    return ids
