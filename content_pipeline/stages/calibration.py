"""Calibration: the threshold that gives a library what is wanted of it, found from cached curves alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from content_pipeline.artifacts import Artifact, Draft
from content_pipeline.errors import BadSettings, NoCurves, counted, printable
from content_pipeline.manifest.calibrations import Applied
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.media.curves import load
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.trial import Trial, compared
from content_pipeline.media.tuning import (
    USUAL_VALUES,
    Picked,
    Row,
    Wish,
    finer_values,
    is_in_reach,
    is_met,
    makes_no_difference,
    nearest,
    no_difference,
    remarks,
    unless_as_good,
    wish_of,
)
from content_pipeline.settings import DetectionSettings, Settings
from content_pipeline.stages.forks import in_forks
from content_pipeline.stages.workbench import VERSIONS, StageResult, Workbench, obtain

# Less than so many hours of recording, times values, are done sooner than processes are forked.
WORTH_FORKING = 100
# Each narrows the search to an eighth. Where clips come and go at one value, there is nothing between to be found.
MOST_SEARCHES = 2


@dataclass(frozen=True)
class Library:
    """What is to be calibrated: the files it holds, how many it holds beside them, and what counts there now."""

    root: Path
    files: Sequence[KnownVideo]
    unread: int
    applied: Applied | None


@dataclass(frozen=True)
class _Video:
    """A video whose curves are there."""

    key: str
    curves: Artifact
    info: MediaInfo

    @property
    def track(self) -> int:
        return int(self.curves.facts["track"])

    @property
    def identity(self) -> list[Any]:
        """What the calibration hangs on: the curves, and where the picture ends."""
        return [self.key, self.curves.digest, self.track, self.info.picture_end_s]


def calibration(bench: Workbench, library: Library) -> StageResult:
    """Says what each value would pick, and which is nearest to the wish, if there is one. Applies nothing."""
    values = values_to_try(bench.settings, library.applied)
    videos, missing = _with_curves(bench, library)
    if not videos:
        raise NoCurves(f"{printable(library.root)}: no video has curves yet (of {counted(missing, 'video')})")
    now = bench.settings if library.applied is None else library.applied.onto(bench.settings)
    key = bench.stage_key(
        "calibration",
        library=printable(library.root),
        videos=[video.identity for video in videos],
        now=now.read_by("detections"),
        detections_version=VERSIONS["detections"],
    )
    made = obtain(bench, "calibration", key, lambda draft: _make(draft, bench, library, videos, values, now))
    # How many could not be asked differs from time to time; what was found does not.
    return replace(made, artifact=replace(made.artifact, facts={**made.artifact.facts, "without_curves": missing}))


def values_to_try(settings: Settings, applied: Applied | None) -> list[float]:
    """Those that a wish is looked for among, and always the one that counts now."""
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


def _with_curves(bench: Workbench, library: Library) -> tuple[list[_Video], int]:
    """The videos whose curves are cached, as the settings of now want them; and how many have none."""
    by_key: dict[str, KnownVideo] = {}
    for file in sorted(library.files, key=lambda file: (file.key, file.full is None, file.path)):
        by_key.setdefault(file.key, file)  # equal copies are one video
    with ThreadPoolExecutor(bench.cores) as threads:  # hashing is most of it, and needs no interpreter
        found = [video for video in threads.map(lambda file: _video(bench, file), by_key.values()) if video]
    return found, len(by_key) - len(found) + library.unread


def _video(bench: Workbench, file: KnownVideo) -> _Video | None:
    if file.full is None:
        return None
    media = bench.artifacts.find("fingerprint", bench.stage_key("fingerprint", content=file.full))
    if media is None:
        return None
    curves = bench.artifacts.find("energy", bench.stage_key("energy", content=file.full, media=media.digest))
    return None if curves is None else _Video(file.key, curves, MediaInfo.from_json(media.read_json("media.json")))


# --- making it


def _make(
    draft: Draft, bench: Workbench, library: Library, videos: Sequence[_Video], values: list[float], now: Settings
) -> None:
    settings = bench.settings
    wish = wish_of(settings.calibration)
    rows = _table(bench, videos, values, now)
    is_idle = wish is not None and makes_no_difference(rows)
    chosen = None if is_idle else _chosen(bench, videos, rows, wish, now)
    if chosen is not None and chosen not in rows:
        rows = sorted([*rows, chosen], key=lambda row: row.value)
    draft.write_json(
        "calibration.json",
        {
            "library": printable(library.root),
            "made_at": datetime.now(UTC).isoformat(),
            "setting": settings.calibration.setting,
            "value": None if chosen is None else chosen.value,
            "wish": None if wish is None else asdict(wish),
            "is_met": chosen is not None and wish is not None and is_met(chosen, wish),
            "is_in_reach": wish is not None and is_in_reach(rows, wish),
            "remarks": _remarks(rows, chosen, wish, settings),
            "now": _now(library.applied, settings),
            "hours": _hours(videos),
            "table": [_as_json(row, row == chosen, now, settings) for row in rows],
            "inputs": {
                "videos": [{"video": one.key, "energy": one.curves.digest, "track": one.track} for one in videos],
                "settings": settings.read_by("calibration"),
                "versions": {stage: VERSIONS[stage] for stage in ("calibration", "detections")},
            },
        },
    )
    draft.facts = {
        "videos": len(videos),
        "setting": settings.calibration.setting,
        "value": None if chosen is None else chosen.value,
    }


def _chosen(
    bench: Workbench, videos: Sequence[_Video], rows: Sequence[Row], wish: Wish | None, now: Settings
) -> Row | None:
    """The nearest to the wish; without one, the value that was named if it was the only one."""
    settings = bench.settings
    if wish is None:
        named = settings.calibration.values
        return next(row for row in rows if row.value == named[0]) if len(named) == 1 else None
    searched = _values_to_search(settings)
    in_table = [row for row in rows if row.value in searched]
    tried = in_table
    for _ in range(MOST_SEARCHES):
        finer = finer_values(tried, wish)
        tried = [*tried, *(_table(bench, videos, finer, now) if finer else [])]
    rounder, best = nearest(in_table, wish), nearest(tried, wish)
    if wish.given_by(rounder) == wish.given_by(best):
        best = rounder  # of two that give the same
    current = next((row for row in rows if row.value == _counts_now(settings, now)), None)
    return unless_as_good(current, best, tried, wish)


def _remarks(rows: Sequence[Row], chosen: Row | None, wish: Wish | None, settings: Settings) -> list[str]:
    if chosen is not None:
        return remarks(rows, chosen, wish, settings.output)
    return [no_difference(settings.calibration.setting)] if makes_no_difference(rows) else []


def _counts_now(settings: Settings, now: Settings) -> float | None:
    """The value that counts now; None when a calibration of another setting does."""
    value: float = getattr(now.detection, settings.calibration.setting)
    return value if with_value(settings.detection, settings.calibration.setting, value) == now.detection else None


def _table(bench: Workbench, videos: Sequence[_Video], values: Sequence[float], now: Settings) -> list[Row]:
    """What each value picks of all videos together."""
    hours, totals = _hours(videos), [Picked()] * len(values)
    for number, picked in enumerate(_picked(bench, videos, values, now), start=1):
        totals = [total + Picked(**one) for total, one in zip(totals, picked, strict=True)]
        bench.progress("calibration", number / len(videos))
    return [Row(value, total, len(videos), hours) for value, total in zip(values, totals, strict=True)]


def _picked(
    bench: Workbench, videos: Sequence[_Video], values: Sequence[float], now: Settings
) -> Iterator[list[dict[str, Any]]]:
    """Of each video, what each value picks."""
    settings, setting = bench.settings, bench.settings.calibration.setting
    tried = [with_value(settings.detection, setting, value) for value in values]

    def picked(video: _Video) -> list[dict[str, Any]]:
        curves = load(video.curves.path("curves.npz"))[video.track]
        trial = Trial(curves, video.info.picture_end_s, settings)
        before = trial.choose(now.detection)
        then = [before if one == now.detection else trial.choose(one) for one in tried]
        return [vars(compared(before, one)) for one in then]

    processes = bench.cores if _hours(videos) * len(values) > WORTH_FORKING else 1
    yield from in_forks(picked, videos, processes)


def _hours(videos: Sequence[_Video]) -> float:
    return sum(video.info.duration_s for video in videos) / 3600


def _now(applied: Applied | None, settings: Settings) -> dict[str, Any]:
    """What counts in the library at present, and whether a calibration put it there."""
    if applied is not None and applied.counts_for(settings):
        return {"setting": applied.setting, "value": applied.value, "calibrated": True}
    setting = settings.calibration.setting
    return {"setting": setting, "value": getattr(settings.detection, setting), "calibrated": False}


def _as_json(row: Row, is_chosen: bool, now: Settings, settings: Settings) -> dict[str, Any]:
    return {
        "value": row.value,
        **asdict(row.picked),
        "seconds": round(row.picked.seconds, 3),
        "montage_s": round(row.montage_s, 3),
        "per_hour": round(row.per_hour, 3),
        "is_now": row.value == _counts_now(settings, now),
        "is_chosen": is_chosen,
    }
