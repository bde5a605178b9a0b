"""One training step of an output layer, forward, backward and Adagrad: `python -m experiments.training_speed`.

The rival is nn.Linear, nn.CrossEntropyLoss and dense Adagrad. Adagrad is fused, as PyTorch can where gradients are
dense. 640 tokens. Keeping up the index is part of the time: the stretch of steps that is timed has as many refreshes as
its length calls for, and a share of a rebuild is added, of which there is one in 1600 steps after the first few
hundred. Weights and hidden states come from `lm_like`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from experiments import record, timing
from softhash.synthetic import lm_like
from softhash.torch import SampledSoftmaxLoss
from softhash.torch.index import LONGEST_UNTIL_REBUILT

TOKENS = 640
RATE, EPSILON = 0.1, 1e-5
KEEPS_MEMORY = "glibc.malloc.mmap_threshold=536870912:glibc.malloc.trim_threshold=4294967296"
"""GLIBC_TUNABLES with which freed arrays of less than 512 MiB stay with the process: new ones need not be cleared by
the operating system at every step. The rival gains most from it."""
SETTLED_AFTER = {True: 151, False: 3}
"""Steps before the clock starts, ours and the rival's: early rebuilds are then over."""


class Shape(NamedTuple):
    """N, d, and the steps to time: of ours a multiple of the steps between refreshes."""

    classes: int
    dim: int
    ours: int
    exact: int


SHAPES = (Shape(10_000, 512, 100, 9), Shape(44_000, 512, 100, 5), Shape(1_000_000, 128, 50, 2))
METHODS: dict[str, dict[str, Any]] = {
    "Linear and CrossEntropyLoss": {},
    "Sketch, 200 classes": {"sampler": "sketch", "size": 200},
    "Sketch, 50 classes": {"sampler": "sketch", "size": 50},
    "Sketch, 200 classes, sparse": {"sampler": "sketch", "size": 200, "sparse": True},
    "LSH, K=10 L=16": {"sampler": "lsh", "size": 200, "bits": 10, "tables": 16},
    "LSH, K=10 L=16, sparse": {"sampler": "lsh", "size": 200, "bits": 10, "tables": 16, "sparse": True},
    "Uniform, 200 classes": {"sampler": "uniform", "size": 200},
}
BY_SIZE = {1_000_000: ("Linear and CrossEntropyLoss", "Sketch, 200 classes, sparse")}
"""Methods measured at a size; all of them at others."""


class Exact(nn.Module):
    """What a model has before."""

    def __init__(self, dim: int, classes: int):
        super().__init__()
        self.linear, self.loss = nn.Linear(dim, classes), nn.CrossEntropyLoss()

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy."""
        return self.loss(self.linear(hidden), targets)


def seconds_per_step(head: nn.Module, batches: list[tuple[Tensor, Tensor]], steps: int) -> float:
    """Mean over a stretch of steps, and the share of a rebuild."""
    fused = not getattr(head, "sparse", False)
    optimizer = torch.optim.Adagrad(head.parameters(), lr=RATE, eps=EPSILON, fused=fused)

    def step(number: int) -> None:
        hidden, targets = batches[number % len(batches)]
        loss = head(hidden.detach().requires_grad_(), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    ours = isinstance(head, SampledSoftmaxLoss)
    for number in range(SETTLED_AFTER[ours]):
        step(number)
    begun = time.perf_counter()
    for number in range(steps):
        step(number)
    each = (time.perf_counter() - begun) / steps
    return each + rebuild_seconds(head) / LONGEST_UNTIL_REBUILT if ours else each


def rebuild_seconds(head: SampledSoftmaxLoss) -> float:
    """To build the index anew, with what training has shown."""
    sampler = head.index.sampler
    assert sampler is not None
    begun = time.perf_counter()
    head.index.build(sampler.model, head.index.seen)
    return time.perf_counter() - begun


def one(name: str, shape: Shape, threads: int) -> dict[str, float]:
    """Seconds, and MiB at the peak beyond weights, optimiser state and what was there before."""
    timing.set_threads(threads)
    model, queries = lm_like(shape.classes, shape.dim, 8 * TOKENS)
    weights = torch.from_numpy(np.asarray(model.weights))
    targets = (torch.from_numpy(queries[:, :1]) * 1e6).long().abs()[:, 0] % shape.classes
    batches = list(zip(torch.from_numpy(queries).split(TOKENS), targets.split(TOKENS), strict=True))
    settings = METHODS[name]
    head = SampledSoftmaxLoss(shape.dim, shape.classes, **settings) if settings else Exact(shape.dim, shape.classes)
    with torch.no_grad():
        next(head.parameters()).copy_(weights)
    before = high_water()
    seconds = seconds_per_step(head, batches, shape.ours if settings else shape.exact)
    state = 4 * shape.classes * (shape.dim + 1) / 2**20
    return {"seconds": seconds, "beyond_mib": high_water() - before - state}


def high_water() -> float:
    """MiB resident at most, since this process began."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def apart(name: str, shape: Shape, threads: int) -> dict[str, float]:
    """`one` in a process of its own, so that its memory is its own."""
    arguments = ["-m", "experiments.training_speed", "--one", name, "--classes", str(shape.classes)]
    done = subprocess.run(
        [sys.executable, *arguments, "--threads", str(threads)],
        env=os.environ | {"GLIBC_TUNABLES": KEEPS_MEMORY}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Every size, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, choices=[shape.classes for shape in SHAPES], help="one size only")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", choices=METHODS, help="one method only, as JSON")
    chosen = parser.parse_args()
    shapes = [shape for shape in SHAPES if chosen.classes in (None, shape.classes)]
    if chosen.one:
        print(json.dumps(one(chosen.one, shapes[0], chosen.threads)))
        return
    for shape in shapes:
        compare(shape, chosen.threads)


def compare(shape: Shape, threads: int) -> None:
    """Every method at one size, to results/training-speed-N.csv."""
    found = {name: apart(name, shape, threads) for name in BY_SIZE.get(shape.classes, METHODS)}
    exact = next(iter(found.values()))["seconds"]
    rows: list[record.Row] = [
        {"classes": shape.classes, "dim": shape.dim, "tokens": TOKENS, "method": name,
         "ms_per_step": 1000 * measured["seconds"], "times_exact": exact / measured["seconds"],
         "beyond_mib": measured["beyond_mib"], "threads": threads}
        for name, measured in found.items()
    ]  # fmt: skip
    title = f"One training step of an output layer of {shape.classes:,} classes"
    record.save(f"training-speed-{shape.classes}", rows, seeds="0", title=title)


if __name__ == "__main__":
    main()
