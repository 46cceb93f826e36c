"""The settings in force: every value, where it came from, and which libraries use a calibration instead."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from content_pipeline.errors import PipelineError, printable
from content_pipeline.services.document import Document
from content_pipeline.settings import Resolved, Settings, flatten
from content_pipeline.settings.root_settings import ANY_ROOT, ROOTS_DESCRIPTION, is_root


class SettingValue(Document):
    value: Any
    origin: str


class LibraryCalibration(Document):
    """`counts`: whether it is used with these settings."""

    library: str
    setting: str
    value: float
    preset: str
    counts: bool


class ConfigurationDocument(Document):
    """Every setting by its name (`render.crf`), and the calibrations that were applied.

    `unreadable`: why the calibrations could not be read; a manifest that fails hides no setting.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, SettingValue]

    calibrations: tuple[LibraryCalibration, ...]
    unreadable: str | None

    @property
    def settings(self) -> dict[str, SettingValue]:
        return self.__pydantic_extra__


def show(resolved: Resolved) -> ConfigurationDocument:
    values = flatten(resolved.settings.model_dump(mode="json"))
    shown = {key: SettingValue(value=value, origin=resolved.origins[key]) for key, value in values.items()}
    calibrations, unreadable = _calibrations(resolved.settings)
    return ConfigurationDocument(**shown, calibrations=calibrations, unreadable=unreadable)


def describe_settings() -> dict[str, str]:
    """`section.key` -> its description, from the one model that holds the defaults."""
    descriptions: dict[str, str] = {}
    for name, field in Settings.model_fields.items():
        section: Any = field.annotation
        if hasattr(section, "model_fields"):
            descriptions |= {f"{name}.{key}": inner.description or "" for key, inner in section.model_fields.items()}
        else:
            descriptions[name] = field.description or ""
    return {**descriptions, ANY_ROOT: ROOTS_DESCRIPTION}


def describing(key: str) -> str:
    """The name under which a setting is described: people give roots their names."""
    return ANY_ROOT if is_root(key) else key


def _calibrations(settings: Settings) -> tuple[tuple[LibraryCalibration, ...], str | None]:
    """What libraries have in place of the settings. No manifest is made for it."""
    from content_pipeline.manifest.database import Access
    from content_pipeline.manifest.open import open_manifest

    try:
        applied = open_manifest(settings, Access.READ).calibrations.all()
    except PipelineError as error:
        return (), str(error)
    return tuple(
        LibraryCalibration(
            library=printable(one.library),
            setting=one.name,
            value=one.value,
            preset=one.preset,
            counts=one.counts_for(settings),
        )
        for one in applied
    ), None
