"""Digests: of JSON values, and of files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

READ_BYTES = 1 << 20


def digest_of(value: Any) -> str:
    """SHA-256 of a JSON value in its canonical spelling."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def hash_file(path: Path) -> str:
    """BLAKE3: fast, for our own files."""
    from blake3 import blake3

    hasher = blake3()
    buffer = memoryview(bytearray(READ_BYTES))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            hasher.update(buffer[:count])
    return f"blake3:{hasher.hexdigest()}"


def sha256_of(path: Path) -> str:
    """SHA-256: for files that people may check with tools of their own."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
