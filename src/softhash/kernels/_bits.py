"""Machine operations Numba does not expose."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


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
