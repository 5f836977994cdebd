"""Types of arguments, and attributes as `os` has them."""

from __future__ import annotations

import os
from typing import Tuple, Union

StrOrBytesPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
#: Mode, number, links, user, group, bytes, times of access, modification and change (nanoseconds), units of 512 bytes,
#: device, time when it was made (nanoseconds).
Attributes = Tuple[int, int, int, int, int, int, int, int, int, int, int, int]

#: Bytes that buffers hold unless somebody says otherwise: a request has its price, whatever it brings.
BLOCK_BYTES = 256 * 1024
_NANOSECONDS = 10**9


def stat_result(attributes: Attributes) -> os.stat_result:
    """What `os.stat()` answers."""
    mode, number, links, user, group, size, atime, mtime, ctime, blocks, device, _ = attributes
    whole = tuple(time // _NANOSECONDS for time in (atime, mtime, ctime))
    return os.stat_result(
        (mode, number, 0, links, user, group, size, *whole),
        {
            "st_atime": atime / _NANOSECONDS,
            "st_mtime": mtime / _NANOSECONDS,
            "st_ctime": ctime / _NANOSECONDS,
            "st_atime_ns": atime,
            "st_mtime_ns": mtime,
            "st_ctime_ns": ctime,
            "st_blksize": BLOCK_BYTES,
            "st_blocks": blocks,
            "st_rdev": device,
        },
    )
