"""What a child does with one job: tell which video it is, look for room, run it, and say how it went."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from content_pipeline.defs.reporting import Carrier, Sender
from content_pipeline.errors import LibraryOffline, MissingFile, PipelineError, printable
from content_pipeline.failpoints import reached
from content_pipeline.launcher.embedded import EmbeddedRuns
from content_pipeline.launcher.home import open_instance
from content_pipeline.library.identify import identify
from content_pipeline.library.space import check_space
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.store import Manifest
from content_pipeline.manifest.videos import KnownVideo, VideoStore
from content_pipeline.settings import Settings

Send = Callable[[Any], None]


def deliver(job: Job, settings: Settings, runs: EmbeddedRuns, manifest: Manifest, force: bool, send: Send) -> None:
    sender = Sender(send)
    try:
        video = _identify(job, manifest)
        reached("identified")
        check_space(_size_bytes(video), settings)
    except PipelineError as error:
        sender.failed("fingerprint", error)
        return
    send({"is": "identified", "key": video.key, "bytes": _size_bytes(video)})
    lease = job.lease
    with open_instance(settings) as instance:
        run = runs.create(instance, video.key, f"{job.job_id}:{job.claim_count}")
        send({"is": "run", "run_id": run.run_id})
        manifest.report_run(lease, run.run_id, video.key)
        reached("run_created")
        carrier = Carrier(sender, force, lambda: manifest.fenced(lease))
        status = runs.execute(instance, run, carrier)
    content = VideoStore(manifest.engine).at(video.path)
    reached("run_ended")
    send(
        {
            "is": "ended",
            "run_status": status.value,
            "quick": None if content is None else content.quick,
            "full": None if content is None else content.full,
        }
    )


def _identify(job: Job, manifest: Manifest) -> KnownVideo:
    path, root = Path(job.video_path), Path(job.library)
    try:
        return identify(path, root, VideoStore(manifest.engine))
    except MissingFile as error:
        if not root.is_dir():
            raise LibraryOffline(f"{printable(root)} is not there") from error
        raise


def _size_bytes(video: KnownVideo) -> int:
    """The third part of a signature."""
    return int(video.signature.split(":")[2])
