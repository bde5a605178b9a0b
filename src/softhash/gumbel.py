"""log Z from maxima of logits perturbed by Gumbel noise: over every class, or over those that hash tables return."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import blas, checks
from softhash.exact import logit_batches
from softhash.kernels import draws as random
from softhash.kernels import gumbel
from softhash.kernels import tables as kernels
from softhash.lsh import simhash
from softhash.lsh.tables import Tables
from softhash.model import LogLinear
from softhash.types import Estimate

LOGIT_BYTES = 64 * 2**20
NOISE_BYTES = 8 * 2**20
CODES_PER_BLOCK = 2**20
LIST_LENGTH = 8
WORTH_A_PRODUCT = 1 / 16


class ExactGumbel:
    """The Gumbel-max trick over every class.

        H_j = max_y (logit_y + G_yj) = log Z + Gumbel noise,    1/Ẑ = mean over draws of exp(−H_j),

    with a fixed bank of Gumbel columns G_·j, of which every query uses `draws` chosen at random. 1/Ẑ is unbiased for
    1/Z over banks, with a relative standard error of 1/√draws whatever the model; log Ẑ is off by 0.8/√draws on
    average, and Ẑ too large by a factor of draws/(draws − 1).

    The maxima are exact, but most G are never looked at: those of the √N classes of largest logit are, and of the rest
    only the largest G, in descending order, until no class further on can win. The bank is a function of
    its seed; a list of about 8√N classes per column is all that is stored.

    Args:
        model: the model.
        draws: columns used for each query.
        bank: columns there are.
        rank: 1 for the maximum; 2 for the second largest, with which the paper shows what a missed maximum costs.
        rng: seed of the bank.

    Example:
        >>> import numpy as np, softhash as sh
        >>> model = sh.LogLinear(np.zeros((100, 4)))
        >>> estimate = sh.ExactGumbel(model, draws=1000).log_partition(np.ones((1, 4)), rng=0)
        >>> bool(abs(estimate.log_z[0] - np.log(100)) < 0.15), int(estimate.evaluations[0])
        (True, 100)

    Reference: Spring & Shrivastava (2017), section 3; Mussmann, Levy & Ermon (2017) for looking at √N classes.
    """

    def __init__(self, model: LogLinear, draws: int = 50, bank: int = 1000, rank: int = 1, rng: checks.Seed = 0):
        self.model = model
        self.bank = checks.positive_int("bank", bank)
        self.draws = checks.positive_int("draws", draws, most=self.bank)
        self.rank = checks.positive_int("rank", rank, most=min(2, model.n_classes))
        self._seeds = checks.seeds(checks.generator(rng), self.bank)
        self._earliest = _earliest(self._seeds, model.n_classes)
        self._everyone = np.empty((model.n_classes, 0), np.uint8)
        self._no_planes = np.empty((self.bank, 0), np.float32)

    def log_partition(self, queries: ArrayLike, *, rng: checks.Seed = None) -> Estimate:
        """log Ẑ for queries of shape (Q, d); `rng` chooses the columns."""
        queries = checks.queries(queries, self.model.dim)
        columns = _choose_columns(queries, self.draws, self.bank, rng)
        maxima = np.empty(columns.shape)
        for which, logits in logit_batches(self.model, queries, LOGIT_BYTES):
            projections = np.empty((len(logits), 0), np.float32)
            maxima[which], _ = gumbel.maxima(
                logits, columns[which], self._seeds, self._earliest, self._everyone, projections, self._no_planes,
                0, self.rank,
            )  # fmt: skip
        return inverse_mean(maxima, np.full(len(queries), self.model.n_classes, np.int64))


class MipsGumbel:
    """The Gumbel-max trick over what hash tables return, one query of the tables for each draw.

        H_j = max over S_j of (logit_y + G_yj),    1/Ẑ = mean over draws of exp(−H_j),

    S_j the union of the buckets of (x, e_j) in SimHash tables of the vectors (θ_y, G_y1, …, G_y,bank), hashed as they
    are; a bias is one more coordinate. Biased: where S_j misses the maximum, H_j is too small, and so is Ẑ. Draws with
    an empty S_j are left out of the mean; log Ẑ is -inf where all are empty.

    Where the S_j of one query will together hold a good part of all classes, logits come from a matrix product, and
    the maximum over S_j is found from the largest perturbed logits downwards, by comparing codes; else each class is
    scored when a bucket first returns it. The maximum is the same.

    Args:
        model: the model.
        draws: columns used, and queries of the tables made, for each query.
        bits: K, bits per code.
        tables: L, hash tables.
        rng: seed of the bank and of the planes.
        bank: Gumbel columns there are.

    Example:
        >>> import numpy as np, softhash as sh
        >>> model = sh.LogLinear(np.zeros((1000, 4)))
        >>> estimate = sh.MipsGumbel(model, draws=500, rng=0).log_partition(np.ones((1, 4)), rng=0)
        >>> bool(np.log(300) < estimate.log_z[0] < np.log(1000))  # of 1000 classes a bit over a third is returned
        True

    Reference: Spring & Shrivastava (2017), sections 3.2 and 6.2; Mussmann & Ermon (2016).
    """

    def __init__(
        self,
        model: LogLinear,
        draws: int = 50,
        bits: int = 5,
        tables: int = 16,
        rng: checks.Seed = 0,
        *,
        bank: int = 1000,
    ):
        self.model = model
        self.bits, self.tables = simhash.check_shape(bits, tables)
        self.bank = checks.positive_int("bank", bank)
        self.draws = checks.positive_int("draws", draws, most=self.bank)
        rng = checks.generator(rng)
        self._seeds = checks.seeds(rng, self.bank)
        known = model.dim + (model.bias is not None)
        planes = simhash.planes(known + self.bank, self.bits, self.tables, rng)
        self._planes, self._column_planes = planes[:known], planes[known:]
        self.refresh()

    def refresh(self) -> None:
        """Hash the classes anew after weights changed; the bank and the planes stay."""
        codes = self._hash_classes()
        counts = [np.unique(row, return_counts=True)[1] / self.model.n_classes for row in codes]
        returned = sum(float(share @ share) for share in counts)
        self._dense = -np.expm1(-self.draws * returned) > WORTH_A_PRODUCT
        if self._dense:
            self._codes = np.ascontiguousarray(codes.T, np.uint8 if self.bits <= 8 else np.uint32)
            self._earliest = _earliest(self._seeds, self.model.n_classes)
        else:
            self._index = Tables.build(codes, self.bits)

    def _hash_classes(self) -> NDArray[np.uint32]:
        """Codes (L, N) of (θ_y, b_y, G_y)."""
        model = self.model
        codes = np.empty((self.tables, model.n_classes), np.uint32)
        block = max(64, NOISE_BYTES // (4 * self.bank))

        def hash_block(classes: slice) -> None:
            noise = np.empty((classes.stop - classes.start, self.bank), np.float32)
            gumbel.fill(self._seeds, classes.start, noise)
            projections = noise @ self._column_planes
            projections += model.weights[classes] @ self._planes[: model.dim]
            if model.bias is not None:
                projections += np.outer(model.bias[classes], self._planes[model.dim])
            kernels.pack(projections, self.bits, codes[:, classes])

        blas.map_blocks(hash_block, model.n_classes, block)
        return codes

    def log_partition(self, queries: ArrayLike, *, rng: checks.Seed = None) -> Estimate:
        """log Ẑ for queries of shape (Q, d); `rng` chooses the columns."""
        queries = checks.queries(queries, self.model.dim)
        columns = _choose_columns(queries, self.draws, self.bank, rng)
        maxima, evaluations = (self._by_product if self._dense else self._by_bucket)(queries, columns)
        return inverse_mean(maxima, evaluations)

    def _by_product(self, queries, columns) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        maxima, projections = np.empty(columns.shape), self._project(queries)
        for which, logits in logit_batches(self.model, queries, LOGIT_BYTES):
            maxima[which], _ = gumbel.maxima(
                logits, columns[which], self._seeds, self._earliest, self._codes, projections[which],
                self._column_planes, self.bits, 1,
            )  # fmt: skip
        return maxima, np.full(len(queries), self.model.n_classes, np.int64)

    def _by_bucket(self, queries, columns) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        model, block = self.model, max(1, CODES_PER_BLOCK // (self.draws * self.tables * self.bits))
        parts = []
        for start in range(0, len(queries), block):
            some, chosen = queries[start : start + block], columns[start : start + block]
            projections = (self._project(some)[:, None] + self._column_planes[chosen]).reshape(chosen.size, -1)
            codes = np.empty((self.tables, chosen.size), np.uint32)
            kernels.pack(projections, self.bits, codes)
            buckets = self._index.buckets(codes)
            parts.append(
                gumbel.bucket_maxima(
                    model.rows, model.bias_or_zeros, some, chosen, self._seeds, buckets, self._index.ids
                )
            )
        maxima, scored = zip(*parts, strict=True)
        return np.concatenate(maxima), np.concatenate(scored)

    def _project(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        with blas.serial_blas():
            projections = queries @ self._planes[: self.model.dim]
        return projections if self.model.bias is None else projections + self._planes[-1]


def _choose_columns(queries: NDArray, draws: int, bank: int, rng: checks.Seed) -> NDArray[np.int32]:
    """(Q, draws) distinct columns for each query."""
    return random.without_replacement(checks.seeds(checks.generator(rng), len(queries)), draws, bank)


def _earliest(seeds: NDArray[np.uint64], n_classes: int) -> NDArray[np.int32]:
    return gumbel.earliest(seeds, n_classes, LIST_LENGTH * (1 + int(np.sqrt(n_classes))))


def inverse_mean(maxima: NDArray[np.float64], evaluations: NDArray[np.int64]) -> Estimate:
    """log Ẑ = −log mean exp(−H) over the finite H of each row, and the relative standard error of that mean."""
    found = np.isfinite(maxima)
    count = found.sum(axis=1)
    least = np.where(found, maxima, np.inf).min(axis=1)
    least[count == 0] = 0
    terms = np.where(found, np.exp(least[:, None] - np.where(found, maxima, 0)), 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = terms.sum(axis=1) / count
        squares = np.where(found, (terms - mean[:, None]) ** 2, 0).sum(axis=1)
        std_error = np.sqrt(squares / ((count - 1) * count)) / mean
        log_z = np.where(count > 0, least - np.log(mean), -np.inf)
    return Estimate(log_z, std_error, evaluations)
