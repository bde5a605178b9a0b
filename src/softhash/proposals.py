"""Samplers whose proposal does not look at the query: the classical baselines."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import checks
from softhash.kernels import draws, ragged, score
from softhash.model import LogLinear
from softhash.types import Sample, Sampler

UNIFORM_SHARE = 0.01


def replicate_error(second: NDArray[np.float64], size: int, fraction: float = 0.0) -> NDArray[np.float64]:
    """Relative standard error of a sum of `size` exchangeable draws, from r = Σw² / (Σw)².

    √((1 − fraction) · size/(size − 1) · (r − 1/size)), where `fraction` of the population was drawn without
    replacement; nan for a single draw.
    """
    if size < 2:
        return np.full(len(second), np.nan)
    return np.sqrt(np.maximum((1 - fraction) * size / (size - 1) * (second - 1 / size), 0))


def everything(model: LogLinear, queries: NDArray[np.float32]) -> Sample:
    """Every class with certainty: what a sampler asked for at least N classes returns."""
    n_queries, n_classes = len(queries), model.n_classes
    offsets = np.arange(n_queries + 1, dtype=np.int64) * n_classes
    ids = np.tile(np.arange(n_classes, dtype=np.int32), n_queries)
    certain = np.zeros(n_queries * n_classes, np.float32)
    return Sample(offsets, ids, model.logits(queries).ravel(), certain, np.zeros(n_queries))


class Uniform(Sampler):
    """Uniform importance sampling: Ẑ = N/size · Σ_{i∈S} exp(logit_i).

    Args:
        model: the model.
        size: classes drawn per query.
        replace: whether a class may be drawn twice. Without replacement is never worse, and exact at size ≥ N.

    Example:
        >>> import numpy as np, softhash as sh
        >>> model = sh.LogLinear(np.zeros((1000, 4)))
        >>> estimate = sh.Uniform(model, size=10).log_partition(np.ones((1, 4)), rng=0)
        >>> bool(np.isclose(estimate.log_z[0], np.log(1000))), int(estimate.evaluations[0])
        (True, 10)
    """

    def __init__(self, model: LogLinear, size: int = 200, replace: bool = False):
        self.model = model
        self.size = checks.positive_int("size", size)
        self.replace = bool(replace)

    def sample(self, queries: ArrayLike, *, rng: checks.Seed = None) -> Sample:
        """Draw `size` classes for each query of shape (Q, d)."""
        queries = checks.queries(queries, self.model.dim)
        n_classes = self.model.n_classes
        if not self.replace and self.size >= n_classes:
            return everything(self.model, queries)
        seeds = checks.seeds(checks.generator(rng), len(queries))
        draw = draws.with_replacement if self.replace else draws.without_replacement
        ids = draw(seeds, self.size, n_classes).ravel()
        fraction = 0.0 if self.replace else self.size / n_classes
        log_count = np.full(len(ids), np.log(self.size / n_classes), np.float32)
        return _fixed_size_sample(self.model, queries, ids, log_count, fraction)

    def refresh(self, ids: ArrayLike | None = None) -> None:
        """Nothing is indexed, so nothing goes stale."""

    def state(self) -> tuple[dict, dict[str, NDArray]]:
        """Settings only."""
        return {"size": self.size, "replace": self.replace}, {}

    @classmethod
    def restore(cls, model: LogLinear, settings: dict, arrays: dict[str, NDArray]) -> Self:
        """From `state`."""
        return cls(model, **settings)


class Prior(Sampler):
    """Importance sampling from one distribution q for all queries: Ẑ = 1/size · Σ_draws exp(logit_i) / q_i.

    Draws are independent, with replacement, by an alias table in float64.

    Args:
        model: the model.
        size: draws per query.
        probabilities: (N,) positive numbers to normalise, such as unigram counts.
        queries: (n, d) calibration queries; then q ∝ exp(mean logit), with 1 % spread evenly so that no weight
            exceeds 100·N/size. With neither, the same for a query of zeros: softmax of the biases.

    Example:
        >>> import numpy as np, softhash as sh
        >>> model = sh.LogLinear(np.zeros((4, 2)), bias=np.log([1.0, 2.0, 3.0, 4.0]))
        >>> estimate = sh.Prior(model, size=5, probabilities=[1, 2, 3, 4]).log_partition(np.ones((1, 2)), rng=0)
        >>> bool(np.isclose(estimate.log_z[0], np.log(10)))  # a perfect proposal has no variance
        True
    """

    def __init__(
        self,
        model: LogLinear,
        size: int = 200,
        probabilities: ArrayLike | None = None,
        queries: ArrayLike | None = None,
    ):
        if probabilities is not None and queries is not None:
            raise ValueError("probabilities and queries were both given; pass one of them")
        self.model = model
        self.size = checks.positive_int("size", size)
        self._given = probabilities is not None
        self._mean_query = np.zeros((1, model.dim), np.float32)
        if queries is not None:
            self._mean_query = checks.queries(queries, model.dim).mean(axis=0, keepdims=True)
        if probabilities is None:
            self.refresh()
        else:
            self._index(normalised(probabilities, model.n_classes))

    def _index(self, probabilities: NDArray[np.float64]) -> None:
        self._log_q = np.log(probabilities).astype(np.float32)
        self._keep, self._other = draws.alias_table(probabilities)

    def sample(self, queries: ArrayLike, *, rng: checks.Seed = None) -> Sample:
        """Draw `size` classes with replacement for each query of shape (Q, d)."""
        queries = checks.queries(queries, self.model.dim)
        seeds = checks.seeds(checks.generator(rng), len(queries))
        ids = draws.from_alias(seeds, self.size, self._keep, self._other).ravel()
        log_count = self._log_q[ids] + np.float32(np.log(self.size))
        return _fixed_size_sample(self.model, queries, ids, log_count)

    def refresh(self, ids: ArrayLike | None = None) -> None:
        """Recompute q ∝ exp(mean logit) from the weights as they are; given probabilities stay as given."""
        if self._given:
            return
        logits = self.model.logits(self._mean_query)[0].astype(np.float64)
        weights = np.exp(logits - logits.max())
        self._index((1 - UNIFORM_SHARE) * weights / weights.sum() + UNIFORM_SHARE / len(weights))

    def state(self) -> tuple[dict, dict[str, NDArray]]:
        """The proposal and where it came from."""
        arrays = {"log_q": self._log_q, "keep": self._keep, "other": self._other, "mean_query": self._mean_query}
        return {"size": self.size, "given": self._given}, arrays

    @classmethod
    def restore(cls, model: LogLinear, settings: dict, arrays: dict[str, NDArray]) -> Self:
        """From `state`."""
        prior = cls.__new__(cls)
        prior.model, prior.size, prior._given = model, settings["size"], settings["given"]
        prior._log_q, prior._keep, prior._other = arrays["log_q"], arrays["keep"], arrays["other"]
        prior._mean_query = arrays["mean_query"]
        return prior


def normalised(probabilities: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    """Positive numbers, one per class, as a distribution."""
    checks.vector("probabilities", probabilities, n_classes)
    array = np.asarray(probabilities, dtype=np.float64)
    if array.min() <= 0:
        raise ValueError(
            f"probabilities has {array.min()} for class {array.argmin()}, which could then never be drawn; "
            "add one to every count, or mix in a little of the uniform distribution"
        )
    return array / array.sum()


def capped(probabilities: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Inclusion probabilities min(1, c·q) that sum to `size`, at most their number."""
    rates = np.minimum(size * probabilities, 1)
    while True:
        certain = rates >= 1
        left = size - np.count_nonzero(certain)
        rest = probabilities[~certain].sum()
        if rest <= 0:
            return rates
        rates = np.where(certain, 1.0, left * probabilities / rest)
        if rates.max() <= 1:
            return rates
        rates = np.minimum(rates, 1)


def _fixed_size_sample(model, queries, ids, log_count, fraction: float = 0.0) -> Sample:
    size = len(ids) // len(queries)
    offsets = np.arange(len(queries) + 1, dtype=np.int64) * size
    logits = score.logits(model.rows, model.bias_or_zeros, queries, offsets, ids)
    _, second = ragged.log_sum(offsets, logits, log_count)
    return Sample(offsets, ids, logits, log_count, replicate_error(second, size, fraction))
