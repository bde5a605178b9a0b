"""The flags every kernel is compiled with, and the announcement of the first compilation."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba

ANNOUNCE_AFTER_SECONDS = 1.5

inline = numba.njit(cache=True, fastmath=True, error_model="numpy")
"""For functions called from kernels."""

exact_inline = numba.njit(cache=True, error_model="numpy")
"""The same where reordering or assuming finite numbers would change the answer."""


@contextmanager
def threads_for(pieces: int) -> Iterator[int]:
    """No more threads than pieces of work, so that a small batch never waits for a thread it has no use for.

    Yields the number of threads.
    """
    before = numba.get_num_threads()
    numba.set_num_threads(max(1, min(before, pieces)))
    try:
        yield numba.get_num_threads()
    finally:
        numba.set_num_threads(before)


class _Announcer:
    """Says once per process that kernels are being compiled, if that takes long enough to be noticed."""

    def __init__(self) -> None:
        self._said = threading.Event()

    def _say(self) -> None:
        if not self._said.is_set():
            self._said.set()
            print("softhash: compiling kernels for this machine (some seconds; cached for next time)", file=sys.stderr)

    def timer(self) -> threading.Timer:
        timer = threading.Timer(ANNOUNCE_AFTER_SECONDS, self._say)
        timer.daemon = True
        timer.start()
        return timer


_ANNOUNCER = _Announcer()


def kernel(*, parallel: bool = True, fastmath: bool = True, nogil: bool = True) -> Callable[[Callable], Any]:
    """Compile on first use, with the machine code cached on disk.

    `fastmath` is for loops whose exactness does not depend on order and which never meet inf or nan.
    """

    def decorate(function: Callable) -> Any:
        compiled = numba.njit(cache=True, parallel=parallel, fastmath=fastmath, nogil=nogil, error_model="numpy")(
            function
        )

        def call(*args: Any) -> Any:
            if not call.ready:
                timer = _ANNOUNCER.timer()
                try:
                    compiled.compile(tuple(numba.typeof(arg) for arg in args))
                finally:
                    timer.cancel()
                call.ready = True
            return compiled(*args)

        call.ready = False
        call.__doc__ = function.__doc__
        call.__name__ = function.__name__
        return call

    return decorate
