"""Two machine operations Numba does not expose."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
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
