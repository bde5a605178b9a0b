"""How commands fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Expected failures end in one line on stderr and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, OSError, MemoryError) as error:
        message = " ".join(str(error).split()) or type(error).__name__
        typer.echo(f"softhash: {message}", err=True)
        raise typer.Exit(2) from None
