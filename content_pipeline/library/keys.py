"""Which video a file is: names for partitions, and identity by content.

A key is a readable slug and ten digits of the quick digest, in an alphabet that every part of
Dagster's UI takes: `[a-z0-9-]`. It is given once and kept: a file that moves keeps it, two paths with
the same content share it, and an edit in place does not change it.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

from content_pipeline.settings.value_types import expand_home

SLUG_LENGTH = 40
DIGEST_LENGTH = 10


def slug(name: str, otherwise: str = "video") -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:SLUG_LENGTH].strip("-") or otherwise


def new_key(path: Path, quick: str, is_taken: Callable[[str], bool]) -> str:
    """A key nobody has: on a clash (equal samples, other content) a number is added."""
    digest = quick.partition(":")[2][:DIGEST_LENGTH]
    key = base = f"{slug(path.stem)}-{digest}"
    number = 2
    while is_taken(key):
        key, number = f"{base}-{number}", number + 1
    return key


def canonical_path(path: Path) -> Path:
    """A place as it is remembered: absolute, and without `..` unless a link on the way makes that another place."""
    absolute = expand_home(path).absolute()
    plain = Path(os.path.normpath(absolute))
    try:
        return plain if plain.samefile(absolute) else absolute
    except OSError:  # what is away, such as a disk that is not mounted, is known by its plain name
        return plain


def library_key(root: Path) -> str:
    """A library is the folder at a place: two folders of one name have different keys."""
    digest = hashlib.sha256(os.fsencode(root.absolute())).hexdigest()[:DIGEST_LENGTH]
    return f"{slug(root.absolute().name, otherwise='library')}-{digest}"
