"""Samplers for training, by name: how each is built over weights that will move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from softhash import checks
from softhash.lsh import LSH
from softhash.model import LogLinear
from softhash.proposals import Prior, Uniform
from softhash.sketch import Sketch
from softhash.topk import TopK
from softhash.types import Sampler

Factory: TypeAlias = Callable[[LogLinear, NDArray[np.float32]], Sampler]
"""(model, recent queries) -> a sampler over that model."""


def factory(sampler: str | Factory, size: int, seed: int, settings: dict[str, Any]) -> Factory:
    """The factory that a name and its settings, or a function of the user's own, stand for."""
    if callable(sampler):
        if settings:
            raise ValueError(f"{', '.join(settings)} given beside a function; let the function set them")
        return sampler
    build = BY_NAME[checks.choice("sampler", sampler, tuple(BY_NAME))]
    return lambda model, queries: build(model, queries, size, seed, settings)


def _sketch(model: LogLinear, queries: NDArray, size: int, seed: int, settings: dict[str, Any]) -> Sampler:
    return Sketch(model, size, queries, rng=seed, **settings)


def _lsh(model: LogLinear, queries: NDArray, size: int, seed: int, settings: dict[str, Any]) -> Sampler:
    return LSH(model, rng=seed, snapshot=True, **settings)


def _uniform(model: LogLinear, queries: NDArray, size: int, seed: int, settings: dict[str, Any]) -> Sampler:
    return Uniform(model, size, **settings)


def _prior(model: LogLinear, queries: NDArray, size: int, seed: int, settings: dict[str, Any]) -> Sampler:
    return Prior(model, size, **(settings or {"queries": queries}))


def _topk(model: LogLinear, queries: NDArray, size: int, seed: int, settings: dict[str, Any]) -> Sampler:
    half = max(2, size // 2)
    return TopK(model, **{"head": half, "tail": half, **settings})


BY_NAME: dict[str, Callable[..., Sampler]] = {
    "sketch": _sketch, "lsh": _lsh, "uniform": _uniform, "prior": _prior, "topk": _topk,
}  # fmt: skip


def renew(sampler: Sampler) -> None:
    """Index every row anew, in the coordinates there are where finding better ones costs more than the rows do."""
    sampler.refresh(np.arange(sampler.model.n_classes) if isinstance(sampler, Sketch | TopK) else None)
