"""The address of a database, whose password nobody is shown.

Whatever prints it (settings, errors, logs, JSON) prints it masked; the real text is had by `reveal` alone, where the
engine is made. Text that cannot be understood as a URL is shown by its scheme only: what is where in it is not known.
A URL with a slip in it would pass for a path, and its password become a folder's name: what may be one is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from urllib.parse import unquote_plus

from content_pipeline.settings.secret_url import SecretUrl

MASK = "***"
POSTGRES = "postgresql+psycopg2"
# The others may hold a password (`password`, `options`, or `Password`, which no server understands): they are masked.
_HARMLESS_OPTIONS = frozenset(
    {"application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname", "fallback_application_name"}
    | {"gssencmode", "host", "hostaddr", "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval"}
    | {"load_balance_hosts", "port", "sslmode", "target_session_attrs", "tcp_user_timeout", "user"}
)

_URL = re.compile(
    r"(?P<scheme>[\w+.-]+)://"
    r"(?:(?P<user>[^:/@?]*)(?P<password>:[^@]*)?@)?"
    r"(?P<host>\[[^\]@]*\]|[^/:?@]*)(?P<port>:\d*)?"
    r"(?P<path>/[^?@]*)?(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_SCHEME = re.compile(r"[^:@=]*")
# How libpq's own programs are told, and the options of a URL.
_KEYWORDS = re.compile(r"(?:^|[\s?&;])(?:dbname|host|hostaddr|user|\w*pass\w*|service)\s*=", re.IGNORECASE)
_SLIP = re.compile(r"\s*postgres|.*:.*@", re.IGNORECASE | re.DOTALL)


class DatabaseUrl(SecretUrl):
    """A path or a URL, as a person gives it; `postgres://` and its other spellings mean the driver that is installed.

    Equal when they mean the same, password included.
    """

    __slots__ = ()
    MUST_BE = "a path or a database URL"

    def __init__(self, text: str) -> None:
        real = _canonical(text)
        super().__init__(real, masked(real))

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


def masked(text: str) -> str:
    """A path or URL with its passwords hidden."""
    scheme, is_url, rest = text.partition("://")
    if not is_url:
        return MASK if _may_be_postgres(text) else text
    if not _SCHEME.fullmatch(scheme):
        return MASK
    if scheme == "sqlite" and (rest.startswith("/") or "@" not in rest):
        return text
    parts = _URL.fullmatch(text)
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


def is_harmless(option: str) -> bool:
    """Whether an option of a URL never holds a password."""
    return option.lower() in _HARMLESS_OPTIONS


def _may_be_postgres(path: str) -> bool:
    return _KEYWORDS.search(path) is not None or _SLIP.match(path) is not None


def _canonical(text: str) -> str:
    scheme, is_url, rest = text.partition("://")
    if not is_url:
        if _may_be_postgres(text):
            raise ValueError(
                "looks like the address of a Postgres database: write postgresql://user:password@host:5432/name; "
                "for a file of this name write sqlite:///FILE"
            )
        return os.path.expanduser(text)  # noqa: PTH111 - a path is text here, and a user who is unknown no error
    backend = scheme.lower().partition("+")[0]
    if backend not in ("sqlite", "postgres", "postgresql"):
        raise ValueError(f"must be SQLite or Postgres{f', not {backend}' if _SCHEME.fullmatch(backend) else ''}")
    if backend == "sqlite":
        path = rest.removeprefix("/")
        if path == rest != "":
            raise ValueError("is not the address of a file: write sqlite:///FILE")
        return f"{scheme}://{rest[:1]}{os.path.expanduser(path)}"  # noqa: PTH111
    parts = _URL.fullmatch(text)
    if parts is None:
        raise ValueError(
            "is not a database URL like postgresql://user:password@host:5432/name; "
            "in a user name or password write @ as %40, : as %3A and / as %2F"
        )
    if parts["password"] == f":{MASK}" or f"={MASK}" in _or_nothing(parts["query"]):
        raise ValueError("contains the mask that is shown in place of the password")
    return f"{POSTGRES}://{rest}"


def _masked_option(option: str) -> str:
    name, equals, value = option.partition("=")
    if not equals:
        return MASK if option else ""
    is_shown = is_harmless(unquote_plus(name)) and not re.search(r"[@=;&?\s]", unquote_plus(value))
    return option if is_shown else f"{name}={MASK}"


def _or_nothing(part: str | None) -> str:
    return "" if part is None else part
