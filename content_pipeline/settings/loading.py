"""Where settings come from: in rising order the defaults, the profile, a TOML file, the environment, and flags.

As an environment variable a setting is written `CONTENT_AI_RENDER__CRF=20`. An unknown key or an impossible value is
refused by name.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from content_pipeline.errors import BadSettings
from content_pipeline.settings.database_url import masked
from content_pipeline.settings.model import Settings, flatten
from content_pipeline.settings.profiles import profile_layers, variable_layers
from content_pipeline.settings.root_settings import is_root
from content_pipeline.settings.value_types import expand_home

ENV_PREFIX = "CONTENT_AI_"
CONFIG_FILE_NAME = "content-ai.toml"

# What a calibration may set, and the detector it is for: given as a flag, they take precedence over a calibration.
THRESHOLDS = ("detection.sensitivity", "detection.rms_threshold", "detection.preset")


class Resolved(BaseModel):
    """Settings together with where each value came from."""

    model_config = ConfigDict(frozen=True)

    settings: Settings
    origins: dict[str, str]


def load(
    flags: Mapping[str, Any] | None = None,
    config_file: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Resolved:
    """Resolve defaults, file, environment and flags into one tree.

    `flags` maps `section.key` to a value; None means "not given". Who names a threshold means it: no calibration
    takes its place.
    """
    env = os.environ if env is None else env
    file_path, file_values = _from_file(config_file, env)
    from_env, given = _from_env(env), {key: value for key, value in (flags or {}).items() if value is not None}
    if any(key in given for key in THRESHOLDS):
        given.setdefault("calibration.use", False)
    layers = [
        *profile_layers({**file_values, **from_env, **given}, env),
        (f"file {file_path}", file_values),
        *variable_layers(env),
        ("environment", from_env),
        ("flag", given),
    ]
    values: dict[str, Any] = {}
    origins = dict.fromkeys(flatten(Settings().model_dump()), "default")
    for origin, layer in layers:
        for key, value in layer.items():
            if key not in origins and not is_root(key):
                raise BadSettings(f"unknown setting `{masked(key)}` ({origin}){_nearest(key, origins)}")
            values[key] = value
            origins[key] = origin
    return Resolved(settings=_validated(values, origins), origins=origins)


def load_settings(**values: Any) -> Settings:
    """The settings of this folder, with these in place of some: `render__crf=20` means `render.crf = 20`."""
    return load({name.replace("__", "."): value for name, value in values.items()}).settings


def _from_file(config_file: Path | None, env: Mapping[str, str]) -> tuple[Path | None, dict[str, Any]]:
    named = config_file if config_file is not None else env.get(f"{ENV_PREFIX}CONFIG")
    path = expand_home(Path(named)) if named else Path(CONFIG_FILE_NAME)
    if not named and not path.exists():
        return None, {}
    try:
        return path, flatten(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise BadSettings(f"settings file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadSettings(f"settings file {path} is not TOML: {error}") from error


# Names with the prefix that steer the program itself and are no settings.
_ENV_CONTROLS = {f"{ENV_PREFIX}CONFIG", f"{ENV_PREFIX}DEBUG", f"{ENV_PREFIX}KILL_AT"}


def _from_env(env: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted(env):
        if name.startswith(ENV_PREFIX) and name not in _ENV_CONTROLS:
            found[name.removeprefix(ENV_PREFIX).lower().replace("__", ".")] = env[name]
    return found


def _nearest(key: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(key, list(known), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def _validated(values: dict[str, Any], origins: Mapping[str, str]) -> Settings:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[name] = value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        raise BadSettings(_explain(error, origins)) from error


def _explain(error: ValidationError, origins: Mapping[str, str]) -> str:
    lines = []
    for problem in error.errors():
        path = [str(part) for part in problem["loc"]]
        key = next(
            (".".join(path[:n]) for n in range(len(path), 0, -1) if ".".join(path[:n]) in origins), ".".join(path)
        )
        value, why = problem["input"], problem["msg"].removeprefix("Value error, ")
        given = repr(masked(value)) if isinstance(value, str) else masked(repr(value))
        line = f"`{key}` = {given} ({origins.get(key, 'unknown')}): {why}"
        if line not in lines:
            lines.append(line)
    return "; ".join(lines)
