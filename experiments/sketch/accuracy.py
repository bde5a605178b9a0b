"""Error, bias and coverage of Sketch on real output layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import softhash as sh
from experiments import record
from experiments.data import Problem, smollm2
from experiments.sketch import kept
from experiments.sketch.measures import over_draws, variant

PTB_CALIBRATION = 640


def ptb(path: Path | None = None) -> Problem:
    """The Penn Treebank snapshot, if it has been made."""
    from experiments.paper import data, lm

    text = data.ptb(path)
    recipe = lm.Recipe.of("ptb", text)
    if not lm.where(recipe).exists():
        raise FileNotFoundError(f"{lm.where(recipe)} is not there; python -m experiments.paper snapshot makes it")
    made = lm.snapshot(recipe, text)
    calibration = made.calibration[:: len(made.calibration) // PTB_CALIBRATION][:PTB_CALIBRATION]
    return Problem("PTB LSTM", sh.LogLinear(made.weights, made.bias), calibration, made.contexts)


def measure(problem: Problem, draws: int, seed: int) -> list[record.Row]:
    """Every code read and the default clusters, sizes 200 and 50."""
    log_z = kept.true(problem)
    rows: list[record.Row] = []
    for label, clusters in (("every code read", 0), ("default", None)):
        sketch = sh.Sketch(problem.model, queries=problem.calibration, clusters=clusters, rng=seed)
        for size in (200, 50):
            found = over_draws(variant(sketch, size=size), problem.queries, log_z, draws, seed)
            about = {"model": problem.name, "classes": problem.model.n_classes, "dim": problem.model.dim}
            counts = {"calibrated_on": len(problem.calibration), "queries": len(log_z), "draws": draws}
            rows.append(about | {"clusters": label, "size": size} | counts | found)
            print(f"{problem.name}, {label}, size {size}: error {found['error']:.4f}", flush=True)
    return rows


def run(quick: bool, seed: int = 0) -> None:
    """Measure what data there is, and print it."""
    draws = 5 if quick else 20
    rows = []
    for load in (smollm2, ptb):
        try:
            problem = load()
        except FileNotFoundError as missing:
            print(f"skipped: {missing}")
            continue
        if quick:
            problem = problem._replace(queries=np.ascontiguousarray(problem.queries[:256]))
        rows += measure(problem, draws, seed)
    seeds = f"index {seed}; draws {seed}-{seed + draws - 1}"
    record.save("sketch-accuracy", rows, seeds=seeds, quick=quick, title="Sketch: accuracy")
