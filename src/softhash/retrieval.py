"""The most probable classes, with their log-probabilities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import checks
from softhash.exact import Exact
from softhash.kernels import sweep as kernels
from softhash.model import LogLinear
from softhash.sweep import Mass, log_sum, parts, sweep
from softhash.types import Sampler


class TopClasses(NamedTuple):
    """The k most probable classes of each query, best first.

    Attributes:
        ids: int32[Q, k]; −1 where fewer were found.
        log_prob: float64[Q, k]; −inf there.
        recall: share of the true k most probable classes among those found, over the queries checked; nan if none was.
    """

    ids: NDArray[np.int32]
    log_prob: NDArray[np.float64]
    recall: float


def top_k(
    model: LogLinear | Exact | Sampler, queries: ArrayLike, k: int, *, rng: checks.Seed = None, check: int = 32
) -> TopClasses:
    """The k most probable classes for each query, and log P of each.

    A model (or `Exact`) looks at every class, in blocks. A sampler looks at the classes it draws, which for `TopK` are
    what its index finds and for `Sketch` the heaviest by their codes; log P is then over its estimate of Z.

    Args:
        model: a model, or a sampler whose budget exceeds k.
        queries: (Q, d).
        k: classes wanted.
        rng: passed on to the sampler.
        check: how many of the queries to answer exactly as well, to report the recall; 0 for none.

    Example:
        >>> import numpy as np, softhash as sh
        >>> model = sh.LogLinear(np.diag([1.0, 2.0, 3.0]))
        >>> best = sh.top_k(model, np.ones((1, 3)), k=2)
        >>> best.ids.tolist(), best.log_prob.round(2).tolist(), best.recall
        ([[2, 1]], [[-0.41, -1.41]], 1.0)
        >>> sh.top_k(sh.TopK(model, head=2, tail=1, index="Flat"), np.ones((1, 3)), k=2).ids.tolist()
        [[2, 1]]
    """
    if not isinstance(model, LogLinear | Exact | Sampler):
        raise TypeError(f"model is a {type(model).__name__}; pass a LogLinear, an Exact, or a sampler")
    linear = model if isinstance(model, LogLinear) else model.model
    queries = checks.queries(queries, linear.dim)
    k = checks.positive_int("k", k, most=linear.n_classes)
    check = min(checks.positive_int("check", check, least=0), len(queries))
    if not isinstance(model, Sampler):
        return TopClasses(*_exactly(linear, queries, k), 1.0)
    rng = checks.generator(rng)
    found = [_among_drawn(model, queries[part], k, rng) for part in parts(queries)]
    ids, log_prob = (np.concatenate(pieces) for pieces in zip(*found, strict=True))
    return TopClasses(ids, log_prob, _recall(linear, queries, ids, check))


def _exactly(model: LogLinear, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    def best(queries: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        def start() -> tuple[NDArray, ...]:
            return *Mass.none(len(queries)), *_heaps(len(queries), k)

        def visit(state: tuple[NDArray, ...], first: int, logits: NDArray[np.float32]) -> None:
            kernels.keep_best(logits, first, *state)

        states = sweep(model, queries, start, visit)
        values, ids = (np.concatenate([state[i] for state in states], axis=1) for i in (2, 3))
        ids, values = _in_order(ids, values, k)
        return ids, values - log_sum([Mass(*state[:2]) for state in states])[:, None]

    ids, log_prob = zip(*(best(queries[part]) for part in parts(queries)), strict=True)
    return np.concatenate(ids), np.concatenate(log_prob)


def _among_drawn(
    sampler: Sampler, queries: NDArray[np.float32], k: int, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    sample = sampler.sample(queries, rng=rng)
    values, ids = _heaps(len(queries), k)
    kernels.best_of_segments(sample.offsets, sample.ids, sample.logits, values, ids)
    ids, values = _in_order(ids, values, k)
    with np.errstate(invalid="ignore"):
        log_prob = np.where(ids < 0, -np.inf, values - sample.log_partition().log_z[:, None])
    return ids, log_prob


def _heaps(n_queries: int, k: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    return np.full((n_queries, k), -np.inf, np.float32), np.full((n_queries, k), -1, np.int32)


def _in_order(ids: NDArray, values: NDArray, k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The first k by falling logit, then rising class."""
    order = np.lexsort((ids, -values), axis=1)[:, :k]
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(values, order, axis=1).astype(np.float64)


def _recall(model: LogLinear, queries: NDArray, ids: NDArray[np.int32], check: int) -> float:
    if not check:
        return float("nan")
    chosen = np.linspace(0, len(queries) - 1, check).astype(np.int64)
    truth, _ = _exactly(model, queries[chosen], ids.shape[1])
    rows = np.arange(check)[:, None] * model.n_classes
    return float(np.isin(truth + rows, np.where(ids[chosen] < 0, -1, ids[chosen] + rows)).mean())
