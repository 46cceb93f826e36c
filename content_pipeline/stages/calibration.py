"""Calibration: the threshold that gives a library what is wanted of it, found from cached curves alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from content_pipeline.artifacts import Artifact, Draft
from content_pipeline.errors import BadSettings, NoCurves, counted, printable
from content_pipeline.manifest.calibrations import AppliedCalibration
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.media.curves.model import load
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.selection.threshold_trial import Trial, compared
from content_pipeline.media.selection.tuning import (
    USUAL_VALUES,
    Picked,
    Row,
    Target,
    finer_values,
    is_in_reach,
    is_met,
    makes_no_difference,
    nearest,
    no_difference,
    remarks,
    target_of,
    unless_as_good,
)
from content_pipeline.settings import DetectionSettings, Settings
from content_pipeline.stage import spec_of
from content_pipeline.stages.calibration_document import (
    FILE_NAME,
    CalibratedVideo,
    CalibrationDocument,
    CalibrationInputs,
    CurrentValue,
    TableRow,
)
from content_pipeline.stages.context import StageContext, StageResult, obtain
from content_pipeline.stages.energy import energy_key
from content_pipeline.stages.fingerprint import fingerprint_key
from content_pipeline.system.parallel_map import parallel_map

# Less than so many hours of recording, times values, are done sooner than processes are forked.
WORTH_FORKING = 100
# Each narrows the search to an eighth. Where clips come and go at one value, there is nothing between to be found.
MOST_SEARCHES = 2


@dataclass(frozen=True)
class CalibrationLibrary:
    """What is to be calibrated: the files it holds, how many it holds beside them, and what counts there now."""

    root: Path
    files: Sequence[KnownVideo]
    unread: int
    applied: AppliedCalibration | None


@dataclass(frozen=True)
class _CachedVideo:
    """A video whose curves are there."""

    key: str
    curves: Artifact
    info: MediaInfo

    @property
    def track(self) -> int:
        return int(self.curves.facts["track"])

    @property
    def identity(self) -> list[Any]:
        """What the calibration depends on: the curves, and where the picture ends."""
        return [self.key, self.curves.digest, self.track, self.info.picture_end_s]


def calibration(context: StageContext, library: CalibrationLibrary) -> StageResult:
    """Says what each value would pick, and which is nearest to the target, if there is one. Applies nothing."""
    values = values_to_try(context.settings, library.applied)
    videos, missing = _with_curves(context, library)
    if not videos:
        raise NoCurves(f"{printable(library.root)}: no video has curves yet (of {counted(missing, 'video')})")
    now = context.settings if library.applied is None else library.applied.onto(context.settings)
    key = context.stage_key(
        "calibration",
        library=printable(library.root),
        videos=[video.identity for video in videos],
        now=now.read_by("detections"),
        detections_version=spec_of("detections").version,
    )
    made = obtain(context, "calibration", key, lambda draft: _make(draft, context, library, videos, values, now))
    # How many could not be asked differs from time to time; what was found does not.
    return replace(made, artifact=replace(made.artifact, facts={**made.artifact.facts, "without_curves": missing}))


def values_to_try(settings: Settings, applied: AppliedCalibration | None) -> list[float]:
    """The values that a target is looked for among, and always the one that counts now."""
    setting = settings.calibration.setting
    current: float = getattr(settings.detection if applied is None else applied.onto(settings).detection, setting)
    searched = _values_to_search(settings)
    for value in searched:
        with_value(settings.detection, setting, value)
    return sorted({*searched, current})


def _values_to_search(settings: Settings) -> set[float]:
    """Those that were asked for, or the usual ones, and the settings' own: the same, whatever was applied before."""
    setting = settings.calibration.setting
    asked = settings.calibration.values if settings.calibration.values else USUAL_VALUES[setting]
    return {*asked, getattr(settings.detection, setting)}


def with_value(detection: DetectionSettings, setting: str, value: float) -> DetectionSettings:
    """The settings with one value in place of another; refused when it is out of bounds."""
    try:
        return DetectionSettings.model_validate({**detection.model_dump(), setting: value})
    except ValidationError as error:
        raise BadSettings(f"`detection.{setting}` = {value:g}: {error.errors()[0]['msg']}") from error


# --- what there is to go by


def _with_curves(context: StageContext, library: CalibrationLibrary) -> tuple[list[_CachedVideo], int]:
    """The videos whose curves are cached, as the settings of now want them; and how many have none."""
    by_key: dict[str, KnownVideo] = {}
    for file in sorted(library.files, key=lambda file: (file.key, file.full is None, file.path)):
        by_key.setdefault(file.key, file)  # equal copies are one video
    with ThreadPoolExecutor(context.cores) as threads:  # hashing is most of it, and needs no interpreter
        videos = [video for video in threads.map(lambda file: _cached_video(context, file), by_key.values()) if video]
    return videos, len(by_key) - len(videos) + library.unread


def _cached_video(context: StageContext, file: KnownVideo) -> _CachedVideo | None:
    if file.full is None:
        return None
    media = context.artifacts.find("fingerprint", fingerprint_key(context, file.full))
    if media is None:
        return None
    curves = context.artifacts.find("energy", energy_key(context, file.full, media.digest))
    if curves is None:
        return None
    return _CachedVideo(file.key, curves, MediaInfo.from_json(media.read_json("media.json")))


# --- making it


def _make(
    draft: Draft,
    context: StageContext,
    library: CalibrationLibrary,
    videos: Sequence[_CachedVideo],
    values: list[float],
    now: Settings,
) -> None:
    settings = context.settings
    target = target_of(settings.calibration)
    rows = _table(context, videos, values, now)
    is_idle = target is not None and makes_no_difference(rows)
    chosen = None if is_idle else _chosen(context, videos, rows, target, now)
    if chosen is not None and chosen not in rows:
        rows = sorted([*rows, chosen], key=lambda row: row.value)
    document = CalibrationDocument(
        library=printable(library.root),
        made_at=datetime.now(UTC).isoformat(),
        setting=settings.calibration.setting,
        value=None if chosen is None else chosen.value,
        target=target,
        is_met=chosen is not None and target is not None and is_met(chosen, target),
        is_in_reach=target is not None and is_in_reach(rows, target),
        remarks=tuple(_remarks(rows, chosen, target, settings)),
        now=_now(library.applied, settings),
        hours=_hours(videos),
        table=tuple(_table_row(row, row == chosen, now, settings) for row in rows),
        inputs=_inputs(videos, settings),
    )
    draft.write_json(FILE_NAME, document.model_dump(mode="json"))
    draft.facts = {
        "videos": len(videos),
        "setting": settings.calibration.setting,
        "value": None if chosen is None else chosen.value,
    }


def _chosen(
    context: StageContext, videos: Sequence[_CachedVideo], rows: Sequence[Row], target: Target | None, now: Settings
) -> Row | None:
    """The nearest to the target; without one, the value that was named if it was the only one."""
    settings = context.settings
    if target is None:
        named = settings.calibration.values
        return next(row for row in rows if row.value == named[0]) if len(named) == 1 else None
    searched = _values_to_search(settings)
    in_table = [row for row in rows if row.value in searched]
    tried = in_table
    for _ in range(MOST_SEARCHES):
        finer = finer_values(tried, target)
        tried = [*tried, *(_table(context, videos, finer, now) if finer else [])]
    rounder, best = nearest(in_table, target), nearest(tried, target)
    if target.given_by(rounder) == target.given_by(best):
        best = rounder  # of two that give the same
    current = next((row for row in rows if row.value == _counts_now(settings, now)), None)
    return unless_as_good(current, best, tried, target)


def _remarks(rows: Sequence[Row], chosen: Row | None, target: Target | None, settings: Settings) -> list[str]:
    if chosen is not None:
        return remarks(rows, chosen, target, settings)
    return [no_difference(settings.calibration.setting)] if makes_no_difference(rows) else []


def _counts_now(settings: Settings, now: Settings) -> float | None:
    """The value that counts now; None when a calibration of another setting does."""
    value: float = getattr(now.detection, settings.calibration.setting)
    return value if with_value(settings.detection, settings.calibration.setting, value) == now.detection else None


def _table(context: StageContext, videos: Sequence[_CachedVideo], values: Sequence[float], now: Settings) -> list[Row]:
    """What each value picks of all videos together."""
    hours, totals = _hours(videos), [Picked()] * len(values)
    for number, picked in enumerate(_picked(context, videos, values, now), start=1):
        totals = [total + of_video for total, of_video in zip(totals, picked, strict=True)]
        context.progress("calibration", number / len(videos))
    return [Row(value, total, len(videos), hours) for value, total in zip(values, totals, strict=True)]


def _picked(
    context: StageContext, videos: Sequence[_CachedVideo], values: Sequence[float], now: Settings
) -> Iterator[list[Picked]]:
    """Of each video, what each value picks."""
    settings, setting = context.settings, context.settings.calibration.setting
    tried = [with_value(settings.detection, setting, value) for value in values]

    def picked(video: _CachedVideo) -> list[Picked]:
        curves = load(video.curves.path("curves.npz"))[video.track]
        trial = Trial(curves, video.info.picture_end_s, settings)
        selected_now = trial.select(now.detection)
        selected = [selected_now if detection == now.detection else trial.select(detection) for detection in tried]
        return [compared(selected_now, selected_then) for selected_then in selected]

    processes = context.cores if _hours(videos) * len(values) > WORTH_FORKING else 1
    yield from parallel_map(picked, videos, processes)


def _hours(videos: Sequence[_CachedVideo]) -> float:
    return sum(video.info.duration_s for video in videos) / 3600


def _now(applied: AppliedCalibration | None, settings: Settings) -> CurrentValue:
    """What the library uses at present, and whether a calibration put it there."""
    if applied is not None and applied.counts_for(settings):
        return CurrentValue.model_validate({"setting": applied.setting, "value": applied.value, "calibrated": True})
    setting = settings.calibration.setting
    return CurrentValue(setting=setting, value=getattr(settings.detection, setting), calibrated=False)


def _table_row(row: Row, is_chosen: bool, now: Settings, settings: Settings) -> TableRow:
    picked = row.picked
    return TableRow(
        value=row.value,
        moments=picked.moments,
        clips=picked.clips,
        seconds=round(picked.seconds, 3),
        limited=picked.limited,
        came=picked.came,
        went=picked.went,
        montage_s=round(row.montage_s, 3),
        per_hour=round(row.per_hour, 3),
        is_now=row.value == _counts_now(settings, now),
        is_chosen=is_chosen,
    )


def _inputs(videos: Sequence[_CachedVideo], settings: Settings) -> CalibrationInputs:
    return CalibrationInputs(
        videos=tuple(
            CalibratedVideo(video=video.key, energy=video.curves.digest, track=video.track) for video in videos
        ),
        settings=settings.read_by("calibration"),
        versions={stage: spec_of(stage).version for stage in ("calibration", "detections")},
    )
