"""Indexes on disk: safetensors, written atomically, refused when they belong to another model."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

if TYPE_CHECKING:
    from softhash.model import LogLinear
    from softhash.types import Sampler

FORMAT = "softhash-index-1"


def _header(model: LogLinear) -> dict:
    return {"classes": model.n_classes, "dimension": model.dim, "bias": model.bias is not None}


def save(sampler: Sampler, path: str | Path) -> None:
    """Write a sampler's index; a crash leaves the old file or the new one, never half of either."""
    settings, arrays = sampler.state()
    header = {"format": FORMAT, "sampler": type(sampler).__name__, "settings": settings, **_header(sampler.model)}
    path = Path(path)
    if not path.parent.is_dir():
        raise ValueError(f"path is {str(path)!r} but {str(path.parent)!r} is not a directory; create it first")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    os.close(handle)
    try:
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        save_file(contiguous, temporary, metadata={"softhash": json.dumps(header)})
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def load(path: str | Path, model: LogLinear) -> Sampler:
    """The sampler saved at `path`, over `model`.

    Args:
        path: a file written by `Sampler.save`.
        model: a model of the same shape as the one that was indexed.

    Example:
        >>> import numpy as np, softhash as sh, tempfile, os
        >>> model = sh.LogLinear(np.eye(8))
        >>> path = os.path.join(tempfile.mkdtemp(), "index.safetensors")
        >>> sh.LSH(model, bits=2, tables=3).save(path)
        >>> type(sh.load(path, model)).__name__
        'LSH'
    """
    header, arrays = _read(Path(path))
    for name, found in _header(model).items():
        if header[name] != found:
            raise ValueError(
                f"path {str(path)!r} holds an index of another model ({name} {header[name]}, this model's is {found}); "
                "build a new sampler for this model"
            )
    try:
        return _sampler_class(header["sampler"]).restore(model, header["settings"], arrays)
    except (KeyError, TypeError, AttributeError):
        raise ValueError(_not_an_index(Path(path))) from None


def _not_an_index(path: Path) -> str:
    return f"path {str(path)!r} is not a softhash index; pass a file written by a sampler's save()"


def _sampler_class(name: str) -> type[Sampler]:
    import softhash
    from softhash.types import Sampler

    found = getattr(softhash, name)
    if not (isinstance(found, type) and issubclass(found, Sampler)) or found is Sampler:
        raise TypeError(name)
    return found


def _read(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    if not path.is_file():
        raise FileNotFoundError(f"path {str(path)!r} is not a file; pass one written by a sampler's save()")
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["softhash"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        if header["format"] != FORMAT or not {"sampler", "settings", "classes", "dimension", "bias"} <= header.keys():
            raise KeyError(FORMAT)
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise ValueError(_not_an_index(path)) from None
    return header, arrays
