"""Tiles of 64 classes as vector instructions: their first look, their largest value, which of them exceed a threshold.

Written as generic LLVM vectors, because no loop order makes the compiler keep the sums in registers: products of
adjacent pairs, added pairwise, are one instruction (`vpdpwssd`, `vpmaddwd`) on x86 and legal code everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

TILE = 64
LANES = 16
PAIR = 2
FIRST_FUZZ = np.float32(0.9)
GAUSSIAN_REACH = np.float32(4)

_I8, _I16, _I32, _I64, _F32 = (*(ir.IntType(bits) for bits in (8, 16, 32, 64)), ir.FloatType())
_SUMS, _FLOATS, _WHOLE = ir.VectorType(_I32, LANES), ir.VectorType(_F32, LANES), ir.VectorType(_F32, TILE)
_PAIRS = ir.VectorType(_I32, PAIR * LANES)
_EVEN, _ODD = (ir.Constant(_SUMS, [PAIR * lane + side for lane in range(LANES)]) for side in range(PAIR))
_ZEROS = ir.Constant(_SUMS, [0] * LANES)
_FAST = ("contract", "nnan", "ninf", "nsz", "reassoc")


def _number(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


def _array(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value)


def _place(builder: Any, array: Any, *indices: Any) -> Any:
    """Address of array[indices] in a contiguous array, later indices 0."""
    at = _number(0)
    for axis in range(array.shape.type.count):
        at = builder.mul(at, builder.extract_value(array.shape, axis))
        if axis < len(indices):
            at = builder.add(at, indices[axis])
    return builder.gep(array.data, [at])


def _load(builder: Any, place: Any, kind: Any) -> Any:
    return builder.load(builder.bitcast(place, kind.as_pointer()), align=1)


def _spread(builder: Any, scalar: Any, kind: Any) -> Any:
    """A scalar in every lane."""
    undefined = ir.Constant(kind, ir.Undefined)
    alone = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(alone, undefined, ir.Constant(ir.VectorType(_I32, kind.count), [0] * kind.count))


def _load_codes(builder: Any, codes: Any, k: Any) -> list[Any]:
    """The k-th pair of dimensions of every class in the tile, widened: one vector for each 16 classes."""
    start = builder.gep(codes, [builder.mul(k, _number(PAIR * TILE))])
    parts = [builder.gep(start, [_number(PAIR * LANES * part)]) for part in range(TILE // LANES)]
    return [builder.sext(_load(builder, part, ir.VectorType(_I8, PAIR * LANES)), _PAIRS) for part in parts]


def _spread_pair(builder: Any, query: Any, k: Any) -> Any:
    """The k-th pair of a query's coordinates, repeated for 16 classes."""
    pair = _load(builder, builder.gep(query, [builder.mul(k, _number(PAIR))]), _I32)
    return builder.sext(builder.bitcast(_spread(builder, pair, _SUMS), ir.VectorType(_I16, PAIR * LANES)), _PAIRS)


def _multiply_add(builder: Any, total: Any, codes: Any, query: Any) -> Any:
    product = builder.mul(codes, query)
    undefined = ir.Constant(_PAIRS, ir.Undefined)
    even, odd = (builder.shuffle_vector(product, undefined, side) for side in (_EVEN, _ODD))
    return builder.add(total, builder.add(even, odd))


def _products(builder: Any, codes: Any, pairs: Any, queries: list[Any]) -> list[list[Any]]:
    """Integer inner products, [query][16 classes]: a loop over pairs of dimensions with all sums in registers."""
    before, loop, after = builder.block, builder.append_basic_block("pair"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(_I64)
    totals = [[builder.phi(_SUMS) for _ in range(TILE // LANES)] for _ in queries]
    widened = _load_codes(builder, codes, k)
    pair = [_spread_pair(builder, query, k) for query in queries]
    sums = [
        [_multiply_add(builder, total, vector, mine) for total, vector in zip(row, widened, strict=True)]
        for row, mine in zip(totals, pair, strict=True)
    ]
    following = builder.add(k, _number(1))
    flat = [(t, _ZEROS, s) for row, new in zip(totals, sums, strict=True) for t, s in zip(row, new, strict=True)]
    for phi, start, value in [(k, _number(0), following), *flat]:
        phi.add_incoming(start, before)
        phi.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, pairs), loop, after)
    builder.position_at_end(after)
    return sums


def _weigh(builder: Any, sums: Any, unit: Any, rest: Any, prior: Any, leading_scale: Any, scale: Any) -> Any:
    """prior + unit·leading_scale·sums + FIRST_FUZZ·σ·min(σ, GAUSSIAN_REACH), σ = rest·scale, for 16 classes."""

    def times(a: Any, b: Any) -> Any:
        return builder.fmul(a, b, flags=_FAST)

    def constant(value: np.float32) -> Any:
        return ir.Constant(_FLOATS, [float(value)] * LANES)

    deviation = times(rest, scale)
    near = builder.fcmp_ordered("<", deviation, constant(GAUSSIAN_REACH), flags=_FAST)
    reached = builder.select(near, deviation, constant(GAUSSIAN_REACH))
    unread = times(times(constant(FIRST_FUZZ), deviation), reached)
    seen = times(builder.sitofp(sums, _FLOATS), times(unit, leading_scale))
    return builder.fadd(builder.fadd(seen, prior, flags=_FAST), unread, flags=_FAST)


def _first_look(builder: Any, arrays: list[Any], tile: Any, slot: Any, n_queries: int, keep: Any) -> None:
    """Calls keep(query, first class, log weights of 16 classes) for all of a tile's classes and queries slot + q."""
    prior, leading, leading_scale, _, scale, x, unit, rest = arrays
    slots = [builder.add(slot, _number(q)) for q in range(n_queries)]
    pairs = builder.extract_value(leading.shape, 1)
    queries = [_place(builder, x, mine) for mine in slots]
    sums = _products(builder, _place(builder, leading, tile), pairs, queries)
    spread = [
        [_spread(builder, builder.load(_place(builder, array, mine)), _FLOATS) for array in (unit, rest)]
        for mine in slots
    ]
    for part in range(TILE // LANES):
        places = [_place(builder, array, tile, _number(part * LANES)) for array in (prior, leading_scale, scale)]
        of_class = [_load(builder, place, _FLOATS) for place in places]
        for q in range(n_queries):
            keep(q, part * LANES, _weigh(builder, sums[q][part], *spread[q], *of_class))


def _arrays(context: Any, builder: Any, kinds: Any, args: Any) -> list[Any]:
    """The five arrays of codes, then x, unit and rest, from arguments (codes, tile, x, slot, unit, rest, …)."""
    codes = [_array(context, builder, kind, builder.extract_value(args[0], at)) for at, kind in enumerate(kinds[0])]
    return codes + [_array(context, builder, kinds[at], args[at]) for at in (2, 4, 5)]


def _look_of(n_queries: int) -> Any:
    @intrinsic
    def look(typing_context, codes, tile, x, slot, unit, rest, out, to, place):
        """out[to + q, place, j]: log weights of a tile's classes after a first look by queries slot + q.

        `codes` is (prior, leading, leading_scale, bits, scale); `rest` is √(2/π)·‖x_rest‖.
        """
        signature = types.void(codes, types.intp, x, types.intp, unit, rest, out, types.intp, types.intp)

        def generate(context, builder, signature, args):
            out = _array(context, builder, signature.args[6], args[6])

            def keep(q, first, values):
                at = _place(builder, out, builder.add(args[7], _number(q)), args[8], _number(first))
                builder.store(values, builder.bitcast(at, _FLOATS.as_pointer()), align=1)

            arrays = _arrays(context, builder, signature.args, args)
            _first_look(builder, arrays, args[1], args[3], n_queries, keep)
            return context.get_dummy_value()

        return signature, generate

    return look


look_of_one = _look_of(1)
"""One query's first look at a tile."""

look_of_four = _look_of(4)
"""Four queries' first look at a tile, which is read once."""


def _best_of(n_queries: int) -> Any:
    @intrinsic
    def best(typing_context, codes, tile, x, slot, unit, rest, out, values):
        """out[slot + q, tile]: the largest of values[q, :64], log weights of a tile's classes after a first look."""
        signature = types.void(codes, types.intp, x, types.intp, unit, rest, out, values)

        def generate(context, builder, signature, args):
            out = _array(context, builder, signature.args[6], args[6])
            values = _array(context, builder, signature.args[7], args[7])
            largest: dict[int, Any] = {}

            def keep(q, first, found):
                at = _place(builder, values, _number(q), _number(first))
                builder.store(found, builder.bitcast(at, _FLOATS.as_pointer()), align=1)
                if first:
                    more = builder.fcmp_ordered(">", found, largest[q], flags=_FAST)
                    found = builder.select(more, found, largest[q])
                largest[q] = found

            arrays = _arrays(context, builder, signature.args, args)
            _first_look(builder, arrays, args[1], args[3], n_queries, keep)
            for q, found in largest.items():
                place = _place(builder, out, builder.add(args[3], _number(q)), args[1])
                builder.store(_largest_lane(builder, found), place)
            return context.get_dummy_value()

        return signature, generate

    return best


best_of_one = _best_of(1)
"""The best class of a tile in one query's first look."""

best_of_four = _best_of(4)
"""The same for four queries."""


def _largest_lane(builder: Any, values: Any) -> Any:
    kind, name = ir.FunctionType(_F32, [values.type]), f"llvm.vector.reduce.fmax.v{values.type.count}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [values], fastmath=_FAST)


@intrinsic
def largest_in(typing_context: Any, values: Any, start: Any = None) -> Any:
    """The largest of values[start : start + 64]."""

    def generate(context, builder, signature, args):
        array = _array(context, builder, signature.args[0], args[0])
        return _largest_lane(builder, _load(builder, _place(builder, array, args[1]), _WHOLE))

    return types.float32(values, types.intp), generate


@intrinsic
def above_in(typing_context: Any, values: Any, start: Any = None, threshold: Any = None) -> Any:
    """Which of values[start : start + 64] exceed the threshold, as the bits of a uint64."""

    def generate(context, builder, signature, args):
        array = _array(context, builder, signature.args[0], args[0])
        values = _load(builder, _place(builder, array, args[1]), _WHOLE)
        return builder.bitcast(builder.fcmp_ordered(">", values, _spread(builder, args[2], _WHOLE)), _I64)

    return types.uint64(values, types.intp, types.float32), generate
