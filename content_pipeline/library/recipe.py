"""Recipes: what results were made with, and which stages another recipe runs again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from content_pipeline.manifest.calibrations import AppliedCalibration
from content_pipeline.settings import Settings
from content_pipeline.stage import VIDEO_STAGES, StageName, parts_of, spec_of, video_stages_and_parts
from content_pipeline.system.hashing import digest_of

FOLLOWS = "follows "


@dataclass(frozen=True)
class Recipe:
    """Everything but the recording that results depend on: the settings each stage reads, and code versions.

    `calibrated` names the settings that a calibration gave their value: told to people, and part of no digest.
    """

    settings: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, int]
    calibrated: frozenset[str] = frozenset()

    @cached_property
    def config_hash(self) -> str:
        return digest_of(self.as_json())

    def as_json(self) -> dict[str, Any]:
        return {
            "settings": {stage: dict(values) for stage, values in self.settings.items()},
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Recipe:
        return cls(value["settings"], value["versions"])


def recipe_of(settings: Settings, calibrated: frozenset[str] = frozenset()) -> Recipe:
    """What a video is made with under these settings."""
    stages = video_stages_and_parts()
    return Recipe(
        {stage: settings.read_by(stage) for stage in stages},
        {stage: spec_of(stage).version for stage in stages},
        calibrated,
    )


def calibrated_recipe(settings: Settings, applied: AppliedCalibration) -> Recipe:
    """What the videos of a calibrated library are made with."""
    calibrated = frozenset({applied.name}) if applied.counts_for(settings) else frozenset[str]()
    return recipe_of(applied.onto(settings), calibrated)


def changes(before: Recipe | None, now: Recipe) -> dict[str, str]:
    """Which stages a new recipe runs again: those it changes for, and what follows them."""
    if before is None:
        return dict.fromkeys(VIDEO_STAGES, "made with settings that are no longer known")
    reasons: dict[str, str] = {}
    for stage in VIDEO_STAGES:
        found = _changed(stage, before, now)
        if found:
            reasons[stage] = found
        elif reasons:
            reasons[stage] = f"{FOLLOWS}{next(iter(reasons))}"
    return reasons


def _changed(stage: StageName, before: Recipe, now: Recipe) -> str:
    parts = []
    for name in parts_of(stage):
        if before.versions.get(name) != now.versions[name]:
            parts.append(f"code version {before.versions.get(name)} -> {now.versions[name]}")
        old, new = (_with_added(name, recipe.settings.get(name, {})) for recipe in (before, now))
        changed = {key: f"{key} {old.get(key)} -> {new.get(key)}" for key in old | new if old.get(key) != new.get(key)}
        parts += [f"{text} (calibration)" if key in now.calibrated else text for key, text in changed.items()]
    return ", ".join(dict.fromkeys(parts))


def _with_added(stage: StageName, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a stage reads, with the settings that its key leaves out."""
    return {**dict(spec_of(stage).added), **settings}
