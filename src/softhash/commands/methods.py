"""The methods a command can be asked for by name, and how each is built from options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import softhash


@dataclass(frozen=True)
class Settings:
    """The options of `estimate` that choose and shape a method; None where the user said nothing."""

    size: int | None
    bits: int | None
    tables: int | None
    transform: str | None
    floor: int | None
    seed: int

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these options that were given."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True)
class Method:
    """A method of `estimate`: its class, the options it takes, and how to build it."""

    kind: str
    options: tuple[str, ...]
    build: Callable[[Any, softhash.LogLinear, Any, Settings], softhash.Estimator]


def _exact(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    return kind(model)


def _uniform(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    return kind(model, **settings.given("size"))


def _prior(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    return kind(model, queries=queries, **settings.given("size"))


def _lsh(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    shape = settings.given("bits", "tables")
    rest = settings.given("transform", "floor") | {"rng": settings.seed}
    if shape:
        return kind(model, **shape, **settings.given("size"), **rest)
    return kind.tuned(model, 200 if settings.size is None else settings.size, queries, **rest)


def _exact_gumbel(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    return kind(model, rng=settings.seed, **_draws(settings))


def _mips_gumbel(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    return kind(model, rng=settings.seed, **_draws(settings), **settings.given("bits", "tables"))


def _draws(settings: Settings) -> dict[str, int]:
    """`size` maxima for each query, from a bank of a thousand columns or as many as that takes."""
    return {} if settings.size is None else {"draws": settings.size, "bank": max(1000, settings.size)}


def _priority(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    return kind(model, rng=settings.seed, **settings.given("size"))


def _sketch(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    return kind(model, queries=queries, rng=settings.seed, **settings.given("size"))


def _topk(kind: Any, model: softhash.LogLinear, queries: Any, settings: Settings) -> softhash.Estimator:
    size = 200 if settings.size is None else settings.size
    head = max(1, size // 2)
    return kind(model, head, max(1, size - head), coordinates="balanced", queries=queries)


METHODS = {
    "exact": Method("Exact", (), _exact),
    "uniform": Method("Uniform", ("size",), _uniform),
    "prior": Method("Prior", ("size",), _prior),
    "lsh": Method("LSH", ("size", "bits", "tables", "transform", "floor"), _lsh),
    "topk": Method("TopK", ("size",), _topk),
    "exact-gumbel": Method("ExactGumbel", ("size",), _exact_gumbel),
    "mips-gumbel": Method("MipsGumbel", ("size", "bits", "tables"), _mips_gumbel),
    "priority": Method("PriorityGumbel", ("size",), _priority),
    "sketch": Method("Sketch", ("size",), _sketch),
}


def available() -> list[str]:
    return [name for name, method in METHODS.items() if hasattr(softhash, method.kind)]


def method_named(name: str, settings: Settings) -> Method:
    """The method of this name, if this version has it and it takes what was given."""
    known = available()
    if name not in known:
        raise ValueError(f"--method is {name!r}; pass one of {', '.join(known)}")
    method = METHODS[name]
    for option in settings.given("size", "bits", "tables", "transform", "floor"):
        if option not in method.options:
            takers = [key for key in known if option in METHODS[key].options]
            raise ValueError(
                f"--{option} means nothing to --method {name}; drop it, or pass --method {' or '.join(takers)}"
            )
    return method
