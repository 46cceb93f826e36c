"""What a person set for one run in Dagster's launchpad: settings in place of the usual ones, and what to make anew.

In the run config each asset offers the settings that its stage reads, by their own names without the section. They are
derived from the list of stages and the settings model: there is no list of them anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from content_pipeline.errors import BadSettings
from content_pipeline.settings.loading import THRESHOLDS
from content_pipeline.settings.model import Settings, flatten
from content_pipeline.stage import STAGES, VIDEO_STAGES, StageName, parts_of, spec_of
from content_pipeline.system.hashing import digest_of

FORCE = "force"
FORCE_ID_LENGTH = 26


@cache
def overridable(stage: StageName) -> Mapping[str, str]:
    """What the asset of a stage can be given: the name of each setting there -> `section.key`."""
    specs = [spec_of(part) for part in parts_of(stage)]
    keys = [key for key in flatten(Settings().model_dump()) if any(spec.reads_setting(key) for spec in specs)]
    names = {key.rpartition(".")[2]: key for key in keys}
    assert len(names) == len(keys) and FORCE not in names, f"two settings of {stage} have one name: {keys}"
    return names


def field_of(key: str) -> FieldInfo:
    """The type, the limits and the description of the setting `section.key`."""
    section, _, name = key.partition(".")
    found: FieldInfo = type(getattr(Settings(), section)).model_fields[name]
    return found


@dataclass(frozen=True)
class RunOverrides:
    """`settings` by `section.key`; `forced` are the stages that reuse nothing older."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    forced: tuple[StageName, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.settings or self.forced)

    @classmethod
    def of(cls, run_config: Mapping[str, Any]) -> RunOverrides:
        """Of a run config as Dagster accepted it. Who names a threshold means it: no calibration takes its place."""
        steps = run_config.get("ops", {})
        given = {spec.name: steps.get(spec.name, {}).get("config", {}) for spec in STAGES if spec.part_of is None}
        settings: dict[str, Any] = {}
        for stage, values in given.items():
            named = {overridable(stage)[name]: value for name, value in values.items() if name != FORCE}
            settings |= {key: value for key, value in named.items() if value is not None}
            if stage in VIDEO_STAGES and any(named.get(key) is not None for key in THRESHOLDS):
                settings["calibration.use"] = False
        return cls(settings, tuple(stage for stage, values in given.items() if _is_forced(stage, values)))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunOverrides:
        return cls(value["settings"], tuple(value["forced"]))

    def onto(self, settings: Settings) -> Settings:
        """The settings with these in their place. Dagster has checked names and types, not limits."""
        sections: dict[str, dict[str, Any]] = {}
        for key, value in self.settings.items():
            section, _, name = key.partition(".")
            sections.setdefault(section, {})[name] = value
        return settings.model_copy(update={name: _merged(settings, name, given) for name, given in sections.items()})

    def force_id(self, run_id: str) -> str | None:
        """The same for every process that works on the run."""
        return digest_of(run_id)[:FORCE_ID_LENGTH] if self.forced else None


def _is_forced(stage: StageName, values: Mapping[str, Any]) -> bool:
    force = values.get(FORCE, False)
    if not isinstance(force, bool):  # Dagster would let it be the name of a variable, too
        raise BadSettings(f"`{FORCE}` of {stage} = {force!r} (run config): it is true or false")
    return force


def _merged(settings: Settings, section: str, given: Mapping[str, Any]) -> Any:
    now = getattr(settings, section)
    try:
        return type(now).model_validate({**now.model_dump(), **given})
    except ValidationError as error:
        wrong = [(".".join(map(str, (section, *one["loc"][:1]))), one["input"], one["msg"]) for one in error.errors()]
        told = dict.fromkeys(f"`{key}` = {value!r} (run config): {why}" for key, value, why in wrong)
        raise BadSettings("; ".join(told)) from error
