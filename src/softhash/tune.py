"""The cheapest method that is accurate enough, found by measuring on the user's own queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import checks, families
from softhash.exact import Exact
from softhash.model import LogLinear
from softhash.search import VERIFIED_WITHIN, Limits, Measured, Queries, Search, Trial, verified_error
from softhash.types import Estimator

MOST_CALIBRATION, MOST_CHOSEN_ON, MOST_VERIFIED_ON = 2048, 512, 512
LEAST_QUERIES = 32
SHARE_FOR_THE_END = 0.2


class TuneResult(NamedTuple):
    """The answer of `tune`.

    Attributes:
        best: the estimator, ready for use.
        table: everything measured, the best first, then by time.
    """

    best: Estimator
    table: tuple[Trial, ...]


def tune(
    model: LogLinear,
    queries: ArrayLike,
    error: float = 0.05,
    candidates: Sequence[str] | None = None,
    rng: checks.Seed = 0,
    *,
    batch: int = 1024,
    seconds: float = 60.0,
    memory: int | None = None,
    milliseconds: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> TuneResult:
    """Find the cheapest estimator whose mean |error of log Z| is at most `error`, by measuring on your queries.

    Half of the queries are for calibration, a quarter to choose on, a quarter to verify on. Exact computation, in
    float32 and (with PyTorch) bfloat16, is among the candidates; where it is cheapest, it is the answer.

    Args:
        model: the model.
        queries: (n, d) typical queries; a few thousand are best.
        error: largest mean |log Ẑ − log Z|, in nats.
        candidates: names of methods to consider; None: all of exact, exact-bfloat16, sketch, sketch-tiles,
            sketch-every-code, sketch-clusters, uniform, prior, lsh, topk-ivf and topk-hnsw.
        rng: seed of the split of the queries.
        batch: queries that come at a time, in the use to come; 1 for one by one.
        seconds: to spend in all, about; methods that no time is left for are listed as such.
        memory: largest index, in bytes.
        milliseconds: per query, at most. If nothing accurate enough is that fast, the answer is the most accurate that
            is.
        progress: called with a line of text before each method.

    Example:
        >>> import softhash as sh
        >>> from softhash.synthetic import lm_like
        >>> model, queries = lm_like(n_classes=3000, dim=16, n_queries=256)
        >>> result = sh.tune(model, queries, candidates=["exact", "uniform"], seconds=5)
        >>> result.table[0].note, bool(result.table[0].verified < 0.05)
        ('chosen', True)
    """
    queries = checks.queries(queries, model.dim)
    if len(queries) < LEAST_QUERIES:
        raise ValueError(f"queries has {len(queries)} rows; pass at least {LEAST_QUERIES}, to choose and verify on")
    limits = Limits(
        checks.number("error", error, least=1e-9),
        np.inf if memory is None else checks.positive_int("memory", memory, least=0),
        np.inf if milliseconds is None else checks.number("milliseconds", milliseconds, least=1e-9),
    )
    batch, seconds = checks.positive_int("batch", batch), checks.number("seconds", seconds, least=0)
    chosen = families.named(candidates, families.FAMILIES, "candidates")
    if not chosen:
        raise ValueError("candidates is empty; pass at least one name, or None for all")
    start, parts = time.perf_counter(), _split(queries, checks.generator(rng))
    deadline = start + (1 - SHARE_FOR_THE_END) * seconds
    search = Search(model, parts, limits, batch, deadline, progress or (lambda line: None))
    for family in chosen:
        search.try_family(family)
    return _answer(search, start + seconds)


def _split(queries: NDArray[np.float32], rng: np.random.Generator) -> Queries:
    order, quarter = rng.permutation(len(queries)), len(queries) // 4
    choose, verify, rest = np.split(order, [quarter, 2 * quarter])
    return Queries(
        queries[rest[:MOST_CALIBRATION]], queries[choose[:MOST_CHOSEN_ON]], queries[verify[:MOST_VERIFIED_ON]]
    )


def _answer(search: Search, deadline: float) -> TuneResult:
    """The fastest contender whose error holds on other queries."""
    log_z = Exact(search.model).log_partition(search.queries.verify).log_z
    judged: list[Measured] = []
    for each in search.settle(deadline):
        verified, margin = verified_error(each.estimator, search.queries.verify, log_z)
        holds = verified + margin <= VERIFIED_WITHIN * search.limits.error
        inside = each.trial.milliseconds <= search.limits.milliseconds
        note = "chosen" if holds and inside else "too slow" if holds else "less accurate on other queries"
        judged.append(each._replace(trial=each.trial._replace(verified=verified, note=note)))
        if note == "chosen":
            return _result(search, judged)
    judged.append(_least_bad(search, log_z))
    return _result(search, judged)


def _least_bad(search: Search, log_z: NDArray[np.float64]) -> Measured:
    """Where nothing is acceptable: the most accurate of what is fast and small enough, if anything is."""
    limits = search.limits

    def rank(each: Measured) -> tuple[bool, float]:
        trial = each.trial
        return trial.milliseconds > limits.milliseconds or trial.index_bytes > limits.memory, trial.error

    best = min(search.measured, key=rank)
    verified, _ = verified_error(best.estimator, search.queries.verify, log_z)
    return best._replace(trial=best.trial._replace(verified=verified, note="chosen, though nothing met every wish"))


def _result(search: Search, judged: list[Measured]) -> TuneResult:
    best, others = judged[-1], judged[:-1]
    seen = {(each.trial.method, each.trial.settings) for each in judged}
    rest = [each.trial for each in search.measured if (each.trial.method, each.trial.settings) not in seen]
    rest += [each.trial for each in others]
    rest.sort(key=lambda trial: trial.milliseconds)
    return TuneResult(best.estimator, (best.trial, *rest, *search.untried))
