"""TopK over two kinds of FAISS index in three coordinate systems: `python -m experiments.topk`.

The output layer of SmolLM2; 200 classes from the index and 200 others; indexes built in balanced coordinates see the
calibration queries, and nothing is measured on those. With --plot, the picture from the CSV file alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

import softhash as sh
from experiments import record, timing
from experiments.data import CACHE, Problem, smollm2
from softhash.demo import true_log_z

HEAD, TAIL = 200, 200
COORDINATES = ("plain", "centred", "balanced")
COLOURS = {"plain": "#7a7a7a", "centred": "#1f5a94", "balanced": "#2f7d3b"}


class Index(NamedTuple):
    """A factory string, and values of the parameter that trades time for recall."""

    factory: str
    parameter: str
    values: tuple[int, ...]
    marker: str


INDEXES = (Index("IVF1024,Flat", "nprobe", (4, 16, 64, 256), "o"), Index("HNSW32", "efSearch", (200, 400, 1600), "s"))


class Truth(NamedTuple):
    """log Z and the best classes of the queries measured on."""

    log_z: NDArray[np.float64]
    best: NDArray[np.int32]


def row(problem: Problem, sampler: sh.TopK, truth: Truth, rounds: int, **named: object) -> dict[str, object]:
    """Error, honesty, recall and time of one setting."""
    estimate = sampler.log_partition(problem.queries, rng=0)
    away = estimate.log_z - truth.log_z
    rows = np.arange(len(away))[:, None] * problem.model.n_classes
    seconds = timing.interleaved({"": lambda: sampler.log_partition(problem.queries, rng=0)}, rounds, budget=6.0)[""]
    return named | {
        "head": HEAD, "tail": TAIL, "queries": len(away), "error": float(np.abs(away).mean()),
        "bias": float(np.expm1(away).mean()), "coverage": float((np.abs(away) <= 1.96 * estimate.std_error).mean()),
        "recall": float(np.isin(truth.best + rows, sampler.found(problem.queries) + rows).mean()),
        "ms_per_query": 1000 * seconds / len(away),
    }  # fmt: skip


def measure(problem: Problem, rounds: int, quick: bool) -> Iterator[dict[str, object]]:
    """A perfect index, then every index in all coordinates with all of its settings."""
    model, calibration = problem.model, problem.calibration
    truth = Truth(true_log_z(model, problem.queries), sh.top_k(model, problem.queries, HEAD).ids)
    perfect = sh.TopK(model, HEAD, TAIL, "Flat")
    yield row(problem, perfect, truth, 1, index="Flat", coordinates="plain", search="")
    for index in INDEXES[:1] if quick else INDEXES:
        for coordinates in COORDINATES:
            typical = calibration if coordinates == "balanced" else None
            sampler = sh.TopK(model, HEAD, TAIL, index.factory, coordinates=coordinates, queries=typical)
            for value in index.values:
                search = f"{index.parameter}={value}"
                found = row(problem, sampler.resized(HEAD, TAIL, search), truth, rounds, index=index.factory,
                            coordinates=coordinates, search=search)  # fmt: skip
                print(index.factory, coordinates, search, f"{found['error']:.3f}", flush=True)
                yield found


def plot(quick: bool) -> list[Path]:
    """Error against time: a line for each index and coordinate system."""
    rows = record.read("topk", quick)
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for index in INDEXES:
        for coordinates in COORDINATES:
            mine = [row for row in rows if (row["index"], row["coordinates"]) == (index.factory, coordinates)]
            times, errors = ([float(row[column]) for row in mine] for column in ("ms_per_query", "error"))
            axes.plot(times, errors, "-", marker=index.marker, color=COLOURS[coordinates], lw=1.2, ms=5,
                      label=f"{index.factory}, {coordinates}")  # fmt: skip
    perfect = float(rows[0]["error"])
    axes.axhline(perfect, color="black", linestyle="--", linewidth=1)
    axes.annotate("perfect index", (1, perfect), (-4, 4), ("axes fraction", "data"), "offset points", ha="right")
    axes.set(
        xscale="log", yscale="log", xlabel="milliseconds per query, in a batch", ylabel="mean |error of log Z|, nats"
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(True, alpha=0.25)
    axes.legend(frameon=False, fontsize=8.5)
    axes.set_title(f"TopK on the SmolLM2 head: {HEAD} from the index and {TAIL} others of 49 152", fontsize=10)
    paths = [(CACHE if quick else record.RESULTS) / f"topk.{kind}" for kind in ("svg", "png")]
    for path in paths:
        figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def main() -> None:
    """Everything, to a table, results/topk.csv and results/topk.svg."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one index, 256 queries; written to the cache")
    parser.add_argument("--plot", action="store_true", help="only draw what was measured")
    options = parser.parse_args()
    if not options.plot:
        problem = smollm2()
        problem = problem._replace(queries=problem.queries[:256]) if options.quick else problem
        rows = list(measure(problem, options.rounds, options.quick))
        record.save("topk", rows, seeds="draws 0", quick=options.quick, title="TopK, by index and coordinates")
    print(*plot(options.quick))


if __name__ == "__main__":
    main()
