"""Whether this host and the others agree: the database's clock, the rights of its role, the other workers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from content_pipeline.errors import NoManifest, OldSchema, counted, printable
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.open import open_named_manifest
from content_pipeline.manifest.rights import Rights
from content_pipeline.manifest.seen_roots import RootState, RootView
from content_pipeline.services.workers import WorkerDocument, describe_unmet, list_workers
from content_pipeline.settings import Settings
from content_pipeline.version import __version__

Judgement = Literal["ok", "warning", "problem"]
NOTHING_YET: tuple[Judgement, str] = ("ok", "no manifest yet")
LARGE_DIFFERENCE_S = 5.0  # leases go by the database's clock alone; times that are shown and compared by hand do not


def database_clock(settings: Settings) -> tuple[Judgement, str]:
    """How far this host's clock is from the database's, and how long an answer takes."""
    manifest = _manifest(settings)
    if manifest is None:
        return NOTHING_YET
    manifest.workers.now()  # connects
    before, began_s = datetime.now(UTC), time.perf_counter()
    theirs = manifest.workers.now()
    took_s = time.perf_counter() - began_s
    return judge_clock((theirs - before).total_seconds() - took_s / 2, took_s)


def judge_clock(difference_s: float, took_s: float) -> tuple[Judgement, str]:
    if abs(difference_s) - took_s < LARGE_DIFFERENCE_S:
        return (
            "ok",
            f"agrees with this host's within {max(abs(difference_s), took_s):.2g} s; an answer takes {took_s:.2g} s",
        )
    ahead = "ahead of" if difference_s > 0 else "behind"
    detail = f"{abs(difference_s):.1f} s {ahead} this host's; set the clocks by NTP. Leases go by the database's clock"
    return "warning", detail


def database_role(settings: Settings) -> tuple[Judgement, str]:
    """What the role may do with the manifest's tables."""
    manifest = _manifest(settings)
    if manifest is None:
        return NOTHING_YET
    return judge_rights(manifest.rights())


def judge_rights(rights: Rights | None) -> tuple[Judgement, str]:
    if rights is None:
        return "ok", "SQLite has no roles"
    who = f"{rights.role}, schema {rights.schema}"
    if not rights.may_read:
        return "problem", f"{who}: may not read all tables; see deploy/postgres-roles.sql"
    if not rights.may_write:
        return "warning", f"{who}: may read only, which is enough for queue status, list, show and plan"
    return "ok", f"{who}: may work{' and change tables' if rights.may_change_tables else ', but not change tables'}"


def other_workers(settings: Settings) -> tuple[Judgement, str]:
    """What no worker can do; when each last spoke, and whether all run the same version."""
    try:
        found = list_workers(settings)
        missing = describe_unmet(found.unmet)
        return ("warning", "; ".join(missing)) if missing else judge_workers(found.workers)
    except (NoManifest, OldSchema):
        return NOTHING_YET


def judge_workers(workers: Sequence[WorkerDocument]) -> tuple[Judgement, str]:
    if not workers:
        return "ok", "none is running"
    hosts = ", ".join(dict.fromkeys(_where(worker) for worker in workers))
    found = f"{counted(len(workers), 'worker')} on {hosts}"
    silent = [f"{_where(one)} pid {one.pid} since {one.silent_s:.0f} s" for one in workers if _is_silent(one)]
    if silent:
        return "warning", f"{found}; no heartbeat from {', '.join(silent)}: others take over its jobs"
    versions = sorted({one.version for one in workers if one.version is not None} | {__version__})
    if len(versions) > 1:
        return "warning", f"{found}; they run different versions: {', '.join(versions)} (here {__version__})"
    return "ok", f"{found}, version {versions[0]}"


def storage(settings: Settings) -> tuple[Judgement, str]:
    """Whether this host sees the same files as the others, below each root."""
    manifest = _manifest(settings)
    return NOTHING_YET if manifest is None else judge_roots(manifest.roots.views(), settings)


def judge_roots(views: Sequence[RootView], settings: Settings) -> tuple[Judgement, str]:
    if not views:
        return "ok", "no roots: every host has the same folders at the same places"
    wrong = [view for view in views if view.state not in (RootState.SEEN, RootState.UNMAPPED)]
    problems = "; ".join(view.problem for view in views if view.problem is not None)
    if wrong:
        return "problem", problems
    seen = ", ".join(f"{view.name} at {printable(view.folder)}" for view in views if view.folder is not None)
    if problems:
        return "warning", f"{problems}{f'; seen: {seen}' if seen else ''}"
    outputs = settings.output_dir.absolute()
    if not any(view.folder is not None and outputs.is_relative_to(view.folder) for view in views):
        return "warning", f"{seen}; the output folder {printable(outputs)} lies below none of them"
    return "ok", f"the same files as every host: {seen}"


def _where(worker: WorkerDocument) -> str:
    return worker.worker_id if worker.host is None else worker.host


def _is_silent(worker: WorkerDocument) -> bool:
    return worker.state == "stale" and worker.silent_s is not None


def _manifest(settings: Settings) -> Manifest | None:
    try:
        return open_named_manifest(settings, Access.READ)
    except (NoManifest, OldSchema):
        return None
