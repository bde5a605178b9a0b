"""Our sampler: sign-bit sketches in balanced coordinates, read to draw classes in proportion to their weight."""

from softhash.sketch.sampler import Sketch

__all__ = ["Sketch"]
