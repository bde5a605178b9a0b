"""What is stored of a class: a prior, its leading balanced coordinates in int8, one sign bit for each of the others.

    logit − x·μ = prior + (leading coordinates)·(the query's) + (the rest)·(the query's),

the last term read from the sign bits as scale · Σ ±y with scale = ‖v‖²/‖v‖₁, which is unbiased over the rotation
(RaBitQ; Gao & Long 2024). Leading coordinates lie in tiles of 64 classes, dimension by dimension, as kernels read them.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from softhash import blas
from softhash.kernels import encode as kernels
from softhash.model import LogLinear
from softhash.sketch.balance import Balance

TILE = kernels.TILE
ROWS_PER_BLOCK = 2048
WORD = 64
RANK_STEP = 8


def default_rank(dim: int) -> int:
    """Leading coordinates kept: a quarter of the dimension between 16 and 64, all of it where that is fewer."""
    return min(dim, int(np.clip(dim // 4 // RANK_STEP * RANK_STEP, 16, 64)))


class Projection(NamedTuple):
    """Maps centred classes and queries to (rank coordinates padded to a multiple of 8, then 64·words sketched ones).

    Attributes:
        rank: padded number of leading coordinates.
        class_mean, query_mean: float32[d], subtracted first.
        for_classes, for_queries: float32[d, rank + 64·words].
    """

    rank: int
    class_mean: NDArray[np.float32]
    query_mean: NDArray[np.float32]
    for_classes: NDArray[np.float32]
    for_queries: NDArray[np.float32]

    @classmethod
    def build(cls, balance: Balance, rank: int, rng: np.random.Generator) -> Self:
        """Leading eigenvectors of the balanced classes, then a random rotation of the rest into whole words."""
        dim = len(balance.class_mean)
        rest, padded = dim - rank, -(-rank // RANK_STEP) * RANK_STEP
        width = -(-rest // WORD) * WORD
        with blas.serial_blas():
            vectors = np.linalg.eigh(balance.class_covariance)[1][:, ::-1]
            rotation = np.linalg.qr(rng.standard_normal((width, rest)))[0].T if rest else np.zeros((0, 0))
            basis = np.hstack([vectors[:, :rank], np.zeros((dim, padded - rank)), vectors[:, rank:] @ rotation])
            for_classes, for_queries = balance.for_classes @ basis, balance.for_queries @ basis
        means = balance.class_mean, balance.query_mean
        return cls(padded, *means, for_classes.astype(np.float32), for_queries.astype(np.float32))


class Codes(NamedTuple):
    """The stored sketches of n classes, in tiles of 64; the last one is padded.

    Attributes:
        prior: float32[tiles, 64], θ·x̄ + b, the logit of the mean query.
        leading: int8[tiles, rank/2, 64, 2], leading coordinates in units of `leading_scale`, pairs of them together.
        leading_scale: float32[tiles, 64].
        bits: uint64[64·tiles, words], signs of the rest.
        scale: float32[tiles, 64], ‖v‖²/‖v‖₁ of the rest.
    """

    prior: NDArray[np.float32]
    leading: NDArray[np.int8]
    leading_scale: NDArray[np.float32]
    bits: NDArray[np.uint64]
    scale: NDArray[np.float32]

    @classmethod
    def empty(cls, n: int, projection: Projection) -> Self:
        """Room for n classes."""
        tiles, rank = -(-n // TILE), projection.rank
        width = projection.for_classes.shape[1] - rank
        leading = np.zeros((tiles, rank // kernels.PAIR, TILE, kernels.PAIR), np.int8)
        bits = np.zeros((tiles * TILE, width // WORD), np.uint64)
        prior, leading_scale, scale = (np.zeros((tiles, TILE), np.float32) for _ in range(3))
        return cls(prior, leading, leading_scale, bits, scale)


def encode(
    codes: Codes, places: NDArray[np.int32], model: LogLinear, ids: NDArray[np.int32], projection: Projection
) -> None:
    """Store the sketches of classes `ids` at `places`, in blocks of one shape:
    same codes in any company, to rounding."""

    def block(part: slice) -> None:
        rows = model.weights[ids[part]]
        prior = rows @ projection.query_mean
        if model.bias is not None:
            prior += model.bias[ids[part]]
        kernels.encode(centred(rows, projection) @ projection.for_classes, places[part], prior, *codes)

    blas.map_blocks(block, len(ids), ROWS_PER_BLOCK)


def leading_coordinates(model: LogLinear, projection: Projection) -> NDArray[np.float32]:
    """(N, rank) leading coordinates of every class, before quantising."""
    out = np.empty((model.n_classes, projection.rank), np.float32)

    def block(part: slice) -> None:
        rows = model.weights[part]
        out[part] = (centred(rows, projection) @ projection.for_classes[:, : projection.rank])[: len(rows)]

    blas.map_blocks(block, model.n_classes, ROWS_PER_BLOCK)
    return out


def centred(rows: NDArray[np.float32], projection: Projection) -> NDArray[np.float32]:
    """rows − class_mean, padded with zeros to ROWS_PER_BLOCK."""
    padded = np.zeros((ROWS_PER_BLOCK, rows.shape[1]), np.float32)
    np.subtract(rows, projection.class_mean, out=padded[: len(rows)])
    return padded
