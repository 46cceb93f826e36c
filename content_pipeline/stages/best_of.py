"""Best-of: what stands out most in a whole library, cut and joined, checked, and published whole."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
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
from content_pipeline.media.render.encoding import FrameSize
from content_pipeline.media.render.join import JoinedMontage
from content_pipeline.media.render.verify import verify_montage
from content_pipeline.media.selection.best_of_selection import Contender, Offer
from content_pipeline.media.selection.best_of_selection import best_of as choose
from content_pipeline.media.selection.highlights import DURATION_LIMIT, SEGMENT_LIMIT, Highlight
from content_pipeline.media.source import open_source
from content_pipeline.media.spans import Scene, Span
from content_pipeline.publishing.names import Name, safe_name
from content_pipeline.publishing.publish import Published, pieces_of, publish
from content_pipeline.stage import StageName, spec_of
from content_pipeline.stages.clips import (
    NO_CLIPS,
    PUBLISHED,
    ClipRequest,
    CutClip,
    cut_as_json,
    cut_clip,
    join_clips,
    progress_of_clip,
)
from content_pipeline.stages.context import StageContext, StageResult, obtain
from content_pipeline.stages.fingerprint import VideoContent

PREFIX = "best-of-"

# Errors that concern one video, which is left out then; a full disk or a lost database concerns all of them.
_ERRORS_OF_ONE_VIDEO = (PermanentError, TransientError, LibraryOffline)


@dataclass(frozen=True)
class BestOfLibrary:
    key: str
    root: Path


@dataclass(frozen=True)
class Processed:
    """A video whose job succeeded, and the keys of what that made."""

    video_key: str
    path: Path
    full: str | None
    stage_keys: Mapping[str, str]


@dataclass(frozen=True)
class _ReadableVideo:
    """A video that can be shown: its file is there unchanged, and so is what was found in it."""

    path: Path
    content: VideoContent
    track: int
    offer: Offer

    @property
    def size(self) -> tuple[int, int]:
        """Upright, and even as H.264 needs it."""
        video = self.content.info.video
        assert video is not None
        width, height = (max(2, side // 2 * 2) for side in (video.width, video.height))
        return (width, height) if video.rotation_degrees % 180 == 0 else (height, width)


@dataclass(frozen=True)
class _Shot:
    """One clip of the best-of: a highlight that was chosen, and the video it is cut from."""

    contender: Contender
    video: _ReadableVideo

    def request(self, size: FrameSize) -> ClipRequest:
        """Recordings differ in format, so every clip is encoded, and fitted into a common size."""
        return ClipRequest(self.video.content, self.contender.span, self.video.track, "encode", size)

    def description(self, library: Path) -> dict[str, Any]:
        """What the JSON file beside the best-of says of the clip's origin."""
        contender, path = self.contender, self.video.path
        return {
            "video": contender.video_key,
            "path": printable(path.relative_to(library) if path.is_relative_to(library) else path),
            "score": contender.score,
            "standing": contender.standing,
        }


class _CannotBeCut(Exception):
    """Found out while cutting: the choice has to be made again without this video."""

    def __init__(self, video_key: str, code: str) -> None:
        super().__init__(video_key)
        self.video_key = video_key
        self.code = code


def best_of(context: StageContext, library: BestOfLibrary, jobs: Sequence[Processed]) -> StageResult:
    """Decides by cached detections alone. A video that cannot be read is left out and counted, never a failure."""
    started = time.monotonic()
    videos, left_out = _readable(context, library.root, jobs)
    while True:
        try:
            result = _obtain(context, library.root, _choose_shots(context, videos))
            break
        except _CannotBeCut as failure:
            left_out[failure.video_key] = failure.code
            del videos[failure.video_key]
    unknown = not videos and bool(left_out)  # not the same as: there is nothing to show
    published = Published({}) if unknown else _publish(context, library, result.artifact)
    counted = replace(result, artifact=_with_counts(result.artifact, videos, left_out))
    return counted.with_outputs(published, time.monotonic() - started)


def _publish(context: StageContext, library: BestOfLibrary, artifact: Artifact) -> Published:
    owner = PREFIX + library.key
    name = Name(PREFIX + safe_name(library.root.name, otherwise="library"), owner)
    pieces = pieces_of(owner, PUBLISHED, artifact)
    return publish(context.outputs, owner, name, pieces, "nothing stands out with these settings")


# --- what there is to choose from


def _readable(
    context: StageContext, library: Path, jobs: Sequence[Processed]
) -> tuple[dict[str, _ReadableVideo], dict[str, str]]:
    """Videos by key, and of those left out the code of the error. Equal copies are one video."""
    if not library.is_dir():
        raise LibraryOffline(f"{printable(library)} does not exist")
    videos: dict[str, _ReadableVideo] = {}
    left_out: dict[str, str] = {}
    for job in sorted(jobs, key=lambda job: (job.video_key, job.path)):
        if job.video_key in videos:
            continue
        try:
            videos[job.video_key] = _read(context, job)
            left_out.pop(job.video_key, None)
        except _ERRORS_OF_ONE_VIDEO as error:
            left_out[job.video_key] = error.code
    return videos, left_out


def _read(context: StageContext, job: Processed) -> _ReadableVideo:
    """Looks at artifacts and `stat`; of the recording nothing is read."""
    if job.full is None:
        raise MissingFile(f"{printable(job.path)} was never read completely")
    media, energy = _artifact(context, job, "fingerprint"), _artifact(context, job, "energy")
    detections = _artifact(context, job, "detections")
    content = VideoContent(job.video_key, job.full, media.digest, MediaInfo.from_json(media.read_json("media.json")))
    if content.info.video is None:
        raise NoPicture(f"{printable(job.path)} holds no picture")
    with context.open_content(job.video_key, job.full):
        offer = _offer(job.video_key, detections.read_json("detections.json"))
    return _ReadableVideo(job.path, content, int(energy.facts["track"]), offer)


def _artifact(context: StageContext, job: Processed, stage: StageName) -> Artifact:
    artifact = context.artifacts.find(stage, job.stage_keys[stage]) if stage in job.stage_keys else None
    if artifact is None:
        raise MissingFile(f"the {stage} artifact of {printable(job.path)} is missing or damaged; process it again")
    return artifact


def _offer(video_key: str, detections: dict[str, Any]) -> Offer:
    """Includes highlights for which the video's own montage had no room: that says nothing of their worth."""
    without_room = (DURATION_LIMIT, SEGMENT_LIMIT)
    passed_over = [item for item in detections["dropped_highlights"] if item["dropped_by"] in without_room]
    return Offer(
        video_key,
        tuple(
            # Detections of the version before have no peak.
            Highlight(Span(item["start_s"], item["end_s"]), item["score"], peak_s=item.get("peak_s"))
            for item in detections["highlights"] + passed_over
        ),
        tuple(item["score"] for item in detections["candidates"]),
    )


def _choose_shots(context: StageContext, videos: Mapping[str, _ReadableVideo]) -> list[_Shot]:
    choice = choose([video.offer for video in videos.values()], context.settings.best_of)
    return [_Shot(contender, videos[contender.video_key]) for contender in choice.kept]


def _frame_size(shots: Sequence[_Shot]) -> FrameSize:
    """The size that most clips have anyway; of equally many the larger."""
    counts = Counter(shot.video.size for shot in shots)
    largest = max(counts, key=lambda size: (counts[size], size[0] * size[1], size), default=(2, 2))
    return FrameSize(*largest)


# --- making it


def best_of_key(context: StageContext, library: Path, shots: Sequence[_Shot], size: FrameSize) -> str:
    """Depends on the clips in their order, and on everything that is published about them."""
    return context.stage_key(
        "best_of",
        library=printable(library),
        size=[size.width, size.height],
        cuts=[{**shot.description(library), **shot.video.content.identity, **shot.request(size).cut} for shot in shots],
        peaks_s=[shot.contender.peak_s for shot in shots],
        clip_version=spec_of("clip").version,
    )


def _obtain(context: StageContext, library: Path, shots: Sequence[_Shot]) -> StageResult:
    size = _frame_size(shots)
    key = best_of_key(context, library, shots, size)
    return obtain(context, "best_of", key, lambda draft: _make(draft, context, library, shots, size))


def _make(draft: Draft, context: StageContext, library: Path, shots: Sequence[_Shot], size: FrameSize) -> None:
    if not shots:
        draft.facts = dict(NO_CLIPS)
        return
    clips = [_cut(context, shots, number, size) for number in range(len(shots))]
    rendered = join_clips(clips, context.settings.render, draft.path("montage.mp4"))
    verify_montage(rendered.joined)
    draft.write_bytes("sheet.jpg", _contact_sheet(shots, rendered.joined))
    draft.write_json("montage.json", _as_json(library, shots, rendered.joined))
    draft.facts = {**rendered.facts, "width": size.width, "height": size.height}


def _cut(context: StageContext, shots: Sequence[_Shot], number: int, size: FrameSize) -> CutClip:
    shot, report = shots[number], progress_of_clip(context, "best_of", number, len(shots))
    try:
        return cut_clip(context, shot.request(size), report)
    except _ERRORS_OF_ONE_VIDEO as error:
        raise _CannotBeCut(shot.contender.video_key, error.code) from error


def _contact_sheet(shots: Sequence[_Shot], joined: JoinedMontage) -> bytes:
    """Taken from the best-of itself: its recordings are many, and its pictures are already there."""
    from content_pipeline.media.preview.contact_sheet import contact_sheet

    scenes = [
        Scene.of(Span(cut.start_s, cut.end_s), None if peak_s is None else cut.start_s + peak_s - cut.source.start_s)
        for peak_s, cut in zip((shot.contender.peak_s for shot in shots), joined.cuts, strict=True)
    ]
    with open_source(joined.path) as source:
        return contact_sheet(source, probe(source), scenes)


def _as_json(library: Path, shots: Sequence[_Shot], joined: JoinedMontage) -> dict[str, Any]:
    cuts = [{**shot.description(library), **cut_as_json(cut)} for shot, cut in zip(shots, joined.cuts, strict=True)]
    return {"library": printable(library), "duration_s": joined.duration_s, "mode": "encode", "cuts": cuts}


def _with_counts(artifact: Artifact, videos: Mapping[str, _ReadableVideo], left_out: Mapping[str, str]) -> Artifact:
    """How many videos could be read differs from time to time; the artifact does not."""
    counts = {"videos": len(videos), "left_out": len(left_out), "left_out_by": dict(Counter(left_out.values()))}
    return replace(artifact, facts={**artifact.facts, **counts})
