"""One pass over every class of a model, in blocks of logits, with something kept of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from softhash import blas
from softhash.model import LogLinear

CLASSES_PER_BLOCK = 1024
BLOCKS_PER_STRIPE = 4
STRIPES = 8
LOGITS_PER_PRODUCT = 2**19
QUERIES_AT_ONCE = 512

State = TypeVar("State")


class Mass(NamedTuple):
    """Σ exp(logit) of the classes seen, as mass · exp(top), float64[Q] both."""

    top: NDArray[np.float64]
    mass: NDArray[np.float64]

    @classmethod
    def none(cls, n_queries: int) -> Mass:
        """That of no class."""
        return cls(np.full(n_queries, -np.inf), np.zeros(n_queries))


def parts(queries: NDArray) -> Iterator[slice]:
    """Slices of queries that go over the classes together."""
    return (slice(start, start + QUERIES_AT_ONCE) for start in range(0, len(queries), QUERIES_AT_ONCE))


def sweep(
    model: LogLinear,
    queries: NDArray[np.float32],
    start: Callable[[], State],
    visit: Callable[[State, int, NDArray[np.float32]], None],
) -> list[State]:
    """What `visit(state, first class, logits)` left in a state of its own for each stripe of the classes.

    Blocks and stripes depend on N alone, so that no answer depends on the number of queries or threads; for few queries
    one product makes several blocks. A visit may overwrite its logits.
    """
    blocks = -(-model.n_classes // CLASSES_PER_BLOCK)
    per_stripe = max(BLOCKS_PER_STRIPE, -(-blocks // STRIPES)) * CLASSES_PER_BLOCK
    products = max(1, LOGITS_PER_PRODUCT // (CLASSES_PER_BLOCK * len(queries))) * CLASSES_PER_BLOCK

    def stripe(classes: slice) -> State:
        state = start()
        for first in range(classes.start, classes.stop, products):
            stop = min(first + products, classes.stop)
            logits = queries @ model.weights[first:stop].T
            if model.bias is not None:
                logits += model.bias[first:stop]
            for at in range(0, stop - first, CLASSES_PER_BLOCK):
                visit(state, first + at, np.ascontiguousarray(logits[:, at : at + CLASSES_PER_BLOCK]))
        return state

    return blas.map_blocks(stripe, model.n_classes, per_stripe)


def log_sum(masses: list[Mass]) -> NDArray[np.float64]:
    """log Σ exp(logit) over all stripes."""
    return np.logaddexp.reduce([top + np.log(mass) for top, mass in masses])
