"""Reading sketches: a first look at leading coordinates, a second at sign bits, then a draw in proportion to weight."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels import ragged, systematic
from softhash.kernels._bits import popcount
from softhash.kernels._jit import exact_inline, inline, kernel
from softhash.kernels.systematic import BLOCK

TILE = 64
GROUP = 4
PLANES = 4
SIGN_GAIN = np.float32(0.75)
SIGN_FUZZ = np.float32(0.2)
FIRST_FUZZ = np.float32(0.9)
VARIANCE_OF_SCALE = np.float32(2 / np.pi)
NOTHING = np.float32(-1e30)
"""The log of no mass; finite, because kernels assume finite numbers."""


@kernel(parallel=False, fastmath=False)
def encode(projected, places, block_prior, prior, leading, leading_scale, bits, scale):
    """Store rows of balanced, rotated coordinates as codes."""
    rank = leading.shape[1]
    for row in range(places.shape[0]):
        i = places[row]
        top = np.float32(0)
        for k in range(rank):
            top = max(top, abs(projected[row, k]))
        unit = top / np.float32(127)
        for k in range(rank):
            leading[i // TILE, k, i % TILE] = np.int8(round(projected[row, k] / unit)) if unit > 0 else 0
        squares = 0.0
        absolutes = 0.0
        for w in range(bits.shape[1]):
            word = np.uint64(0)
            for b in range(64):
                value = projected[row, rank + 64 * w + b]
                squares += np.float64(value) * value
                absolutes += abs(value)
                word |= np.uint64(value > 0) << np.uint64(b)
            bits[i, w] = word
        prior[i] = block_prior[row]
        leading_scale[i] = unit
        scale[i] = squares / absolutes if absolutes > 0 else 0


@kernel(fastmath=False)
def describe(starts, prior, leading, leading_scale, scale, centroid, log_mass, spread, fuzz, share):
    """Summaries of clusters, members weighted by exp(prior)."""
    rank = leading.shape[1]
    for c in numba.prange(starts.shape[0] - 1):
        start = starts[c]
        stop = starts[c + 1]
        top = NOTHING
        for i in range(start, stop):
            top = max(top, prior[i])
        total = 0.0
        fuzzy = 0.0
        for i in range(start, stop):
            weight = np.exp(np.float64(prior[i]) - top)
            total += weight
            fuzzy += weight * np.float64(scale[i]) ** 2
            for k in range(rank):
                centroid[c, k] += weight * leading_scale[i] * leading[i // TILE, k, i % TILE]
        running = 0.0
        squares = 0.0
        for i in range(start, stop):
            weight = np.exp(np.float64(prior[i]) - top)
            running += weight
            share[i] = running / total
            for k in range(rank):
                value = leading_scale[i] * leading[i // TILE, k, i % TILE] - centroid[c, k] / total
                squares += weight * value * value
        if stop > start:
            share[stop - 1] = 1
            for k in range(rank):
                centroid[c, k] /= total
            log_mass[c] = top + np.log(total)
            spread[c] = 0.5 * squares / total / max(rank, 1)
            fuzz[c] = FIRST_FUZZ * VARIANCE_OF_SCALE * fuzzy / total
        else:
            log_mass[c] = NOTHING


@inline
def first_look(tile, leading, leading_scale, prior, scale, x, q, fuzz, out, to):
    """prior + leading·x + 0.9·variance of the rest, for one tile of classes."""
    for j in range(TILE):
        out[q, to + j] = 0
    for k in range(0, leading.shape[1], 8):
        x0, x1, x2, x3 = x[q, k], x[q, k + 1], x[q, k + 2], x[q, k + 3]
        x4, x5, x6, x7 = x[q, k + 4], x[q, k + 5], x[q, k + 6], x[q, k + 7]
        for j in range(TILE):
            out[q, to + j] += (
                (x0 * leading[tile, k, j] + x1 * leading[tile, k + 1, j])
                + (x2 * leading[tile, k + 2, j] + x3 * leading[tile, k + 3, j])
            ) + (
                (x4 * leading[tile, k + 4, j] + x5 * leading[tile, k + 5, j])
                + (x6 * leading[tile, k + 6, j] + x7 * leading[tile, k + 7, j])
            )
    first = tile * TILE
    for j in range(min(TILE, prior.shape[0] - first)):
        i = first + j
        out[q, to + j] = out[q, to + j] * leading_scale[i] + (prior[i] + fuzz * (scale[i] * scale[i]))


@inline
def second_look(i, bits, planes, q):
    """Σ_b 2^b Σ_k ± of class i's signs and the query's bit planes: Σ ±y in units of half_step."""
    n = bits.shape[1]
    a = np.uint64(0)
    b = np.uint64(0)
    c = np.uint64(0)
    d = np.uint64(0)
    for w in range(n):
        word = bits[i, w]
        a += popcount(word ^ planes[q, 0, w])
        b += popcount(word ^ planes[q, 1, w])
        c += popcount(word ^ planes[q, 2, w])
        d += popcount(word ^ planes[q, 3, w])
    agreements = np.int64(a) + 2 * np.int64(b) + 4 * np.int64(c) + 8 * np.int64(d)
    return np.int64(15 * 64 * n) - 2 * agreements


@exact_inline
def slice_query(projected, q, rank, query_bits, clip, x, planes, slot):
    """Leading coordinates to x, the others quantised to `query_bits` and spread over bit planes.

    A coordinate becomes Σ_b ±2^b · half_step. Returns (half_step, Σ rest²).
    """
    for k in range(rank):
        x[slot, k] = projected[q, k]
    width = projected.shape[1] - rank
    if width == 0:
        return np.float32(0), np.float32(0)
    top = np.float32(0)
    squares = np.float32(0)
    for k in range(rank, rank + width):
        top = max(top, abs(projected[q, k]))
        squares += projected[q, k] * projected[q, k]
    top = min(top, clip * np.sqrt(squares / np.float32(width)))
    levels = 1 << query_bits
    inverse = np.float32(levels - 1) / (2 * top) if top > 0 else np.float32(0)
    for w in range(width // 64):
        for b in range(PLANES):
            planes[slot, b, w] = 0
        for k in range(64):
            level = int(np.floor((projected[q, rank + 64 * w + k] + top) * inverse + np.float32(0.5)))
            level = min(max(level, 0), levels - 1) << (PLANES - query_bits)
            for b in range(PLANES):
                planes[slot, b, w] |= np.uint64((level >> b) & 1) << np.uint64(k)
    return top / np.float32((levels - 1) << (PLANES - query_bits)), squares


@exact_inline
def refine(values, slot, n, places, threshold, half_step, squares, bits, scale, planes):
    """Replace the first look by the second wherever it exceeds the threshold."""
    keep = (SIGN_FUZZ - FIRST_FUZZ) * VARIANCE_OF_SCALE * squares
    for i in range(n):
        if values[slot, i] > threshold:
            place = places[i] if places.shape[0] else i
            s = scale[place]
            sign = np.float32(second_look(place, bits, planes, slot)) * half_step
            values[slot, i] += SIGN_GAIN * s * sign + keep * (s * s)


@exact_inline
def open_clusters(masses, q, starts, probes, squares_top, squares, spread, fuzz, block_mass, opened, places, capacity):
    """Log masses of the unopened clusters to block_mass, members of the opened ones to `places`; returns how many."""
    n_clusters = starts.shape[0] - 1
    for c in range(n_clusters):
        block_mass[c] = masses[q, c] + spread[c] * squares_top + fuzz[c] * squares
    top = systematic.largest(block_mass, n_clusters)
    threshold = systematic.threshold_for(block_mass, n_clusters, probes, top)
    n = 0
    for c in range(n_clusters):
        size = starts[c + 1] - starts[c]
        opened[c] = block_mass[c] > threshold and n + size <= capacity
        if opened[c]:
            for i in range(starts[c], starts[c + 1]):
                places[n] = i
                n += 1
            block_mass[c] = NOTHING
    return n


@exact_inline
def look_at(n, places, codes, x, slot, fuzz, values, spare):
    """First look at the classes at places[:n] (runs of consecutive places), a tile at a time."""
    prior, leading, leading_scale, _, scale = codes
    at = 0
    while at < n:
        tile = places[at] // TILE
        first_look(tile, leading, leading_scale, prior, scale, x, slot, fuzz, values, spare)
        while at < n and places[at] // TILE == tile:
            values[slot, at] = values[slot, spare + places[at] % TILE]
            at += 1


@exact_inline
def member_at(c, depth, mass, floor, starts, share):
    """The member of unopened cluster c at `depth` of its weight: the even part first, then by prior share."""
    start = starts[c]
    size = starts[c + 1] - start
    if depth < floor * size:
        return start + min(int(depth / floor), size - 1)
    wanted = (depth - floor * size) / mass
    low = start
    high = start + size - 1
    while low < high:
        middle = (low + high) // 2
        if np.float64(share[middle]) > wanted:
            high = middle
        else:
            low = middle + 1
    return low


@kernel(fastmath=False)
def _draw(
    projected, masses, seeds, codes, members, starts, spread, fuzz, share, size, probes, refine_share, query_bits, clip,
    floor_share, replicates, poisson, capacity, n_chunks, out_ids, out_log_count, out_replicate, out_kept, out_read,
):  # fmt: skip
    prior, leading, leading_scale, bits, scale = codes
    n_classes = prior.shape[0]
    n_clusters = starts.shape[0] - 1
    rank = leading.shape[1]
    n_groups = (seeds.shape[0] + GROUP - 1) // GROUP
    everywhere = n_clusters == 1
    group_capacity = GROUP if everywhere else 1
    for chunk in numba.prange(n_chunks):
        values = np.empty((GROUP, capacity + TILE), np.float32)
        places = np.empty(0 if everywhere else capacity, np.int32)
        block_mass = np.empty(n_clusters, np.float32)
        opened = np.ones(n_clusters, np.bool_)
        x = np.empty((GROUP, rank), np.float32)
        planes = np.empty((GROUP, PLANES, bits.shape[1]), np.uint64)
        half_step = np.empty(GROUP, np.float32)
        squares = np.empty(GROUP, np.float32)
        points = np.empty(replicates)
        for group in range(chunk * n_groups // n_chunks, (chunk + 1) * n_groups // n_chunks):
            begin = group * GROUP
            count = min(GROUP, seeds.shape[0] - begin)
            for slot in range(count):
                half_step[slot], squares[slot] = slice_query(
                    projected, begin + slot, rank, query_bits, clip, x, planes, slot
                )
            if everywhere:
                for tile in range(leading.shape[0]):
                    for slot in range(count):
                        first_look(
                            tile, leading, leading_scale, prior, scale, x, slot,
                            FIRST_FUZZ * VARIANCE_OF_SCALE * squares[slot], values, tile * TILE,
                        )  # fmt: skip
            for slot in range(count):
                q = begin + slot
                n = n_classes
                block_mass[0] = NOTHING
                if not everywhere:
                    squares_top = np.float32(0)
                    for k in range(rank):
                        squares_top += x[slot, k] * x[slot, k]
                    n = open_clusters(
                        masses, q, starts, probes, squares_top, squares[slot], spread, fuzz, block_mass, opened, places,
                        capacity,
                    )  # fmt: skip
                    first_fuzz = FIRST_FUZZ * VARIANCE_OF_SCALE * squares[slot]
                    look_at(n, places, codes, x, slot, first_fuzz, values, capacity)
                row = values[slot]
                if bits.shape[1]:
                    top = systematic.largest(row, n) if n else np.float32(0)
                    threshold = systematic.threshold_for(row, n, int(refine_share * n), top)
                    refine(values, slot, n, places, threshold, half_step[slot], squares[slot], bits, scale, planes)
                top = systematic.largest(block_mass, n_clusters)
                if n:
                    top = max(top, systematic.largest(row, n))
                total = systematic.exponentiate(row, 0, n, top) + systematic.exponentiate(block_mass, 0, n_clusters, top)
                floor = np.float32(floor_share * total / n_classes)
                systematic.add_constant(row, n, floor)
                total += np.float64(floor) * n_classes
                tau = systematic.solve_tau(row, n, total, size)
                inverse_tau = np.float32(1 / tau)
                systematic.draw_points(points, seeds[q])
                limit = out_ids.shape[1]
                kept = 0
                running = 0.0
                j = 0
                point = systematic.next_point(points, j, seeds[q], poisson, 0.0)
                for start in range(0, n, BLOCK):
                    stop = min(start + BLOCK, n)
                    tail, certain = systematic.tail_and_certain(row, start, stop, inverse_tau)
                    if certain == 0 and running + tail <= point:
                        running += tail
                        continue
                    for i in range(start, stop):
                        p = row[i] * inverse_tau
                        if p >= np.float32(1):
                            if kept < limit:
                                out_ids[q, kept] = members[i if everywhere else places[i]]
                                out_log_count[q, kept] = 0
                                out_replicate[q, kept] = -1
                                kept += 1
                            continue
                        running += np.float64(p)
                        again = False
                        while running > point:
                            if kept < limit and not (poisson and again):
                                out_ids[q, kept] = members[i if everywhere else places[i]]
                                out_log_count[q, kept] = np.log(-np.expm1(-np.float64(p)) if poisson else np.float64(p))
                                out_replicate[q, kept] = j % replicates
                                kept += 1
                            again = True
                            j += 1
                            point = systematic.next_point(points, j, seeds[q], poisson, point)
                if not everywhere:
                    for c in range(n_clusters):
                        if opened[c]:
                            continue
                        weight = np.float64(block_mass[c]) + np.float64(floor) * (starts[c + 1] - starts[c])
                        before = running
                        running += weight / tau
                        while running > point:
                            depth = min(max((point - before) * tau, 0.0), weight)
                            i = member_at(c, depth, np.float64(block_mass[c]), np.float64(floor), starts, share)
                            below = share[i - 1] if i > starts[c] else np.float32(0)
                            w = np.float64(block_mass[c]) * (np.float64(share[i]) - np.float64(below)) + np.float64(floor)
                            if kept < limit:
                                out_ids[q, kept] = members[i]
                                out_log_count[q, kept] = np.log(w / tau)
                                out_replicate[q, kept] = j % replicates
                                kept += 1
                            j += 1
                            point = systematic.next_point(points, j, seeds[q], poisson, point)
                out_kept[q] = kept
                out_read[q] = n


def draw(
    projected: NDArray, masses: NDArray, seeds: NDArray, codes: tuple, clusters: tuple, *, size: int, probes: int,
    refine_share: float, query_bits: int, clip: float, floor_share: float, replicates: int, poisson: bool,
) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:  # fmt: skip
    """Draw about `size` classes per query in proportion to their sketched weight.

    Args:
        projected: float32[Q, rank + width], queries in the coordinates of the codes.
        masses: float32[Q, C], log_mass + centroid·x of each cluster; unread when there is one.
        seeds: uint64[Q].
        codes, clusters: the fields of sketch.codes.Codes and sketch.clusters.Clusters.

    Returns:
        offsets, ids, log expected counts, the replicate each class was drawn by (−1: taken with certainty), and how many
        classes had their codes read.
    """
    members, starts, _, _, spread, fuzz, share = clusters
    n_queries, n_clusters = len(seeds), len(starts) - 1
    capacity = len(codes[1]) * TILE
    if n_clusters > 1:
        largest = np.sort(np.diff(starts))[::-1]
        capacity = int(largest[: probes + probes // 4 + 1].sum())
    limit = size + int(8 * np.sqrt(size)) + replicates + 16
    loose = np.arange(n_queries + 1, dtype=np.int64) * limit
    ids, log_count = np.empty((n_queries, limit), np.int32), np.empty((n_queries, limit), np.float32)
    replicate = np.empty((n_queries, limit), np.int16)
    kept, read = np.empty(n_queries, np.int64), np.empty(n_queries, np.int64)
    groups = -(-n_queries // GROUP)
    n_chunks = min(groups, numba.get_num_threads())
    _draw(
        projected, masses, seeds, codes, members, starts, spread, fuzz, share, size, probes, refine_share, query_bits,
        np.float32(clip), floor_share, replicates, poisson, capacity, n_chunks, ids, log_count, replicate, kept, read,
    )  # fmt: skip
    offsets = ragged.offsets_from_sizes(kept)
    compact = [ragged.compact(loose, offsets, array.ravel()) for array in (ids, log_count, replicate)]
    return offsets, *compact, read


@kernel(fastmath=False)
def _tail_error(offsets, logits, log_count, replicate, log_z, replicates, poisson, out):
    for q in numba.prange(offsets.shape[0] - 1):
        sums = np.zeros(replicates)
        drawn = 0
        shares = 0.0
        mean = 0.0
        for s in range(offsets[q], offsets[q + 1]):
            if replicate[s] >= 0:
                weight = np.exp(np.float64(logits[s]) - np.float64(log_count[s]) - log_z[q])
                missed = max(-np.expm1(np.float64(log_count[s])), 0.0)
                sums[replicate[s]] += weight
                mean += missed * weight
                shares += missed
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
                total *= drawn / (drawn - 1)
        out[q] = np.sqrt(total)


def tail_error(offsets, logits, log_count, replicate, log_z, replicates: int, poisson: bool) -> NDArray[np.float64]:
    """Relative standard error of a draw in proportion to size, from the classes not taken with certainty.

    With z = f/p: R replicates give R/(R − 1) Σ (t_r − t̄)² over their sums; Poisson draws Σ (1 − p) z²; one systematic
    draw n/(n − 1) Σ (1 − p)(z − z̄)² (Hájek's approximation), z̄ weighted by 1 − p.
    """
    out = np.empty(len(log_z))
    _tail_error(offsets, logits, log_count, replicate, log_z, replicates, poisson, out)
    return out
