"""A host whose clock is off: libfaketime of the system shifts what its processes read as the time of day."""

from __future__ import annotations

from pathlib import Path

LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")


def shifted_clock(seconds: int) -> dict[str, str] | None:
    """The environment of such processes; None where the library is not installed (Debian: `faketime`).

    The clock that nobody can set is shifted as well, and forever: only its differences are used, and without that
    Python cannot sleep. What is stamped on files is not shifted: a file server does that.
    """
    found = [path for pattern in LIBRARIES for path in Path("/").glob(pattern.lstrip("/"))]
    if not found:
        return None
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME": f"{seconds:+d}s",
        "NO_FAKE_STAT": "1",
    }
