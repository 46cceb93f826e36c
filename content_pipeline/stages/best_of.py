"""Best-of: what stands out most in a whole library, cut and joined, checked, and published whole."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from content_pipeline.artifacts import Artifact, Draft
from content_pipeline.errors import (
    LibraryOffline,
    MissingFile,
    NoPicture,
    PermanentError,
    TransientError,
    printable,
)
from content_pipeline.media.probe import MediaInfo, probe
from content_pipeline.media.render.clip import Clip, render_clip
from content_pipeline.media.render.encoding import FrameSize
from content_pipeline.media.render.join import Montage, join
from content_pipeline.media.render.verify import verify_montage
from content_pipeline.media.selection.best_of_selection import Contender, Offer
from content_pipeline.media.selection.best_of_selection import best_of as choose
from content_pipeline.media.selection.highlights import DURATION_LIMIT, SEGMENT_LIMIT, Highlight
from content_pipeline.media.source import open_source
from content_pipeline.media.spans import Span
from content_pipeline.publishing.names import Name, safe_name
from content_pipeline.publishing.publish import Published, pieces_of, publish
from content_pipeline.stage import spec_of
from content_pipeline.stages.context import StageContext, StageResult, obtain
from content_pipeline.stages.montage import CLIP_NAME

PREFIX = "best-of-"

# Name inside the artifact -> ending of the published name. Inside it is a montage like any other.
PUBLISHED = {"montage.mp4": ".mp4", "montage.json": ".json", "sheet.jpg": ".sheet.jpg"}

# What is one video's trouble; a full disk or a database that is away is everybody's.
_ONE_VIDEOS = (PermanentError, TransientError, LibraryOffline)


@dataclass(frozen=True)
class Processed:
    """A video whose job succeeded, and the keys of what that made."""

    video_key: str
    path: Path
    full: str | None
    stage_keys: Mapping[str, str]


@dataclass(frozen=True)
class _Video:
    """A video that can be shown: its file is there unchanged, and so is what was found in it."""

    path: Path
    full: str
    info: MediaInfo
    media: str
    track: int
    offer: Offer

    @property
    def identity(self) -> dict[str, str]:
        """As for the montage of the video: every byte, and what was understood of the file."""
        return {"content": self.full, "media": self.media}

    @property
    def size(self) -> tuple[int, int]:
        """Upright, and even as H.264 needs it."""
        assert self.info.video is not None
        width, height = (max(2, side // 2 * 2) for side in (self.info.video.width, self.info.video.height))
        return (width, height) if self.info.video.rotation_degrees % 180 == 0 else (height, width)


@dataclass(frozen=True)
class _Shot:
    """One clip to be: a highlight that was chosen, and the video it is cut from."""

    contender: Contender
    video: _Video


class _CannotBeCut(Exception):
    """Found out while cutting: the choice has to be made again without this video."""

    def __init__(self, video_key: str, code: str) -> None:
        super().__init__(video_key)
        self.video_key = video_key
        self.code = code


def best_of(context: StageContext, library_key: str, library: Path, jobs: Sequence[Processed]) -> StageResult:
    """Decides by cached detections alone. A video that cannot be read is left out and counted, never a failure."""
    started = time.monotonic()
    videos, left_out = _readable(context, library, jobs)
    while True:
        try:
            result = _obtain(context, library, _chosen(context, videos))
            break
        except _CannotBeCut as failure:
            left_out[failure.video_key] = failure.code
            del videos[failure.video_key]
    unknown = not videos and bool(left_out)  # not the same as: there is nothing to show
    published = Published({}) if unknown else _publish(context, library_key, library, result.artifact)
    counted = replace(result, artifact=_with_counts(result.artifact, videos, left_out))
    return counted.with_outputs(published, time.monotonic() - started)


def _publish(context: StageContext, library_key: str, library: Path, made: Artifact) -> Published:
    owner = PREFIX + library_key
    name = Name(PREFIX + safe_name(library.name, otherwise="library"), owner)
    return publish(
        context.outputs, owner, name, pieces_of(owner, PUBLISHED, made), "nothing stands out with these settings"
    )


# --- what there is to choose from


def _readable(
    context: StageContext, library: Path, jobs: Sequence[Processed]
) -> tuple[dict[str, _Video], dict[str, str]]:
    """Videos by key, and of those left out the code of the error. Equal copies are one video."""
    if not library.is_dir():
        raise LibraryOffline(f"{printable(library)} does not exist")
    videos: dict[str, _Video] = {}
    left_out: dict[str, str] = {}
    for job in sorted(jobs, key=lambda job: (job.video_key, job.path)):
        if job.video_key in videos:
            continue
        try:
            videos[job.video_key] = _read(context, job)
            left_out.pop(job.video_key, None)
        except _ONE_VIDEOS as error:
            left_out[job.video_key] = error.code
    return videos, left_out


def _read(context: StageContext, job: Processed) -> _Video:
    """Looks at artifacts and `stat`; of the recording nothing is read."""
    if job.full is None:
        raise MissingFile(f"{printable(job.path)} was never read completely")
    media, sound, found = (_artifact(context, job, stage) for stage in ("fingerprint", "energy", "detections"))
    info = MediaInfo.from_json(media.read_json("media.json"))
    if info.video is None:
        raise NoPicture(f"{printable(job.path)} holds no picture")
    with context.open_content(job.video_key, job.full):
        offer = _offer(job.video_key, found.read_json("detections.json"))
    return _Video(job.path, job.full, info, media.digest, int(sound.facts["track"]), offer)


def _artifact(context: StageContext, job: Processed, stage: str) -> Artifact:
    found = context.artifacts.find(stage, job.stage_keys[stage]) if stage in job.stage_keys else None
    if found is None:
        raise MissingFile(f"the {stage} artifact of {printable(job.path)} is missing or damaged; process it again")
    return found


def _offer(video_key: str, detections: dict[str, Any]) -> Offer:
    """Also what only had no room in the video's own montage: that says nothing of its worth."""
    without_room = (DURATION_LIMIT, SEGMENT_LIMIT)
    passed_over = [item for item in detections["dropped_highlights"] if item["dropped_by"] in without_room]
    return Offer(
        video_key,
        tuple(
            Highlight(Span(item["start_s"], item["end_s"]), item["score"])
            for item in detections["highlights"] + passed_over
        ),
        tuple(item["score"] for item in detections["candidates"]),
    )


def _chosen(context: StageContext, videos: Mapping[str, _Video]) -> list[_Shot]:
    choice = choose([video.offer for video in videos.values()], context.settings.best_of)
    return [_Shot(contender, videos[contender.video_key]) for contender in choice.kept]


def _frame_size(shots: Sequence[_Shot]) -> FrameSize:
    """The size that most clips have anyway; of equally many the larger."""
    counts = Counter(shot.video.size for shot in shots)
    largest = max(counts, key=lambda size: (counts[size], size[0] * size[1], size), default=(2, 2))
    return FrameSize(*largest)


# --- making it


def _obtain(context: StageContext, library: Path, shots: Sequence[_Shot]) -> StageResult:
    """Hangs on the clips in their order, and on all that is told of them."""
    size = _frame_size(shots)
    key = context.stage_key(
        "best_of",
        library=printable(library),
        size=[size.width, size.height],
        cuts=[{**_told(library, shot), **shot.video.identity, **_asked(shot)} for shot in shots],
        clip_version=spec_of("clip").version,
    )
    return obtain(context, "best_of", key, lambda draft: _make(draft, context, library, shots, size))


def _told(library: Path, shot: _Shot) -> dict[str, Any]:
    """What a person reads of a cut."""
    contender, path = shot.contender, shot.video.path
    return {
        "video": contender.video_key,
        "path": printable(path.relative_to(library) if path.is_relative_to(library) else path),
        "score": contender.score,
        "standing": contender.standing,
    }


def _asked(shot: _Shot) -> dict[str, Any]:
    """What a clip is cut by, beside what it is cut from."""
    span = shot.contender.span
    return {"start_s": span.start_s, "end_s": span.end_s, "track": shot.video.track, "mode": "encode"}


def _make(draft: Draft, context: StageContext, library: Path, shots: Sequence[_Shot], size: FrameSize) -> None:
    if not shots:
        draft.facts = {"clips": 0, "montage_s": 0.0}
        return
    cut = []
    for number, shot in enumerate(shots):

        def report(fraction: float, number: int = number) -> None:
            context.progress("best_of", (number + fraction) / len(shots))

        cut.append(_clip(context, shot, size, report))
        report(1.0)
    joined = join([clip for clip, _ in cut], context.settings.render, draft.path("montage.mp4"))
    verify_montage(joined)
    draft.write_bytes("sheet.jpg", _sheet(context, joined))
    draft.write_json("montage.json", _as_json(library, shots, joined))
    draft.facts = {
        "clips": len(cut),
        "clips_reused": sum(reused for _, reused in cut),
        "montage_s": joined.duration_s,
        "width": size.width,
        "height": size.height,
    }


def _clip(context: StageContext, shot: _Shot, size: FrameSize, report: Callable[[float], None]) -> tuple[Clip, bool]:
    """One clip, fitted into the common size, and whether it was there already."""
    video, key, span = shot.video, shot.contender.video_key, shot.contender.span

    def make(draft: Draft) -> None:
        render, limits, target = context.settings.render, context.settings.limits, draft.path(CLIP_NAME)
        with context.open_content(key, video.full) as source:
            clip = render_clip(
                source, video.info, video.track, span, "encode", render, limits, target, report, size=size
            )
        draft.facts = clip.as_json()

    inputs = {**video.identity, **_asked(shot), "size": [size.width, size.height]}
    try:
        result = obtain(context, "clip", context.stage_key("clip", **inputs), make)
    except _ONE_VIDEOS as error:
        raise _CannotBeCut(key, error.code) from error
    return Clip.from_json(dict(result.artifact.facts), result.artifact.path(CLIP_NAME)), result.reused


def _sheet(context: StageContext, joined: Montage) -> bytes:
    """Taken from the best-of itself: its recordings are many, and its pictures are already there."""
    from content_pipeline.media.preview import contact_sheet

    with open_source(joined.path) as source:
        info = probe(source)
        return contact_sheet(source, info, [Span(cut.start_s, cut.end_s) for cut in joined.cuts])


def _as_json(library: Path, shots: Sequence[_Shot], joined: Montage) -> dict[str, Any]:
    cuts = [
        {
            **_told(library, shot),
            "source_start_s": cut.source.start_s,
            "source_end_s": cut.source.end_s,
            "start_s": cut.start_s,
            "end_s": cut.end_s,
        }
        for shot, cut in zip(shots, joined.cuts, strict=True)
    ]
    return {"library": printable(library), "duration_s": joined.duration_s, "mode": "encode", "cuts": cuts}


def _with_counts(made: Artifact, videos: Mapping[str, _Video], left_out: Mapping[str, str]) -> Artifact:
    """Who could be asked differs from time to time; the artifact does not."""
    counts = {"videos": len(videos), "left_out": len(left_out), "left_out_by": dict(Counter(left_out.values()))}
    return replace(made, facts={**made.facts, **counts})
