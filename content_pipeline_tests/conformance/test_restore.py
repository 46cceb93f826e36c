"""What was lost is put back as it was; what is there is never touched."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import JobResult
from content_pipeline.manifest.restore import RecordedResult, RecordedVideo, RestoreCounts
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline_tests.conformance.manifests import START, Clock, add, claim, dump, moves, succeed

BEFORE = START - timedelta(days=30)
REASON = "rebuilt"
RESULT = JobResult(
    config_hash="c" * 64,
    stage_keys={"montage": "m"},
    output_files=["/out/a.mp4"],
    output_hashes={"/out/a.mp4": "0" * 64},
    results={"output_stats": {"/out/a.mp4": [1, 2]}},
)


def remembered(name: str, key: str = "a-0", done: bool = True, **given: Any) -> RecordedVideo:
    video = KnownVideo(Path("/games") / name, Path("/games"), key, "1:2:3:4:5", "sha256:q", "blake3:f")
    result = replace(RESULT, video_key=key, input_hash_quick=video.quick, input_hash_full=video.full, input_size=3)
    return RecordedVideo(replace(video, **given), BEFORE, RecordedResult(result, BEFORE, "run") if done else None)


def restore(manifest: Manifest, *lost: RecordedVideo) -> RestoreCounts:
    return manifest.restore(lost, {"c" * 64: {"settings": {}, "versions": {}}}, REASON)


def test_what_was_done_is_succeeded_again_with_a_line_that_says_why(manifest: Manifest) -> None:
    lost = [remembered("a"), remembered("copy of a"), remembered("b", "b-0", done=False)]
    assert restore(manifest, *lost) == RestoreCounts(videos=3, jobs=2)
    assert set(manifest.videos.all()) == {one.video for one in lost}
    assert manifest.recipes.all() == {"c" * 64: {"settings": {}, "versions": {}}}
    job = manifest.jobs.find(PROCESSING, "/games/a")
    assert job is not None
    assert (job.status, job.library, job.video_key, job.run_id) == (State.SUCCEEDED, "/games", "a-0", "run")
    assert (job.completed_at, job.claim_count, job.attempt_count) == (BEFORE, 0, 0)
    for name in ("config_hash", "stage_keys", "output_files", "output_hashes", "results", "cost"):
        assert getattr(job, name) == getattr(RESULT, name)
    (line,) = manifest.jobs.history(job.job_id)
    assert (line.from_state, line.to_state, line.reason) == (State.PENDING, State.SUCCEEDED, REASON)
    assert manifest.jobs.counts()[State.SUCCEEDED] == 2


def test_twice_is_once(manifest: Manifest, clock: Clock) -> None:
    restore(manifest, remembered("a"))
    once = dump(manifest)
    clock.pass_s(60)
    assert restore(manifest, remembered("a", signature="9:9:9:9:9")) == RestoreCounts()
    assert dump(manifest) == once


def test_a_job_that_is_there_stays_as_it_is(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a")
    assert restore(manifest, remembered("a")) == RestoreCounts(videos=1)
    assert manifest.jobs.get(job_id).status is State.PENDING
    assert manifest.jobs.history(job_id) == []


def test_of_a_file_that_is_known_the_manifest_knows_better(manifest: Manifest) -> None:
    known = replace(remembered("a").video, key="other-0", signature="9:9:9:9:9", full="blake3:other")
    manifest.videos.save(known)
    assert restore(manifest, remembered("a")) == RestoreCounts()
    assert manifest.videos.all() == [known]
    assert manifest.jobs.list() == []


def test_the_first_memory_of_a_path_counts(manifest: Manifest) -> None:
    assert restore(manifest, remembered("a", "new-0"), remembered("a", "old-0")) == RestoreCounts(videos=1, jobs=1)
    assert [job.video_key for job in manifest.jobs.list()] == ["new-0"]
    assert [video.key for video in manifest.videos.all()] == ["new-0"]


def test_any_name_a_file_can_have_comes_back(manifest: Manifest) -> None:
    name = os.fsdecode(b"caf\xe9 \xff \xf0\x9f\x8e\xae.mp4")
    restore(manifest, remembered(name))
    assert [job.subject for job in manifest.jobs.list()] == [f"/games/{name}"]
    assert [video.path.name for video in manifest.videos.all()] == [name]


def test_a_restored_job_lives_on_like_any_other(manifest: Manifest) -> None:
    restore(manifest, remembered("a"))
    (job,) = manifest.jobs.list()
    manifest.jobs.mark_dirty(JobFilter(job_ids=[job.job_id]), "threshold changed")
    succeed(manifest, claim(manifest))
    assert moves(manifest, job.job_id) == [
        "pending->succeeded",
        "succeeded->dirty",
        "dirty->running",
        "running->succeeded",
    ]


def test_many_are_restored_at_once(manifest: Manifest) -> None:
    lost = [remembered(f"{number:05}", f"{number:05}-0") for number in range(1500)]
    assert restore(manifest, *lost) == RestoreCounts(videos=1500, jobs=1500)
    assert restore(manifest, *lost) == RestoreCounts()
