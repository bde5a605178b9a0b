"""The sampler of Spring & Shrivastava (2017)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import blas, checks
from softhash.kernels import collide, draws
from softhash.kernels import tables as kernels
from softhash.lsh import simhash, transform
from softhash.lsh.tables import Tables
from softhash.lsh.transform import ROWS_PER_BLOCK, Frame
from softhash.model import LogLinear
from softhash.proposals import capped, normalised
from softhash.types import Sample, Sampler

COLUMNS_PER_BLOCK = 512
SNAPSHOT_IS_FREE = 512 * 1024
WITNESSES = 32
UNLIMITED = 2**31 - 1


class LSH(Sampler):
    """The union of the query's buckets in L SimHash tables of K bits each, every class weighted by 1/p.

        Ẑ = Σ_{i∈S} exp(logit_i) / p_i,    p_i = 1 − (1 − (1 − φ_i/π)^K)^L,

    φ_i the angle between query and class in the hashed space. Unbiased over the draw of the planes: for frozen
    tables and no `size` or `floor` the estimate of one query is a fixed number.

    Args:
        model: the model.
        bits: K, 1 to 30.
        tables: L.
        transform: "cosine" hashes class vectors as they are; "mips" completes them to equal norm, which makes p
            monotone in the logit.
        center: subtract the mean class vector before hashing (exact: it only shifts the logits hashed by).
        size: if given, the union is cut at random to this many classes and p multiplied by size/|S|.
        floor: expected size of an independent uniform sample that joins the union, so that no weight exceeds N/floor.
        rng: seed of the planes.
        floor_probabilities: (N,) positive numbers, such as unigram counts, that the floor is drawn in proportion to, as
            far as no probability exceeds 1; None: evenly. For models where a few classes carry much mass whatever the
            query is, which buckets then need not find.
        snapshot: keep a copy of the hashed vectors (4·N·(d+1) bytes), without which p cannot be known once weights
            change. None: kept while it is under 512 KiB. Without it, sampling is refused until `refresh` once any of
            32 witness rows has changed: a training step is noticed, an edit of a few rows is yours to announce.

    Memory: 4·N·L bytes of ids and 4·L·(2^K + 1) of bucket starts (or 4·N·L of codes where that is less).

    Example:
        >>> import numpy as np, softhash as sh
        >>> rng = np.random.default_rng(0)
        >>> model = sh.LogLinear(rng.standard_normal((5000, 16)))
        >>> estimate = sh.LSH(model, bits=6, tables=16, rng=0).log_partition(rng.standard_normal((1, 16)) / 4)
        >>> bool(estimate.evaluations[0] < 2500)
        True

    Reference: Spring & Shrivastava (2017), algorithms 1 and 2; Note 1 and Discussion for `size`.
    """

    def __init__(
        self,
        model: LogLinear,
        bits: int = 10,
        tables: int = 16,
        transform: str = "cosine",
        center: bool = True,
        size: int | None = None,
        floor: int = 0,
        rng: checks.Seed = 0,
        *,
        floor_probabilities: ArrayLike | None = None,
        snapshot: bool | None = None,
    ):
        self.model = model
        self.bits, self.tables = simhash.check_shape(bits, tables)
        self.transform = checks.choice("transform", transform, ("cosine", "mips"))
        self.center = bool(center)
        self.size = None if size is None else checks.positive_int("size", size)
        self.floor = checks.positive_int("floor", floor, least=0, most=model.n_classes)
        if floor_probabilities is None:
            self._floor_rates = np.array([self.floor / model.n_classes])
        else:
            self._floor_rates = capped(normalised(floor_probabilities, model.n_classes), self.floor)
        self.snapshot = bool(model.weights.nbytes <= SNAPSHOT_IS_FREE if snapshot is None else snapshot)
        dim = model.dim + (model.bias is not None) + (transform == "mips")
        self._planes = simhash.planes(dim, self.bits, self.tables, checks.generator(rng))
        self._prepare()
        self.refresh()

    def _prepare(self) -> None:
        """What queries need beyond the tables, all of it functions of the settings."""
        self._nodes = simhash.log_inclusion_table(self.bits, self.tables)
        self._floor_running = np.cumsum(self._floor_rates)
        self._floor_running[-1] = max(self._floor_running[-1], self.floor)
        self._witness_ids = np.unique(np.linspace(0, self.model.n_classes - 1, WITNESSES).astype(np.int64))

    @classmethod
    def tuned(
        cls,
        model: LogLinear,
        size: int,
        queries: ArrayLike,
        *,
        max_tables: int = 32,
        rng: checks.Seed = 0,
        **settings: Any,
    ) -> Self:
        """The paper's fixed sample size: (K, L) whose union slightly exceeds `size` on these queries, then cut to it.

        The expected union Σ_i p_i is computed in closed form from a subset of classes and queries; among the pairs that
        reach 1.1·size with at most `max_tables` tables, the longest codes win, because they tell classes apart best.

        Args:
            model: the model.
            size: classes per query.
            queries: (n, d), typical queries.
            max_tables: limit on L.
            rng: seed of the planes and of the subset.
            **settings: further arguments of LSH.
        """
        checks.positive_int("size", size)
        checks.positive_int("max_tables", max_tables, most=simhash.MAX_TABLES)
        rng = checks.generator(rng)
        cosines = _typical_cosines(model, checks.queries(queries, model.dim), rng, **settings)
        target = min(1.1 * size, model.n_classes)
        for bits in range(24, 0, -1):
            log_code = np.log(np.arccos(-cosines) / np.pi) * bits
            for tables in range(1, max_tables + 1):
                expected = model.n_classes * -np.expm1(tables * np.log1p(-np.exp(log_code).clip(max=1 - 1e-12))).mean()
                if expected >= target:
                    return cls(model, bits, tables, size=size, rng=rng, **settings)
        return cls(model, 1, max_tables, size=size, rng=rng, **settings)

    @property
    def nbytes(self) -> int:
        """Bytes the index holds: tables, planes, witnesses, and the snapshot if one is kept."""
        copies = (*self._witnesses, *((self._hashed, self._hashed_bias) if self.snapshot else ()))
        return (
            self._tables.nbytes
            + self._planes.nbytes
            + self._nodes.nbytes
            + sum(array.nbytes for array in (*copies, self._floor_rates))
        )

    def sample(self, queries: ArrayLike, *, rng: checks.Seed = None) -> Sample:
        """The classes in the buckets of queries (Q, d); `rng` matters only with `size` or `floor`."""
        queries = checks.queries(queries, self.model.dim)
        self._refuse_stale()
        codes, query_norm = self._hash_queries(queries)
        first, last = self._tables.buckets(codes)
        seeds = checks.seeds(checks.generator(rng), len(queries))
        size = UNLIMITED if self.size is None else self.size
        offsets, ids, sole, found = kernels.unite(first, last, self._tables.ids, seeds, self._draw_floor(seeds), size)
        logits, log_p = collide.collide(
            self.model.rows, self.model.bias_or_zeros, self._hashed, self._hashed_bias, queries, query_norm,
            offsets, ids, self._frame, self._frame.negligible, self._nodes, simhash.INTERPOLATED,
            self.bits, self.tables,
        )  # fmt: skip
        rates = self._floor_rates[ids] if len(self._floor_rates) > 1 else self._floor_rates
        log_count = collide.either(log_p, rates) if self.floor else log_p
        if self.size is not None:
            kept = np.diff(offsets)
            log_count = log_count + np.repeat(
                np.log(kept / np.maximum(found, 1), where=kept > 0, out=np.zeros(len(kept))), kept
            )
        log_count = log_count.astype(np.float32)
        return Sample(offsets, ids, logits, log_count, self._std_error(offsets, logits, log_count, log_p, sole, rates))

    def _draw_floor(self, seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
        """(Q, floor) distinct classes."""
        if len(self._floor_rates) == 1:
            return draws.without_replacement(seeds, self.floor, self.model.n_classes)
        return draws.systematic(seeds, self._floor_running, self.floor)

    def _std_error(self, offsets, logits, log_count, log_p, sole, rates) -> NDArray[np.float64] | None:
        if self.tables == 1:
            return None
        return collide.jackknife(offsets, logits, log_count, log_p, sole, rates, self.tables)

    def _hash_queries(self, queries: NDArray[np.float32]) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        with blas.serial_blas():
            projections = queries @ self._planes[: self.model.dim]
        squared = np.einsum("qd,qd->q", queries, queries).astype(np.float64)
        if self.model.bias is not None:
            projections += self._planes[self.model.dim]
            squared += 1
        codes = np.empty((self.tables, len(queries)), np.uint32)
        kernels.pack(projections, self.bits, codes)
        return codes, np.sqrt(squared)

    def _hash_classes(self, ids: NDArray[np.int32] | None = None) -> NDArray[np.uint32]:
        """Codes (L, n). Blocks have one shape whatever n is: the same bits in any company, to rounding."""
        model, frame, group = self.model, self._frame, max(1, COLUMNS_PER_BLOCK // self.bits)
        codes = np.empty((self.tables, model.n_classes if ids is None else len(ids)), np.uint32)

        def hash_block(block: slice) -> None:
            rows, bias = transform.centred(model, frame, block if ids is None else ids[block])
            squared = transform.squared_norms(rows, bias)
            padded = np.zeros((ROWS_PER_BLOCK, len(self._planes)), np.float32)
            padded[: len(rows), : model.dim] = rows
            if model.bias is not None:
                padded[: len(rows), model.dim] = bias
            if frame.norm:
                padded[: len(rows), -1] = np.sqrt(np.maximum(frame.norm**2 - squared, 0))
            else:
                padded[: len(rows)][squared <= frame.negligible] = 0
            for t in range(0, self.tables, group):
                columns = slice(t * self.bits, min(t + group, self.tables) * self.bits)
                projections = padded @ self._planes[:, columns]
                kernels.pack(projections[: len(rows)], self.bits, codes[t : t + group, block])

        blas.map_blocks(hash_block, codes.shape[1], ROWS_PER_BLOCK)
        return codes

    def refresh(self, ids: ArrayLike | None = None) -> None:
        """Re-index after the weights changed.

        Args:
            ids: the classes that changed; the mean and norm that vectors were centred and completed with are kept, so
                this equals re-hashing everything with them (but for projections that
                round to the other side of 0). None: every class, with mean and norm computed anew.
        """
        model = self.model
        if ids is not None:
            ids = np.unique(checks.class_ids("ids", ids, model.n_classes))
            if not len(ids):
                return
            limit = self._frame.norm**2 * (1 + 1e-6)
            if self._frame.norm and transform.largest_squared_norm(model, self._frame, ids) > limit:
                ids = None  # a class outgrew the common norm
        if ids is None:
            self._frame = transform.fit(model, self.transform, self.center)
            codes = self._hash_classes()
            self._take_snapshot()
        else:
            codes = self._tables.codes()
            codes[:, ids] = self._hash_classes(ids)
            self._update_snapshot(ids)
        self._tables = Tables.build(codes, self.bits)

    def _take_snapshot(self) -> None:
        model, bias = self.model, self.model.bias_or_zeros
        self._hashed, self._hashed_bias = (model.rows.copy(), bias.copy()) if self.snapshot else (model.rows, bias)
        self._hashed.flags.writeable = False
        self._witnesses = self._witness_rows()

    def _update_snapshot(self, ids: NDArray[np.int32]) -> None:
        model = self.model
        if self.snapshot:
            self._hashed.flags.writeable = True
            self._hashed[ids] = model.weights[ids]
            self._hashed.flags.writeable = False
            if model.bias is not None:
                self._hashed_bias[ids] = model.bias[ids]
        fresh = np.isin(self._witness_ids, ids)
        for old, new in zip(self._witnesses, self._witness_rows(), strict=True):
            old[fresh] = new[fresh]

    def _witness_rows(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """A few rows and biases as they are now, to notice later that weights have moved."""
        bias = (
            np.zeros(len(self._witness_ids), np.float32)
            if self.model.bias is None
            else self.model.bias[self._witness_ids]
        )
        return self.model.weights[self._witness_ids], bias

    def _refuse_stale(self) -> None:
        if self.snapshot:
            return
        if not all(map(np.array_equal, self._witnesses, self._witness_rows())):
            raise ValueError(
                "weights have changed since they were hashed, and p belongs to the vectors that were hashed; "
                "call refresh(), or build LSH(..., snapshot=True), which keeps a copy of them"
            )

    def state(self) -> tuple[dict, dict[str, NDArray]]:
        """Settings, planes, tables and frame."""
        settings = {
            "bits": self.bits, "tables": self.tables, "transform": self.transform, "center": self.center,
            "size": self.size, "floor": self.floor, "snapshot": self.snapshot,
            "mean_bias": self._frame.mean_bias, "norm": self._frame.norm,
        }  # fmt: skip
        rows, bias = self._witnesses
        arrays = {"planes": self._planes, "mean": self._frame.mean, "witness_rows": rows, "witness_bias": bias}
        arrays |= {f"tables.{name}": array for name, array in self._tables._asdict().items()}
        if self.snapshot:
            arrays |= {"hashed": self._hashed, "hashed_bias": self._hashed_bias}
        return settings, arrays | {"floor_rates": self._floor_rates}

    @classmethod
    def restore(cls, model: LogLinear, settings: dict, arrays: dict[str, NDArray]) -> Self:
        """From `state`; without a snapshot, refused if the weights are not those that were hashed."""
        lsh = cls.__new__(cls)
        lsh.model = model
        for name in ("bits", "tables", "transform", "center", "size", "floor", "snapshot"):
            setattr(lsh, name, settings[name])
        lsh._planes, lsh._floor_rates = arrays["planes"], arrays["floor_rates"]
        lsh._frame = Frame(arrays["mean"], settings["mean_bias"], settings["norm"])
        lsh._tables = Tables(*(arrays[f"tables.{name}"] for name in Tables._fields))
        lsh._witnesses = (arrays["witness_rows"], arrays["witness_bias"])
        lsh._hashed, lsh._hashed_bias = model.rows, model.bias_or_zeros
        if lsh.snapshot:
            lsh._hashed, lsh._hashed_bias = arrays["hashed"], arrays["hashed_bias"]
            lsh._hashed.flags.writeable = False
        lsh._prepare()
        lsh._refuse_stale()
        return lsh


def _typical_cosines(model, queries, rng, transform: str = "cosine", center: bool = True, **_) -> NDArray[np.float64]:
    """Cosines in the hashed space between a subset of classes and a subset of queries."""
    from softhash.lsh.transform import centred, fit, squared_norms

    ids = rng.choice(model.n_classes, min(model.n_classes, 4096), replace=False)
    queries = queries[rng.choice(len(queries), min(len(queries), 64), replace=False)].astype(np.float64)
    frame = fit(model, transform, center)
    rows, bias = centred(model, frame, ids)
    norms = np.full(len(ids), frame.norm) if frame.norm else np.sqrt(squared_norms(rows, bias))
    query_norms = np.sqrt((queries**2).sum(axis=1) + (model.bias is not None))
    products = queries @ rows.T + bias
    return np.clip(products / np.maximum(np.outer(query_norms, norms), 1e-30), -1 + 1e-9, 1 - 1e-9)
