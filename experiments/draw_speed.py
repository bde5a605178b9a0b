"""Draws per second and how far they are from the softmax: `python -m experiments.draw_speed`.

Speed on the output layer of SmolLM2, one draw and a hundred for each query, 256 queries at a time or one, beside exact
sampling as one would write it in NumPy. Exactness by two million draws from a model of 5000 classes (Pearson's
chi-square), with twins that are wrong on purpose.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import softhash as sh
from experiments import record, timing
from experiments.data import smollm2

MODES = ((256, 1), (256, 100), (1, 1), (1, 100))
"""Queries at a time, and draws for each."""
TINY = np.finfo(np.float32).tiny
CHECKED_DRAWS, LEAST_EXPECTED = 1_000_000, 5.0
Draw = Callable[[NDArray, int, int], NDArray]


def by_gumbel_max(model: sh.LogLinear) -> Draw:
    """The largest perturbed logit over all classes, a block of queries at a time."""

    def draw(queries: NDArray, n: int, seed: int) -> NDArray:
        rng, out = np.random.default_rng(seed), np.empty((len(queries), n), np.int32)
        for start in range(0, len(queries), 64):
            logits = queries[start : start + 64] @ model.weights.T
            for j in range(n):
                gumbel = -np.log(rng.standard_exponential(logits.shape, dtype=np.float32) + TINY)
                out[start : start + 64, j] = (logits + gumbel).argmax(axis=1)
        return out

    return draw


def by_cumulative(model: sh.LogLinear) -> Draw:
    """Running sums of exp(logit) over all classes, and a search in them for each draw."""

    def draw(queries: NDArray, n: int, seed: int) -> NDArray:
        rng, out = np.random.default_rng(seed), np.empty((len(queries), n), np.int32)
        for start in range(0, len(queries), 64):
            logits = queries[start : start + 64] @ model.weights.T
            sums = np.exp(logits - logits.max(axis=1, keepdims=True)).cumsum(axis=1, dtype=np.float64)
            for q, row in enumerate(sums, start):
                out[q] = np.searchsorted(row, rng.random(n) * row[-1], side="right").clip(max=model.n_classes - 1)
        return out

    return draw


def of_softhash(sampler: sh.LogLinear | sh.Sampler) -> Draw:
    """`softhash.draw`."""
    return lambda queries, n, seed: sh.draw(sampler, queries, n, rng=seed)


def speed(rounds: int) -> list[dict[str, object]]:
    """Draws per second of every method."""
    problem = smollm2()
    model, typical = problem.model, problem.calibration
    balanced = {"coordinates": "balanced", "queries": typical}
    methods = {
        "NumPy, cumulative sums": (by_cumulative(model), "yes"),
        "NumPy, Gumbel maximum": (by_gumbel_max(model), "yes"),
        "draw(model)": (of_softhash(model), "yes"),
        "draw(TopK), head 400, IVF1024": (
            of_softhash(sh.TopK(model, 400, 1, "IVF1024,Flat", search="nprobe=128", **balanced)), "but for misses"
        ),
        "draw(TopK), head 400, HNSW32": (of_softhash(sh.TopK(model, 400, 1, "HNSW32", **balanced)), "but for misses"),
        "draw(Sketch), size 50": (of_softhash(sh.Sketch(model, 50, typical)), "resampled"),
        "draw(Sketch), size 200": (of_softhash(sh.Sketch(model, 200, typical)), "resampled"),
    }  # fmt: skip
    rows: list[dict[str, object]] = []
    for count, n in MODES:
        named = {name: pair for name, pair in methods.items() if n == 1 or "maximum" not in name}
        batches = [problem.queries[i : i + count] for i in range(0, 256 if count > 1 else 32, count)]
        work = {
            name: (lambda draw=draw, n=n, batches=batches: [draw(batch, n, 0) for batch in batches])
            for name, (draw, _) in named.items()
        }
        seconds = timing.interleaved(work, rounds, budget=25.0)
        total, plain = sum(map(len, batches)), seconds["NumPy, cumulative sums"]
        rows += [
            {"what": "speed", "method": name, "exact": named[name][1], "classes": model.n_classes, "queries": count,
             "draws_per_query": n, "ms_per_query": 1000 * taken / total, "draws_per_second": total * n / taken,
             "times_numpy": plain / taken}
            for name, taken in seconds.items()
        ]  # fmt: skip
    return rows


def chi_square(drawn: NDArray, logits: NDArray) -> float:
    """The chance of counts as far from the softmax as these; thin cells are pooled."""
    p = np.exp(logits - logits.max())
    expected = p / p.sum() * len(drawn)
    observed, thin = np.bincount(drawn, minlength=len(p)), expected < LEAST_EXPECTED
    pairs = [np.append(array[~thin], array[thin].sum()) for array in (observed, expected)]
    return float(stats.chi2.sf(((pairs[0] - pairs[1]) ** 2 / pairs[1]).sum(), len(pairs[0]) - 1))


def exactness() -> list[dict[str, object]]:
    """Two million draws by each exact method, and by twins: weights off by 5 % in a part, a head without its best."""
    rng = np.random.default_rng(0)
    model = sh.LogLinear(rng.standard_normal((5000, 12), dtype=np.float32), rng.standard_normal(5000) / 2)
    queries = rng.standard_normal((2, 12), dtype=np.float32) / np.float32(np.sqrt(3))
    tilted = sh.LogLinear(model.weights, model.bias_or_zeros + np.where(np.arange(5000) < 1024, 0.05, 0))
    headless = sh.TopK(model, 200, 100, "Flat")
    whole = headless.found
    headless.found = lambda queries: whole(queries)[:, 3:]  # type: ignore[method-assign]
    methods = {
        "draw(model)": model, "draw(TopK, Flat)": sh.TopK(model, 200, 100, "Flat"),
        "twin: some weights 5 % too large": tilted, "twin: a head without its best three": headless,
    }  # fmt: skip
    logits = model.logits(queries).astype(np.float64)
    rows: list[dict[str, object]] = []
    for name, sampler in methods.items():
        drawn = sh.draw(sampler, queries, CHECKED_DRAWS, rng=1)
        chances = [chi_square(*pair) for pair in zip(drawn, logits, strict=True)]
        rows.append({"what": "chi-square", "method": name, "classes": model.n_classes, "queries": len(queries),
                     "draws_per_query": CHECKED_DRAWS, "least_p_value": min(chances)})  # fmt: skip
    return rows


def main() -> None:
    """Both, to a table and results/draw.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round, written to the cache")
    options = parser.parse_args()
    rows = exactness() + speed(1 if options.quick else options.rounds)
    record.save("draw", rows, seeds="model 0; draws 0 and 1", quick=options.quick, title="Draws from the softmax")


if __name__ == "__main__":
    main()
