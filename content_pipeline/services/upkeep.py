"""Upkeep of a state folder: clear, prune, check, read recordings again, and rebuild what was lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.dagster_runtime.lost_manifest import forget_in_dagster, has_dagster_home, rebuild_from_home
from content_pipeline.errors import counted
from content_pipeline.execution.job_kinds import video_kinds
from content_pipeline.library.retention import forget_old
from content_pipeline.library.verify_content import scrub
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.open import open_manifest, open_named_manifest
from content_pipeline.services.document import Document
from content_pipeline.services.queueing import JobSelection
from content_pipeline.settings import Settings
from content_pipeline.system.hashing import sha256_of

if TYPE_CHECKING:
    from dagster import DagsterInstance

DRAFT_LEFT = "was left by a process that died; `content-ai process` removes it, and so does a running `content-ai dev`"


class ClearPreview(Document):
    would_clear: int


class Cleared(Document):
    cleared: int


class Pruned(Document):
    """What was deleted, counted. `transitions` are entries of the history, `runs` those of Dagster."""

    jobs: int
    transitions: int
    artifacts: int
    logs: int
    outputs: int
    runs: int


class Violation(Document):
    invariant: str
    job_id: str | None
    detail: str


class CheckDocument(Document):
    violations: tuple[Violation, ...]


class ContentVerified(Document):
    read: int
    changed: tuple[str, ...]
    unreadable: int


class Rebuilt(Document):
    """`unknown`: videos of which too little is recorded."""

    videos: int = 0
    jobs: int = 0
    unknown: int = 0

    @property
    def in_words(self) -> str:
        return f"{counted(self.videos, 'video')} and {counted(self.jobs, 'job')} were rebuilt from Dagster's records."


def preview_clear(settings: Settings, selection: JobSelection, whole_manifest: bool = False) -> ClearPreview:
    """How many jobs `clear` would remove now."""
    manifest = open_named_manifest(settings, Access.USE)
    jobs = manifest.jobs.list(selection.as_filter(manifest))
    return ClearPreview(would_clear=sum(whole_manifest or job.status is not State.RUNNING for job in jobs))


def clear(settings: Settings, selection: JobSelection) -> Cleared:
    """Remove jobs that are not running. Artifacts and history stay."""
    manifest = open_named_manifest(settings, Access.USE)
    return Cleared(cleared=manifest.jobs.clear(selection.as_filter(manifest)))


def clear_manifest(settings: Settings) -> Cleared:
    """Delete everything in the manifest, history included."""
    manifest = open_named_manifest(settings, Access.USE)
    number = len(manifest.jobs.list())
    # Dagster first: were the manifest empty and it not, the next command would bring everything back.
    forget_in_dagster(settings)
    manifest.reset()
    return Cleared(cleared=number)


def prune(settings: Settings, age: timedelta | None = None) -> Pruned:
    """Delete what ended longer ago than `age` (by default `schedule.keep_days`) and is of no use any more."""
    manifest = open_named_manifest(settings, Access.USE)
    if not has_dagster_home(settings):
        return Pruned(**forget_old(settings, manifest, _oldest_kept(settings, age), video_kinds()), runs=0)
    from content_pipeline.dagster_runtime.instance import open_instance

    with open_instance(settings) as instance:
        return prune_with_runs(settings, manifest, instance, age)


def prune_with_runs(
    settings: Settings,
    manifest: Manifest,
    instance: DagsterInstance,
    age: timedelta | None = None,
    alive: Callable[[], None] = lambda: None,
) -> Pruned:
    """The same for a process that has a Dagster instance; `alive` is called as it gets on."""
    from content_pipeline.dagster_runtime.run_retention import forget_all_old
    from content_pipeline.launchers.queue_launcher import launched_runs

    oldest, launched = _oldest_kept(settings, age), partial(launched_runs, instance)
    return Pruned(**forget_all_old(settings, manifest, instance, oldest, launched, alive))


def _oldest_kept(settings: Settings, age: timedelta | None) -> datetime:
    return datetime.now(UTC) - (timedelta(days=settings.schedule.keep_days) if age is None else age)


def check(settings: Settings) -> CheckDocument:
    """Whether the manifest, its history and every published file agree."""
    manifest = open_named_manifest(settings, Access.READ)
    found = [
        Violation(invariant=one.invariant, job_id=one.job_id, detail=one.detail)
        for one in manifest.check(_hash_if_there)
    ]
    drafts = ArtifactStore(settings.state_dir.absolute() / "artifacts").abandoned_drafts()
    found += [Violation(invariant="drafts", job_id=None, detail=f"{draft} {DRAFT_LEFT}") for draft in drafts]
    return CheckDocument(violations=tuple(found))


def verify_content(settings: Settings, share: float, alive: Callable[[], None] = lambda: None) -> ContentVerified:
    """Read a share of the recordings in full, to find changes that size and times do not show."""
    manifest = open_named_manifest(settings, Access.USE)
    report = scrub(manifest.videos, share, random.random, alive)
    changed = tuple(str(path) for path in report.changed)
    return ContentVerified(read=report.read, changed=changed, unreadable=report.unreadable)


def rebuild(settings: Settings) -> Rebuilt | None:
    """Bring back what was lost with the manifest; None when there are no records to rebuild from."""
    manifest = open_manifest(settings)
    if not has_dagster_home(settings):
        return None
    rebuilt = rebuild_from_home(settings, manifest)
    return Rebuilt(videos=rebuilt.videos, jobs=rebuilt.jobs, unknown=rebuilt.unknown)


def _hash_if_there(path: str) -> str | None:
    try:
        return sha256_of(Path(path))
    except OSError:
        return None
