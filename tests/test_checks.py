"""Wrong input stops at the boundary, in one line that names the argument and says what to pass instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import softhash as sh
from cases import Case, every_case, every_sampler, gaussian, queries_for, sampler_of
from errors import fails

MODEL = gaussian(100, 6)
QUERIES = queries_for(MODEL)
NAN_ROW = np.where(np.arange(8)[:, None] == 3, np.nan, QUERIES)


BAD_MATRICES: dict[str, tuple[Any, str]] = {
    "one row": (np.ones(6), "[None, :]"),
    "three axes": (np.ones((2, 3, 6)), "(2, 3, 6)"),
    "no rows": (np.ones((0, 6)), "empty"),
    "no columns": (np.ones((6, 0)), "empty"),
    "text": (np.array([["a"] * 6]), "real numbers"),
    "complex": (np.ones((2, 6), complex), "complex128"),
    "true or false": (np.ones((2, 6), bool), "bool"),
    "objects": (np.full((2, 6), None), "object"),
    "nan": (NAN_ROW, "row 3"),
    "infinity": (np.full((2, 6), np.inf), "row 0"),
    "past float32": (np.full((2, 6), 1e300), "row 0"),
}
bad_matrices = pytest.mark.parametrize(("value", "fragment"), BAD_MATRICES.values(), ids=BAD_MATRICES.keys())


@bad_matrices
def test_bad_weights(value: Any, fragment: str) -> None:
    fails(lambda: sh.LogLinear(value), "weights", fragment)


@bad_matrices
@every_case
def test_bad_queries(case: Case, value: Any, fragment: str) -> None:
    fails(lambda: case.make(MODEL, 0).log_partition(value), "queries", fragment)


@every_case
def test_queries_of_another_dimension(case: Case) -> None:
    fails(lambda: case.make(MODEL, 0).log_partition(np.ones((2, 7))), "queries", "(2, 7)", "(n, 6)")


@every_case
@pytest.mark.parametrize("rng", ["0", 1.5, True, -1, np.random.RandomState(0)])
def test_bad_rng(case: Case, rng: Any) -> None:
    if case.redraw != "nothing":
        fails(lambda: case.make(MODEL, 0).log_partition(QUERIES, rng=rng), "rng")


@every_sampler
def test_bad_targets(case: Case) -> None:
    sample = sampler_of(case, MODEL).sample(QUERIES, rng=0)
    for targets, fragment in (([0], "(1,)"), (np.zeros(8), "float64"), ([100] * 8, "100"), ([-1] * 8, "0 to 99")):
        fails(lambda targets=targets: sample.with_targets(MODEL, QUERIES, targets), "targets", fragment)
    fails(lambda: sample.with_targets(MODEL, QUERIES[:2], [0, 1]), "queries", "8")


SETTINGS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "bias too short": (lambda: sh.LogLinear(np.ones((3, 2)), np.ones(2)), ("bias", "(2,)", "3 classes")),
    "bias nan": (lambda: sh.LogLinear(np.ones((2, 2)), [0, np.nan]), ("bias", "row 1")),
    "bias text": (lambda: sh.LogLinear(np.ones((2, 2)), ["a", "b"]), ("bias", "real numbers")),  # type: ignore[list-item]
    "K = 0": (lambda: sh.LSH(MODEL, bits=0), ("bits", "0", "between 1 and 30")),
    "K = 31": (lambda: sh.LSH(MODEL, bits=31), ("bits", "31")),
    "K = 2.0": (lambda: sh.LSH(MODEL, bits=2.0), ("bits", "2.0", "integer")),  # type: ignore[arg-type]
    "L = 0": (lambda: sh.LSH(MODEL, tables=0), ("tables", "0")),
    "transform": (lambda: sh.LSH(MODEL, transform="dot"), ("transform", "'dot'", "'cosine', 'mips'")),
    "floor < 0": (lambda: sh.LSH(MODEL, floor=-1), ("floor", "-1")),
    "floor > N": (lambda: sh.LSH(MODEL, floor=101), ("floor", "101", "100")),
    "LSH size 0": (lambda: sh.LSH(MODEL, size=0), ("size", "0")),
    "LSH rng": (lambda: sh.LSH(MODEL, rng="x"), ("rng", "'x'")),  # type: ignore[arg-type]
    "refresh ids": (lambda: sh.LSH(MODEL).refresh([100]), ("ids", "100", "0 to 99")),
    "refresh ids float": (lambda: sh.LSH(MODEL).refresh([0.5]), ("ids", "float64")),
    "tuned size": (lambda: sh.LSH.tuned(MODEL, 0, QUERIES), ("size", "0")),
    "tuned queries": (lambda: sh.LSH.tuned(MODEL, 10, np.ones((2, 7))), ("queries", "(2, 7)")),
    "tuned max_tables": (lambda: sh.LSH.tuned(MODEL, 10, QUERIES, max_tables=0), ("max_tables", "0")),
    "tuned max_tables high": (lambda: sh.LSH.tuned(MODEL, 10, QUERIES, max_tables=40_000), ("max_tables", "40000")),
    "sketch size": (lambda: sh.Sketch(MODEL, size=0), ("size", "0")),
    "sketch queries": (lambda: sh.Sketch(MODEL, queries=np.ones((2, 7))), ("queries", "(2, 7)")),
    "sketch clusters < 0": (lambda: sh.Sketch(MODEL, clusters=-1), ("clusters", "-1")),
    "sketch clusters > N": (lambda: sh.Sketch(MODEL, clusters=101), ("clusters", "101", "100")),
    "sketch probes": (lambda: sh.Sketch(MODEL, clusters=8, probes=0), ("probes", "0")),
    "sketch rank": (lambda: sh.Sketch(MODEL, rank=7), ("rank", "7", "6")),
    "sketch refine": (lambda: sh.Sketch(MODEL, refine=1.5), ("refine", "1.5")),
    "sketch query_bits": (lambda: sh.Sketch(MODEL, query_bits=5), ("query_bits", "5", "4")),
    "sketch design": (
        lambda: sh.Sketch(MODEL, design="bernoulli"),
        ("design", "'bernoulli'", "'systematic', 'poisson'"),
    ),
    "sketch replicates": (lambda: sh.Sketch(MODEL, replicates=0), ("replicates", "0")),
    "sketch poisson replicates": (lambda: sh.Sketch(MODEL, design="poisson", replicates=2), ("replicates", "2", "1")),
    "sketch rng": (lambda: sh.Sketch(MODEL, rng="x"), ("rng", "'x'")),  # type: ignore[arg-type]
    "sketch refresh": (lambda: sh.Sketch(MODEL).refresh([100]), ("ids", "100", "0 to 99")),
    "uniform size 0": (lambda: sh.Uniform(MODEL, size=0), ("size", "0", "at least 1")),
    "uniform size True": (lambda: sh.Uniform(MODEL, size=True), ("size", "True")),
    "prior size": (lambda: sh.Prior(MODEL, size=-3), ("size", "-3")),
    "prior both": (lambda: sh.Prior(MODEL, 5, np.ones(100), QUERIES), ("probabilities and queries",)),
    "prior zero": (lambda: sh.Prior(MODEL, 5, np.arange(100)), ("probabilities", "class 0", "uniform")),
    "prior length": (lambda: sh.Prior(MODEL, 5, np.ones(99)), ("probabilities", "(99,)", "100")),
    "prior nan": (lambda: sh.Prior(MODEL, 5, np.full(100, np.nan)), ("probabilities", "row 0")),
    "exact memory": (lambda: sh.Exact(MODEL, memory=10), ("memory", "10")),
    "logits ids": (lambda: MODEL.logits(QUERIES, [[1]]), ("ids", "(1, 1)", "(8, m)")),
    "logits ids range": (lambda: MODEL.logits(QUERIES, [100]), ("ids", "100", "99")),
    "log_prob targets": (lambda: sh.log_prob(MODEL, QUERIES, [0], sh.Exact(MODEL)), ("targets", "(1,)", "8")),
}


@pytest.mark.parametrize(("call", "fragments"), SETTINGS.values(), ids=SETTINGS.keys())
def test_bad_settings(call: Callable[[], Any], fragments: tuple[str, ...]) -> None:
    fails(call, *fragments)
