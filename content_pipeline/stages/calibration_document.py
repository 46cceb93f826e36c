"""What a calibration found, as it is stored, shown and read back: `calibration.json`, and the results of its job."""

from __future__ import annotations

from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from content_pipeline.artifacts import Artifact
from content_pipeline.media.selection.tuning import Setting, Target

FILE_NAME = "calibration.json"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)


class CurrentValue(_Record):
    """What the library uses at present, and whether a calibration put it there."""

    setting: Setting
    value: float
    calibrated: bool


class TableRow(_Record):
    """One value, and what it would pick of the whole library."""

    value: float
    moments: int
    clips: int
    seconds: float
    limited: int
    came: int
    went: int
    montage_s: float
    per_hour: float
    is_now: bool
    is_chosen: bool


class CalibratedVideo(_Record):
    video: str
    energy: str
    track: int


class CalibrationInputs(_Record):
    """What the table was made from."""

    videos: tuple[CalibratedVideo, ...]
    settings: dict[str, Any]
    versions: dict[str, Any]


class _WithTarget(_Record):
    # Artifacts and results of version 1 and before call it `wish`.
    target: Target | None = Field(validation_alias=AliasChoices("target", "wish"))


class CalibrationDocument(_WithTarget):
    """`value` is the one that was chosen: None without a target, or when no value makes a difference."""

    library: str
    made_at: str
    setting: Setting
    value: float | None
    is_met: bool
    is_in_reach: bool
    remarks: tuple[str, ...]
    now: CurrentValue
    hours: float
    table: tuple[TableRow, ...]
    inputs: CalibrationInputs

    @classmethod
    def of(cls, artifact: Artifact) -> CalibrationDocument:
        return cls.model_validate(artifact.read_json(FILE_NAME))

    @property
    def chosen(self) -> TableRow | None:
        return next((row for row in self.table if row.is_chosen), None)


class CalibrationResults(_WithTarget):
    """What the job keeps of it; `inputs` is the number of videos."""

    setting: Setting
    value: float | None
    remarks: tuple[str, ...]
    table: tuple[TableRow, ...]
    applied: bool
    inputs: int

    @classmethod
    def of(cls, document: CalibrationDocument, applied: bool) -> CalibrationResults:
        return cls(
            setting=document.setting,
            value=document.value,
            target=document.target,
            remarks=document.remarks,
            table=document.table,
            applied=applied,
            inputs=len(document.inputs.videos),
        )
