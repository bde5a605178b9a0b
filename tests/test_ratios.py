"""Speed as ratios within one process, on one thread: a method that becomes twice as slow is noticed, noise is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np
import pytest

import softhash as sh
from softhash.synthetic import lm_like
from stats import rejects

pytestmark = pytest.mark.usefixtures("one_thread")
ROUNDS, ATTEMPTS = 5, 3
MARGIN = 1.45
"""How far a ratio may fall: about √2, as far from 1 as from the 2 of a regression."""
TYPICAL = {
    "exact": 0.94, "uniform": 10.4, "prior": 12.0, "lsh": 3.6, "sketch": 2.5, "sketch alone": 3.2, "topk": 3.1,
    "exact gumbel": 0.81, "draw": 0.86, "draw by topk": 2.8, "top_k": 0.85,
}  # fmt: skip
"""Processor time of a product with all weights over that of the method, as measured on an AMD EPYC."""

Work = Callable[[], object]


@cache
def works() -> tuple[Mapping[str, Work], Work, Work]:
    """What is timed, and what it is compared with: the products of all classes with a batch, and with one query."""
    model, queries = lm_like(n_classes=30_000, dim=512, n_queries=576)
    calibration, queries, one = queries[:512], queries[512:], queries[512:513]
    sketch = sh.Sketch(model, size=200, queries=calibration)
    cells = sh.TopK(model, 100, 100, "IVF256,Flat", search="nprobe=8")
    estimators = {
        "exact": sh.Exact(model),
        "uniform": sh.Uniform(model, 200),
        "prior": sh.Prior(model, 200, queries=calibration),
        "lsh": sh.LSH(model, bits=10, tables=16),
        "sketch": sketch,
        "topk": cells,
        "exact gumbel": sh.ExactGumbel(model),
    }
    work: dict[str, Work] = {name: partial(each.log_partition, queries, rng=0) for name, each in estimators.items()}
    work["sketch alone"] = partial(sketch.log_partition, one, rng=0)
    work["draw"] = partial(sh.draw, model, queries, 10, rng=0)
    work["draw by topk"] = partial(sh.draw, cells, queries, 10, rng=0)
    work["top_k"] = partial(sh.top_k, model, queries, 10)
    return work, lambda: queries @ model.weights.T, lambda: one @ model.weights.T


def ratio(work: Work, reference: Work) -> float:
    """Processor time of the reference over that of the work: the least of several runs of each, in turn."""
    for call in (work, reference):
        call()
    best = [np.inf, np.inf]
    for _ in range(ROUNDS):
        for i, call in enumerate((work, reference)):
            start = time.process_time()
            call()
            best[i] = min(best[i], time.process_time() - start)
    return best[1] / best[0]


def assert_as_fast_as_ever(name: str, work: Work, reference: Work, attempts: int = ATTEMPTS) -> None:
    found: list[float] = []
    while len(found) < attempts:
        found.append(ratio(work, reference))
        if found[-1] >= TYPICAL[name] / MARGIN:
            return
    raise AssertionError(f"{name}: {max(found):.2f} times the reference's speed; {TYPICAL[name]} is typical")


@pytest.mark.parametrize("name", TYPICAL)
def test_no_method_is_much_slower_than_it_was(name: str) -> None:
    work, batch, one = works()
    assert_as_fast_as_ever(name, work[name], one if name == "sketch alone" else batch)


@pytest.mark.parametrize("name", ["sketch", "lsh", "uniform"])
def test_half_the_speed_is_noticed(name: str) -> None:
    work, batch, _ = works()

    def twice() -> None:
        for _ in range(2):
            work[name]()

    assert rejects(assert_as_fast_as_ever, name, twice, batch)
