"""Drawing classes in proportion to their sketched weight, and the error of what was drawn."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels import looks, ragged, systematic, walk
from softhash.kernels._jit import kernel, threads_for
from softhash.kernels._tile import PAIR, TILE
from softhash.kernels.encode import NOTHING
from softhash.kernels.looks import CODES_AHEAD, GROUP, OPENED, PLANES, WIDE


@kernel(fastmath=False)
def _draw(
    projected, masses, seeds, codes, members, starts, spread, fuzz, share, size, probes, refine_share, query_bits, clip,
    floor_share, replicates, poisson, by_tile, capacity, n_chunks, out_ids, out_log_count, out_replicate, out_kept,
):  # fmt: skip
    _, leading, _, bits, scale = codes
    n_classes = members.shape[0]
    n_clusters = starts.shape[0] - 1
    rank = PAIR * leading.shape[1]
    wide = WIDE if by_tile else GROUP
    n_groups = (seeds.shape[0] + wide - 1) // wide
    everywhere = n_clusters == 1
    flat_scale = scale.reshape(scale.size)
    most_runs = 1 if everywhere else probes + probes // 4 + 1
    for chunk in numba.prange(n_chunks):
        values = np.empty((GROUP if everywhere else 1, capacity // TILE, TILE), np.float32)
        runs = (np.zeros(most_runs, np.int64), np.full(most_runs + 1, n_classes))
        runs[1][0] = 0
        at = np.empty(capacity, np.uint32)
        place = np.zeros(capacity + CODES_AHEAD, np.uint32)
        spare = np.empty(max(capacity, n_clusters), np.float32)
        sums = np.empty(capacity // TILE, np.float32)
        tops = np.empty(capacity // TILE, np.float32)
        block_mass = np.empty(n_clusters, np.float32)
        opened = np.empty(n_clusters, np.bool_)
        weights = np.empty(n_clusters)
        one_tile = np.empty((1, 1, TILE), np.float32)
        of_tile = np.empty(TILE)
        best = np.empty((wide, n_clusters if by_tile else 0), np.float32)
        x = np.zeros((wide, rank), np.int16)
        planes = np.empty((wide, PLANES, bits.shape[1]), np.uint64)
        unit = np.zeros(wide, np.float32)
        half_step = np.empty(wide, np.float32)
        norm = np.empty(wide, np.float32)
        rest = np.zeros(wide, np.float32)
        points = np.empty(replicates)
        for group in range(chunk * n_groups // n_chunks, (chunk + 1) * n_groups // n_chunks):
            begin = group * wide
            count = min(wide, seeds.shape[0] - begin)
            for slot in range(count):
                unit[slot], norm[slot] = looks.quantise_leading(projected, begin + slot, x, slot)
                half_step[slot], rest[slot] = looks.slice_rest(
                    projected, begin + slot, rank, query_bits, clip, planes[slot]
                )
            if everywhere:
                looks.look_everywhere(codes, x, count, unit, rest, values)
            elif by_tile:
                looks.best_everywhere(codes, x, count, unit, rest, best)
            for slot in range(count):
                q = begin + slot
                blocks = values[slot if everywhere else 0]
                row = blocks.reshape(capacity)
                n = n_classes
                top = NOTHING
                if by_tile:
                    block_mass[:] = best[slot]
                    n = looks.open_clusters(block_mass, starts, probes, runs, capacity, spare)
                    looks.look_at_tiles(runs, n, codes, x, slot, unit, rest, values)
                    top = systematic.largest(block_mass, n_clusters)
                elif not everywhere:
                    looks.guess_masses(masses, q, norm[slot], rest[slot], spread, fuzz, block_mass)
                    n = looks.open_clusters(block_mass, starts, probes, runs, capacity, spare)
                    looks.look_at(runs, n, codes, x, slot, unit, rest, row, one_tile)
                    top = systematic.largest(block_mass, n_clusters)
                looks.pad(row, n)
                if n and bits.shape[1]:
                    threshold = systematic.threshold_for(row, n, int(refine_share * n), spare)
                    promising = looks.promising_of(row, n, runs, threshold, at, place)
                    reading = (half_step[slot], rest[slot], bits, flat_scale, planes, slot)
                    top = max(top, looks.second_look(row, at, place, promising, threshold, *reading))
                elif n:
                    top = max(top, systematic.largest(row, n))
                total = systematic.exponentiate_tiles(blocks, row, n, top, sums, tops)
                if not everywhere:
                    for c in range(n_clusters):
                        opened[c] = block_mass[c] == OPENED
                    unread = systematic.exponentiate(block_mass, n_clusters, top)
                    if by_tile:
                        unread *= systematic.scale_by_spread(block_mass, sums, tops, n)
                    total += unread
                floor = np.float32(floor_share * total / n_classes)
                tau = systematic.solve_tau(row, n, tops, floor, total + np.float64(floor) * n_classes, size)
                systematic.draw_points(points, seeds[q])
                state = walk.draw_read(
                    q, row, n, sums, tops, floor, runs, members, tau, points, seeds[q], poisson,
                    out_ids, out_log_count, out_replicate,
                )  # fmt: skip
                out_kept[q] = state[0]
                if not everywhere:
                    walk.weigh_unread(block_mass, starts, np.float64(floor), opened, weights)
                    if by_tile:
                        looking = (codes, x, slot, unit, rest, one_tile)
                        out_kept[q] = walk.draw_unseen(
                            q, state, block_mass, weights, np.float64(floor), starts, looking, of_tile, members, tau,
                            points, seeds[q], poisson, out_ids, out_log_count, out_replicate,
                        )  # fmt: skip
                        continue
                    out_kept[q] = walk.draw_unread(
                        q, state, block_mass, weights, np.float64(floor), starts, share, members, tau, points, seeds[q],
                        poisson, out_ids, out_log_count, out_replicate,
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
    by_tile = n_clusters == 1 and probes < len(codes[1])
    if by_tile:
        starts = np.minimum(np.arange(len(codes[1]) + 1, dtype=np.int64) * TILE, len(members))
        n_clusters = len(codes[1])
    if n_clusters > 1:
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
            query_bits, np.float32(clip), floor_share, replicates, poisson, by_tile, capacity, n_chunks,
            ids, log_count, replicate, kept,
        )  # fmt: skip
    offsets = ragged.offsets_from_sizes(kept)
    ids, log_count, replicate = (ragged.compact(loose, offsets, array.ravel()) for array in (ids, log_count, replicate))
    return offsets, ids, log_count, replicate


@kernel(fastmath=False)
def _tail_error(offsets, logits, log_count, replicate, log_z, replicates, poisson, out):
    for q in numba.prange(offsets.shape[0] - 1):
        sums = np.zeros(replicates)
        drawn = 0
        shares = 0.0
        mean = 0.0
        largest = 0.0
        for s in range(offsets[q], offsets[q + 1]):
            if replicate[s] >= 0:
                weight = np.exp(np.float64(logits[s]) - np.float64(log_count[s]) - log_z[q])
                missed = max(-np.expm1(np.float64(log_count[s])), 0.0)
                sums[replicate[s]] += weight
                mean += missed * weight
                shares += missed
                largest = max(largest, weight)
                drawn += 1
        mean = mean / shares if shares > 0 and drawn > 1 and not poisson else 0.0
        total = 0.0
        if replicates > 1:
            total = replicates / (replicates - 1) * np.sum((sums - sums.mean()) ** 2)
        else:
            for s in range(offsets[q], offsets[q + 1]):
                if replicate[s] >= 0:
                    weight = np.exp(np.float64(logits[s]) - np.float64(log_count[s]) - log_z[q])
                    total -= min(np.expm1(np.float64(log_count[s])), 0.0) * (weight - mean) ** 2
            if drawn > 1 and not poisson:
                total = total * drawn / (drawn - 1) + largest * largest / 2
        out[q] = np.sqrt(total)


def tail_error(offsets, logits, log_count, replicate, log_z, replicates: int, poisson: bool) -> NDArray[np.float64]:
    """Relative standard error of a draw in proportion to size, from the classes not taken with certainty.

    With z = f/p: R replicates give R/(R − 1) Σ (t_r − t̄)² over their sums; Poisson draws Σ (1 − p) z²; one systematic
    draw n/(n − 1) Σ (1 − p)(z − z̄)² + max z²/2: Hájek's approximation, z̄ weighted by 1 − p, and an allowance for the
    classes whose sketch fell short, which few draws show and which make the plain formula cover too little.
    """
    out = np.empty(len(log_z))
    with threads_for(len(out) // ragged.QUERIES_PER_THREAD):
        _tail_error(offsets, logits, log_count, replicate, log_z, replicates, poisson, out)
    return out
