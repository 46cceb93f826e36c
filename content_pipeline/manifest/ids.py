"""ULIDs: identifiers that sort by the time they were made, also within one millisecond."""

from __future__ import annotations

import os
import threading
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ULID_PATTERN = f"[0-7][{_ALPHABET}]{{25}}"
# Two characters at a time: a batch of 100,000 jobs spends much of its time here.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = range(120, -1, -10)
_lock = threading.Lock()
_last = 0


def new_ulid() -> str:
    """26 characters: 48 bits of milliseconds, 80 bits that are random or, within a millisecond, count on."""
    global _last
    millisecond = time.time_ns() // 1_000_000
    with _lock:
        if millisecond > _last >> 80:
            _last = millisecond << 80 | int.from_bytes(os.urandom(10), "big")
        else:
            _last += 1
        value = _last
    return "".join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])


def _forget_after_fork() -> None:
    """A child draws its own random part, or parent and child would count on from the same number."""
    global _last, _lock
    _last, _lock = 0, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
