"""Walking the running sum of weights: classes read one by one, then clusters that were not, each as one block."""

from __future__ import annotations

import numpy as np

from softhash.kernels import systematic
from softhash.kernels._jit import exact_inline
from softhash.kernels._tile import TILE, look_of_one

BLOCK = 64
PART = 16


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
def draw_read(
    q, row, n, sums, tops, floor, runs, members, tau, points, seed, poisson, out_ids, out_log_count, out_replicate
):
    """Walk the weights of the n classes read; returns (drawn, running sum, points met, next point)."""
    run_place, run_start = runs
    inverse_tau = np.float32(1 / tau)
    kept = 0
    running = 0.0
    met = 0
    run = 0
    point = systematic.next_point(points, met, seed, poisson, 0.0)
    for b in range((n + TILE - 1) // TILE):
        length = min(TILE, n - TILE * b)
        if (tops[b] + floor) * inverse_tau < 1:
            together = np.float64(sums[b] + length * floor) * inverse_tau
            if running + together <= point:
                running += together
                continue
        j = -1
        while j + 1 < length:
            j += 1
            if j % PART == 0 and length - j >= PART:
                together, most = systematic.sum_and_largest(row, TILE * b + j, PART)
                if (most + floor) * inverse_tau < 1 and running + (together + PART * floor) * inverse_tau <= point:
                    running += np.float64((together + PART * floor) * inverse_tau)
                    j += PART - 1
                    continue
            p = np.float64((row[TILE * b + j] + floor) * inverse_tau)
            if p < 1:
                running += p
                if running <= point:
                    continue
            while run_start[run + 1] <= b * TILE + j:
                run += 1
            i = members[run_place[run] + b * TILE + j - run_start[run]]
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
        together = systematic.sum_of(weights, first, min(first + BLOCK, n_clusters))
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
def shares_of_tile(codes, tile, size, x, slot, unit, rest, one_tile, share):
    """Running share of exp(first look) within the first `size` classes of a tile."""
    look_of_one(codes, tile, x, slot, unit, rest, one_tile, 0, 0)
    values = one_tile[0]
    systematic.exponentiate_tile(values, 0, systematic.largest(values[0], size))
    total = 0.0
    for j in range(size):
        total += np.float64(values[0, j])
        share[j] = total
    scale = 1 / total
    for j in range(size):
        share[j] *= scale
    share[size - 1] = 1.0


@exact_inline
def draw_unseen(
    q, state, block_mass, weights, floor, starts, looking, share, members, tau, points, seed, poisson,
    out_ids, out_log_count, out_replicate,
):  # fmt: skip
    """Walk on over the tiles not opened, each one block whose classes share by a first look at the tile.

    `looking` is (codes, x, slot, unit, rest, one_tile). Returns how many classes are drawn in all.
    """
    kept, running, met, point = state
    codes, x, slot, unit, rest, one_tile = looking
    whole = np.zeros(2, np.int64)
    n_tiles = block_mass.shape[0]
    for first in range(0, n_tiles, BLOCK):
        last = min(first + BLOCK, n_tiles)
        together = systematic.sum_of(weights, first, last) / tau
        if running + together <= point:
            running += together
            continue
        for tile in range(first, last):
            before = running
            running += weights[tile] / tau
            if running <= point or weights[tile] <= 0:
                continue
            start = starts[tile]
            size = starts[tile + 1] - start
            mass = np.float64(block_mass[tile])
            shares_of_tile(codes, tile, size, x, slot, unit, rest, one_tile, share)
            whole[1] = size
            while running > point:
                depth = min(max((point - before) * tau, 0.0), weights[tile])
                j = member_at(0, depth, mass, floor, whole, share)
                below = share[j - 1] if j > 0 else 0.0
                log_count = np.log((mass * (share[j] - below) + floor) / tau)
                replicate = met % points.shape[0]
                kept = emit(q, kept, members[start + j], log_count, replicate, out_ids, out_log_count, out_replicate)
                met += 1
                point = systematic.next_point(points, met, seed, poisson, point)
    return kept


@exact_inline
def weigh_unread(block_mass, starts, floor, opened, weights):
    """The weight of each cluster: its mass and the floor of its members, nothing for the opened."""
    for c in range(block_mass.shape[0]):
        weights[c] = 0.0 if opened[c] else np.float64(block_mass[c]) + floor * (starts[c + 1] - starts[c])
