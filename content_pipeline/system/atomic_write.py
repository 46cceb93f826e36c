"""Files that appear whole or not at all, and last when the power fails."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from content_pipeline.system.private_files import private_file, private_folder


def write_atomically(path: Path, data: bytes, durable: bool = True) -> None:
    """A private file that appears with all its bytes or not at all. One that may be lost in a power cut costs less."""
    private_folder(path.parent)
    staging = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")  # a pid is not unique on a shared folder
    try:
        private_file(staging).write_bytes(data)
        if durable:
            fsync(staging)
        staging.replace(path)
    finally:
        staging.unlink(missing_ok=True)
    if durable:
        fsync(path.parent)


def fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
