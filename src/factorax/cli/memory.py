"""Memory that the process keeps, so that the system need not clear it again for every update."""

import ctypes
import os
import sys

KEPT = 2**28
"""Size in bytes up to which blocks of memory are kept."""
_OF_USERS = "MALLOC_", "GLIBC_TUNABLES"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of settings in ``malloc.h``."""


def keep_freed_memory() -> bool:
    """Make the C library keep freed blocks for later allocations; return whether it does, as glibc from 2.35 on.

    By default, it returns blocks of more than 32 MiB to the system at once. XLA allocates the memory of a program again
    in every call, and the system clears each page at its first use: 12,000 pages in an update of the preset `traffic`
    on a CPU, a twelfth of its time. Settings of the user, such as ``MALLOC_TRIM_THRESHOLD_``, take precedence.
    """
    if sys.platform != "linux" or any(name.startswith(_OF_USERS) for name in os.environ):
        return False
    try:
        change = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(change(_MMAP_THRESHOLD, KEPT) and change(_TRIM_THRESHOLD, 2 * KEPT))
