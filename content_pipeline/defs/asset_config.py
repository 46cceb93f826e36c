"""What can be set of an asset in the launchpad: the settings that its stage reads, and `force`."""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import dagster as dg
from pydantic import Field, create_model

from content_pipeline.settings.run_overrides import FORCE, field_of, overridable
from content_pipeline.stage import StageName

FORCE_DESCRIPTION = "Make it anew in this run, also where nothing it depends on has changed."


@cache
def config_of(stage: StageName) -> type[dg.Config]:
    """One class per asset, made from the settings model. What is not given counts as in the settings."""
    fields: dict[str, Any] = {FORCE: (bool, Field(False, description=FORCE_DESCRIPTION))}
    for name, key in overridable(stage).items():
        info = field_of(key)
        kind = _config_type(info.annotation, key)
        fields[name] = (kind | None, Field(None, description=f"`{key}`. {info.description}"))
    title = "".join(word.title() for word in stage.split("_"))
    return create_model(f"{title}Config", __base__=dg.Config, **fields)


def _config_type(annotation: Any, key: str) -> Any:
    """As Dagster's config knows it. Text stands for what can be a word or a number; limits are checked later."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _config_type(arguments[0], key)
    if origin is Literal:
        words = all(isinstance(value, str) for value in arguments)
        return Enum(key.title().replace(".", "").replace("_", ""), {v: v for v in arguments}) if words else int
    if origin is tuple:
        return list[_config_type(arguments[0], key)]  # type: ignore[misc]  # built at run time
    if origin in (Union, UnionType):
        kinds = {_config_type(one, key) for one in arguments if one is not type(None)}
        return kinds.pop() if len(kinds) == 1 else str
    assert annotation in (bool, int, float, str), f"{key}: no config type for {annotation}"
    return annotation
