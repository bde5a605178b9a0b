"""log Z from one query for the largest perturbed logits: priority sampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import checks
from softhash.exact import Exact, logit_batches
from softhash.kernels import score, select
from softhash.model import LogLinear
from softhash.nearest import Nearest
from softhash.sketch import balance
from softhash.types import Estimate

LOGIT_BYTES = 64 * 2**20


class PriorityGumbel:
    """The `size` + 1 classes of largest w_y/u_y, found by one query for largest inner products.

        Ẑ = Σ_{y among the `size` largest} max(w_y, τ),    w_y = exp(logit_y), τ the next w_y/u_y,

    with u_y uniform in (0, 1] and kept: log(w_y/u_y) = (θ_y, −log u_y)·(x, 1). Unbiased over u where the search is
    exact, with an error of at most about 1/√size whatever N is, and less where few classes carry most of Z. For fixed u
    the estimate for a query is a fixed number; `refresh` draws u anew.

    Args:
        model: the model.
        size: classes that count.
        index: None for exact search, by blocked matrix products. Else a FAISS factory string, such as "HNSW32" or
            "IVF1024,Flat"; what the index misses makes Ẑ too small.
        rng: seed of u.
        search: settings of the FAISS index, such as "nprobe=64" or "efSearch=800"; None: efSearch twice `size`, or a
            sixteenth of the cells.

    Example:
        >>> import numpy as np, softhash as sh
        >>> model = sh.LogLinear(np.zeros((1000, 4)))
        >>> estimate = sh.PriorityGumbel(model, size=400).log_partition(np.ones((1, 4)))
        >>> bool(abs(estimate.log_z[0] - np.log(1000)) < 0.15)
        True

    Reference: Duffield, Lund & Thorup (2007), Priority sampling for estimation of arbitrary subset sums.
    """

    def __init__(
        self,
        model: LogLinear,
        size: int = 200,
        index: str | None = None,
        rng: checks.Seed = 0,
        *,
        search: str | None = None,
    ):
        self.model = model
        self.size = checks.positive_int("size", size)
        if index is None and search is not None:
            raise ValueError(f"search is {search!r}, but without an index the search is exact; pass index, or drop it")
        self.index, self.search = index, search
        self._rng = checks.generator(rng)
        self.refresh()

    def refresh(self) -> None:
        """Draw u anew, and index the weights as they are; exact search needs that for a new u alone."""
        self._boost = -np.log1p(-self._rng.random(self.model.n_classes)).astype(np.float32)
        self._nearest = None if self.index is None else self._build(self.index)

    def _build(self, index: str) -> Nearest:
        """A FAISS index over (θ_y, b_y − log u_y)."""
        perturbed = LogLinear(self.model.weights, self._boost + self.model.bias_or_zeros)
        nearest = Nearest(perturbed, index, "plain", balance.query_moments(None, self.model.dim))
        if self.search is not None:
            nearest.check_setting(self.search)
        return nearest

    def log_partition(self, queries: ArrayLike, *, rng: checks.Seed = None) -> Estimate:
        """log Ẑ for queries of shape (Q, d); `rng` is accepted for uniformity and unused."""
        queries = checks.queries(queries, self.model.dim)
        checks.generator(rng)
        if self.size >= self.model.n_classes:
            return Exact(self.model).log_partition(queries)
        if self._nearest is not None:
            return self._approximate(self._nearest, queries)
        parts = [
            select.top_sums(logits, self._boost, self.size + 1)
            for _, logits in logit_batches(self.model, queries, LOGIT_BYTES)
        ]
        logits, keys = map(np.concatenate, zip(*parts, strict=True))
        return _estimate(logits, keys, np.full(len(queries), self.model.n_classes, np.int64))

    def _approximate(self, nearest: Nearest, queries: NDArray[np.float32]) -> Estimate:
        """What the index returns, scored exactly and put in order."""
        setting = nearest.default_setting(self.size + 1) if self.search is None else self.search
        ids = nearest.search(queries, self.size + 1, setting)
        found = ids >= 0
        ids = np.where(found, ids, 0).astype(np.int32)
        offsets = np.arange(len(ids) + 1, dtype=np.int64) * ids.shape[1]
        logits = score.logits(self.model.rows, self.model.bias_or_zeros, queries, offsets, ids.ravel())
        logits = np.where(found, logits.reshape(ids.shape), -np.inf)
        keys = logits + self._boost[ids]
        order = np.argsort(-keys, axis=1)
        logits, keys = (np.take_along_axis(array, order, axis=1) for array in (logits, keys))
        return _estimate(logits, keys, found.sum(axis=1))


def _estimate(logits: NDArray[np.float32], keys: NDArray[np.float32], evaluations: NDArray[np.int64]) -> Estimate:
    """From the classes of largest log(w/u), the largest first: the last gives τ, the others count."""
    has = np.maximum(np.isfinite(keys).sum(axis=1), 1) - 1
    log_tau = np.take_along_axis(keys, has[:, None], axis=1).astype(np.float64)
    counts = np.arange(keys.shape[1]) < has[:, None]
    log_w = np.where(counts, logits, -np.inf).astype(np.float64)
    terms = np.where(counts, np.maximum(log_w, log_tau), -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        top = np.where(has > 0, terms.max(axis=1), 0)[:, None]
        total = np.exp(terms - top).sum(axis=1)
        tau, weight = np.exp(log_tau - top), np.exp(log_w - top)
        variance = np.where(counts, tau * np.maximum(tau - weight, 0), 0).sum(axis=1)
        return Estimate(top[:, 0] + np.log(total), np.sqrt(variance) / total, evaluations)
