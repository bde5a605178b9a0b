"""The whole architecture: a Sampler turns queries into a Sample, a Sample turns into an Estimate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import checks
from softhash.kernels import ragged

if TYPE_CHECKING:
    from pathlib import Path

    from softhash.model import LogLinear

QUERIES_PER_BLOCK = 1024


class Estimate(NamedTuple):
    """log Ẑ for each query, how far off it may be, and what it cost.

    Attributes:
        log_z: float64[Q], log Ẑ; -inf where nothing was drawn.
        std_error: float64[Q], relative standard error of Ẑ, which is that of log Ẑ to first order;
            nan where the method cannot say.
        evaluations: int64[Q], exact inner products paid for.

    Example:
        >>> import numpy as np, softhash as sh
        >>> estimate = sh.Exact(sh.LogLinear(np.zeros((8, 3), np.float32))).log_partition(np.ones((1, 3)))
        >>> bool(np.isclose(estimate.log_z[0], np.log(8))), int(estimate.evaluations[0])
        (True, 8)
    """

    log_z: NDArray[np.float64]
    std_error: NDArray[np.float64]
    evaluations: NDArray[np.int64]


class Sample(NamedTuple):
    """Classes drawn for a batch of queries: query q owns the slots offsets[q]:offsets[q+1].

    A slot holds a class, its exact logit, and the log of the number of times the design was expected to
    draw it (the log of its inclusion probability when it is drawn at most once). Then

        Ẑ_q = Σ_{slots of q} exp(logit − log_expected_count)

    is unbiased for Z_q however correlated the draws are (Horvitz–Thompson; Spring & Shrivastava, theorem 4.1).

    Attributes:
        offsets: int64[Q+1].
        ids: int32[M].
        logits: float32[M].
        log_expected_count: float32[M].
        std_error: float64[Q] relative standard error of Ẑ, from the sampler, which knows its own design;
            None where it cannot say.

    Example:
        >>> import numpy as np, softhash as sh
        >>> one, zero = np.zeros(1, np.float32), np.zeros(1, np.int32)
        >>> sample = sh.Sample(np.array([0, 1]), zero, one, np.log(one + 0.5))
        >>> float(np.exp(sample.log_partition().log_z[0]).round(6))
        2.0
    """

    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    logits: NDArray[np.float32]
    log_expected_count: NDArray[np.float32]
    std_error: NDArray[np.float64] | None = None

    def log_partition(self) -> Estimate:
        """The unbiased estimate of Z these draws make, as log Ẑ."""
        log_z, _ = ragged.log_sum(self.offsets, self.logits, self.log_expected_count)
        evaluations = np.diff(self.offsets)
        std_error = np.full(len(log_z), np.nan) if self.std_error is None else self.std_error
        return Estimate(log_z, np.where(evaluations > 0, std_error, np.nan), evaluations)

    def with_targets(self, model: LogLinear, queries: ArrayLike, targets: ArrayLike) -> Sample:
        """The same draws with each query's target present exactly once, counted with certainty (p = 1).

        Ẑ stays unbiased, log P(target) can no longer exceed 0, and training gets its positive term.

        Args:
            model: the model that was sampled.
            queries: (Q, d), the queries that were sampled.
            targets: int[Q], one class per query.
        """
        queries = checks.queries(queries, model.dim)
        targets = checks.targets(targets, len(queries), model.n_classes)
        checks.same_length("queries", len(queries), "the sample's queries", len(self.offsets) - 1)
        logits = model.logits(queries, targets[:, None])[:, 0]
        return Sample(
            *ragged.with_targets(self.offsets, self.ids, self.logits, self.log_expected_count, targets, logits)
        )


@runtime_checkable
class Estimator(Protocol):
    """Anything that estimates log Z(x) for a batch of queries."""

    model: LogLinear

    def log_partition(self, queries: ArrayLike, *, rng: checks.Seed = None) -> Estimate:
        """Estimate log Z for queries of shape (Q, d)."""
        ...


class Sampler(ABC):
    """An Estimator that works by drawing classes. A new one implements `sample`, `refresh`, `state` and `restore`."""

    model: LogLinear

    @abstractmethod
    def sample(self, queries: ArrayLike, *, rng: checks.Seed = None) -> Sample:
        """Draw classes for queries of shape (Q, d)."""

    @abstractmethod
    def refresh(self, ids: ArrayLike | None = None) -> None:
        """Re-index after the weights changed: every row, or only these."""

    @abstractmethod
    def state(self) -> tuple[dict, dict[str, NDArray]]:
        """What `save` writes: settings that fit in JSON, and the arrays of the index."""

    @classmethod
    @abstractmethod
    def restore(cls, model: LogLinear, settings: dict, arrays: dict[str, NDArray]) -> Self:
        """The sampler that `state` described, over this model."""

    def log_partition(self, queries: ArrayLike, *, rng: checks.Seed = None) -> Estimate:
        """Estimate log Z for queries of shape (Q, d), a block of queries at a time."""
        queries = checks.queries(queries, self.model.dim)
        rng = checks.generator(rng)
        blocks = [queries[start : start + QUERIES_PER_BLOCK] for start in range(0, len(queries), QUERIES_PER_BLOCK)]
        estimates = [self.sample(block, rng=rng).log_partition() for block in blocks]
        return Estimate(*map(np.concatenate, zip(*estimates, strict=True)))

    def save(self, path: str | Path) -> None:
        """Write the index (never the weights) to a safetensors file, atomically; `softhash.load` reads it."""
        from softhash import persist

        persist.save(self, path)
