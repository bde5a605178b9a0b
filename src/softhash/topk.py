"""TopK: the heaviest classes as a nearest-neighbour index finds them, and a sample of the others."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import checks
from softhash.kernels import draws, outside, ragged, score
from softhash.model import LogLinear
from softhash.nearest import COORDINATES, Nearest
from softhash.proposals import everything, normalised
from softhash.sketch import balance
from softhash.types import Sample, Sampler

if TYPE_CHECKING:
    import faiss


class TopK(Sampler):
    """The `head` classes of largest logit that an index finds, counted with certainty, and `tail` of all others.

        Ẑ = Σ_{i∈head} exp(logit_i) + (N − head)/tail · Σ_{i∈tail} exp(logit_i),

    the tail drawn evenly, without replacement, from whatever is not in the head. So Ẑ is unbiased whatever the index
    misses, and however stale it is: the head may be any set, because logits are scored from the weights as they are.
    But a heavy class that the index misses is rarely drawn, and until it is neither Ẑ nor `std_error` knows of it.

    Args:
        model: the model.
        head: classes asked of the index per query.
        tail: classes drawn outside the head per query.
        index: a FAISS factory string, or a FAISS index (inner product) that holds the class vectors in order, or is
            empty; a bias is one more coordinate. It is imported when first needed.
        search: the index's search parameters, such as "nprobe=64" or "efSearch=400". None: 2·head for efSearch, a
            sixteenth of the cells for nprobe; a ready index is left as it is.
        probabilities: (N,) positive numbers to draw the tail in proportion to, with replacement. None: evenly.
        coordinates: what FAISS sees: "plain" vectors, "centred" ones (less their mean), or "balanced" ones, the
            coordinates of `Sketch`, in which most indexes find more.
        queries: (n, d) calibration queries, for "balanced".

    FAISS builds graphs (HNSW) on several threads, in an order that may differ from one time to the next.

    Example:
        >>> import numpy as np, softhash as sh
        >>> model = sh.LogLinear(np.random.default_rng(0).standard_normal((2000, 16)))
        >>> queries = np.random.default_rng(1).standard_normal((5, 16))
        >>> estimate = sh.TopK(model, head=50, tail=50, index="Flat").log_partition(queries, rng=0)
        >>> bool(np.abs(estimate.log_z - sh.Exact(model).log_partition(queries).log_z).max() < 1)
        True
        >>> estimate.evaluations.tolist()
        [100, 100, 100, 100, 100]

    Reference: Rastogi & Van Durme 2015; Mussmann, Levy & Ermon 2017; FAISS (Douze et al. 2024).
    """

    def __init__(
        self,
        model: LogLinear,
        head: int = 100,
        tail: int = 100,
        index: str | faiss.Index = "HNSW32",
        *,
        search: str | None = None,
        probabilities: ArrayLike | None = None,
        coordinates: str = "plain",
        queries: ArrayLike | None = None,
    ):
        checks.choice("coordinates", coordinates, COORDINATES)
        if queries is not None and coordinates != "balanced":
            raise ValueError(f"queries were given but coordinates is {coordinates!r}; pass coordinates='balanced'")
        typical = None if queries is None else checks.queries(queries, model.dim)
        self.model = model
        self._set_sizes(head, tail)
        self._prior = None
        if probabilities is not None:
            prior = normalised(probabilities, model.n_classes)
            self._prior = (np.log(prior).astype(np.float32), *draws.alias_table(prior))
        self._nearest = Nearest(model, index, coordinates, balance.query_moments(typical, model.dim))
        self._set_search(search)

    def _set_sizes(self, head: int, tail: int) -> None:
        self.head = checks.positive_int("head", head)
        self.tail = checks.positive_int("tail", tail)

    def _set_search(self, search: str | None) -> None:
        if search is not None:
            self._nearest.check_setting(search)
        self._search = search
        self._setting = self._nearest.default_setting(self.head) if search is None else search

    def resized(self, head: int, tail: int, search: str | None = None) -> Self:
        """The same sampler with another budget, over the same index, which is shared.

        Example:
            >>> import numpy as np, softhash as sh
            >>> small = sh.TopK(sh.LogLinear(np.eye(500)), head=10, tail=10, index="Flat")
            >>> small.resized(head=40, tail=20).log_partition(np.ones((1, 500)), rng=0).evaluations.tolist()
            [60]
        """
        other = copy(self)
        other._set_sizes(head, tail)
        other._set_search(self._search if search is None else search)
        return other

    @property
    def nbytes(self) -> int:
        """Bytes the index holds."""
        prior = 0 if self._prior is None else sum(array.nbytes for array in self._prior)
        return self._nearest.nbytes + prior

    def sample(self, queries: ArrayLike, *, rng: checks.Seed = None) -> Sample:
        """The head found, and the tail drawn, for each query of shape (Q, d)."""
        queries = checks.queries(queries, self.model.dim)
        n_classes = self.model.n_classes
        seeds = checks.seeds(checks.generator(rng), len(queries))
        if self.head + self.tail >= n_classes:
            return everything(self.model, queries)
        offsets, ids, log_count, heads, drawn = outside.draw(
            self.found(queries), seeds, n_classes, self.tail, self._prior
        )
        logits = score.logits(self.model.rows, self.model.bias_or_zeros, queries, offsets, ids)
        log_z, _ = ragged.log_sum(offsets, logits, log_count)
        replace = self._prior is not None
        error = outside.tail_error(offsets, logits, log_count, heads, drawn, log_z, n_classes, replace)
        return Sample(offsets, ids, logits, log_count, error)

    def found(self, queries: ArrayLike) -> NDArray[np.int64]:
        """(Q, head): the classes the index finds for queries (Q, d), best first; −1 where it finds fewer."""
        queries = checks.queries(queries, self.model.dim)
        return self._nearest.search(queries, min(self.head, self.model.n_classes), self._setting)

    def refresh(self, ids: ArrayLike | None = None) -> None:
        """Re-index after the weights changed.

        Args:
            ids: the classes that changed. FAISS replaces no single vectors in most kinds of index, so all are entered
                anew, but without new training or new coordinates. None: with both (a ready index keeps its training).
        """
        if ids is not None and not len(checks.class_ids("ids", ids, self.model.n_classes)):
            return
        self._nearest.refresh(self.model, anew=ids is None)

    def state(self) -> tuple[dict, dict[str, NDArray]]:
        """Settings, the FAISS index as bytes, its coordinates, and the prior."""
        settings, arrays = self._nearest.state()
        if self._prior is not None:
            arrays |= dict(zip(("prior.log_q", "prior.keep", "prior.other"), self._prior, strict=True))
        return settings | {"head": self.head, "tail": self.tail, "search": self._search}, arrays

    @classmethod
    def restore(cls, model: LogLinear, settings: dict, arrays: dict[str, NDArray]) -> Self:
        """From `state`; the weights may have moved since."""
        sampler = cls.__new__(cls)
        sampler.model, sampler.head, sampler.tail = model, settings["head"], settings["tail"]
        names = ("prior.log_q", "prior.keep", "prior.other")
        sampler._prior = tuple(arrays[name] for name in names) if names[0] in arrays else None
        sampler._nearest = Nearest.restore(model, settings, arrays)
        sampler._set_search(settings["search"])
        return sampler
