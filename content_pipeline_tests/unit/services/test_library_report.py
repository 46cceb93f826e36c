"""The report of a library: from a real manifest in SQLite and a real folder; no recording is ever read."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from content_pipeline.library.recipe import recipe_of
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobResult
from content_pipeline.manifest.open import open_manifest
from content_pipeline.manifest.restore import RecordedResult, RecordedVideo
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.media.source import Signature
from content_pipeline.services.library_report import LibraryReport, SinceFrom, Standing, make_report
from content_pipeline.services.report_file import report_path, stale_since, write_report
from content_pipeline.settings import Settings
from content_pipeline_tests.helpers.processing import Project

NOW = datetime.now(UTC)
MANY = 10_000


def remembered(path: Path, settings: Settings) -> RecordedVideo:
    video = KnownVideo(path, path.parent, path.stem, str(Signature.of(path.stat())), "sha256:x", f"blake3:{path.stem}")
    result = JobResult(video_key=path.stem, config_hash=recipe_of(settings).config_hash)
    return RecordedVideo(video, NOW, RecordedResult(result, NOW - timedelta(days=1)))


def processed(project: Project, count: int) -> Manifest:
    """Small files that the manifest knows as done yesterday, and what their first stages cost."""
    settings = project.settings()
    paths = [project.library / f"{number:05}.mp4" for number in range(count)]
    for path in paths:
        path.write_bytes(path.name.encode())
    manifest = open_manifest(settings)
    recipe = recipe_of(settings)
    manifest.restore([remembered(path, settings) for path in paths], {recipe.config_hash: recipe.as_json()}, "test")
    return manifest


def with_costs(manifest: Manifest, name: str) -> None:
    """The job of one video succeeds again, and says what it cost."""
    job = next(job for job in manifest.jobs.list() if job.subject.endswith(name))
    manifest.jobs.mark_dirty(JobFilter(job_ids=[job.job_id]), "test")
    (claimed,) = manifest.jobs.claim(ClaimRequest("test", job_ids=[job.job_id]))
    spent = {"wall_s": 2.0, "cpu_s": 3.0, "bytes": 9, "reused": False}
    stages = dict.fromkeys(("fingerprint", "energy", "detections", "montage"), spent)
    manifest.jobs.succeed(claimed.lease, JobResult(video_key=job.video_key, config_hash=job.config_hash, cost=stages))


def report(project: Project, seen: dict[str, datetime] | None = None, **changed: Any) -> LibraryReport:
    settings = project.settings(**changed)
    return make_report(settings, project.library, open_manifest(settings), seen or {}, NOW)


def test_a_library_that_is_up_to_date_has_nothing_to_report(project: Project) -> None:
    processed(project, 3)
    found = report(project)
    assert (found.videos, found.up_to_date, found.reported) == (3, 3, ())
    assert found.table().empty and found.causes().empty


def test_a_changed_setting_makes_videos_stale_with_reason_stages_and_cost(project: Project) -> None:
    manifest = processed(project, 3)
    with_costs(manifest, "00001.mp4")
    found = report(project, output__max_segments=1)
    assert {video.standing for video in found.reported} == {Standing.STALE}
    (causes,) = found.causes().to_dict("records")
    assert (causes["cause"], causes["videos"], causes["bytes"]) == ("output.max_segments 12 -> 1", 3, 27)
    assert found.reported[0].stages == ("detections", "montage")
    # Two of four stages, of files with as many bytes as the one that the costs are known of.
    assert (found.reported[0].expected_cpu_s, found.reported[0].expected_wall_s) == (6.0, 4.0)
    assert [video.in_sync_at == NOW - timedelta(days=1) for video in found.reported] == [True, False, True]


def test_without_known_costs_none_are_claimed(project: Project) -> None:
    processed(project, 1)
    (video,) = report(project, output__max_segments=1).reported
    assert (video.expected_cpu_s, video.expected_wall_s) == (None, None)


def test_since_when_is_the_first_report_that_saw_it_and_the_next_report_remembers(project: Project) -> None:
    processed(project, 2)
    settings = project.settings()
    path = report_path(settings, "games-1")
    first = report(project, output__max_segments=1)
    assert {(video.stale_since, video.since_from) for video in first.reported} == {(NOW, SinceFrom.REPORT)}
    write_report(first, path)
    later = NOW + timedelta(hours=1)
    seen = stale_since(path)
    manifest = open_manifest(settings)
    again = make_report(project.settings(output__max_segments=1), project.library, manifest, seen, later)
    assert {video.stale_since for video in again.reported} == {NOW}


def test_what_was_in_sync_since_the_last_report_is_stale_anew(project: Project) -> None:
    manifest = processed(project, 1)
    (job,) = manifest.jobs.list()
    before = {job.job_id: NOW - timedelta(days=30)}
    (video,) = report(project, before, output__max_segments=1).reported
    assert video.stale_since == NOW


def test_a_changed_file_is_stale_since_its_own_time(project: Project) -> None:
    processed(project, 1)
    path = project.library / "00000.mp4"
    path.write_bytes(b"another recording")
    changed = NOW - timedelta(hours=2)
    os.utime(path, (changed.timestamp(), changed.timestamp()))
    (video,) = report(project).reported
    assert (video.why, video.since_from) == ("input changed", SinceFrom.FILE)
    assert abs(video.stale_since - changed) < timedelta(milliseconds=1)


def test_what_a_plan_marked_is_stale_since_then_for_the_reasons_it_was_marked_with(project: Project) -> None:
    manifest = processed(project, 1)
    reason = "detections: output.max_segments 12 -> 1; montage: follows detections"
    manifest.jobs.mark_dirty(JobFilter(), reason)
    (video,) = report(project, output__max_segments=1).reported
    assert (video.standing, video.since_from) == (Standing.STALE, SinceFrom.MARKED)
    assert (video.why, video.stages) == ("output.max_segments 12 -> 1", ("detections", "montage"))
    assert video.stale_since >= NOW


def test_new_waiting_failed_and_stopped_videos_are_told_apart_from_stale_ones(project: Project) -> None:
    manifest = processed(project, 1)
    (project.library / "new.mp4").write_bytes(b"new")
    found = report(project)
    assert found.counts() == {**dict.fromkeys(map(str, Standing), 0), "new": 1}
    assert found.stale == ()
    (job,) = manifest.jobs.list()
    manifest.jobs.mark_dirty(JobFilter(), "test")
    manifest.jobs.cancel(JobFilter(job_ids=[job.job_id]))
    assert report(project).counts()["stopped"] == 1


def test_a_report_that_cannot_be_read_is_written_anew(tmp_path: Path) -> None:
    broken = tmp_path / "a.csv"
    for text in ("", "no,such\ncolumns,here\n", "standing,job_id,stale_since\nstale,x,never\n"):
        broken.write_text(text)
        assert stale_since(broken) == {}
    assert stale_since(tmp_path / "missing.csv") == {}


def test_ten_thousand_videos_are_reported_without_opening_one(project: Project, tmp_path: Path) -> None:
    processed(project, MANY)
    opened: list[str] = []
    listening = [True]

    def listen(event: str, args: tuple[Any, ...]) -> None:
        name = str(args[0]) if listening and event == "open" else ""
        if name.startswith(str(project.library)) and name.endswith(".mp4"):
            opened.append(name)

    sys.addaudithook(listen)  # it stays for as long as the process does
    found = report(project, output__max_segments=1)
    assert len(found.stale) == MANY
    write_report(found, tmp_path / "all.csv")
    assert opened == []
    (project.library / "00000.mp4").read_bytes()
    assert opened  # it does hear
    listening.clear()
    assert len(stale_since(tmp_path / "all.csv")) == MANY
