"""`queue clear`, `prune` and `check`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.cli.main import EXIT_FAILURE
from content_pipeline.cli.printing import confirm, counted, print_document, print_result
from content_pipeline.cli.queue.options import (
    duration,
    job_filter_of,
    job_filter_options,
    manifest_of,
    queue_options,
    settings_of,
)
from content_pipeline.dagster_runtime.manifest_recovery import forget_in_dagster, has_dagster_home
from content_pipeline.errors import printable
from content_pipeline.library.retention import forget_old
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.open import open_named_manifest
from content_pipeline.settings import Settings
from content_pipeline.system.hashing import sha256_of


@click.command()
@click.option("--manifest", "whole", is_flag=True, help="Delete everything in the manifest, history included.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@job_filter_options
@queue_options
def clear(whole: bool, yes: bool, dry_run: bool, **given: Any) -> int:
    """Remove jobs that are not running. Artifacts and history stay, so that processing again is cheap."""
    as_json = given.pop("as_json")
    settings = settings_of(given)
    manifest = open_named_manifest(settings, Access.USE)
    job_filter = job_filter_of(manifest, given)
    jobs = [job for job in manifest.jobs.list(job_filter) if whole or job.status is not State.RUNNING]
    what = counted(len(jobs), "job") + (" and everything else in the manifest" if whole else "")
    if dry_run:
        return _tell(as_json, {"would_clear": len(jobs)}, f"Would remove {what}.")
    if not yes:
        confirm(f"Remove {what}?")
    if whole:
        # Dagster first: were the manifest empty and it not, the next command would bring everything back.
        forget_in_dagster(settings)
        manifest.reset()
    else:
        manifest.jobs.clear(job_filter)
    return _tell(as_json, {"cleared": len(jobs)}, f"Removed {what}.")


@click.command()
@click.option("--older-than", default="90d", show_default=True, help="Age, e.g. 12h, 30d.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@queue_options
def prune(older_than: str, yes: bool, **given: Any) -> int:
    """Delete old history, jobs of recordings that are gone, unused artifacts, old logs and superseded Dagster runs."""
    as_json = given.pop("as_json")
    settings = settings_of(given)
    manifest = open_named_manifest(settings, Access.USE)
    before = datetime.now(UTC) - duration(older_than)
    if not yes:
        confirm(f"Delete the history of what ended more than {older_than} ago?")
    pruned = _prune(settings, manifest, before)
    nouns = {
        "jobs": "job",
        "transitions": "history entry",
        "artifacts": "artifact",
        "logs": "log",
        "outputs": "output record",
        "runs": "run",
    }
    parts = [counted(pruned[name], noun) for name, noun in nouns.items()]
    return _tell(as_json, pruned, f"Removed {', '.join(parts[:-1])} and {parts[-1]}.")


def _prune(settings: Settings, manifest: Manifest, before: datetime) -> dict[str, int]:
    """Dagster is loaded only where it has records."""
    if not has_dagster_home(settings):
        return {**forget_old(settings, manifest, before), "runs": 0}
    from content_pipeline.dagster_runtime.instance import open_instance
    from content_pipeline.dagster_runtime.run_retention import forget_all_old
    from content_pipeline.launchers.local.launch_queue import LaunchQueue

    with open_instance(settings) as instance:
        return forget_all_old(settings, manifest, instance, before, LaunchQueue(Path(instance.root_directory)).run_ids)


@click.command()
@queue_options
def check(**given: Any) -> int:
    """Verify that the manifest, its history and every published file, in every output folder, agree."""
    as_json = given.pop("as_json")
    settings = settings_of(given)
    manifest = open_named_manifest(settings, Access.READ)
    violations = [asdict(one) for one in manifest.check(_hash_if_there)]
    drafts = ArtifactStore(settings.state_dir.absolute() / "artifacts").abandoned_drafts()
    left = "was left by a process that died; the next `content-ai process` removes it"
    violations += [{"invariant": "drafts", "job_id": None, "detail": f"{draft} {left}"} for draft in drafts]
    if as_json:
        print_document({"violations": violations})
    else:
        for one in violations:
            print_result(f"{one['invariant']}: {one['detail']}" + (f" (job {one['job_id']})" if one["job_id"] else ""))
        print_result(
            f"{counted(len(violations), 'problem')} found."
            if violations
            else "No problems found: the manifest, its history and the outputs agree."
        )
    return EXIT_FAILURE if violations else 0


@click.command()
@click.option(
    "--share", default=0.05, show_default=True, type=click.FloatRange(0, 1), help="Share of the recordings to read."
)
@click.option("--all", "everything", is_flag=True, help="Every recording.")
@queue_options
def scrub(share: float, everything: bool, **given: Any) -> int:
    """Read a share of the recordings in full, to find changes that size and times do not show."""
    from content_pipeline.library.verify_content import scrub as read_again

    as_json = given.pop("as_json")
    manifest = manifest_of(given)
    report = read_again(manifest.videos, 1.0 if everything else share, random.random)
    for path in report.changed:
        print_result(f"changed: {printable(path)}") if not as_json else None
    document = {"read": report.read, "changed": [str(path) for path in report.changed], "unreadable": report.unreadable}
    text = (
        f"{counted(report.read, 'recording')} read, {len(report.changed)} changed, "
        f"{report.unreadable} could not be read."
    )
    return _tell(as_json, document, text)


def _hash_if_there(path: str) -> str | None:
    try:
        return sha256_of(Path(path))
    except OSError:
        return None


def _tell(as_json: bool, document: Mapping[str, Any], text: str) -> int:
    print_document(document) if as_json else print_result(text)
    return 0
