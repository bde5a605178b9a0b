"""Reading sketches: queries cut into integers, a first look at leading coordinates, a second at sign bits."""

from __future__ import annotations

import numpy as np

from softhash.kernels import systematic
from softhash.kernels._bits import popcount
from softhash.kernels._jit import exact_inline, inline
from softhash.kernels._tile import TILE, product_of_four, product_of_one

GROUP = 4
PLANES = 4
QUERY_STEPS = np.float32(2047)
SIGN_GAIN = np.float32(0.75)
SIGN_FUZZ = np.float32(0.2)
FIRST_FUZZ = np.float32(0.9)
SPREAD_SHARE = np.float32(0.5)
DEVIATION_OF_SCALE = np.float32(np.sqrt(2 / np.pi))
GAUSSIAN_REACH = np.float32(4)
OPENED = np.float32(-2e30)
"""Block mass of a cluster whose members were looked at one by one."""


@inline
def gain(share, deviation):
    """What an unread term of this deviation σ adds to a log weight: share·σ², linear beyond what N Gaussians reach."""
    return share * deviation * min(deviation, GAUSSIAN_REACH)


@inline
def first_look(sums, slot, unit, tile, leading_scale, prior, scale, rest, out, to):
    """prior + leading·x + what the rest adds for a tile of classes; `rest` is √(2/π)·‖x_rest‖."""
    for j in range(TILE):
        seen = np.float32(sums[slot, j]) * (unit * leading_scale[tile, j])
        out[to, j] = seen + (prior[tile, j] + gain(FIRST_FUZZ, rest * scale[tile, j]))


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
    """A query's leading coordinates as int16 to x[slot]; returns their unit and norm."""
    top = np.float32(0)
    squares = np.float32(0)
    for k in range(x.shape[1]):
        top = max(top, abs(projected[q, k]))
        squares += projected[q, k] * projected[q, k]
    unit = top / QUERY_STEPS
    for k in range(x.shape[1]):
        x[slot, k] = np.int16(round(projected[q, k] / unit)) if unit > 0 else 0
    return unit, np.sqrt(squares)


@exact_inline
def slice_rest(projected, q, rank, query_bits, clip, planes):
    """The other coordinates quantised to `query_bits` and spread over bit planes.

    A coordinate becomes Σ_b ±2^b · half_step. Returns (half_step, √(2/π)·‖rest‖).
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
    return top / np.float32((levels - 1) << (PLANES - query_bits)), DEVIATION_OF_SCALE * np.sqrt(squares)


@exact_inline
def refine(row, n, runs, threshold, half_step, rest, bits, scale, planes, promising):
    """Replace the first look by the second wherever it exceeds the threshold; returns the largest of the second."""
    run_place, run_start = runs
    count = 0
    for i in range(n):
        promising[count] = i
        count += row[i] > threshold
    plane_1, plane_2, plane_4, plane_8 = planes[0], planes[1], planes[2], planes[3]
    run = 0
    most = threshold
    for at in range(count):
        i = promising[at]
        while run_start[run + 1] <= i:
            run += 1
        place = run_place[run] + i - run_start[run]
        s = scale[place // TILE, place % TILE]
        sign = np.float32(second_look(bits, place, plane_1, plane_2, plane_4, plane_8)) * half_step
        row[i] += SIGN_GAIN * s * sign + gain(SIGN_FUZZ - FIRST_FUZZ, rest * s)
        most = max(most, row[i])
    return most


@inline
def guess_masses(masses, q, norm, rest, spread, fuzz, out):
    """Log mass of each cluster, from its centroid's score and what varies around it."""
    for c in range(out.shape[0]):
        out[c] = masses[q, c] + gain(SPREAD_SHARE, spread[c] * norm) + gain(FIRST_FUZZ, fuzz[c] * rest)


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
def look_everywhere(codes, x, count, unit, rest, sums, values):
    """First look of `count` queries at every class, four queries at a time where there are four."""
    prior, leading, leading_scale, _, scale = codes
    for tile in range(leading.shape[0]):
        if count == GROUP:
            product_of_four(leading, tile, x, sums)
        for slot in range(count):
            if count < GROUP:
                product_of_one(leading, tile, x[slot], sums[slot])
            first_look(sums, slot, unit[slot], tile, leading_scale, prior, scale, rest[slot], values[slot], tile)


@exact_inline
def look_at(runs, n, codes, x, slot, unit, rest, sums, row, one_tile):
    """First look of one query at the n classes in its runs."""
    run_place, run_start = runs
    prior, leading, leading_scale, _, scale = codes
    run = 0
    while run_start[run] < n:
        place = run_place[run]
        at = run_start[run]
        while at < run_start[run + 1]:
            tile = place // TILE
            first = place % TILE
            length = min(TILE - first, run_start[run + 1] - at)
            product_of_one(leading, tile, x[slot], sums[slot])
            first_look(sums, slot, unit, tile, leading_scale, prior, scale, rest, one_tile, 0)
            for j in range(length):
                row[at + j] = one_tile[0, first + j]
            at += length
            place += length
        run += 1
