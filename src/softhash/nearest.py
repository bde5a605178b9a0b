"""The classes of largest logit by a FAISS index, in coordinates of our choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from softhash import blas
from softhash.model import LogLinear
from softhash.sketch import balance

if TYPE_CHECKING:
    import faiss

ROWS_PER_BLOCK = 8_192
QUERIES_PER_BLOCK = 256
PROBED_SHARE = 16
ROWS_PER_ADDITION = 65_536
TRAINING_ROWS, TRAINING_ROWS_PER_CELL = 65_536, 128
"""An index is trained on no more classes than the larger of both: all their vectors would be a copy of the weights."""
COORDINATES = ("plain", "centred", "balanced")


class Frame(NamedTuple):
    """Where classes and queries are put before FAISS sees them: inner products change by a constant per query.

    Attributes:
        class_mean: float32[d], subtracted from classes.
        for_classes, for_queries: float32[d, d], A and A⁻¹; or (0, 0) where nothing is turned.
    """

    class_mean: NDArray[np.float32]
    for_classes: NDArray[np.float32]
    for_queries: NDArray[np.float32]

    @classmethod
    def fit(cls, model: LogLinear, coordinates: str, queries: balance.QueryMoments) -> Self:
        """The frame of the weights as they are."""
        nothing = np.zeros((0, 0), np.float32)
        if coordinates == "plain":
            return cls(np.zeros(model.dim, np.float32), nothing, nothing)
        fitted = balance.fit(model, queries)
        if coordinates == "centred":
            return cls(fitted.class_mean, nothing, nothing)
        turns = (matrix.astype(np.float32) for matrix in (fitted.for_classes, fitted.for_queries))
        return cls(fitted.class_mean, *turns)

    def classes(self, model: LogLinear, ids: slice | NDArray[np.int64]) -> NDArray[np.float32]:
        """(n, d) vectors of these classes to index, (n, d + 1) with a bias."""
        weights = model.weights[ids]
        out = np.empty((len(weights), model.dim + (model.bias is not None)), np.float32)

        def block(part: slice) -> None:
            rows = weights[part] - self.class_mean
            out[part, : model.dim] = rows @ self.for_classes if self.for_classes.size else rows

        blas.map_blocks(block, len(weights), ROWS_PER_BLOCK)
        if model.bias is not None:
            out[:, -1] = model.bias[ids]
        return out

    def queries(self, queries: NDArray[np.float32], bias: bool) -> NDArray[np.float32]:
        """(Q, d) vectors to search for, (Q, d + 1) with a bias."""
        if not (bias or self.for_queries.size):
            return queries
        out = np.ones((len(queries), queries.shape[1] + bias), np.float32)

        def block(part: slice) -> None:
            turned = queries[part] @ self.for_queries if self.for_queries.size else queries[part]
            out[part, : queries.shape[1]] = turned

        blas.map_blocks(block, len(queries), QUERIES_PER_BLOCK)
        return out


class Nearest:
    """A FAISS index over the classes of a model. Several samplers may share one and search it differently.

    Args:
        model: the model.
        index: a factory string, or a FAISS index: trained and filled with the class vectors in these coordinates in
            order, trained and empty, or neither.
        coordinates: "plain", "centred" (classes less their mean) or "balanced" (those of Sketch).
        queries: moments of calibration queries, for "balanced".
    """

    def __init__(self, model: LogLinear, index: str | faiss.Index, coordinates: str, queries: balance.QueryMoments):
        self.factory = index if isinstance(index, str) else None
        self.coordinates = coordinates
        self._queries = queries
        self._setting: str | None = None
        self._frame = Frame.fit(model, coordinates, queries)
        self._width = model.dim + (model.bias is not None)
        self._index = _from_factory(self._width, index) if isinstance(index, str) else index
        self._bytes = 0
        _check_index(self._index, self._width, model.n_classes)
        if self._index.ntotal == 0:
            self._fill(model)

    def _fill(self, model: LogLinear) -> None:
        if not self._index.is_trained:
            _train_without_complaint(self._index, self._frame.classes(model, self._to_train_on(model.n_classes)))
        for start in range(0, model.n_classes, ROWS_PER_ADDITION):
            self._index.add(self._frame.classes(model, slice(start, start + ROWS_PER_ADDITION)))

    def _to_train_on(self, n_classes: int) -> NDArray[np.int64]:
        """Evenly spaced classes; all of them where they are few."""
        count = min(n_classes, max(TRAINING_ROWS, TRAINING_ROWS_PER_CELL * self._cells()))
        return np.arange(count) * n_classes // count

    def refresh(self, model: LogLinear, anew: bool) -> None:
        """Index the weights as they are; `anew`: in a frame, and with a training, of their own."""
        if anew:
            self._frame = Frame.fit(model, self.coordinates, self._queries)
        if anew and self.factory is not None:
            self._index = _from_factory(self._width, self.factory)
            self._setting = None
        else:
            self._index.reset()
        self._fill(model)

    @property
    def nbytes(self) -> int:
        """Bytes of the index, class vectors included where it stores them."""
        self._bytes = self._bytes or len(self._serialized())
        return self._bytes

    def default_setting(self, head: int) -> str | None:
        """How widely to search if nobody says: twice the head in a graph, a sixteenth of the cells."""
        if self.factory is None:
            return None
        for name, value in (("efSearch", 2 * head), ("nprobe", max(1, self._cells() // PROBED_SHARE))):
            if _applies(self._index, f"{name}={value}"):
                return f"{name}={value}"
        return None

    def _cells(self) -> int:
        import faiss

        inverted = faiss.try_extract_index_ivf(self._index)
        return inverted.nlist if inverted is not None else 0

    def check_setting(self, setting: str) -> None:
        """Refuse search parameters that this index does not have."""
        if not _applies(self._index, setting):
            kind = self.factory or type(self._index).__name__
            raise ValueError(
                f"search is {setting!r}, which {kind} does not understand; pass one of its parameters, such as "
                "'nprobe=64' for IVF or 'efSearch=400' for HNSW"
            )
        self._setting = setting

    def search(self, queries: NDArray[np.float32], k: int, setting: str | None) -> NDArray[np.int64]:
        """(Q, k) classes in order of falling inner product, −1 where fewer were found."""
        import faiss

        if setting is not None and setting != self._setting:
            faiss.ParameterSpace().set_index_parameters(self._index, setting)
            self._setting = setting
        turned = self._frame.queries(queries, bias=self._width > queries.shape[1])
        return self._index.search(turned, k)[1]

    def _serialized(self) -> NDArray[np.uint8]:
        import faiss

        return faiss.serialize_index(self._index)

    def state(self) -> tuple[dict, dict[str, NDArray]]:
        """Settings and arrays, the FAISS index as bytes among them."""
        arrays = {"index": self._serialized()}
        arrays |= {f"frame.{name}": array for name, array in self._frame._asdict().items()}
        arrays |= {f"queries.{name}": array for name, array in self._queries._asdict().items()}
        return {"factory": self.factory, "coordinates": self.coordinates}, arrays

    @classmethod
    def restore(cls, model: LogLinear, settings: dict, arrays: dict[str, NDArray]) -> Self:
        """From `state`."""
        import faiss

        nearest = cls.__new__(cls)
        nearest.factory, nearest.coordinates = settings["factory"], settings["coordinates"]
        nearest._index = faiss.deserialize_index(arrays["index"])
        nearest._frame = Frame(*(arrays[f"frame.{name}"] for name in Frame._fields))
        nearest._queries = balance.QueryMoments(*(arrays[f"queries.{name}"] for name in balance.QueryMoments._fields))
        nearest._bytes = 0
        nearest._setting, nearest._width = None, model.dim + (model.bias is not None)
        return nearest


def _from_factory(width: int, factory: str) -> faiss.Index:
    import faiss

    try:
        return faiss.index_factory(width, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError:
        raise ValueError(
            f"index is {factory!r}, which FAISS does not understand for dimension {width}; pass a factory string such "
            "as 'HNSW32', 'IVF1024,Flat' or 'Flat', or a ready index"
        ) from None


def _train_without_complaint(index: faiss.Index, vectors: NDArray[np.float32]) -> None:
    """FAISS would print that it wants more vectors per cell, about which nobody can do anything."""
    import faiss

    inverted = faiss.try_extract_index_ivf(index)
    if inverted is not None:
        inverted.cp.min_points_per_centroid = 1
    index.train(vectors)


def _check_index(index: Any, width: int, n_classes: int) -> None:
    import faiss

    if not isinstance(index, faiss.Index):
        raise TypeError(f"index is {index!r}; pass a FAISS factory string or a FAISS index")
    if index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise ValueError("index does not search by inner product; build it with faiss.METRIC_INNER_PRODUCT")
    if index.d != width:
        raise ValueError(f"index has dimension {index.d}; pass one of dimension {width}, a bias being one coordinate")
    if index.ntotal not in (0, n_classes):
        raise ValueError(f"index holds {index.ntotal} vectors; pass an empty one, or one with all {n_classes} classes")


def _applies(index: faiss.Index, setting: str) -> bool:
    """Whether the index understands the setting, which is then set."""
    import faiss

    try:
        faiss.ParameterSpace().set_index_parameters(index, setting)
    except RuntimeError:
        return False
    return True
