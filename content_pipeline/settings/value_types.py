"""The kinds of values that settings hold, and how what a person writes becomes one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


def split_commas(value: Any) -> Any:
    """`a, b` as a list; a list in JSON too, for what has commas in it."""
    if not isinstance(value, str):
        return value
    if value.startswith("["):
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError(f"not a list in JSON: {error}") from error
    return [part.strip() for part in value.split(",") if part.strip()]


def expand_home(path: Path) -> Path:
    """`~` as a shell expands it; none does in a settings file, a variable or `--output=~/montages`.

    Like a shell, it leaves the name of an unknown user as it is.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111 - the other way raises for an unknown user


def as_extensions(value: Any) -> Any:
    parts = split_commas(value)
    return [str(part).lower().lstrip(".") for part in parts] if isinstance(parts, (list, tuple)) else parts


def known_timezone(name: str) -> str:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"no such time zone: {name}") from error
    return name


def nothing(value: Any) -> Any:
    """`none`, or nothing at all, takes back what an earlier layer says."""
    return None if isinstance(value, str) and value.strip().lower() in ("", "none") else value


CAPABILITY = r"^[a-z0-9][a-z0-9._-]{0,39}$"
Capability = Annotated[str, Field(pattern=CAPABILITY)]
UserPath = Annotated[Path, AfterValidator(expand_home)]
TargetAmount = Annotated[Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None, BeforeValidator(nothing)]
Margin = Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)]
