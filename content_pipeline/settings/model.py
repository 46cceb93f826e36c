"""Every setting and its default, once: this model feeds the CLI's help, the environment and the docs.

`Settings.digest(stage)` covers exactly the settings that the stage reads (see `stage.py`), so that changing a setting
makes dirty the stages that read it, and no others.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from content_pipeline.settings.database_url import DatabaseUrl
from content_pipeline.settings.redis_url import RedisUrl
from content_pipeline.settings.root_settings import RootSettings
from content_pipeline.settings.value_types import (
    Capability,
    Margin,
    PositiveSeconds,
    Seconds,
    TargetAmount,
    UserPath,
    as_extensions,
    known_timezone,
    nothing,
    split_commas,
)
from content_pipeline.stage import StageName, spec_of
from content_pipeline.system.hashing import digest_of


class Group(BaseModel):
    # Values are hidden in pydantic's own texts: a traceback of a bad URL must not hold its password.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class LibrarySettings(Group):
    """Which files of a folder are recordings."""

    extensions: Annotated[tuple[str, ...], BeforeValidator(as_extensions), Field(min_length=1)] = Field(
        ("mp4", "mov", "mkv", "avi"), description="File endings that count as recordings."
    )
    recursive: bool = Field(False, description="Search sub-folders too.")
    settle_s: Seconds = Field(2.0, description="A file that changed more recently than this is left alone for now.")
    folders: Annotated[tuple[UserPath, ...], BeforeValidator(split_commas)] = Field(
        (), description="Folders that the daemon watches for new recordings."
    )


Engine = Literal["streaming", "librosa"]


class EnergySettings(Group):
    """How the sound is turned into curves."""

    engine: Engine = Field(
        "streaming",
        description="`streaming` (fast, constant memory) or `librosa`, the reference: the same curves, "
        "25 times slower, in memory that grows with the length of the recording.",
    )
    track: Literal["loudest", "all"] | Annotated[int, Field(ge=0)] = Field(
        "loudest",
        description="Audio track to analyse: `loudest`, a number (0 is track 1), or `all` (analyses all, uses the "
        "loudest).",
    )
    max_missing_share: float = Field(
        0.05, ge=0, le=1, description="Share of the sound that may be unreadable before the file counts as corrupt."
    )


class DetectionSettings(Group):
    """What counts as an event."""

    preset: Literal["broadband", "classic"] = Field(
        "broadband",
        description="Detector: `broadband`, or `classic`, which at the default `rms_threshold` finds almost nothing "
        "in real recordings (try 0.02 with `adaptive_threshold` off).",
    )
    rms_threshold: float = Field(
        0.10,
        gt=0,
        le=10,
        description="How strong an event must be; higher finds less. `classic`: RMS level of the percussive sound. "
        "`broadband`: not an RMS level but a factor; 0.10 is the tuned value, doubling it asks for 6 dB more contrast.",
    )
    min_event_duration_s: Seconds = Field(0.1, description="Shorter events are dropped.")
    hpss_margin: Annotated[tuple[Margin, Margin], BeforeValidator(split_commas)] = Field(
        (1.0, 5.0), description="Margins of the harmonic/percussive separation (used by the energy stage)."
    )
    adaptive_threshold: bool = Field(
        True,
        description="`classic`: raise the threshold to mean + sensitivity x standard deviation. "
        "`broadband`: compare an event with the minute around it, not with the whole recording.",
    )
    sensitivity: float = Field(
        2.5, gt=0, le=100, description="How far an event must stand out from its background; lower finds more."
    )
    event_lookback_s: Seconds = Field(5.0, description="Seconds before an event that are added to its highlight.")


class ProcessingSettings(Group):
    """How events become highlights."""

    context_padding_s: Seconds = Field(1.0, description="Seconds added before and after each event.")
    merge_gap_s: Seconds = Field(2.0, description="Highlights closer together than this are merged into one.")
    max_segment_duration_s: PositiveSeconds = Field(
        10.0,
        description="Longest clip; of a longer highlight the loudest windows are shown, and what is left "
        "if it holds an event.",
    )


class OutputSettings(Group):
    """Which highlights make the montage."""

    max_duration_s: PositiveSeconds = Field(90.0, description="Longest montage, in seconds.")
    max_segments: int = Field(12, ge=1, le=10_000, description="Maximum number of clips in a montage.")
    order: Literal["chronological", "score", "hybrid"] = Field(
        "chronological",
        description="Order of the clips: `chronological`, `score` (the strongest first) or `hybrid`, which for the "
        "montage of one recording is the same as `score` (see `best_of.order`).",
    )
    select: Literal["best", "first"] = Field(
        "best", description="Which highlights are kept if not all fit: the `best`, or the `first` in the chosen order."
    )


class CalibrationSettings(Group):
    """Which threshold suits a library: found from what is wanted, and kept for it. At most one target may be set."""

    use: bool = Field(
        True, description="Use applied calibrations; a threshold given as a flag turns them off for that command."
    )
    setting: Literal["sensitivity", "rms_threshold"] = Field(
        "sensitivity", description="The setting of `detection` that is tuned: `sensitivity` or `rms_threshold`."
    )
    montage_s: TargetAmount = Field(None, description="Target: mean length of a montage in seconds.")
    per_hour: TargetAmount = Field(
        None, description="Target: moments found per hour of recording, before the limits of the montage."
    )
    values: Annotated[
        tuple[Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)], ...], BeforeValidator(split_commas)
    ] = Field((), max_length=200, description="Values to try; by default a range around the usual ones.")

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if self.montage_s is not None and self.per_hour is not None:
            raise ValueError("only one target can be set: `montage_s` or `per_hour`")
        return self


class BestOfSettings(Group):
    """Which highlights of a whole library make its best-of."""

    max_duration_s: PositiveSeconds = Field(180.0, description="Longest best-of, in seconds.")
    max_segments: int = Field(20, ge=1, le=10_000, description="Maximum number of clips in a best-of.")
    max_per_video: int = Field(2, ge=1, le=10_000, description="Maximum number of clips from one video in a best-of.")
    order: Literal["score", "chronological", "hybrid"] = Field(
        "score",
        description="Order of the clips: `score` (the strongest first), `chronological` "
        "(video by video, in order of their names) or `hybrid` (the strongest first, but never two clips of one video "
        "in a row while there are others).",
    )


class RenderSettings(Group):
    """How clips are made."""

    mode: Literal["auto", "copy", "smart", "encode"] = Field(
        "auto",
        description="`copy` (cuts start at keyframes), `smart` (frame-accurate, re-encodes only around cuts), "
        "`encode` (re-encodes everything), or `auto`, which chooses and says why.",
    )
    codec: Literal["libx264"] = Field("libx264", description="Video encoder.")
    profile: Literal["baseline", "main", "high"] = Field("high", description="H.264 profile.")
    pixel_format: Literal["yuv420p"] = Field("yuv420p", description="Pixel format.")
    preset: Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"] = (
        Field("veryfast", description="Speed of the encoder; a faster preset makes larger files.")
    )
    crf: int = Field(23, ge=0, le=51, description="Quality of the encoder; lower is better and larger.")
    fps: float = Field(30.0, gt=0, le=240, description="Frame rate of encoded clips.")
    audio_rate_hz: Literal[44100, 48000] = Field(48000, description="Sample rate of encoded sound.")
    audio_channels: Literal[1, 2] = Field(2, description="Channels of encoded sound.")
    audio_bitrate_kbps: int = Field(192, ge=32, le=512, description="Bit rate of encoded sound.")
    copy_keyframe_gap_s: PositiveSeconds = Field(
        2.0, description="`auto` copies only when keyframes are at most this far apart."
    )
    time_limit_s: PositiveSeconds = Field(1800.0, description="Longest time one encode may take, in seconds.")
    stall_limit_s: PositiveSeconds = Field(
        120.0, description="Longest time an encode may make no progress, in seconds."
    )


class QueueSettings(Group):
    """How often and how long work is tried."""

    max_attempts: int = Field(
        3, ge=1, le=1000, description="Attempts (runs) before a job with a transient error is marked failed."
    )
    step_retries: int = Field(
        2, ge=0, le=100, description="Retries of a step inside its run after a transient error; then the attempt fails."
    )
    step_retry_delay_s: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = Field(
        1.0, description="Seconds before the first of these retries, about three times as many before the second."
    )
    max_crashes: int = Field(
        2, ge=1, le=1000, description="Worker crashes before a job is marked failed with the code `crashed`."
    )
    heartbeat_s: PositiveSeconds = Field(10.0, description="Seconds between two heartbeats of a worker.")
    lease_s: PositiveSeconds = Field(90.0, description="Seconds without a heartbeat before a worker loses its job.")
    give_up_s: PositiveSeconds = Field(60.0, description="Seconds without reaching the manifest before a worker stops.")
    grace_s: Seconds = Field(
        30.0, description="Seconds that running jobs have to finish when their worker is asked to stop."
    )
    stall_s: PositiveSeconds = Field(
        600.0, description="Seconds without progress before the process that works on a video is ended as `stalled`."
    )
    stall_per_hour_s: Seconds = Field(
        600.0,
        description="Seconds added to `stall_s` for every hour of recording; 4 GB count as an hour at least.",
    )
    space_factor: float = Field(
        1.5, ge=0, le=100, description="Free space needed before work on a video starts, as a multiple of its size."
    )
    requires: Annotated[Capability | None, BeforeValidator(nothing)] = Field(
        None,
        description="Capability that a worker must have to process the videos that are enqueued with this setting, "
        "such as `nvenc`; by default any worker may.",
    )
    capabilities: Annotated[tuple[Capability, ...], BeforeValidator(split_commas)] = Field(
        (), description="What the workers of this machine can do, in names of your own, such as `nvenc, fast-disk`."
    )


class ScheduleSettings(Group):
    """When work that can wait is done."""

    quiet_hours: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$")] = Field(
        "01:00-07:00",
        description="When videos are processed again after settings or code changed, from-to; equal times mean always.",
    )
    timezone: Annotated[str, AfterValidator(known_timezone)] = Field(
        "UTC", description="Time zone of the quiet hours, such as `Europe/Berlin`."
    )
    watch_interval_s: PositiveSeconds = Field(10.0, description="Seconds between two scans of the watched folders.")
    keep_days: int = Field(90, ge=1, le=36_500, description="Days after which finished history is deleted.")
    keep_superseded_days: int = Field(
        7, ge=0, le=36_500, description="Days after which Dagster's runs are deleted that a newer run has superseded."
    )
    scrub_share: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Share of the recordings read again each week, to find unnoticed changes.",
    )


class LauncherSettings(Group):
    """How the runs that Dagster launches reach the workers."""

    engine: Literal["local", "rq"] = Field(
        "local",
        description="`local` (workers of this machine, started when they are needed) or `rq`: workers of any machine, "
        "reached through the Redis that `redis_url` names. `rq` needs `db` and `dagster_storage` in Postgres.",
    )


class LimitSettings(Group):
    """What a file may ask of this machine."""

    max_streams: int = Field(64, ge=1, le=1000, description="Maximum number of streams in a file.")
    max_pixels: int = Field(8192 * 8192, ge=1, description="Maximum number of pixels in a frame.")
    max_duration_s: PositiveSeconds = Field(48 * 3600.0, description="Longest recording, in seconds.")
    max_memory_bytes: int = Field(6 << 30, ge=1 << 28, description="Address space of an ffmpeg process, in bytes.")


class Settings(Group):
    profile: Annotated[Literal["dev", "production"] | None, BeforeValidator(nothing)] = Field(
        None,
        description="Other defaults for intervals, leases and limits: `dev` (short) or `production` (long). What is "
        "set explicitly wins; `content-ai config show` says where each value came from.",
    )
    state_dir: UserPath = Field(
        Path(".content-ai"), description="Folder of the manifest, the artifacts and Dagster's records."
    )
    db: Annotated[DatabaseUrl | None, BeforeValidator(nothing)] = Field(
        None,
        description="Manifest database: a path (SQLite) or a URL such as `postgresql+psycopg2://user@host/db`, whose "
        "password is never shown; by default `queue.db` in the state folder.",
    )
    dagster_storage: Literal["sqlite", "postgres"] = Field(
        "sqlite",
        description="Where Dagster keeps its runs and events: `sqlite` (files in its home, by default in the state "
        "folder), or `postgres`: the database that `db` names, in a schema of its own.",
    )
    redis_url: Annotated[RedisUrl | None, BeforeValidator(nothing)] = Field(
        None,
        description='Redis or Valkey server through which workers hear of runs (`launcher.engine = "rq"`), such as '
        "`redis://:password@host:6379/0`; its password is never shown.",
    )
    output_dir: UserPath = Field(Path("output"), description="Folder of the montages.")
    workers: int | None = Field(
        None, ge=1, le=1024, description="Videos processed at the same time; by default one per core."
    )
    library: LibrarySettings = LibrarySettings()
    energy: EnergySettings = EnergySettings()
    detection: DetectionSettings = DetectionSettings()
    processing: ProcessingSettings = ProcessingSettings()
    output: OutputSettings = OutputSettings()
    calibration: CalibrationSettings = CalibrationSettings()
    best_of: BestOfSettings = BestOfSettings()
    render: RenderSettings = RenderSettings()
    queue: QueueSettings = QueueSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    limits: LimitSettings = LimitSettings()
    launcher: LauncherSettings = LauncherSettings()
    roots: RootSettings = RootSettings()

    def digest(self, stage: StageName) -> str:
        """Digest of the values this stage reads."""
        return digest_of(self.read_by(stage))

    def read_by(self, stage: StageName) -> dict[str, Any]:
        """The values this stage reads, as `section.key` -> JSON value."""
        flat = flatten(self.model_dump(mode="json"))
        return {key: flat[key] for key in sorted(flat) if spec_of(stage).depends_on_setting(key, flat[key])}

    @property
    def manifest_url(self) -> DatabaseUrl:
        """The manifest as a database URL; a bare path means SQLite."""
        if self.db is not None and not self.db.is_path:
            return self.db
        path = Path(self.db.reveal()) if self.db is not None else self.state_dir / "queue.db"
        return DatabaseUrl(f"sqlite:///{path.absolute()}")

    @property
    def worker_count(self) -> int:
        return self.workers if self.workers is not None else (os.cpu_count() or 1)


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = value
    return flat
