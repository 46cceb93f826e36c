"""The address of a Redis or Valkey server, whose password nobody is shown.

Like `database_url.py`: whatever prints it prints it masked; the real text is had by `reveal` alone.
"""

from __future__ import annotations

import re

from content_pipeline.settings.database_url import MASK, masked
from content_pipeline.settings.secret_url import SecretUrl

SCHEMES = {"redis": "redis", "rediss": "rediss", "unix": "unix", "valkey": "redis", "valkeys": "rediss"}
EXAMPLE = "redis://:password@host:6379/0"
_ADDRESS = re.compile(r"(?:[^:/@?#\s]*(?::[^@/?#\s]*)?@)?[^@#\s]*")


class RedisUrl(SecretUrl):
    """A URL as a person gives it; `valkey://` means the same as `redis://`. Equal when they mean the same."""

    __slots__ = ()
    MUST_BE = f"the URL of a Redis or Valkey server, such as {EXAMPLE}"

    def __init__(self, text: str) -> None:
        scheme, is_url, rest = text.partition("://")
        if not is_url or scheme.lower() not in SCHEMES:
            raise ValueError(f"must be {self.MUST_BE}")
        if not _ADDRESS.fullmatch(rest):
            raise ValueError(f"is not a URL like {EXAMPLE}; in a password write @ as %40, : as %3A and / as %2F")
        if f":{MASK}@" in rest:
            raise ValueError("contains the mask that is shown in place of the password")
        real = f"{SCHEMES[scheme.lower()]}://{rest}"
        super().__init__(real, masked(real))
