"""What each part of Sketch contributes, on the SmolLM2 head: one thing changed at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import softhash as sh
from experiments import record
from experiments.data import Problem, smollm2
from experiments.sketch.measures import error, variant
from softhash.demo import true_log_z
from softhash.sketch import balance
from softhash.sketch.balance import Balance, QueryMoments
from softhash.sketch.codes import TILE, Projection

SIZES = (200, 50)
FEW_QUERIES = 288
CLUSTERS = (1024,)
PROBES = (1 / 16, 1 / 8, 1 / 4)
CLUSTER_REFINES = (0.15, 1.0)
REFINES = (0.01, 0.02, 0.05, 0.1, 0.15)
Variants = Iterator[tuple[str, sh.Sketch]]


def in_coordinates(sketch: sh.Sketch, coordinates: Balance) -> sh.Sketch:
    """A copy of a sketch whose classes are encoded in other coordinates."""
    settings, shared = sketch.state()
    arrays = {name: array.copy() for name, array in shared.items()}
    projection = Projection.build(coordinates, settings["rank"], np.random.default_rng(settings["seed"]))
    arrays |= {f"projection.{name}": getattr(projection, name) for name in Projection._fields[1:]}
    other = sh.Sketch.restore(sketch.model, settings, arrays)
    other.refresh(ids=np.arange(sketch.model.n_classes))
    return other


def raw_moments(queries: NDArray[np.float32]) -> QueryMoments:
    """Mean and covariance without shrinkage."""
    return QueryMoments(queries.mean(axis=0), np.cov(queries.T.astype(np.float64), bias=True))


def unbalanced(model: sh.LogLinear, moments: QueryMoments, power: float = 0.0) -> Balance:
    """Classes and queries as they are, only centred; with power ½ the queries are whitened instead."""
    fitted = balance.fit(model, moments)
    values, vectors = np.linalg.eigh(moments.covariance)
    values = np.maximum(values, 1e-6 * values[-1])
    for_classes, for_queries = ((vectors * values**exponent) @ vectors.T for exponent in (power, -power))
    centred = model.weights - fitted.class_mean
    covariance = (centred.T @ centred).astype(np.float64) / model.n_classes
    return Balance(fitted.class_mean, moments.mean, for_classes, for_queries, for_classes @ covariance @ for_classes)


def uncentred(model: sh.LogLinear, queries: NDArray[np.float32], classes: bool) -> Balance:
    """Balanced by second moments around zero: of the queries, or of the classes as well."""
    fitted = balance.fit(model, balance.query_moments(np.concatenate([queries, -queries]), model.dim))
    if not classes:
        return fitted
    both = sh.LogLinear(np.concatenate([model.weights, -model.weights]))
    return balance.fit(both, balance.query_moments(np.concatenate([queries, -queries]), model.dim))


def coordinates(problem: Problem, base: sh.Sketch) -> Variants:
    """Other coordinates."""
    model, queries = problem.model, problem.calibration
    shrunk = balance.query_moments(queries, model.dim)
    few = queries[:: len(queries) // FEW_QUERIES][:FEW_QUERIES]
    yield "queries not centred", in_coordinates(base, uncentred(model, queries, classes=False))
    yield "neither queries nor classes centred", in_coordinates(base, uncentred(model, queries, classes=True))
    yield "no balance", in_coordinates(base, unbalanced(model, shrunk))
    yield "queries whitened instead of balanced", in_coordinates(base, unbalanced(model, shrunk, 0.5))
    yield "no shrinkage", in_coordinates(base, balance.fit(model, raw_moments(queries)))
    yield f"{len(few)} calibration queries", sh.Sketch(model, queries=few, clusters=0)
    yield f"{len(few)}, no shrinkage", in_coordinates(base, balance.fit(model, raw_moments(few)))
    yield "no calibration queries", sh.Sketch(model, clusters=0)
    for rank in (16, 32, 128):
        yield f"rank {rank}", sh.Sketch(model, queries=queries, clusters=0, rank=rank)
    signs = sh.Sketch(model, queries=queries, clusters=0, rank=1)
    yield "rank 1", signs
    yield "rank 1, neither centred", in_coordinates(signs, uncentred(model, queries, classes=True))
    yield "rank 1, no balance", in_coordinates(signs, unbalanced(model, shrunk))
    yield "rank 1, queries whitened instead", in_coordinates(signs, unbalanced(model, shrunk, 0.5))


def drawing(base: sh.Sketch) -> Variants:
    """Other ways of drawing from the same index."""
    yield "Poisson instead of systematic", variant(base, design="poisson")
    for bits in (3, 2, 1):
        yield f"{bits} query bits", variant(base, query_bits=bits)
    for refine in REFINES:
        yield f"codes of {refine:.0%} read after a first look", variant(base, refine=refine)


def tiled(problem: Problem) -> Variants:
    """A share of the tiles opened, the others weighed by their most promising class."""
    tiles = -(-problem.model.n_classes // TILE)
    sketch = sh.Sketch(problem.model, queries=problem.calibration, clusters=1, probes=1)
    for share in PROBES:
        label = f"{share:.0%} of the tiles opened, codes of 15% of their classes read"
        yield label, variant(sketch, probes=int(share * tiles))


def grouped(problem: Problem, counts: tuple[int, ...]) -> Variants:
    """Clusters, how many of them are opened, and how much of those is read."""
    for clusters in counts:
        sketch = sh.Sketch(problem.model, queries=problem.calibration, clusters=clusters)
        for share in PROBES:
            probes = max(1, int(share * clusters))
            for refine in CLUSTER_REFINES:
                label = f"{clusters} clusters, {probes} opened, codes of {refine:.0%} of their classes read"
                yield label, variant(sketch, probes=probes, refine=refine)


def run(quick: bool, n_queries: int, draws: int) -> None:
    """Measure every variant at both sizes, and print the table."""
    problem, draws = smollm2(), 1 if quick else draws
    queries = np.ascontiguousarray(problem.queries[:: max(1, len(problem.queries) // (128 if quick else n_queries))])
    log_z = true_log_z(problem.model, queries)
    base = sh.Sketch(problem.model, queries=problem.calibration, clusters=0)
    rows: list[record.Row] = []

    def measured(variants: Variants) -> None:
        for label, sketch in variants:
            errors = {f"error_{size}": error(variant(sketch, size=size), queries, log_z, draws=draws) for size in SIZES}
            print(f"{label}: {errors[f'error_{SIZES[0]}']:.4f}", flush=True)
            rows.append({"variant": label, "queries": len(queries), "draws": draws} | errors)

    measured(iter([(f"Sketch, every code read (rank {base.state()[0]['rank']}, 4 query bits)", base)]))
    measured(coordinates(problem, base))
    measured(drawing(base))
    measured(tiled(problem))
    measured(grouped(problem, (256,) if quick else CLUSTERS))
    record.save("sketch-ablation", rows, seeds=f"index 0; draws 0-{draws - 1}", quick=quick, title="Sketch: ablation")
