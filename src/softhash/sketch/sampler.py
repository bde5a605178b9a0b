"""Sketch: classes drawn in proportion to a weight read off their codes."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import blas, checks
from softhash.kernels import score, tail_error
from softhash.kernels import sketch as kernels
from softhash.model import LogLinear
from softhash.proposals import everything
from softhash.sketch import balance, clusters, codes
from softhash.types import Sample, Sampler

QUERIES_PER_BLOCK = 256
FLOOR_SHARE = 1e-3
REFINE = 0.15
TILES_FROM = 400_000
PROBE_SHARE = 1 / 8
CLASSES_PER_CELL = 128
CLIP = {1: 0.8, 2: 1.5, 3: 2.3, 4: 3.2}
"""Largest coordinate a query's quantiser keeps, in standard deviations, per number of bits."""


class Settings(NamedTuple):
    """How classes are drawn; see Sketch for the meaning."""

    size: int
    probes: int
    refine: float
    query_bits: int
    design: str
    replicates: int


class Sketch(Sampler):
    """Classes drawn in proportion to weights read from a sketch of 1 bit per coordinate, then scored exactly.

        Ẑ = Σ_{i∈S} exp(logit_i) / p_i,    p_i = min(1, w_i/τ),    Σ_i p_i = size,

    w_i the sketched exp(logit). Unbiased given the index, over fresh `rng`, because p comes from the codes that did the
    drawing; so it stays unbiased, and only grows noisier, as weights move away from their codes.

    Args:
        model: the model.
        size: classes scored exactly per query. At size ≥ N the answer is exact.
        queries: (n, d) calibration queries, typical ones; some multiple of d is best. None: assumes queries have zero
            mean and no preferred direction, which costs accuracy.
        clusters: 0 reads every code of every class; 1 takes a first look at every class and reads the codes of the
            promising ones; more groups classes, and looks into the `probes` heaviest groups only. None: 1, but 0
            without `queries` (when a first look tells too little) below 400 000 classes.
        probes: groups opened per query: of clusters where there are several, else of tiles of 64 classes, the others
            weighed by their most promising class. None: a quarter of the clusters; all tiles below 400 000 classes,
            then an eighth.
        rng: seed of the rotation and of k-means.
        rank: leading coordinates kept in int8. None: d/4, between 16 and 64.
        refine: share of the classes in opened groups whose codes are read. None: 15 %, or all with clusters=0.
        query_bits: bits per query coordinate, 1 to 4.
        design: "systematic", or "poisson": classes drawn independently with p = 1 − exp(−w/τ), so a few fewer than
            `size`, and a larger error whose estimate needs no approximation.
        replicates: independent systematic draws the error bar comes from; 1 uses Hájek's formula, which costs nothing.

    Memory: N·(rank + d/8 + 20) bytes, up to padding of both to whole words, and O(clusters·rank + d²).

    Example:
        >>> import numpy as np, softhash as sh
        >>> rng = np.random.default_rng(0)
        >>> model = sh.LogLinear(rng.standard_normal((5000, 32)))
        >>> queries = rng.standard_normal((300, 32)) / 4
        >>> estimate = sh.Sketch(model, size=100, queries=queries[:200]).log_partition(queries[200:], rng=0)
        >>> error = np.abs(estimate.log_z - sh.Exact(model).log_partition(queries[200:]).log_z).mean()
        >>> bool(error < 0.1), int(estimate.evaluations.max()) <= 101
        (True, True)

    Reference: docs/theory.md; RaBitQ (Gao & Long 2024) for the codes.
    """

    def __init__(
        self,
        model: LogLinear,
        size: int = 200,
        queries: ArrayLike | None = None,
        clusters: int | None = None,
        probes: int | None = None,
        rng: checks.Seed = 0,
        *,
        rank: int | None = None,
        refine: float | None = None,
        query_bits: int = 4,
        design: str = "systematic",
        replicates: int = 1,
    ):
        self.model = model
        n_classes = model.n_classes
        if clusters is None:
            clusters = int(queries is not None or n_classes >= TILES_FROM)
        self.clusters = checks.positive_int("clusters", clusters, least=0, most=n_classes)
        refine = (
            (1.0 if clusters == 0 else REFINE) if refine is None else checks.number("refine", refine, least=0, most=1)
        )
        rank = codes.default_rank(model.dim) if rank is None else checks.positive_int("rank", rank, most=model.dim)
        self._settings = Settings(
            checks.positive_int("size", size),
            self._default_probes() if probes is None or not clusters else checks.positive_int("probes", probes),
            refine,
            checks.positive_int("query_bits", query_bits, most=kernels.PLANES),
            checks.choice("design", design, ("systematic", "poisson")),
            checks.positive_int("replicates", replicates, most=256),
        )
        if design == "poisson" and replicates > 1:
            raise ValueError(f"replicates is {replicates} but design is 'poisson', whose error needs none; pass 1")
        self._rank = rank
        self._seed = int(checks.generator(rng).integers(2**31))
        queries = None if queries is None else checks.queries(queries, model.dim)
        self._queries = balance.query_moments(queries, model.dim)
        self.refresh()

    def _default_probes(self) -> int:
        """All tiles of few classes, an eighth of many; a quarter of clusters."""
        tiles = -(-self.model.n_classes // codes.TILE)
        if self.clusters > 1:
            return max(1, self.clusters // 4)
        return int(PROBE_SHARE * tiles) if self.clusters and self.model.n_classes >= TILES_FROM else tiles

    @property
    def size(self) -> int:
        """Classes scored per query."""
        return self._settings.size

    @property
    def nbytes(self) -> int:
        """Bytes the index holds."""
        held = (*self._codes, *self._clusters, *self._projection[1:], *self._queries)
        return sum(array.nbytes for array in held)

    def sample(self, queries: ArrayLike, *, rng: checks.Seed = None) -> Sample:
        """Draw about `size` classes for each query of shape (Q, d)."""
        queries = checks.queries(queries, self.model.dim)
        if self.size >= self.model.n_classes:
            return everything(self.model, queries)
        seeds = checks.seeds(checks.generator(rng), len(queries))
        projected, masses = self._project(queries)
        poisson, replicates = self._settings.design == "poisson", self._settings.replicates
        offsets, ids, log_count, replicate = kernels.draw(
            projected, masses, seeds, tuple(self._codes), tuple(self._clusters), size=self.size,
            probes=self._settings.probes, refine_share=self._settings.refine, query_bits=self._settings.query_bits,
            clip=CLIP[self._settings.query_bits], floor_share=FLOOR_SHARE, replicates=replicates, poisson=poisson,
        )  # fmt: skip
        logits = score.logits(self.model.rows, self.model.bias_or_zeros, queries, offsets, ids)
        error = tail_error.tail_error(offsets, logits, log_count, replicate, replicates, poisson)
        return Sample(offsets, ids, logits, log_count, error)

    def _project(self, queries: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Queries in the coordinates of the codes, and the part of cluster masses that is a matrix product."""
        rank, grouped = self._projection.rank, len(self._clusters.log_mass) > 1
        projected = np.empty((len(queries), self._projection.for_queries.shape[1]), np.float32)
        masses = np.empty((len(queries), len(self._clusters.log_mass)) if grouped else (1, 1), np.float32)

        def block(part: slice) -> None:
            np.matmul(queries[part] - self._projection.query_mean, self._projection.for_queries, out=projected[part])
            if grouped:
                np.matmul(projected[part, :rank], self._clusters.centroid.T, out=masses[part])
                masses[part] += self._clusters.log_mass

        blas.map_blocks(block, len(queries), QUERIES_PER_BLOCK)
        return projected, masses

    def refresh(self, ids: ArrayLike | None = None) -> None:
        """Re-encode after the weights changed.

        Args:
            ids: the classes that changed; they are re-encoded in the coordinates and clusters there are. None: every
                class, in coordinates and clusters made anew.
        """
        model = self.model
        if ids is not None:
            ids = np.unique(checks.class_ids("ids", ids, model.n_classes))
            place = np.empty(model.n_classes, np.int32)
            place[self._clusters.members] = np.arange(model.n_classes, dtype=np.int32)
            codes.encode(self._codes, place[ids], model, ids, self._projection)
            self._clusters = clusters.describe(self._clusters.members, self._clusters.starts, self._codes)
            return
        rng = np.random.default_rng(self._seed)
        self._projection = codes.Projection.build(balance.fit(model, self._queries), self._rank, rng)
        members, starts = self._group()
        self._codes = codes.Codes.empty(model.n_classes, self._projection)
        codes.encode(self._codes, np.arange(model.n_classes, dtype=np.int32), model, members, self._projection)
        self._clusters = clusters.describe(members, starts, self._codes)

    def _group(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        n_classes = self.model.n_classes
        if self.clusters == 1 and self._settings.probes * codes.TILE < n_classes:
            cells = max(1, n_classes // CLASSES_PER_CELL)
            members, _ = clusters.fit(codes.leading_coordinates(self.model, self._projection), cells, self._seed)
            return members, np.array([0, n_classes])
        if self.clusters <= 1:
            return clusters.by_cluster(np.zeros(n_classes, np.int64), 1)
        return clusters.fit(codes.leading_coordinates(self.model, self._projection), self.clusters, self._seed)

    def state(self) -> tuple[dict, dict[str, NDArray]]:
        """Settings, coordinates, codes and clusters."""
        settings = {
            "clusters": self.clusters,
            "rank": self._rank,
            "padded_rank": self._projection.rank,
            "seed": self._seed,
        }
        parts = {"codes": self._codes, "clusters": self._clusters, "queries": self._queries}
        arrays = {f"{part}.{name}": array for part, fields in parts.items() for name, array in fields._asdict().items()}
        arrays |= {f"projection.{name}": getattr(self._projection, name) for name in codes.Projection._fields[1:]}
        return settings | self._settings._asdict(), arrays

    @classmethod
    def restore(cls, model: LogLinear, settings: dict, arrays: dict[str, NDArray]) -> Self:
        """From `state`; the weights may have moved since, p comes from the codes."""

        def part(name: str, kind):
            return kind(*(arrays[f"{name}.{field}"] for field in kind._fields))

        sketch = cls.__new__(cls)
        sketch.model, sketch.clusters, sketch._rank = model, settings["clusters"], settings["rank"]
        sketch._seed = settings["seed"]
        sketch._settings = Settings(*(settings[field] for field in Settings._fields))
        sketch._codes, sketch._queries = part("codes", codes.Codes), part("queries", balance.QueryMoments)
        sketch._clusters = part("clusters", clusters.Clusters)
        fields = (arrays[f"projection.{name}"] for name in codes.Projection._fields[1:])
        sketch._projection = codes.Projection(settings["padded_rank"], *fields)
        return sketch
