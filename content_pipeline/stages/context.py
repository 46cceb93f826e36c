"""What a stage works with, and the one way an artifact is made or found again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from content_pipeline.artifacts import Artifact, ArtifactStore, Draft
from content_pipeline.errors import FileInUse, LibraryOffline, MissingFile, printable
from content_pipeline.failpoints import failpoint
from content_pipeline.manifest.publications import Publication, Publications
from content_pipeline.manifest.videos import KnownVideo, Videos
from content_pipeline.media.source import Signature, Source, open_source
from content_pipeline.publishing.publish import OutputFolder, Published
from content_pipeline.settings import Settings
from content_pipeline.stage import StageName, spec_of
from content_pipeline.system.hashing import digest_of

Progress = Callable[[StageName, float], None]


def no_progress(_stage: StageName, _fraction: float) -> None:
    return None


@dataclass(frozen=True)
class StageContext:
    settings: Settings
    artifacts: ArtifactStore
    videos: Videos
    publications: Publications
    progress: Progress = no_progress
    cores: int = 1  # how many this video may use
    force_id: str | None = None  # of a forced job: reuse only artifacts that it made itself
    forced: tuple[str, ...] | None = None  # the stages that the force is about; None means all of them
    _settings_digests: dict[StageName, str] = field(default_factory=dict, init=False)  # asked for thousands of times

    def stage_key(self, stage: StageName, **inputs: object) -> str:
        """The digest of exactly what this stage's output depends on."""
        if stage not in self._settings_digests:
            self._settings_digests[stage] = self.settings.digest(stage)
        settings = self._settings_digests[stage]
        return digest_of({"stage": stage, "version": spec_of(stage).version, "settings": settings, "inputs": inputs})

    def reusable(self, stage: StageName, key: str) -> Artifact | None:
        """The artifact, if it is there, intact, and not to be made anew.

        Whether a forced job has made it already is written in the artifact itself: whoever goes on with the job
        after its worker died makes the rest anew, and nothing twice.
        """
        artifact = self.artifacts.find(stage, key)
        return artifact if artifact is not None and self.force_of(stage) in (None, artifact.force_id) else None

    def force_of(self, stage: StageName) -> str | None:
        """The force under which a stage is made, if it is forced; a part goes with its stage."""
        whole = spec_of(stage).part_of
        return self.force_id if self.forced is None or (stage if whole is None else whole) in self.forced else None

    @property
    def outputs(self) -> OutputFolder:
        return OutputFolder(self.settings.output_dir.absolute(), self.publications, self.artifacts)

    @contextmanager
    def open_video(self, key: str) -> Iterator[tuple[Source, KnownVideo]]:
        """The video's file, at whichever of its paths is still there."""
        known = _whole_copy(self.videos.with_key(key), key)
        if not known.root.is_dir():
            raise LibraryOffline(f"{printable(known.root)} does not exist")
        with open_source(known.path, known.root, self.settings.limits) as source:
            yield source, known

    @contextmanager
    def open_content(self, key: str, full: str) -> Iterator[Source]:
        """The video's file, sure to hold the content that was fingerprinted, before and after."""
        with self.open_video(key) as (source, known):
            if known.full != full or not source.signature.matches(known.signature):
                raise FileInUse(f"{printable(source.path)} changed after it was fingerprinted")
            try:
                yield source
            finally:
                source.check_unchanged()  # what changed meanwhile is no verdict on the file, damage included


def _whole_copy(paths: Sequence[KnownVideo], key: str) -> KnownVideo:
    """The path to read a video from: one that is as it was when it was identified.

    A video with a single path may have been edited in place and is still that video. Of several equal copies,
    one that changed has become another video, and must not speak for the rest.
    """
    if not paths:
        raise MissingFile(f"no file is known for the video {key}; scan its folder first")
    there = {video.path: signature for video in paths if (signature := _signature(video.path)) is not None}
    for video in paths:
        if video.path in there and there[video.path].matches(video.signature):
            return video
    if len(there) > 1:
        raise FileInUse(f"every copy of {printable(next(iter(there)))} has changed since it was scanned")
    return next((video for video in paths if video.path in there), paths[0])


def _signature(path: Path) -> Signature | None:
    """None for what is not there, or may not be looked at: opening it says which."""
    try:
        return Signature.of(path.stat())
    except OSError:
        return None


def code_version(settings: Settings, stage: StageName) -> str:
    """Version of the algorithm, and of the settings it reads: what Dagster compares."""
    return f"{spec_of(stage).version}-{settings.digest(stage)[:12]}"


@dataclass(frozen=True)
class StageResult:
    stage: StageName
    key: str
    artifact: Artifact
    reused: bool
    seconds: float
    outputs: Mapping[Path, str] = field(default_factory=dict)  # published files and their SHA-256
    written: tuple[Path, ...] = ()  # those of them that were put there just now
    notes: tuple[str, ...] = ()  # what a person should know of files that were kept or removed
    publications: tuple[Publication, ...] = ()  # all that is published of it, in every output folder

    def with_outputs(self, published: Published, seconds: float) -> StageResult:
        return replace(
            self,
            seconds=seconds,
            outputs=published.files,
            written=published.written,
            notes=published.notes,
            publications=published.publications,
        )


def obtain(context: StageContext, stage: StageName, key: str, make: Callable[[Draft], None]) -> StageResult:
    """Find the artifact of this key intact, or make it."""
    started = time.monotonic()
    with context.artifacts.only_one(stage, key):  # the same content twice in a library is still done once
        reusable = context.reusable(stage, key)
        if reusable is not None:
            return StageResult(stage, key, reusable, True, time.monotonic() - started)
        with context.artifacts.draft(stage, key, context.force_of(stage)) as draft:
            make(draft)
        failpoint(f"{stage}_sealed")
    made = context.artifacts.find(stage, key)
    if made is None:
        raise FileInUse(f"the {stage} artifact {key[:12]} was damaged right after it was written")
    return StageResult(stage, key, made, False, time.monotonic() - started)
