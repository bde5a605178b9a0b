"""FAISS's best 200 classes and 200 uniform ones outside them, against Sketch at the same number scored."""

from __future__ import annotations

import zlib
from functools import partial
from typing import NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

import softhash as sh
from experiments import record, timing
from experiments.data import CACHE, Problem, smollm2
from experiments.sketch import kept
from experiments.sketch.measures import error, variant
from softhash.types import Estimate

HEAD, TAIL = 200, 200
BATCH = 1024


class Rival(NamedTuple):
    """A FAISS index: factory string, the parameter that trades time for recall, its values, and what it stores."""

    factory: str
    parameter: str
    values: tuple[int, ...]
    returns_products: bool


RIVALS = (
    Rival("IVF1024,Flat", "nprobe", (4, 16, 64, 256), True),
    Rival("HNSW32", "efSearch", (200, 400, 800, 1600), True),
    Rival("IVF1024,RaBitQ", "nprobe", (4, 16, 64, 256), False),
)


class HeadAndTail:
    """The head an index finds, counted with certainty, and a uniform sample of the classes outside it.

    Args:
        index: over class vectors less `shift`.
        exact: whether the index's inner products are exact; if not, the head is scored again.
    """

    def __init__(self, model: sh.LogLinear, index: faiss.Index, shift: NDArray[np.float32], exact: bool):
        self.model, self.index, self._shift, self._exact = model, index, shift, exact

    def log_partition(self, queries: NDArray[np.float32], *, rng: int = 0) -> Estimate:
        """log Ẑ, without a standard error."""
        products, head = self.index.search(queries, HEAD)
        n, missing = self.model.n_classes, head < 0
        head = np.where(missing, 0, head).astype(np.int32)
        products = products + queries @ self._shift[:, None] if self._exact else self.model.logits(queries, head)
        products = np.where(missing, -np.inf, products)
        tail = outside(head, n, np.random.default_rng(rng))
        found = HEAD - missing.sum(axis=1, keepdims=True)
        tail_logits = self.model.logits(queries, tail) + np.log((n - found) / TAIL)
        logits = np.hstack([products, tail_logits])
        top = logits.max(axis=1, keepdims=True)
        log_z = (top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))).astype(np.float64)
        return Estimate(log_z, np.full(len(log_z), np.nan), np.full(len(log_z), HEAD + TAIL))


def outside(head: NDArray[np.int32], n_classes: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """(Q, TAIL) classes drawn uniformly, with replacement, from those outside each row of `head`."""
    ranks = rng.integers(n_classes - head.shape[1], size=(len(head), TAIL))
    gaps = np.sort(head, axis=1) - np.arange(head.shape[1])
    passed = [np.searchsorted(row, drawn, side="right") for row, drawn in zip(gaps, ranks, strict=True)]
    return (ranks + np.array(passed)).astype(np.int32)


def built(problem: Problem, rival: Rival, shift: NDArray[np.float32]) -> faiss.Index:
    """The index over class vectors less `shift`, which changes no ranking; kept in the cache."""
    vectors = problem.model.weights - shift
    path = CACHE / f"faiss-{rival.factory}-{zlib.crc32(vectors[::64].tobytes()):08x}.index"
    if path.exists():
        return faiss.read_index(str(path))
    print(f"building {rival.factory}", flush=True)
    index = faiss.index_factory(problem.model.dim, rival.factory, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    path.parent.mkdir(parents=True, exist_ok=True)
    faiss.write_index(index, str(path))
    return index


def sketches(problem: Problem) -> dict[str, sh.Sketch]:
    """Sketch at the same number scored: its defaults, and codes read of fewer classes."""
    default = sh.Sketch(problem.model, size=HEAD + TAIL, queries=problem.calibration)
    by_refine = {f"Sketch, codes of {share:.0%} read": variant(default, refine=share) for share in (0.02, 0.1)}
    return {"Sketch": default} | by_refine


def run(quick: bool, prepare: bool) -> None:
    """Every setting of every index, timed in turn with Sketch; or only the indexes built."""
    problem = smollm2()
    problem = problem._replace(queries=np.ascontiguousarray(problem.queries[: 256 if quick else BATCH]))
    mean = problem.model.weights.mean(axis=0)
    shifts = {"": np.zeros_like(mean), " centred": mean}
    rivals = [(rival, label) for rival in (RIVALS[:1] if quick else RIVALS) for label in shifts]
    indexes = {(rival.factory, label): built(problem, rival, shifts[label]) for rival, label in rivals}
    queries, log_z = problem.queries, kept.true(problem)
    if prepare:
        return
    ours = sketches(problem)
    times = timing.interleaved({name: partial(sketch.log_partition, queries, rng=0) for name, sketch in ours.items()})
    rows: list[dict[str, object]] = [
        {"method": name, "queries": len(queries), "scored": HEAD + TAIL,
         "ms_per_query": 1000 * times[name] / len(queries), "error": error(sketch, queries, log_z, seed=1)}
        for name, sketch in ours.items()
    ]  # fmt: skip
    for rival, label in rivals:
        method = HeadAndTail(problem.model, indexes[rival.factory, label], shifts[label], rival.returns_products)
        rows += measure(method, rival, label, queries, log_z, ours["Sketch"])
    for row in rows:
        row["error_over_sketch"] = float(str(row["error"])) / float(str(rows[0]["error"]))
    title = "Sketch and FAISS at 400 classes scored"
    record.save("sketch-faiss", rows, seeds="index 0; draws 0-1", quick=quick, title=title)


def measure(
    method: HeadAndTail, rival: Rival, label: str, queries: NDArray, log_z: NDArray, sketch: sh.Sketch
) -> list[dict[str, object]]:
    """One row for each value of the index's parameter."""
    work = {"faiss": partial(method.log_partition, queries), "sketch": partial(sketch.log_partition, queries, rng=0)}
    rows: list[dict[str, object]] = []
    for value in rival.values:
        faiss.ParameterSpace().set_index_parameter(method.index, rival.parameter, value)
        times = timing.interleaved(work, rounds=3, budget=4.0, least=1)
        found = method.log_partition(queries, rng=1).log_z
        rows.append(
            {"method": f"{rival.factory}{label}, {rival.parameter} {value}", "queries": len(queries),
             "scored": HEAD + TAIL, "ms_per_query": 1000 * times["faiss"] / len(queries),
             "error": float(np.abs(found - log_z).mean()), "times_sketch": times["faiss"] / times["sketch"]}
        )  # fmt: skip
    return rows
