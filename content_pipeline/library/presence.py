"""Whether a file that is not found is gone, or only out of reach: a disk or share inside a library may be unmounted."""

from __future__ import annotations

import os
from pathlib import Path


def is_there(path: Path) -> bool:
    """What cannot be asked about (no permission, a share that does not answer) counts as there."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def is_offline(path: Path, signature: str) -> bool:
    """Of a file that is not found: whether what held it is not mounted, as far as that can be told.

    Either the nearest folder that is left lies on another device than the file did, or it is empty, as a mount
    point is without its mount. In doubt a file is offline: nothing of it is forgotten. Nor is it on a host that does
    not map its root (then its path is not absolute). Of shared storage (`-`) no device is known.
    """
    if not path.is_absolute():
        return True
    try:
        folder = next(parent for parent in path.parents if is_there(parent))
        on_another_device = signature.partition(":")[0] not in ("", "-", str(folder.stat().st_dev))
        with os.scandir(folder) as entries:
            return on_another_device or next(entries, None) is None
    except OSError:
        return True
