"""What a command asked of a job: where its outputs go, and the settings that decide what is made.

Kept with the job, so that whoever works on it, from whatever folder, makes what was asked for. Settings of the
process that works (how many at once, where the state is, how often to try) are not among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from content_pipeline.errors import BadSettings, StorageMismatch, printable
from content_pipeline.settings import Settings, flatten

# The sections that stages read, and whether a calibration counts: a threshold given as a flag turns it off.
KEPT_SECTIONS = ("energy", "detection", "processing", "output", "render", "limits")
USE_CALIBRATION = "calibration.use"


@dataclass(frozen=True)
class OneRun:
    """What a person set in the launchpad holds for that run: `before` are the options that last, in JSON.

    `forced` are the stages that a force is about; None means all of them.
    """

    before: dict[str, Any] | None
    forced: tuple[str, ...] | None

    def as_json(self) -> dict[str, Any]:
        return {"before": self.before, "forced": None if self.forced is None else list(self.forced)}


@dataclass(frozen=True)
class JobOptions:
    """`settings` holds those that differ from their defaults, as `section.key` -> JSON value."""

    output_dir: str
    settings: Mapping[str, Any]
    one_run: OneRun | None = None

    @classmethod
    def of(cls, settings: Settings) -> JobOptions:
        changed = {key: value for key, value in _kept(settings).items() if value != _defaults()[key]}
        return cls(str(settings.output_dir.absolute()), changed)

    @classmethod
    def from_json(cls, value: Any) -> JobOptions:
        try:
            settings = {str(key): given for key, given in value["settings"].items()}
            return cls(str(value["output_dir"]), settings, _one_run(value))
        except (AttributeError, KeyError, TypeError) as error:
            raise BadSettings(f"the options of this job cannot be understood: {value!r}") from error

    def as_json(self) -> dict[str, Any]:
        lasting = {"output_dir": self.output_dir, "settings": dict(self.settings)}
        return lasting if self.one_run is None else {**lasting, "one_run": self.one_run.as_json()}

    def onto(self, settings: Settings) -> Settings:
        """The settings of the process that works, with everything that was asked for in its place."""
        if not Path(self.output_dir).is_absolute():
            raise StorageMismatch(f"the output folder {printable(self.output_dir)} is not mapped on this host")
        given: dict[str, dict[str, Any]] = {name: {} for name in KEPT_SECTIONS}
        given["calibration"] = settings.calibration.model_dump()
        try:
            for key, value in {**_defaults(), **self.settings}.items():
                section, _, name = key.partition(".")
                given[section][name] = value
            update = {name: type(getattr(settings, name)).model_validate(values) for name, values in given.items()}
        except (KeyError, ValidationError) as error:
            why = " ".join(str(error).split())  # one line
            raise BadSettings(f"the options of this job cannot be understood: {why}") from error
        return settings.model_copy(update={**update, "output_dir": Path(self.output_dir)})

    def changes_from(self, before: JobOptions) -> list[str]:
        """What is asked for differently now, from what to what."""
        old, new = {**_defaults(), **before.settings}, {**_defaults(), **self.settings}
        told = [f"{key} {old.get(key)} -> {new.get(key)}" for key in sorted(old | new) if old.get(key) != new.get(key)]
        if self.output_dir != before.output_dir:
            told.append(f"output folder {printable(before.output_dir)} -> {printable(self.output_dir)}")
        return told


def is_kept(key: str) -> bool:
    """Whether a job keeps this setting."""
    return key in ("output_dir", USE_CALIBRATION) or key.partition(".")[0] in KEPT_SECTIONS


def settings_for(options: Any, settings: Settings) -> Settings:
    """What a job is made with; one without options follows the settings as they are when it runs."""
    return settings if options is None else JobOptions.from_json(options).onto(settings)


def lasting(options: dict[str, Any] | None) -> dict[str, Any] | None:
    """The options of a job without what was set for one run only."""
    one_run = _one_run(options)
    return options if one_run is None else one_run.before


def forced_stages(options: dict[str, Any] | None) -> tuple[str, ...] | None:
    """The stages that the force of a job is about; None means all of them."""
    one_run = _one_run(options)
    return None if one_run is None else one_run.forced


def _one_run(options: dict[str, Any] | None) -> OneRun | None:
    found = None if options is None else options.get("one_run")
    if found is None:
        return None
    return OneRun(found["before"], None if found["forced"] is None else tuple(found["forced"]))


@cache
def _defaults() -> dict[str, Any]:
    return _kept(Settings())


def _kept(settings: Settings) -> dict[str, Any]:
    flat = flatten(settings.model_dump(mode="json", include={*KEPT_SECTIONS, "calibration"}))
    return {key: value for key, value in flat.items() if is_kept(key)}
