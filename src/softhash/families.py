"""Every method with the settings worth trying: what `tune` searches and `softhash bench` measures."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import softhash
from softhash.model import LogLinear
from softhash.types import Estimator, Sampler

Setting = Mapping[str, Any]
GROUPED_FROM = 100_000
"""Classes from which groups are worth trying; among fewer, they miss rarely, and then much, on unknown queries."""
CLASSES_PER_CLUSTER = CLASSES_PER_TILE = 64
OPENED, TILES_OPENED = (1 / 16, 1 / 8, 1 / 4), (1 / 32, 1 / 8, 1 / 4)
REFINED = (0.05, 0.1, 0.2)
REFINED_IN_CLUSTERS, REFINED_IN_TILES = (0.05, 0.2), (0.03, 0.1, 0.3)
EF_PER_HEAD = (1, 2, 4)
PROBED = (1 / 64, 1 / 16, 1 / 4)


class Family(NamedTuple):
    """A method, and what may be varied over one index.

    Attributes:
        name: what `candidates` and --methods call it.
        kind: the class it needs.
        build: (model, calibration queries) -> the index that its settings share.
        settings: model -> the settings to try, without the size.
        make: (index, size, setting) -> the estimator.
        sized: whether it has a size.
        faiss: whether building may take minutes, so that a part is built first to see.
    """

    name: str
    kind: str
    build: Callable[[LogLinear, NDArray[np.float32]], Any]
    settings: Callable[[LogLinear], Sequence[Setting]]
    make: Callable[[Any, int, Setting], Estimator]
    sized: bool = True
    faiss: bool = False


def _once(model: LogLinear) -> Sequence[Setting]:
    return ({},)


def _changed(sampler: Sampler, **settings: Any) -> Sampler:
    """The same index, drawing otherwise."""
    held, arrays = sampler.state()
    return type(sampler).restore(sampler.model, held | settings, arrays)


def _simple(name: str, kind: str) -> Family:
    return Family(
        name, kind, lambda model, queries: getattr(softhash, kind)(model), _once, lambda index, *_: index, sized=False
    )


def _sketch(name: str, groups: Callable[[LogLinear], Setting], settings: Callable[[LogLinear], Any]) -> Family:
    """Sketch over groups of classes: arguments that decide how its index is built, and settings over one index."""

    def build(model: LogLinear, queries: NDArray[np.float32]) -> Sampler:
        return softhash.Sketch(model, queries=queries, **groups(model))

    return Family(name, "Sketch", build, settings, lambda index, size, setting: _changed(index, size=size, **setting))


def _clusters(model: LogLinear) -> int:
    return model.n_classes // CLASSES_PER_CLUSTER


def _tiles(model: LogLinear) -> int:
    return -(-model.n_classes // CLASSES_PER_TILE)


def _of_all_codes(model: LogLinear) -> Sequence[Setting]:
    return [{"refine": refine} for refine in REFINED]


def _of_tiles(model: LogLinear) -> Sequence[Setting]:
    if model.n_classes < GROUPED_FROM:
        return ()
    opened = [int(share * _tiles(model)) for share in TILES_OPENED]
    return [{"probes": probes, "refine": refine} for probes in opened for refine in REFINED_IN_TILES]


def _of_clusters(model: LogLinear) -> Sequence[Setting]:
    if model.n_classes < GROUPED_FROM:
        return ()
    opened = [int(share * _clusters(model)) for share in OPENED]
    return [{"probes": probes, "refine": refine} for probes in opened for refine in REFINED_IN_CLUSTERS]


def cells(n_classes: int) -> int:
    """Cells of an inverted file over this many classes: about 4√N, a power of two."""
    return max(1, 2 ** round(np.log2(4 * np.sqrt(n_classes)))) if n_classes > 1000 else 1


def _topk(name: str, index: Callable[[LogLinear], str], settings: Callable[[LogLinear], Any], coordinates: str):
    def build(model: LogLinear, queries: NDArray[np.float32]) -> Sampler:
        typical = queries if coordinates == "balanced" else None
        return softhash.TopK(model, index=index(model), coordinates=coordinates, queries=typical)

    def make(index: Any, size: int, setting: Setting) -> Estimator:
        head = max(1, size // 2)
        search = f"efSearch={head * setting['per_head']}" if "per_head" in setting else setting["search"]
        return index.resized(head, max(1, size - head), search)

    return Family(name, "TopK", build, settings, make, faiss=True)


def _graph_settings(model: LogLinear) -> Sequence[Setting]:
    return [{"per_head": times} for times in EF_PER_HEAD]


def _file_settings(model: LogLinear) -> Sequence[Setting]:
    counts = sorted({max(1, int(share * cells(model.n_classes))) for share in PROBED})
    return [{"search": f"nprobe={count}"} for count in counts]


def _file(model: LogLinear) -> str:
    return f"IVF{cells(model.n_classes)},Flat"


def _graph(model: LogLinear) -> str:
    return "HNSW32"


def _tuned_lsh(model: LogLinear, queries: NDArray[np.float32]) -> tuple[LogLinear, NDArray[np.float32]]:
    return model, queries


def _gumbel(name: str, kind: str, argument: str) -> Family:
    """An estimator that is built for each size."""

    def make(model: LogLinear, size: int, setting: Setting) -> Estimator:
        return getattr(softhash, kind)(model, **{argument: min(size, 1000) if argument == "draws" else size})

    return Family(name, kind, lambda model, queries: model, _once, make)


FAMILIES = (
    _simple("exact", "Exact"),
    _simple("exact-bfloat16", "ExactBFloat16"),
    _sketch("sketch", lambda model: {"clusters": 1, "probes": _tiles(model)}, _of_all_codes),
    _sketch("sketch-tiles", lambda model: {"clusters": 1, "probes": _tiles(model) // 8}, _of_tiles),
    _sketch("sketch-every-code", lambda model: {"clusters": 0}, _once),
    _sketch("sketch-clusters", lambda model: {"clusters": _clusters(model)}, _of_clusters),
    Family(
        "uniform", "Uniform", lambda model, queries: model, _once, lambda model, size, _: softhash.Uniform(model, size)
    ),
    Family(
        "prior", "Prior", lambda model, queries: softhash.Prior(model, queries=queries), _once,
        lambda index, size, setting: _changed(index, size=size),
    ),
    Family("lsh", "LSH", _tuned_lsh, _once, lambda at, size, setting: softhash.LSH.tuned(at[0], size, at[1])),
    _topk("topk-ivf", _file, _file_settings, "balanced"),
    _topk("topk-hnsw", _graph, _graph_settings, "balanced"),
)  # fmt: skip
"""What `tune` tries, the likeliest first."""

RIVALS = (
    _topk("topk-ivf-plain", _file, _file_settings, "plain"),
    _topk("topk-hnsw-plain", _graph, _graph_settings, "plain"),
    _gumbel("gumbel", "ExactGumbel", "draws"),
    _gumbel("gumbel-lsh", "MipsGumbel", "draws"),
    _gumbel("gumbel-priority", "PriorityGumbel", "size"),
)
"""What `softhash bench` measures besides; none of them can be cheaper than its like above."""


def named(names: Sequence[str] | None, families: Sequence[Family], argument: str) -> list[Family]:
    """The families of these names; None: all of them that can run here."""
    known = {family.name: family for family in families if hasattr(softhash, family.kind)}
    if importlib.util.find_spec("torch") is None:
        known.pop("exact-bfloat16", None)
    if names is None:
        return list(known.values())
    for name in names:
        if name not in known:
            raise ValueError(f"{argument} has {name!r}; pass some of {', '.join(known)}")
    return [known[name] for name in names]


def described(size: int | None, setting: Setting) -> str:
    """Settings as one would write them."""
    shown = ({} if size is None else {"size": size}) | {name: setting[name] for name in setting if name != "per_head"}
    if "per_head" in setting:
        times = setting["per_head"]
        shown["search"] = f"efSearch={times}·head" if size is None else f"efSearch={times * max(1, size // 2)}"
    return ", ".join(f"{name}={value}" for name, value in shown.items())


def index_bytes(estimator: Any) -> int:
    """Bytes an estimator holds besides the weights."""
    if hasattr(estimator, "nbytes"):
        return int(estimator.nbytes)
    return sum(array.nbytes for array in estimator.state()[1].values()) if isinstance(estimator, Sampler) else 0
