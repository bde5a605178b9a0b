"""What is hashed: class vectors centred, with their bias as a coordinate and, for MIPS, a norm-completing one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softhash import blas
from softhash.model import LogLinear

ROWS_PER_BLOCK = 2048
NEGLIGIBLE = 1e-6


class Frame(NamedTuple):
    """The map from class i to the vector hashed for it, and from query x to its own.

        class:  (θ_i − μ, b_i − β [, √(M² − ‖·‖²)])        query: (x, 1 [, 0])

    so that their inner product is logit_i − x·μ − β for any μ and β: centring is exact. With the completing
    coordinate every class has norm M, and the collision probability is monotone in the logit.

    Attributes:
        mean: float32[d], μ; zeros where centring is off.
        mean_bias: β.
        norm: M, or 0 where vectors keep their own norms (transform "cosine").
    """

    mean: NDArray[np.float32]
    mean_bias: float
    norm: float

    @property
    def negligible(self) -> float:
        """Squared norm under which a centred vector is rounding noise, and counts as the zero vector."""
        return NEGLIGIBLE**2 * (float(self.mean @ self.mean) + self.mean_bias**2)


def fit(model: LogLinear, transform: str, center: bool) -> Frame:
    """The frame for the weights as they are."""
    mean, mean_bias = np.zeros(model.dim, np.float32), 0.0
    if center:
        sums = blas.map_blocks(
            lambda s: model.weights[s].sum(axis=0, dtype=np.float64), model.n_classes, ROWS_PER_BLOCK
        )
        mean = (np.sum(sums, axis=0) / model.n_classes).astype(np.float32)
        mean_bias = 0.0 if model.bias is None else float(np.float32(model.bias.mean(dtype=np.float64)))
    frame = Frame(mean, mean_bias, 0.0)
    if transform == "cosine":
        return frame
    return frame._replace(norm=float(np.sqrt(largest_squared_norm(model, frame))))


def largest_squared_norm(model: LogLinear, frame: Frame, ids: NDArray | None = None) -> float:
    """max ‖(θ_i − μ, b_i − β)‖² over these classes."""
    count = model.n_classes if ids is None else len(ids)
    tops = blas.map_blocks(
        lambda s: float(squared_norms(*centred(model, frame, s if ids is None else ids[s])).max()),
        count,
        ROWS_PER_BLOCK,
    )
    return max(tops)


def centred(model: LogLinear, frame: Frame, which: slice | NDArray) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(θ_i − μ, b_i − β) for a block of classes."""
    rows = model.weights[which] - frame.mean
    bias = np.zeros(len(rows), np.float32) if model.bias is None else model.bias[which] - np.float32(frame.mean_bias)
    return rows, bias


def squared_norms(rows: NDArray[np.float32], bias: NDArray[np.float32]) -> NDArray[np.float64]:
    """‖(row, bias)‖² per row."""
    return np.einsum("nd,nd->n", rows, rows).astype(np.float64) + bias.astype(np.float64) ** 2
