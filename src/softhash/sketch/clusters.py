"""Clusters of classes alike in their leading coordinates, so that a query opens only the heavy ones."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softhash.kernels import encode as kernels
from softhash.sketch.codes import Codes

POINTS_PER_CENTROID = 64
ITERATIONS = 6
ONE_LEVEL = 512


class Clusters(NamedTuple):
    """Classes in cluster order, and what a query needs to guess the mass of a cluster it does not open.

        mass(x) ≈ exp(log_mass + centroid·x_top + gain(½, spread·‖x_top‖) + gain(0.9, fuzz·‖x_rest‖)),

    where gain(c, σ) = c·σ·min(σ, 4): what a deviation σ among the members adds, Gaussian up to four deviations.

    Attributes:
        members: int32[N], class at each place; cluster c owns the places starts[c]:starts[c+1].
        starts: int64[C+1].
        centroid: float32[C, rank], mean leading coordinates, weighted by exp(prior).
        log_mass: float32[C], log Σ exp(prior).
        spread: float32[C], deviation of a member from the centroid, per leading coordinate.
        fuzz: float32[C], the same for the coordinates a first look does not read.
        share: float32[N], running share of exp(prior) within the cluster, 1 at its last member.
    """

    members: NDArray[np.int32]
    starts: NDArray[np.int64]
    centroid: NDArray[np.float32]
    log_mass: NDArray[np.float32]
    spread: NDArray[np.float32]
    fuzz: NDArray[np.float32]
    share: NDArray[np.float32]


def fit(leading: NDArray[np.float32], n_clusters: int, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """(members, starts) by k-means (FAISS) on leading coordinates; many clusters in two levels."""
    if n_clusters <= ONE_LEVEL:
        return by_cluster(kmeans(leading, n_clusters, seed), n_clusters)
    cells, cell_starts = by_cluster(kmeans(leading, int(np.sqrt(n_clusters)), seed), int(np.sqrt(n_clusters)))
    cluster = np.empty(len(leading), np.int64)
    used = 0
    for start, stop in pairwise(cell_starts):
        wanted = max(1, round(n_clusters * stop / len(leading)) - used) if stop > start else 0
        if wanted:
            cluster[cells[start:stop]] = used + kmeans(leading[cells[start:stop]], wanted, seed)
        used += wanted
    return by_cluster(cluster, used)


def kmeans(points: NDArray[np.float32], n_clusters: int, seed: int) -> NDArray[np.int64]:
    """The cluster of each point."""
    import faiss  # takes longer to import than the rest of the package

    if n_clusters >= len(points):
        return np.arange(len(points))
    model = faiss.Kmeans(
        points.shape[1], n_clusters, niter=ITERATIONS, seed=seed, min_points_per_centroid=1,
        max_points_per_centroid=POINTS_PER_CENTROID,
    )  # fmt: skip
    model.train(points)
    return model.index.search(points, 1)[1][:, 0]


def by_cluster(cluster: NDArray, n_clusters: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """(members, starts) from the cluster of each class."""
    starts = np.zeros(n_clusters + 1, np.int64)
    np.cumsum(np.bincount(cluster, minlength=n_clusters), out=starts[1:])
    return np.argsort(cluster, kind="stable").astype(np.int32), starts


def describe(members: NDArray[np.int32], starts: NDArray[np.int64], codes: Codes) -> Clusters:
    """Masses, centroids and spreads, read off the stored codes."""
    n_clusters, rank = len(starts) - 1, kernels.PAIR * codes.leading.shape[1]
    out = Clusters(
        members, starts, np.zeros((n_clusters, rank), np.float32), np.zeros(n_clusters, np.float32),
        np.zeros(n_clusters, np.float32), np.zeros(n_clusters, np.float32), np.ones(len(members), np.float32),
    )  # fmt: skip
    kernels.describe(starts, codes.prior, codes.leading, codes.leading_scale, codes.scale, *out[2:])
    return out
