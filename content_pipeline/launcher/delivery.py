"""What a child does with one job: tell which video it is, look for room, run it, and say how it went."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import dagster as dg

from content_pipeline.defs.reporting import Carrier, Sender
from content_pipeline.errors import LibraryOffline, MissingFile, named, printable
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


def deliver(
    job: Job, settings: Settings, runs: EmbeddedRuns, manifest: Manifest, force: bool, cores: int, send: Send
) -> None:
    """Nothing that goes wrong here goes unsaid: only a process that dies is a crash."""
    sender = Sender(send)
    try:
        _deliver(job, settings, runs, manifest, Carrier(sender, force, cores, lambda: manifest.fenced(job.lease)), send)
    except Exception as error:  # noqa: BLE001 - the boundary of a worker
        traceback.print_exc()
        sender.failed("fingerprint", named(error))


def _deliver(
    job: Job, settings: Settings, runs: EmbeddedRuns, manifest: Manifest, carrier: Carrier, send: Send
) -> None:
    video = _identify(job, manifest)
    reached("identified")
    check_space(_size_bytes(video), settings)
    send({"is": "identified", "key": video.key, "bytes": _size_bytes(video)})
    with open_instance(settings) as instance:
        run = runs.create(instance, video.key, f"{job.job_id}:{job.claim_count}")
        send({"is": "run", "run_id": run.run_id})
        manifest.report_run(job.lease, run.run_id, video.key)
        reached("run_created")
        status = runs.execute(instance, run, carrier)
    reached("run_ended")
    if status is dg.DagsterRunStatus.FAILURE and not carrier.listener.spoke_of_failure:
        raise RuntimeError(f"Dagster ended the run {run.run_id} as failed outside of a stage")
    content = VideoStore(manifest.engine).at(video.path)
    send(
        {
            "is": "ended",
            "run_status": status.value,
            "quick": None if content is None else content.quick,
            "full": None if content is None else content.full,
            "stats": _stats(carrier.listener.outputs),
        }
    )


def _stats(outputs: Iterable[str]) -> dict[str, list[int]]:
    """Size and time of each output, by which a plan tells later whether it is still as it was left."""
    found = {path: Path(path).stat() for path in outputs}
    return {path: [status.st_size, status.st_mtime_ns] for path, status in found.items()}


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
