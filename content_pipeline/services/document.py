"""The base of every document that a service takes or gives: what `--json` prints and an API answers."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, RootModel

Item = TypeVar("Item")


class _AsciiJson(BaseModel):
    """JSON in ASCII: a path may hold bytes that are no UTF-8, and comes back the same from the escapes."""

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:
        return json.dumps(self.model_dump(by_alias=True, **options), indent=indent, allow_nan=False, default=_as_text)


class Document(_AsciiJson):
    model_config = ConfigDict(frozen=True)


class DocumentList(RootModel[tuple[Item, ...]], _AsciiJson):
    """A document that is a list."""


def _as_text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} does not belong into a document")
