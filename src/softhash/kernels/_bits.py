"""Machine operations Numba does not expose."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

PLANES = 4
WORDS = 8


@intrinsic
def popcount(typing_context: Any, word: Any = None) -> Any:
    """Set bits of a uint64."""
    return types.uint64(types.uint64), lambda context, builder, signature, args: builder.ctpop(args[0])


@intrinsic
def as_float(typing_context: Any, pattern: Any = None) -> Any:
    """The float32 with these int32 bits."""
    return types.float32(types.int32), lambda context, builder, signature, args: builder.bitcast(
        args[0], ir.FloatType()
    )


@intrinsic
def prefetch(typing_context: Any, rows: Any, i: Any = None, k: Any = None) -> Any:
    """Ask for the cache line of rows[i, k], which will be read soon."""
    byte, number = ir.IntType(8), ir.IntType(32)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        width = builder.extract_value(array.shape, 1)
        place = builder.gep(array.data, [builder.add(builder.mul(args[1], width), args[2])])
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        hints = [ir.Constant(number, hint) for hint in (0, 3, 1)]
        builder.call(function, [builder.bitcast(place, byte.as_pointer()), *hints])
        return context.get_dummy_value()

    return types.void(rows, types.intp, types.intp), generate


@intrinsic
def lowest(typing_context: Any, word: Any = None) -> Any:
    """Position of the lowest set bit of a uint64 that has one."""
    never_zero = ir.Constant(ir.IntType(1), 1)
    return types.int64(types.uint64), lambda context, builder, signature, args: builder.cttz(args[0], never_zero)


@intrinsic
def differences(typing_context: Any, bits: Any, i: Any = None, planes: Any = None, slot: Any = None) -> Any:
    """Σ_b 2^b · popcount(bits[i] xor planes[slot, b]) over the four planes, eight words at a time."""
    word, vector, lanes = ir.IntType(64), ir.VectorType(ir.IntType(64), WORDS), ir.VectorType(ir.IntType(1), WORDS)
    zeros, aligned = ir.Constant(vector, [0] * WORDS), ir.Constant(ir.IntType(32), 8)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def declared(name: str, result: Any, *arguments: Any) -> Any:
            return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)

        def every(number: Any) -> Any:
            alone = builder.insert_element(zeros, number, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(alone, zeros, ir.Constant(ir.VectorType(ir.IntType(32), WORDS), [0] * WORDS))

        rows, planes = (context.make_array(signature.args[at])(context, builder, args[at]) for at in (0, 2))
        words = builder.extract_value(rows.shape, 1)
        load = declared("llvm.masked.load.v8i64.p0", vector, vector.as_pointer(), ir.IntType(32), lanes, vector)
        count = declared("llvm.ctpop.v8i64", vector, vector)
        total = cgutils.alloca_once_value(builder, zeros)
        with cgutils.for_range_slice(builder, word(0), words, word(WORDS), intp=word) as (first, _):
            left = every(builder.sub(words, first))
            mine = builder.icmp_unsigned("<", ir.Constant(vector, list(range(WORDS))), left)

            def eight(data: Any, row: Any, mine: Any = mine, first: Any = first) -> Any:
                place = builder.gep(data, [builder.add(builder.mul(row, words), first)])
                return builder.call(load, [builder.bitcast(place, vector.as_pointer()), aligned, mine, zeros])

            code = eight(rows.data, args[1])
            for b in range(PLANES):
                plane = eight(planes.data, builder.add(builder.mul(args[3], word(PLANES)), word(b)))
                weighed = builder.shl(builder.call(count, [builder.xor(code, plane)]), ir.Constant(vector, [b] * WORDS))
                builder.store(builder.add(builder.load(total), weighed), total)
        reduce = declared("llvm.vector.reduce.add.v8i64", word, vector)
        return builder.call(reduce, [builder.load(total)])

    return types.uint64(bits, types.intp, planes, types.intp), generate
