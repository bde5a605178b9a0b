"""Bytes an index holds, and seconds to build it."""

from __future__ import annotations

import time

import softhash as sh
from experiments import record
from softhash.synthetic import lm_like

SHAPES = ((49_152, 576, 0), (49_152, 576, 1), (49_152, 576, 1024), (262_144, 640, 2048), (1_000_000, 128, 4000))
QUICK_SHAPES = ((20_000, 64, 1), (20_000, 64, 256))


def measure(n_classes: int, dim: int, clusters: int) -> record.Row:
    """One build, after kernels were compiled by a smaller one."""
    model, queries = lm_like(n_classes, dim, 2048)
    start = time.perf_counter()
    sketch = sh.Sketch(model, queries=queries, clusters=clusters)
    seconds = time.perf_counter() - start
    rank = sketch.state()[0]["padded_rank"]
    bound, shared = dim / 8 + 2 * rank + 24, 4 * clusters * dim + 12 * dim**2
    return {
        "classes": n_classes, "dim": dim, "rank": rank, "clusters": clusters, "build_seconds": seconds,
        "megabytes": sketch.nbytes / 1e6, "bytes_per_class": sketch.nbytes / n_classes,
        "bound_per_class": bound, "shared_per_class": shared / n_classes,
        "within": "yes" if sketch.nbytes <= n_classes * bound + shared else "no",
        "share_of_weights": sketch.nbytes / (4 * n_classes * dim),
    }  # fmt: skip


def run(quick: bool) -> None:
    """Every shape; the bound is N·(d/8 + 2·rank + 24) bytes plus the shared 4·clusters·d + 12·d²."""
    small, queries = lm_like(5000, 64, 256)
    sh.Sketch(small, queries=queries, clusters=64)
    rows = []
    for shape in QUICK_SHAPES if quick else SHAPES:
        rows.append(measure(*shape))
        print(f"{shape}: built in {rows[-1]['build_seconds']:.1f} s", flush=True)
    record.save("sketch-memory", rows, seeds="model 0; index 0", quick=quick, title="Sketch: memory and build time")
