"""Tiles of classes of which most leave only their best: which to open, by a first look at all of them."""

from __future__ import annotations

from softhash.kernels import systematic
from softhash.kernels._jit import exact_inline
from softhash.kernels._tile import TILE, best_of_four, best_of_one
from softhash.kernels.looks import GROUP, OPENED

TILES_AT_ONCE = 8
TILES_SEEN = 512


@exact_inline
def thresholds(codes, x, count, unit, rest, probes, best, four, spare, out):
    """What the best class of about `probes` tiles exceeds, for each query, from some 512 of the tiles."""
    n_tiles = best.shape[1]
    stride = max(1, n_tiles // TILES_SEEN)
    seen = (n_tiles + stride - 1) // stride
    for k in range(seen):
        for slot in range(0, count, GROUP):
            best_of_four(codes, k * stride, x, slot, unit, rest, best, four)
    for slot in range(count):
        for k in range(seen):
            spare[k] = best[slot, k * stride]
        wanted = (probes * seen + n_tiles - 1) // n_tiles
        out[slot] = systematic.threshold_for(spare, seen, wanted, spare[seen:])


@exact_inline
def open_tiles(codes, x, count, unit, rest, threshold, best, four, values, opened, n_opened):
    """First look at every tile: kept class by class where its best exceeds a query's threshold, else just the best.

    A few tiles at a time by all queries, so that codes are read from memory once. Slots up to the next multiple of
    four must hold numbers.
    """
    n_tiles = best.shape[1]
    n_opened[:] = 0
    for first in range(0, n_tiles, TILES_AT_ONCE):
        for slot in range(0, count, GROUP):
            for tile in range(first, min(first + TILES_AT_ONCE, n_tiles)):
                if count - slot == 1:
                    best_of_one(codes, tile, x, slot, unit, rest, best, four)
                else:
                    best_of_four(codes, tile, x, slot, unit, rest, best, four)
                for q in range(slot, min(slot + GROUP, count)):
                    at = n_opened[q]
                    if best[q, tile] > threshold[q] and at < values.shape[1]:
                        for j in range(TILE):
                            values[q, at, j] = four[q - slot, j]
                        opened[q, at] = tile
                        n_opened[q] = at + 1
                        best[q, tile] = OPENED


@exact_inline
def runs_of(opened, n_opened, slot, starts, runs):
    """Make each opened tile a run; returns the number of classes in them."""
    run_place, run_start = runs
    n = 0
    for b in range(n_opened[slot]):
        tile = opened[slot, b]
        run_place[b] = starts[tile]
        run_start[b] = n
        n += starts[tile + 1] - starts[tile]
    run_start[n_opened[slot]] = n
    return n


@exact_inline
def take(rows, i, out):
    """rows[i], copied."""
    for c in range(out.shape[0]):
        out[c] = rows[i, c]
