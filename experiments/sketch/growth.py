"""How time per query grows with N at a fixed error, on the synthetic family."""

from __future__ import annotations

from functools import partial

import numpy as np

from experiments import record, timing
from experiments.sketch import kept, search
from experiments.sketch.speed import MODES, TorchExact, synthetic

DIM = 64
TARGET = 0.05
SIZES = (50_000, 200_000, 800_000, 3_200_000)
QUICK_SIZES = (5_000, 20_000)
QUERIES = 512
SHARES = (1 / 32, 1 / 8, 1.0)
REFINES = (0.03, 0.15)


def measure(n_classes: int, n_queries: int, prepare: bool) -> list[record.Row]:
    """The cheapest sketch in both modes, beside exact float32; no rows where only preparing."""
    import torch

    problem = synthetic(n_classes, DIM, n_queries)
    log_z = kept.true(problem)
    settings = search.grid(n_classes, (1,), SHARES, REFINES)
    found = search.candidates(problem, log_z, settings, TARGET)
    if prepare:
        return []
    exact = TorchExact(problem.model, torch.float32)
    rows: list[record.Row] = []
    for mode, run in MODES.items():
        choice = search.cheapest(found, run, problem, log_z, TARGET)
        if choice is None:
            print(f"{n_classes:,} classes, {mode}: no setting meets the error")
            continue
        work = {"sketch": partial(run, choice.sketch, problem.queries), "exact": partial(run, exact, problem.queries)}
        seconds = timing.interleaved(work)
        count = len(problem.queries) if mode == "batch" else min(search.LATENCY_QUERIES, len(problem.queries))
        rows.append(
            {"classes": n_classes, "dim": DIM, "mode": mode, "ms_per_query": 1000 * seconds["sketch"] / count,
             "exact_ms_per_query": 1000 * seconds["exact"] / count,
             "error": search.fresh_error(choice.sketch, problem.queries, log_z)} | search.described(choice)
        )  # fmt: skip
    return rows


def exponent(rows: list[record.Row], column: str) -> float:
    """Slope of log time in log N, by least squares."""
    points = np.log([[float(str(row["classes"])), float(str(row[column]))] for row in rows])
    return float(np.polyfit(points[:, 0], points[:, 1], 1)[0])


def run(quick: bool, prepare: bool) -> None:
    """Measure every size; the fitted exponent goes into its own column."""
    rows: list[record.Row] = []
    for n_classes in QUICK_SIZES if quick else SIZES:
        print(f"{n_classes:,} classes", flush=True)
        rows += measure(n_classes, 256 if quick else QUERIES, prepare)
    if prepare:
        return
    fitted: list[record.Row] = []
    for mode in MODES:
        mine = [row for row in rows if row["mode"] == mode]
        slopes = {"exponent": exponent(mine, "ms_per_query"), "exact_exponent": exponent(mine, "exact_ms_per_query")}
        fitted += [{**row, **slopes} for row in mine]
    title = "Sketch: growth with N at error 0.05"
    record.save("sketch-growth", fitted, seeds="model 0; index 0; draws 0-103", quick=quick, title=title)
