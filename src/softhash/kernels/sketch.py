"""Reading sketches: a first look at leading coordinates, a second at sign bits, then a draw in proportion to weight."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from softhash.kernels import ragged, systematic
from softhash.kernels._bits import popcount
from softhash.kernels._jit import exact_inline, inline, kernel, threads_for
from softhash.kernels._tile import PAIR, TILE, product_of_four, product_of_one
from softhash.kernels.systematic import BLOCK

GROUP = 4
PLANES = 4
QUERY_STEPS = np.float32(2047)
SIGN_GAIN = np.float32(0.75)
SIGN_FUZZ = np.float32(0.2)
FIRST_FUZZ = np.float32(0.9)
VARIANCE_OF_SCALE = np.float32(2 / np.pi)
NOTHING = np.float32(-1e30)
"""The log of no mass; finite, because kernels assume finite numbers."""
OPENED = np.float32(-2e30)
"""Block mass of a cluster whose members were looked at one by one."""


@kernel(parallel=False, fastmath=False)
def encode(projected, places, block_prior, prior, leading, leading_scale, bits, scale):
    """Store rows of balanced, rotated coordinates as codes."""
    rank = PAIR * leading.shape[1]
    for row in range(places.shape[0]):
        i = places[row]
        top = np.float32(0)
        for k in range(rank):
            top = max(top, abs(projected[row, k]))
        unit = top / np.float32(127)
        for k in range(rank):
            leading[i // TILE, k // PAIR, i % TILE, k % PAIR] = (
                np.int8(round(projected[row, k] / unit)) if unit > 0 else 0
            )
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
        prior[i // TILE, i % TILE] = block_prior[row]
        leading_scale[i // TILE, i % TILE] = unit
        scale[i // TILE, i % TILE] = squares / absolutes if absolutes > 0 else 0


@kernel(fastmath=False)
def describe(starts, prior, leading, leading_scale, scale, centroid, log_mass, spread, fuzz, share):
    """Summaries of clusters, members weighted by exp(prior)."""
    rank = PAIR * leading.shape[1]
    for c in numba.prange(starts.shape[0] - 1):
        start = starts[c]
        stop = starts[c + 1]
        top = NOTHING
        for i in range(start, stop):
            top = max(top, prior[i // TILE, i % TILE])
        total = 0.0
        fuzzy = 0.0
        for i in range(start, stop):
            weight = np.exp(np.float64(prior[i // TILE, i % TILE]) - top)
            total += weight
            fuzzy += weight * np.float64(scale[i // TILE, i % TILE]) ** 2
            for k in range(rank):
                centroid[c, k] += (
                    weight * leading_scale[i // TILE, i % TILE] * leading[i // TILE, k // PAIR, i % TILE, k % PAIR]
                )
        running = 0.0
        squares = 0.0
        for i in range(start, stop):
            weight = np.exp(np.float64(prior[i // TILE, i % TILE]) - top)
            running += weight
            share[i] = running / total
            for k in range(rank):
                value = (
                    leading_scale[i // TILE, i % TILE] * leading[i // TILE, k // PAIR, i % TILE, k % PAIR]
                    - centroid[c, k] / total
                )
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
def first_look(sums, slot, unit, tile, leading_scale, prior, scale, fuzz, out, to):
    """prior + leading·x + 0.9·variance of the rest for a tile of classes, from its integer products."""
    for j in range(TILE):
        seen = np.float32(sums[slot, j]) * (unit * leading_scale[tile, j])
        out[to, j] = seen + (prior[tile, j] + fuzz * (scale[tile, j] * scale[tile, j]))


@inline
def second_look(bits, i, plane_1, plane_2, plane_4, plane_8):
    """Σ_b 2^b Σ_k ± of class i's signs and the query's bit planes: Σ ±y in units of half_step."""
    differences = np.uint64(0)
    for w in range(bits.shape[1]):
        word = bits[i, w]
        differences += (
            popcount(word ^ plane_1[w])
            + (popcount(word ^ plane_2[w]) << np.uint64(1))
            + (popcount(word ^ plane_4[w]) << np.uint64(2))
            + (popcount(word ^ plane_8[w]) << np.uint64(3))
        )
    return np.int64(15 * 64 * bits.shape[1]) - 2 * np.int64(differences)


@exact_inline
def quantise_leading(projected, q, x, slot):
    """A query's leading coordinates as int16 to x[slot]; returns their unit and Σ x²."""
    top = np.float32(0)
    squares = np.float32(0)
    for k in range(x.shape[1]):
        top = max(top, abs(projected[q, k]))
        squares += projected[q, k] * projected[q, k]
    unit = top / QUERY_STEPS
    for k in range(x.shape[1]):
        x[slot, k] = np.int16(round(projected[q, k] / unit)) if unit > 0 else 0
    return unit, squares


@exact_inline
def slice_rest(projected, q, rank, query_bits, clip, planes):
    """The other coordinates quantised to `query_bits` and spread over bit planes.

    A coordinate becomes Σ_b ±2^b · half_step. Returns (half_step, Σ rest²).
    """
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
        a = np.uint64(0)
        b = np.uint64(0)
        c = np.uint64(0)
        d = np.uint64(0)
        for k in range(64):
            level = int(np.floor((projected[q, rank + 64 * w + k] + top) * inverse + np.float32(0.5)))
            level = np.uint64(min(max(level, 0), levels - 1) << (PLANES - query_bits))
            bit = np.uint64(k)
            one = np.uint64(1)
            a |= (level & one) << bit
            b |= ((level >> one) & one) << bit
            c |= ((level >> np.uint64(2)) & one) << bit
            d |= ((level >> np.uint64(3)) & one) << bit
        planes[0, w], planes[1, w], planes[2, w], planes[3, w] = a, b, c, d
    return top / np.float32((levels - 1) << (PLANES - query_bits)), squares


@exact_inline
def refine(row, n, runs, threshold, half_step, squares, bits, scale, planes, promising):
    """Replace the first look by the second wherever it exceeds the threshold."""
    run_place, run_start = runs
    count = 0
    for i in range(n):
        promising[count] = i
        count += row[i] > threshold
    without = (SIGN_FUZZ - FIRST_FUZZ) * VARIANCE_OF_SCALE * squares
    plane_1, plane_2, plane_4, plane_8 = planes[0], planes[1], planes[2], planes[3]
    run = 0
    for at in range(count):
        i = promising[at]
        while run_start[run + 1] <= i:
            run += 1
        place = run_place[run] + i - run_start[run]
        s = scale[place // TILE, place % TILE]
        sign = np.float32(second_look(bits, place, plane_1, plane_2, plane_4, plane_8)) * half_step
        row[i] += SIGN_GAIN * s * sign + without * (s * s)


@inline
def guess_masses(masses, q, squares_top, squares, spread, fuzz, out):
    """Log mass of each cluster, from its centroid's score and what varies around it."""
    for c in range(out.shape[0]):
        out[c] = masses[q, c] + (spread[c] * squares_top + fuzz[c] * squares)


@exact_inline
def open_clusters(block_mass, starts, probes, runs, capacity, spare, lanes):
    """Make runs of the heaviest clusters, and nothing of their block mass. Returns the number of classes in them."""
    run_place, run_start = runs
    n_clusters = starts.shape[0] - 1
    top = systematic.largest(block_mass, n_clusters, lanes)
    threshold = systematic.threshold_for(block_mass, n_clusters, probes, top, spare)
    n = 0
    run = 0
    for c in range(n_clusters):
        size = starts[c + 1] - starts[c]
        if block_mass[c] > threshold and n + size <= capacity and size > 0 and run < run_place.shape[0]:
            run_place[run] = starts[c]
            run_start[run] = n
            block_mass[c] = OPENED
            n += size
            run += 1
    run_start[run] = n
    return n


@exact_inline
def look_everywhere(codes, x, count, unit, squares, sums, values):
    """First look of `count` queries at every class, four queries at a time where there are four."""
    prior, leading, leading_scale, _, scale = codes
    for tile in range(leading.shape[0]):
        if count == GROUP:
            product_of_four(leading, tile, x, sums)
        for slot in range(count):
            if count < GROUP:
                product_of_one(leading, tile, x[slot], sums[slot])
            fuzz = FIRST_FUZZ * VARIANCE_OF_SCALE * squares[slot]
            first_look(sums, slot, unit[slot], tile, leading_scale, prior, scale, fuzz, values[slot], tile)


@exact_inline
def look_at(runs, n, codes, x, slot, unit, squares, sums, row, one_tile):
    """First look of one query at the n classes in its runs."""
    run_place, run_start = runs
    prior, leading, leading_scale, _, scale = codes
    fuzz = FIRST_FUZZ * VARIANCE_OF_SCALE * squares
    run = 0
    while run_start[run] < n:
        place = run_place[run]
        at = run_start[run]
        while at < run_start[run + 1]:
            tile = place // TILE
            first = place % TILE
            length = min(TILE - first, run_start[run + 1] - at)
            product_of_one(leading, tile, x[slot], sums[slot])
            first_look(sums, slot, unit, tile, leading_scale, prior, scale, fuzz, one_tile, 0)
            for j in range(length):
                row[at + j] = one_tile[0, first + j]
            at += length
            place += length
        run += 1


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


@exact_inline
def emit(q, kept, i, log_count, replicate, out_ids, out_log_count, out_replicate):
    """Append a class to query q's draw; returns the new length."""
    if kept == out_ids.shape[1]:
        return kept
    out_ids[q, kept] = i
    out_log_count[q, kept] = log_count
    out_replicate[q, kept] = replicate
    return kept + 1


@exact_inline
def draw_read(q, blocks, n, runs, members, tau, points, seed, poisson, out_ids, out_log_count, out_replicate):
    """Walk the weights of the n classes read; returns (drawn, running sum, points met, next point)."""
    run_place, run_start = runs
    inverse_tau = np.float32(1 / tau)
    kept = 0
    running = 0.0
    met = 0
    run = 0
    point = systematic.next_point(points, met, seed, poisson, 0.0)
    for b in range((n + BLOCK - 1) // BLOCK):
        tail, certain = systematic.tail_and_certain(blocks, b, inverse_tau)
        if certain == 0 and running + tail <= point:
            running += tail
            continue
        for j in range(BLOCK):
            p = np.float64(blocks[b, j] * inverse_tau)
            if p < 1:
                running += p
                if running <= point:
                    continue
            while run_start[run + 1] <= b * BLOCK + j:
                run += 1
            i = members[run_place[run] + b * BLOCK + j - run_start[run]]
            if p >= 1:
                kept = emit(q, kept, i, 0.0, -1, out_ids, out_log_count, out_replicate)
                continue
            drawn = False
            while running > point:
                if not (poisson and drawn):
                    log_count = np.log(-np.expm1(-p) if poisson else p)
                    kept = emit(q, kept, i, log_count, met % points.shape[0], out_ids, out_log_count, out_replicate)
                drawn = True
                met += 1
                point = systematic.next_point(points, met, seed, poisson, point)
    return kept, running, met, point


@exact_inline
def draw_unread(
    q, state, block_mass, weights, floor, starts, share, members, tau, points, seed, poisson,
    out_ids, out_log_count, out_replicate,
):  # fmt: skip
    """Walk on over the clusters not opened, each one block; returns how many classes are drawn in all."""
    kept, running, met, point = state
    n_clusters = starts.shape[0] - 1
    for first in range(0, n_clusters, BLOCK):
        together = 0.0
        for c in range(first, min(first + BLOCK, n_clusters)):
            together += weights[c]
        if running + together / tau <= point:
            running += together / tau
            continue
        for c in range(first, min(first + BLOCK, n_clusters)):
            before = running
            running += weights[c] / tau
            while running > point and weights[c] > 0:
                mass = np.float64(block_mass[c])
                depth = min(max((point - before) * tau, 0.0), weights[c])
                i = member_at(c, depth, mass, floor, starts, share)
                below = np.float64(share[i - 1]) if i > starts[c] else 0.0
                log_count = np.log((mass * (np.float64(share[i]) - below) + floor) / tau)
                replicate = met % points.shape[0]
                kept = emit(q, kept, members[i], log_count, replicate, out_ids, out_log_count, out_replicate)
                met += 1
                point = systematic.next_point(points, met, seed, poisson, point)
    return kept


@exact_inline
def weigh_unread(block_mass, starts, floor, opened, weights):
    """The weight of each cluster: its mass and the floor of its members, nothing for the opened."""
    for c in range(block_mass.shape[0]):
        weights[c] = 0.0 if opened[c] else np.float64(block_mass[c]) + floor * (starts[c + 1] - starts[c])


@kernel(fastmath=False)
def _draw(
    projected, masses, seeds, codes, members, starts, spread, fuzz, share, size, probes, refine_share, query_bits, clip,
    floor_share, replicates, poisson, capacity, n_chunks, out_ids, out_log_count, out_replicate, out_kept,
):  # fmt: skip
    _, leading, _, bits, scale = codes
    n_classes = members.shape[0]
    n_clusters = starts.shape[0] - 1
    rank = PAIR * leading.shape[1]
    n_groups = (seeds.shape[0] + GROUP - 1) // GROUP
    everywhere = n_clusters == 1
    most_runs = 1 if everywhere else probes + probes // 4 + 1
    for chunk in numba.prange(n_chunks):
        values = np.empty((GROUP if everywhere else 1, capacity // TILE, TILE), np.float32)
        runs = (np.zeros(most_runs, np.int64), np.full(most_runs + 1, n_classes))
        runs[1][0] = 0
        promising = np.empty(capacity + 1, np.int32)
        spare = np.empty(max(capacity, n_clusters), np.float32)
        block_mass = np.empty(n_clusters, np.float32)
        opened = np.empty(n_clusters, np.bool_)
        weights = np.empty(n_clusters)
        lanes = np.empty(BLOCK, np.float32)
        one_tile = np.empty((1, TILE), np.float32)
        x = np.empty((GROUP, rank), np.int16)
        sums = np.empty((GROUP, TILE), np.int32)
        planes = np.empty((GROUP, PLANES, bits.shape[1]), np.uint64)
        unit = np.empty(GROUP, np.float32)
        half_step = np.empty(GROUP, np.float32)
        squares_top = np.empty(GROUP, np.float32)
        squares = np.empty(GROUP, np.float32)
        points = np.empty(replicates)
        for group in range(chunk * n_groups // n_chunks, (chunk + 1) * n_groups // n_chunks):
            begin = group * GROUP
            count = min(GROUP, seeds.shape[0] - begin)
            for slot in range(count):
                unit[slot], squares_top[slot] = quantise_leading(projected, begin + slot, x, slot)
                half_step[slot], squares[slot] = slice_rest(
                    projected, begin + slot, rank, query_bits, clip, planes[slot]
                )
            if everywhere:
                look_everywhere(codes, x, count, unit, squares, sums, values)
            for slot in range(count):
                q = begin + slot
                blocks = values[slot if everywhere else 0]
                row = blocks.reshape(capacity)
                n = n_classes
                top = NOTHING
                if not everywhere:
                    guess_masses(masses, q, squares_top[slot], squares[slot], spread, fuzz, block_mass)
                    n = open_clusters(block_mass, starts, probes, runs, capacity, spare, lanes)
                    look_at(runs, n, codes, x, slot, unit[slot], squares[slot], sums, row, one_tile)
                    top = systematic.largest(block_mass, n_clusters, lanes)
                if n and bits.shape[1]:
                    most = systematic.largest(row, n, lanes)
                    threshold = systematic.threshold_for(row, n, int(refine_share * n), most, spare)
                    refine(
                        row, n, runs, threshold, half_step[slot], squares[slot], bits, scale, planes[slot], promising
                    )
                if n:
                    top = max(top, systematic.largest(row, n, lanes))
                total = systematic.exponentiate(row, n, top)
                if not everywhere:
                    for c in range(n_clusters):
                        opened[c] = block_mass[c] == OPENED
                    total += systematic.exponentiate(block_mass, n_clusters, top)
                floor = np.float32(floor_share * total / n_classes)
                systematic.add_constant(row, n, floor)
                row[n : min(-(-n // BLOCK) * BLOCK, capacity)] = 0
                tau = systematic.solve_tau(row, n, total + np.float64(floor) * n_classes, size)
                systematic.draw_points(points, seeds[q])
                state = draw_read(
                    q, blocks, n, runs, members, tau, points, seeds[q], poisson, out_ids, out_log_count, out_replicate
                )
                out_kept[q] = state[0]
                if not everywhere:
                    weigh_unread(block_mass, starts, np.float64(floor), opened, weights)
                    out_kept[q] = draw_unread(
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
            query_bits, np.float32(clip), floor_share, replicates, poisson, capacity, n_chunks,
            ids, log_count, replicate, kept,
        )  # fmt: skip
    offsets = ragged.offsets_from_sizes(kept)
    compact = [ragged.compact(loose, offsets, array.ravel()) for array in (ids, log_count, replicate)]
    return offsets, *compact


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
