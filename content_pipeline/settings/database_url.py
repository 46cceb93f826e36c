"""The address of a database, whose password nobody is shown.

Whatever prints it (settings, errors, logs, JSON) prints it masked; the real text is had by `reveal` alone, where the
engine is made. Text that cannot be understood as a URL is shown by its scheme only: what is where in it is not known.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from typing import Any
from urllib.parse import unquote_plus

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

MASK = "***"
POSTGRES = "postgresql+psycopg2"
SECRET_OPTIONS = ("password", "sslpassword")

_URL = re.compile(
    r"(?P<scheme>[\w+.-]+)://"
    r"(?:(?P<user>[^:/@?]*)(?P<password>:[^@]*)?@)?"
    r"(?P<host>\[[^\]@]*\]|[^/:?@]*)(?P<port>:\d*)?"
    r"(?P<path>/[^?@]*)?(?:\?(?P<query>.*))?",
    re.DOTALL,
)
# How libpq's own programs are told: taken for a path, it would become a file's name, password and all.
_KEYWORDS = re.compile(r"(?:^|\s)(?:dbname|host|hostaddr|user|password|service)\s*=")


class DatabaseUrl:
    """A path or a URL, as a person gives it; `postgres://` and its other spellings mean the driver that is installed.

    Equal when they mean the same, password included.
    """

    __slots__ = ("_masked", "_real")

    def __init__(self, text: str) -> None:
        self._real = _one_spelling(text)
        self._masked = masked(self._real)

    def reveal(self) -> str:
        """The address with its password: for the engine, and for nothing that is printed or stored."""
        return self._real

    @property
    def is_path(self) -> bool:
        return "://" not in self._real

    @property
    def is_sqlite(self) -> bool:
        return self.is_path or self._real.startswith("sqlite")

    @property
    def identity(self) -> str:
        """The address for files that are left behind: tells two passwords apart, and gives away neither."""
        return self._masked if self._masked == self._real else f"{self._masked}#{slow_digest(self._real, self._masked)}"

    def __str__(self) -> str:
        return self._masked

    def __repr__(self) -> str:
        return f"DatabaseUrl({self._masked!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatabaseUrl) and other._real == self._real

    def __hash__(self) -> int:
        return hash(self._real)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        )

    @classmethod
    def _validate(cls, value: Any) -> DatabaseUrl:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise ValueError("must be a path or a database URL")
        return cls(value)


def masked(text: str) -> str:
    """A path or URL with its passwords hidden."""
    scheme, is_url, _ = text.partition("://")
    if not is_url:
        return MASK if _KEYWORDS.search(text) else text
    parts = _URL.fullmatch(text)
    if scheme == "sqlite":
        return text
    if parts is None:
        return f"{scheme}://{MASK}"
    shown = f"{parts['scheme']}://"
    if parts["user"] is not None:
        shown += parts["user"] + ("" if parts["password"] is None else f":{MASK}") + "@"
    shown += parts["host"] + _or_nothing(parts["port"]) + _or_nothing(parts["path"])
    return shown if parts["query"] is None else f"{shown}?{'&'.join(map(_masked_option, parts['query'].split('&')))}"


@cache
def slow_digest(secret: str, salt: str) -> str:
    """A digest that cannot be guessed backwards at leisure, as that of a short password otherwise could."""
    return hashlib.scrypt(secret.encode(), salt=salt.encode(), n=1 << 14, r=8, p=1, dklen=16).hex()


def _one_spelling(text: str) -> str:
    if "://" not in text:
        if _KEYWORDS.search(text):
            raise ValueError("write it as a URL: postgresql://user@host/name")
        return text
    scheme, _, rest = text.partition("://")
    backend = scheme.lower().partition("+")[0]
    if backend not in ("sqlite", "postgres", "postgresql"):
        raise ValueError(f"must be SQLite or Postgres, not {backend}")
    if backend == "sqlite":
        return text
    parts = _URL.fullmatch(text)
    if parts is None:
        raise ValueError(
            "is not a database URL like postgresql://user:password@host:5432/name; "
            "in a user name or password write @ as %40, : as %3A and / as %2F"
        )
    if parts["password"] == f":{MASK}":
        raise ValueError("contains the mask that is shown in place of the password")
    return f"{POSTGRES}://{rest}"


def _masked_option(option: str) -> str:
    name, equals, _ = option.partition("=")
    return f"{name}={MASK}" if equals and unquote_plus(name) in SECRET_OPTIONS else option


def _or_nothing(part: str | None) -> str:
    return "" if part is None else part
