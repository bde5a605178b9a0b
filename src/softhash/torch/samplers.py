"""Samplers for training, by name: how each is built over weights that will move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from softhash import checks
from softhash.lsh import LSH
from softhash.model import LogLinear
from softhash.proposals import Prior, Uniform
from softhash.sketch import Sketch
from softhash.topk import TopK
from softhash.types import Sampler


class Seen(NamedTuple):
    """What training has shown so far.

    Attributes:
        queries: (n, d), the last hidden states, oldest first.
        frequencies: float64[N], how often each class was a target, and one more, so that none is 0.
    """

    queries: NDArray[np.float32]
    frequencies: NDArray[np.float64]


Factory: TypeAlias = Callable[[LogLinear, Seen], Sampler]
"""(model, what training has shown so far) -> a sampler over that model."""


def factory(sampler: str | Factory, size: int, seed: int, settings: dict[str, Any]) -> Factory:
    """The factory that a name and its settings, or a function of the user's own, stand for."""
    if callable(sampler):
        if settings:
            raise ValueError(f"{', '.join(settings)} given beside a function; let the function set them")
        return sampler
    build = BY_NAME[checks.choice("sampler", sampler, tuple(BY_NAME))]
    return lambda model, seen: build(model, seen, size, seed, settings)


def _sketch(model: LogLinear, seen: Seen, size: int, seed: int, settings: dict[str, Any]) -> Sampler:
    return Sketch(model, size, seen.queries, rng=seed, **settings)


def _lsh(model: LogLinear, seen: Seen, size: int, seed: int, settings: dict[str, Any]) -> Sampler:
    """Buckets, and a floor of size/2 that follows the targets: without one, frequent classes are mostly missed."""
    given = {"floor": min(size // 2, model.n_classes), "floor_probabilities": seen.frequencies, "cut": None, **settings}
    return LSH(model, size=given.pop("cut"), rng=seed, snapshot=True, **given)


def _uniform(model: LogLinear, seen: Seen, size: int, seed: int, settings: dict[str, Any]) -> Sampler:
    return Uniform(model, size, **settings)


def _prior(model: LogLinear, seen: Seen, size: int, seed: int, settings: dict[str, Any]) -> Sampler:
    return Prior(model, size, **(settings or {"probabilities": seen.frequencies}))


def _topk(model: LogLinear, seen: Seen, size: int, seed: int, settings: dict[str, Any]) -> Sampler:
    half = max(2, size // 2)
    return TopK(model, **{"head": half, "tail": half, "probabilities": seen.frequencies, **settings})


BY_NAME: dict[str, Callable[..., Sampler]] = {
    "sketch": _sketch, "lsh": _lsh, "uniform": _uniform, "prior": _prior, "topk": _topk,
}  # fmt: skip


def renew(sampler: Sampler) -> None:
    """Index every row anew, in the coordinates there are where finding better ones costs more than the rows do."""
    sampler.refresh(np.arange(sampler.model.n_classes) if isinstance(sampler, Sketch | TopK) else None)
