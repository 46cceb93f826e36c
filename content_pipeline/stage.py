"""The stages: the one list of them, in the order in which they run.

Keys, plans, progress, Dagster's assets, kill points and docs all read this list. Raise a stage's version when its
algorithm changes what it makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

StageName = Literal["fingerprint", "energy", "detections", "clip", "montage", "calibration", "best_of"]
Subject = Literal["video", "library"]


@dataclass(frozen=True)
class StageSpec:
    """`reads`: the settings, as `section` or `section.key`, that its output depends on; `ignores`: exceptions.

    `added` holds settings that came later, with the value at which the stage does what it did before there was one:
    at that value they are not part of its key, so that what was made before is still found.

    `part_of` names the stage that a part belongs to, which is no step of its own. `time_share` is how much of a
    video's processing time it takes, roughly; it is used for progress bars only.
    """

    name: StageName
    version: int
    subject: Subject = "video"
    depends_on: tuple[StageName, ...] = ()
    reads: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    added: tuple[tuple[str, object], ...] = ()
    part_of: StageName | None = None
    time_share: float = 1.0

    def reads_setting(self, key: str) -> bool:
        if key in self.ignores:
            return False
        return any(key == prefix or key.startswith(prefix + ".") for prefix in self.reads)

    def depends_on_setting(self, key: str, value: object) -> bool:
        """Whether a setting with this value is part of the stage's key."""
        return self.reads_setting(key) and (key, value) not in self.added


# How long an encode may take decides whether it ends, never what it makes.
_TIME_LIMITS = ("render.time_limit_s", "render.stall_limit_s")
_MODE = ("render.mode", "render.copy_keyframe_gap_s")

STAGES: tuple[StageSpec, ...] = (
    StageSpec("fingerprint", version=1, time_share=0.05),
    StageSpec(
        "energy",
        version=3,
        depends_on=("fingerprint",),
        reads=("energy", "detection.hpss_margin"),
        added=(("energy.engine", "streaming"),),
        time_share=0.6,
    ),
    StageSpec(
        "detections",
        version=4,
        depends_on=("energy",),
        reads=("detection", "processing", "output"),
        ignores=("detection.hpss_margin",),
        time_share=0.05,
    ),
    # Its key holds the mode that was chosen. Its sound gets its bit rate when clips are joined.
    StageSpec(
        "clip",
        version=1,
        depends_on=("detections",),
        reads=("render",),
        ignores=(*_TIME_LIMITS, *_MODE, "render.audio_bitrate_kbps"),
        part_of="montage",
    ),
    StageSpec(
        "montage",
        version=3,
        depends_on=("detections",),
        reads=("render",),
        ignores=_TIME_LIMITS,
        time_share=0.3,
    ),
    StageSpec(
        "calibration",
        version=3,
        subject="library",
        reads=("calibration", "detection", "processing", "output"),
        ignores=("calibration.use", "detection.hpss_margin"),
    ),
    # Its clips come from recordings of any format, so they are always encoded.
    StageSpec("best_of", version=2, subject="library", reads=("best_of", "render"), ignores=(*_TIME_LIMITS, *_MODE)),
)

_BY_NAME = {spec.name: spec for spec in STAGES}

# The steps of a video, in order: what Dagster shows as assets, and what a plan gives reasons for.
VIDEO_STAGES: tuple[StageName, ...] = tuple(
    spec.name for spec in STAGES if spec.subject == "video" and spec.part_of is None
)


def spec_of(stage: StageName) -> StageSpec:
    return _BY_NAME[stage]


def parts_of(stage: StageName) -> tuple[StageName, ...]:
    """The stage and its parts: what changes one of them changes the stage."""
    return (stage, *(spec.name for spec in STAGES if spec.part_of == stage))


def video_stages_and_parts() -> tuple[StageName, ...]:
    """Everything that a video's results depend on: the content of a recipe."""
    return tuple(spec.name for spec in STAGES if spec.subject == "video")


def share_of_time(stage: str) -> tuple[float, float]:
    """Where in the processing of its subject a stage begins, and how much of it the stage takes: for progress bars."""
    if stage not in VIDEO_STAGES:
        return 0.0, 1.0
    number = VIDEO_STAGES.index(stage)
    return sum(spec_of(before).time_share for before in VIDEO_STAGES[:number]), spec_of(stage).time_share
