"""Has memory that large answers took given back, on glibc.

Left alone, it learns from the first large block that such come again, keeps them in one heap per thread, and
a worker grows with every hundred answers. Source: mallopt(3).
"""

from __future__ import annotations

import ctypes
from typing import Final

_M_MMAP_THRESHOLD, _M_ARENA_MAX, _M_TRIM_THRESHOLD = -3, -8, -1
LARGE_BLOCK_BYTES: Final = 256 * 1024
# Less, and each filing takes its heap from the system anew: a seventh of the time to read it.
FREE_BYTES_KEPT: Final = 4 * 1024 * 1024
HEAPS: Final = 2


def give_back_large_blocks() -> None:
    """Call before threads start. Does nothing where the C library has no such settings."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
    mallopt(_M_TRIM_THRESHOLD, FREE_BYTES_KEPT)
    mallopt(_M_ARENA_MAX, HEAPS)
