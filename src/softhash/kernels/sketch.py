"""Drawing classes in proportion to their sketched weight."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels import looks, ragged, systematic, tiles, walk
from softhash.kernels._jit import exact_inline, kernel, threads_for
from softhash.kernels._tile import PAIR, TILE
from softhash.kernels.encode import NOTHING
from softhash.kernels.looks import CODES_AHEAD, GROUP, OPENED, PLANES

WIDEST = 32
BYTES_OF_VALUES = 16 * 2**20


class Reading(NamedTuple):
    """What a group of queries is read with: integers, bit planes, and their units."""

    x: NDArray[np.int16]
    unit: NDArray[np.float32]
    norm: NDArray[np.float32]
    planes: NDArray[np.uint64]
    half_step: NDArray[np.float32]
    rest: NDArray[np.float32]


class Room(NamedTuple):
    """What one query's draw is worked out in."""

    runs: tuple[NDArray[np.int64], NDArray[np.int64]]
    at: NDArray[np.uint32]
    place: NDArray[np.uint32]
    spare: NDArray[np.float32]
    sums: NDArray[np.float32]
    tops: NDArray[np.float32]
    mass: NDArray[np.float32]
    opened: NDArray[np.bool_]
    weights: NDArray[np.float64]
    one_tile: NDArray[np.float32]
    share: NDArray[np.float64]
    points: NDArray[np.float64]


@exact_inline
def room_for(capacity, n_classes, n_groups, most_runs, replicates):
    """Empty room; one run of every class."""
    runs = (np.zeros(most_runs, np.int64), np.full(most_runs + 1, n_classes))
    runs[1][0] = 0
    n_tiles = capacity // TILE
    return Room(
        runs, np.empty(capacity, np.uint32), np.zeros(capacity + CODES_AHEAD, np.uint32),
        np.empty(max(capacity, 2 * n_groups), np.float32), np.empty(n_tiles, np.float32), np.empty(n_tiles, np.float32),
        np.empty(n_groups, np.float32), np.empty(n_groups, np.bool_), np.empty(n_groups),
        np.empty((1, 1, TILE), np.float32), np.empty(TILE), np.empty(replicates),
    )  # fmt: skip


@exact_inline
def read(projected, begin, count, rank, query_bits, clip, into):
    """Quantise `count` queries from `begin` on."""
    for slot in range(count):
        into.unit[slot], into.norm[slot] = looks.quantise_leading(projected, begin + slot, into.x, slot)
        into.half_step[slot], into.rest[slot] = looks.slice_rest(
            projected, begin + slot, rank, query_bits, clip, into.planes[slot]
        )


@exact_inline
def refine(row, n, reading, slot, bits, flat_scale, refine_share, room):
    """Read the signs of the promising ones of n classes; returns the largest log weight."""
    if n == 0:
        return NOTHING
    if bits.shape[1] == 0:
        return systematic.largest(row, n)
    threshold = systematic.threshold_for(row, n, int(refine_share * n), room.spare)
    found = looks.promising_of(row, n, room.runs, threshold, room.at, room.place)
    return looks.second_look(
        row, room.at, room.place, found, threshold, reading.half_step[slot], reading.rest[slot], bits, flat_scale,
        reading.planes, slot,
    )  # fmt: skip


@exact_inline
def weigh_rest(room, top, by_tile, n):
    """From log masses to masses of the groups not opened; returns their sum."""
    for c in range(room.mass.shape[0]):
        room.opened[c] = room.mass[c] == OPENED
    total = systematic.exponentiate(room.mass, room.mass.shape[0], top)
    return total * systematic.scale_by_spread(room.mass, room.sums, room.tops, n) if by_tile else total


@kernel(fastmath=False)
def _draw(
    projected, masses, seeds, codes, members, starts, spread, fuzz, share, size, probes, refine_share, query_bits, clip,
    floor_share, replicates, poisson, by_tile, wide, capacity, n_chunks,
    out_ids, out_log_count, out_replicate, out_kept,
):  # fmt: skip
    bits, flat_scale = codes[3], codes[4].reshape(codes[4].size)
    n_classes = members.shape[0]
    n_groups = starts.shape[0] - 1
    everywhere = n_groups == 1
    rank = PAIR * codes[1].shape[1]
    n_batches = (seeds.shape[0] + wide - 1) // wide
    for chunk in numba.prange(n_chunks):
        most_runs = capacity // TILE if by_tile else 1 if everywhere else probes + probes // 4 + 1
        room = room_for(capacity, n_classes, n_groups, most_runs, replicates)
        values = np.empty((wide if everywhere or by_tile else 1, capacity // TILE, TILE), np.float32)
        four, threshold = np.empty((GROUP, TILE), np.float32), np.empty(wide, np.float32)
        opened, n_opened = np.empty((wide, most_runs if by_tile else 0), np.int32), np.zeros(wide, np.int64)
        best = np.empty((wide, n_groups if by_tile else 0), np.float32)
        reading = Reading(
            np.zeros((wide, rank), np.int16), np.zeros(wide, np.float32), np.empty(wide, np.float32),
            np.empty((wide, PLANES, bits.shape[1]), np.uint64), np.empty(wide, np.float32), np.zeros(wide, np.float32),
        )  # fmt: skip
        for batch in range(chunk * n_batches // n_chunks, (chunk + 1) * n_batches // n_chunks):
            begin = batch * wide
            count = min(wide, seeds.shape[0] - begin)
            read(projected, begin, count, rank, query_bits, clip, reading)
            x, unit, rest = reading.x, reading.unit, reading.rest
            if everywhere:
                looks.look_everywhere(codes, x, count, unit, rest, values)
            elif by_tile:
                tiles.thresholds(codes, x, count, unit, rest, probes, best, four, room.spare, threshold)
                tiles.open_tiles(codes, x, count, unit, rest, threshold, best, four, values, opened, n_opened)
            for slot in range(count):
                q = begin + slot
                seed = seeds[q]
                blocks = values[slot if everywhere or by_tile else 0]
                row = blocks.reshape(capacity)
                n = n_classes
                top = NOTHING
                if by_tile:
                    tiles.take(best, slot, room.mass)
                    n = tiles.runs_of(opened, n_opened, slot, starts, room.runs)
                elif not everywhere:
                    looks.guess_masses(masses, q, reading.norm[slot], rest[slot], spread, fuzz, room.mass)
                    n = looks.open_clusters(room.mass, starts, probes, room.runs, capacity, room.spare)
                    looks.look_at(room.runs, n, codes, x, slot, unit, rest, row, room.one_tile)
                if not everywhere:
                    top = systematic.largest(room.mass, n_groups)
                looks.pad(row, n)
                top = max(top, refine(row, n, reading, slot, bits, flat_scale, refine_share, room))
                total = systematic.exponentiate_tiles(blocks, row, n, top, room.sums, room.tops)
                if not everywhere:
                    total += weigh_rest(room, top, by_tile, n)
                floor = np.float32(floor_share * total / n_classes)
                tau = systematic.solve_tau(row, n, room.tops, floor, total + np.float64(floor) * n_classes, size)
                systematic.draw_points(room.points, seed)
                state = walk.draw_read(
                    q, row, n, room.sums, room.tops, floor, room.runs, members, tau, room.points, seed, poisson,
                    out_ids, out_log_count, out_replicate,
                )  # fmt: skip
                out_kept[q] = state[0]
                if everywhere:
                    continue
                walk.weigh_unread(room.mass, starts, np.float64(floor), room.opened, room.weights)
                if by_tile:
                    out_kept[q] = walk.draw_unseen(
                        q, state, room.mass, room.weights, np.float64(floor), starts,
                        (codes, x, slot, unit, rest, room.one_tile), room.share, members, tau, room.points, seed,
                        poisson, out_ids, out_log_count, out_replicate,
                    )  # fmt: skip
                else:
                    out_kept[q] = walk.draw_unread(
                        q, state, room.mass, room.weights, np.float64(floor), starts, share, members, tau, room.points,
                        seed, poisson, out_ids, out_log_count, out_replicate,
                    )  # fmt: skip


def draw(
    projected: NDArray, masses: NDArray, seeds: NDArray, codes: tuple, clusters: tuple, *, size: int, probes: int,
    refine_share: float, query_bits: int, clip: float, floor_share: float, replicates: int, poisson: bool,
) -> tuple[NDArray, NDArray, NDArray, NDArray]:  # fmt: skip
    """Draw about `size` classes per query in proportion to their sketched weight.

    Args:
        projected: float32[Q, rank + width], queries in the coordinates of the codes.
        masses: float32[Q, C], log_mass + centroid·x of each cluster; unread when there is one.
        seeds: uint64[Q].
        codes, clusters: the fields of sketch.codes.Codes and sketch.clusters.Clusters.

    Returns:
        offsets, ids, log expected counts, and the replicate each class was drawn by (−1: taken with certainty).
    """
    members, starts, _, _, spread, fuzz, share = clusters
    n_queries, n_clusters = len(seeds), len(starts) - 1
    capacity = len(codes[1]) * TILE
    wide = GROUP
    by_tile = n_clusters == 1 and probes < len(codes[1])
    if by_tile:
        starts = np.minimum(np.arange(len(codes[1]) + 1, dtype=np.int64) * TILE, len(members))
        n_clusters = len(codes[1])
        capacity = TILE * min(probes + probes // 2 + 1, n_clusters)
        wide = GROUP * int(np.clip(BYTES_OF_VALUES // (4 * GROUP * capacity), 1, WIDEST // GROUP))
    elif n_clusters > 1:
        largest = np.sort(np.diff(starts))[::-1]
        capacity = -(-int(largest[: probes + probes // 4 + 1].sum()) // TILE) * TILE
    limit = size + int(8 * np.sqrt(size)) + replicates + 16
    loose = np.arange(n_queries + 1, dtype=np.int64) * limit
    ids, log_count = np.empty((n_queries, limit), np.int32), np.empty((n_queries, limit), np.float32)
    replicate = np.empty((n_queries, limit), np.int16)
    kept = np.empty(n_queries, np.int64)
    with threads_for(-(-n_queries // GROUP)) as n_chunks:
        _draw(
            projected, masses, seeds, codes, members, starts, spread, fuzz, share, size, probes, refine_share,
            query_bits, np.float32(clip), floor_share, replicates, poisson, by_tile, wide, capacity, n_chunks,
            ids, log_count, replicate, kept,
        )  # fmt: skip
    offsets = ragged.offsets_from_sizes(kept)
    ids, log_count, replicate = (ragged.compact(loose, offsets, array.ravel()) for array in (ids, log_count, replicate))
    return offsets, ids, log_count, replicate
