"""Tensors out of GGUF files, the format of llama.cpp, as float32."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAGIC = b"GGUF"
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
VALUES_PER_BLOCK = 32


class Packing(NamedTuple):
    """How a tensor type packs values: bytes per block, values per block, and how to unpack uint8[n, bytes]."""

    bytes: int
    values: int
    unpack: Callable[[NDArray[np.uint8]], NDArray[np.float32]]


def _half(blocks: NDArray[np.uint8], at: int) -> NDArray[np.float32]:
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)


PACKINGS = {
    0: Packing(4, 1, lambda blocks: np.ascontiguousarray(blocks).view("<f4")),
    1: Packing(2, 1, lambda blocks: _half(blocks, 0)),
    2: Packing(18, VALUES_PER_BLOCK, lambda blocks: _half(blocks, 0) * (_nibbles(blocks[:, 2:]) - 8)),
    3: Packing(20, VALUES_PER_BLOCK, lambda blocks: _half(blocks, 0) * _nibbles(blocks[:, 4:]) + _half(blocks, 2)),
    8: Packing(34, VALUES_PER_BLOCK, lambda blocks: _half(blocks, 0) * blocks[:, 2:].view(np.int8)),
}
"""Types F32, F16, Q4_0, Q4_1 and Q8_0 by their number."""


def read(path: Path, name: str) -> NDArray[np.float32]:
    """The tensor of this name, its slowest dimension first.

    Args:
        path: a GGUF file, version 2 or 3.
        name: such as "token_embd.weight".
    """
    with open(path, "rb") as file:
        if file.read(4) != MAGIC:
            raise ValueError(f"{str(path)!r} is not a GGUF file; check the path")
        _, n_tensors, n_pairs = struct.unpack("<IQQ", file.read(20))
        pairs = dict(_pair(file) for _ in range(n_pairs))
        tensors = dict(_tensor(file) for _ in range(n_tensors))
        alignment = pairs.get("general.alignment", 32)
        start = -(-file.tell() // alignment) * alignment
    if name not in tensors:
        raise ValueError(f"{str(path)!r} has no tensor {name!r}; it has {', '.join(list(tensors)[:8])}, …")
    shape, kind, offset = tensors[name]
    if kind not in PACKINGS:
        raise ValueError(f"{name!r} in {str(path)!r} is of type {kind}; types {', '.join(map(str, PACKINGS))} are read")
    packing = PACKINGS[kind]
    n_blocks = int(np.prod(shape)) // packing.values
    blocks = np.memmap(path, np.uint8, "r", start + offset, (n_blocks, packing.bytes))
    return packing.unpack(blocks).astype(np.float32).reshape(shape[::-1])


def _string(file: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", file.read(8))
    return file.read(length).decode("utf-8")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == STRING:
        return _string(file)
    if kind == ARRAY:
        of, length = struct.unpack("<IQ", file.read(12))
        return [_value(file, of) for _ in range(length)]
    code = SCALARS[kind]
    return struct.unpack(f"<{code}", file.read(struct.calcsize(code)))[0]


def _pair(file: BinaryIO) -> tuple[str, Any]:
    key = _string(file)
    (kind,) = struct.unpack("<I", file.read(4))
    return key, _value(file, kind)


def _tensor(file: BinaryIO) -> tuple[str, tuple[tuple[int, ...], int, int]]:
    """Name; shape (fastest dimension first), type, offset."""
    name = _string(file)
    (n_dims,) = struct.unpack("<I", file.read(4))
    *shape, kind, offset = struct.unpack(f"<{n_dims}QIQ", file.read(8 * n_dims + 12))
    return name, (tuple(shape), kind, offset)
