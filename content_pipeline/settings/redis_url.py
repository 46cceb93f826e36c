"""The address of a Redis or Valkey server, whose password nobody is shown.

Like `database_url.py`: whatever prints it prints it masked; the real text is had by `reveal` alone.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from content_pipeline.settings.database_url import MASK, masked

SCHEMES = {"redis": "redis", "rediss": "rediss", "unix": "unix", "valkey": "redis", "valkeys": "rediss"}
EXAMPLE = "redis://:password@host:6379/0"
_ADDRESS = re.compile(r"(?:[^:/@?#\s]*(?::[^@/?#\s]*)?@)?[^@#\s]*")


class RedisUrl:
    """A URL as a person gives it; `valkey://` means the same as `redis://`. Equal when they mean the same."""

    __slots__ = ("_masked", "_real")

    def __init__(self, text: str) -> None:
        scheme, is_url, rest = text.partition("://")
        if not is_url or scheme.lower() not in SCHEMES:
            raise ValueError(f"must be the URL of a Redis or Valkey server, such as {EXAMPLE}")
        if not _ADDRESS.fullmatch(rest):
            raise ValueError(f"is not a URL like {EXAMPLE}; in a password write @ as %40, : as %3A and / as %2F")
        if f":{MASK}@" in rest:
            raise ValueError("contains the mask that is shown in place of the password")
        self._real = f"{SCHEMES[scheme.lower()]}://{rest}"
        self._masked = masked(self._real)

    def reveal(self) -> str:
        """The address with its password: for the connection, and for nothing that is printed or stored."""
        return self._real

    def __str__(self) -> str:
        return self._masked

    def __repr__(self) -> str:
        return f"RedisUrl({self._masked!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RedisUrl) and other._real == self._real

    def __hash__(self) -> int:
        return hash(self._real)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        )

    @classmethod
    def _validate(cls, value: Any) -> RedisUrl:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise ValueError(f"must be the URL of a Redis or Valkey server, such as {EXAMPLE}")
        return cls(value)
