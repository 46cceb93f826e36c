"""The manifest's tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData()


class PathText(sa.types.TypeDecorator[str]):
    """A path as text that any database stores, also when its bytes are no UTF-8.

    Undecodable bytes, which Python keeps as lone surrogates, move to a private plane that no file
    name uses, and back when read.
    """

    impl = sa.Text
    cache_ok = True

    _SHIFT = 0x10FC80 - 0xDC80

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else self._moved(value, 0xDC80, self._SHIFT)

    def process_result_value(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else self._moved(value, 0x10FC80, -self._SHIFT)

    @staticmethod
    def _moved(text: str, first: int, shift: int) -> str:
        return "".join(chr(ord(char) + shift) if first <= ord(char) < first + 128 else char for char in text)


videos = sa.Table(
    "videos",
    metadata,
    sa.Column("path", PathText, primary_key=True),
    sa.Column("root", PathText, nullable=False),
    sa.Column("key", sa.String(80), nullable=False, index=True),
    sa.Column("signature", sa.String(120), nullable=False),
    sa.Column("quick", sa.String(80), nullable=False, index=True),
    sa.Column("full", sa.String(80), nullable=True),
    sa.Column("first_seen", sa.DateTime(timezone=True), nullable=False),
    sa.Column("last_seen", sa.DateTime(timezone=True), nullable=False),
)
