"""The inner product of one tile of int8 codes with int16 queries, as vector instructions.

Written as generic LLVM vectors, because no loop order makes the compiler keep the sums in registers: products of
adjacent pairs, added pairwise, are one instruction (`vpdpwssd`, `vpmaddwd`) on x86 and legal code everywhere.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

TILE = 64
LANES = 16
PAIR = 2

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_SUMS = ir.VectorType(_I32, LANES)
_PAIRS = ir.VectorType(_I32, PAIR * LANES)
_EVEN, _ODD = (ir.Constant(_SUMS, [PAIR * lane + side for lane in range(LANES)]) for side in range(PAIR))
_ZEROS = ir.Constant(_SUMS, [0] * LANES)


def _number(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


def _load_codes(builder: Any, codes: Any, k: Any) -> list[Any]:
    """The k-th pair of dimensions of every class in the tile, widened: one vector for each 16 classes."""
    start = builder.gep(codes, [builder.mul(k, _number(PAIR * TILE))])
    vectors = []
    for part in range(TILE // LANES):
        place = builder.gep(start, [_number(PAIR * LANES * part)])
        place = builder.bitcast(place, ir.VectorType(_I8, PAIR * LANES).as_pointer())
        vectors.append(builder.sext(builder.load(place, align=1), _PAIRS))
    return vectors


def _spread_pair(builder: Any, query: Any, k: Any) -> Any:
    """The k-th pair of a query's coordinates, repeated for 16 classes."""
    place = builder.bitcast(builder.gep(query, [builder.mul(k, _number(PAIR))]), _I32.as_pointer())
    undefined = ir.Constant(_SUMS, ir.Undefined)
    pair = builder.insert_element(undefined, builder.load(place, align=1), ir.Constant(_I32, 0))
    pair = builder.shuffle_vector(pair, undefined, _ZEROS)
    return builder.sext(builder.bitcast(pair, ir.VectorType(_I16, PAIR * LANES)), _PAIRS)


def _multiply_add(builder: Any, total: Any, codes: Any, query: Any) -> Any:
    product = builder.mul(codes, query)
    undefined = ir.Constant(_PAIRS, ir.Undefined)
    even, odd = (builder.shuffle_vector(product, undefined, side) for side in (_EVEN, _ODD))
    return builder.add(total, builder.add(even, odd))


def _product_of_tile(n_queries: int) -> Any:
    @intrinsic
    def product(typing_context, codes, tile, queries, out):
        """out[q, j] = Σ_k codes[tile, k // 2, j, k % 2] · queries[q, k] for `n_queries` queries."""
        signature = types.void(codes, types.intp, queries, out)

        def generate(context, builder, signature, args):
            arrays = [context.make_array(signature.args[i])(context, builder, args[i]) for i in (0, 2, 3)]
            codes, queries, out = (array.data for array in arrays)
            pairs = builder.extract_value(arrays[0].shape, 1)
            rank = builder.mul(pairs, _number(PAIR))
            codes = builder.gep(codes, [builder.mul(args[1], builder.mul(rank, _number(TILE)))])
            before, loop, after = builder.block, builder.append_basic_block("pair"), builder.append_basic_block("done")
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(_I64)
            totals = [builder.phi(_SUMS) for _ in range(n_queries * TILE // LANES)]
            widened = _load_codes(builder, codes, k)
            sums = []
            for q in range(n_queries):
                pair = _spread_pair(builder, builder.gep(queries, [builder.mul(rank, _number(q))]), k)
                for part, vector in enumerate(widened):
                    sums.append(_multiply_add(builder, totals[len(widened) * q + part], vector, pair))
            following = builder.add(k, _number(1))
            for phi, start, value in [
                (k, _number(0), following),
                *((t, _ZEROS, s) for t, s in zip(totals, sums, strict=True)),
            ]:
                phi.add_incoming(start, before)
                phi.add_incoming(value, loop)
            builder.cbranch(builder.icmp_signed("<", following, pairs), loop, after)
            builder.position_at_end(after)
            for at, value in enumerate(sums):
                place = builder.gep(out, [_number(LANES * at)])
                builder.store(value, builder.bitcast(place, _SUMS.as_pointer()), align=1)
            return context.get_dummy_value()

        return signature, generate

    return product


product_of_one = _product_of_tile(1)
"""One query against one tile."""

product_of_four = _product_of_tile(4)
"""Four queries against one tile, which is widened once."""
