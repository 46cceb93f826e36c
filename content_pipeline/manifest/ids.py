"""ULIDs: identifiers that sort by the time they were made, also within one millisecond."""

from __future__ import annotations

import os
import threading
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_lock = threading.Lock()
_last = 0


def new_ulid() -> str:
    """26 characters: 48 bits of milliseconds, 80 bits that are random or, within a millisecond, count on."""
    global _last
    fresh = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    with _lock:
        _last = fresh if fresh >> 80 > _last >> 80 else _last + 1
        value = _last
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))


def _forget_after_fork() -> None:
    """A child draws its own random part, or parent and child would count on from the same number."""
    global _last, _lock
    _last, _lock = 0, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
