"""Classes drawn from the softmax."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import checks
from softhash.exact import Exact
from softhash.kernels import perturb
from softhash.kernels import sweep as kernels
from softhash.model import LogLinear
from softhash.sweep import CLASSES_PER_BLOCK, Mass, parts, sweep
from softhash.topk import TopK
from softhash.types import Sampler

FEW_CLASSES = 2048


def draw(
    sampler: LogLinear | Exact | Sampler, queries: ArrayLike, n: int, *, rng: checks.Seed = None
) -> NDArray[np.int32]:
    """n classes for each query, drawn from P(y|x) = exp(θ_y·x + b_y) / Z(x).

    - A model, `Exact`, or any model of at most 2048 classes: exactly, by a weighted reservoir over one pass through
      all classes. The n draws of a query are independent.
    - `TopK`: the head's Gumbel maximum against a tail perturbed only where it could win. Exact, and independent, if the
      index finds the true head (index="Flat"). A class that it misses, with a logit δ above the lowest of the head, is
      drawn about exp(−δ) times as often as it should be.
    - Other samplers: sampling–importance–resampling, from one sample of classes per query. Draws of one query share
      that sample, so they repeat each other; the probability of a class is off by the relative variance of Ẑ, or about
      std_error², and no class outside the sample is ever drawn. For independent draws pass a query n times.

    Args:
        sampler: what to draw with.
        queries: (Q, d).
        n: draws per query.
        rng: seed of all of it.

    Returns:
        int32[Q, n]; −1 where a sampler found no class at all.

    Example:
        >>> import numpy as np, softhash as sh
        >>> model = sh.LogLinear(np.zeros((2, 1)), bias=np.log([1.0, 3.0]))
        >>> drawn = sh.draw(model, np.ones((1, 1)), 10_000, rng=0)
        >>> drawn.shape, bool(abs(drawn.mean() - 0.75) < 0.02)
        ((1, 10000), True)

    Reference: Mussmann, Levy & Ermon 2017, "Fast amortized inference and learning in log-linear models with randomly
    perturbed nearest neighbor search"; Rubin 1987 for the resampling.
    """
    if not isinstance(sampler, LogLinear | Exact | Sampler):
        raise TypeError(f"sampler is a {type(sampler).__name__}; pass a LogLinear, an Exact, or a sampler")
    model = sampler if isinstance(sampler, LogLinear) else sampler.model
    queries = checks.queries(queries, model.dim)
    n = checks.positive_int("n", n)
    rng = checks.generator(rng)
    out = np.empty((len(queries), n), np.int32)
    for part in parts(queries):
        if not isinstance(sampler, Sampler) or model.n_classes <= FEW_CLASSES:
            out[part] = _by_reservoir(model, queries[part], n, rng)
        elif isinstance(sampler, TopK):
            out[part] = _by_perturbing(sampler, queries[part], n, rng)
        else:
            out[part] = _by_resampling(sampler, queries[part], n, rng)
    return out


def _by_reservoir(model: LogLinear, queries: NDArray[np.float32], n: int, rng: np.random.Generator) -> NDArray:
    seeds = checks.seeds(rng, len(queries))
    most_used = 2 * n + 1  # random numbers per block

    def start() -> tuple[NDArray, ...]:
        return *Mass.none(len(queries)), np.zeros((len(queries), n), np.int32)

    def visit(state: tuple[NDArray, ...], first: int, logits: NDArray[np.float32]) -> None:
        kernels.keep_drawn(logits, first, first // CLASSES_PER_BLOCK * most_used, seeds, *state)

    tops, masses, drawn = (np.stack(field) for field in zip(*sweep(model, queries, start, visit), strict=True))
    out = np.empty((len(queries), n), np.int32)
    kernels.merge_drawn(tops, masses, drawn, seeds, -(-model.n_classes // CLASSES_PER_BLOCK) * most_used, out)
    return out


def _by_perturbing(sampler: TopK, queries: NDArray[np.float32], n: int, rng: np.random.Generator) -> NDArray:
    model = sampler.model
    ids, counts = perturb.heads(sampler.found(queries), model.n_classes)
    logits = model.logits(queries, ids)
    seeds = checks.seeds(rng, len(queries))
    return perturb.draw(model.rows, model.bias_or_zeros, queries, ids, counts, logits, seeds, n)


def _by_resampling(sampler: Sampler, queries: NDArray[np.float32], n: int, rng: np.random.Generator) -> NDArray:
    sample = sampler.sample(queries, rng=rng)
    out = np.empty((len(queries), n), np.int32)
    weights = sample.logits - sample.log_expected_count
    kernels.draw_from_segments(sample.offsets, sample.ids, weights, checks.seeds(rng, len(queries)), out)
    return out
