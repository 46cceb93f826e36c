"""A library over time: files move, settle, vanish and come back; the manifest follows, and work is not repeated."""

import json
import multiprocessing
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.definitions import build_definitions
from content_pipeline.errors import LibraryOffline
from content_pipeline.execution.run_context import RunContext
from content_pipeline.execution.stage_context import open_stage_context
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.library.plan import Action
from content_pipeline.library.recipe import recipe_of
from content_pipeline.library.scan import scan
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import ClaimRequest, JobFailure, JobResult, Lease
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.planner import Planner, command_terms
from content_pipeline.services.processing import NoProgress, Processor
from content_pipeline.settings import Settings
from content_pipeline_tests.conformance.manifests import database_of
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.processing import Project, computed


def processor_of(project: Project, **changed: Any) -> Processor:
    settings = project.settings(**changed)
    return Processor(settings, open_manifest(settings), NoProgress())


def plan_of(project: Project, **changed: Any) -> Any:
    settings = project.settings(**changed)
    planner = Planner(settings, open_manifest(settings), command_terms(settings))
    return planner.plan(scan(project.library, settings.library))


@pytest.fixture
def short(samples_folder: Path) -> Path:
    return samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))


@pytest.fixture
def processed(project: Project, short: Path) -> Project:
    shutil.copy(short, project.library / "game.mp4")
    assert project.process()["game.mp4"].status == "succeeded"
    return project


def pretend_processed(project: Project, number: int) -> list[Path]:
    """Many small files that the manifest knows as done: as if each had been processed."""
    from content_pipeline.manifest.videos import KnownVideo
    from content_pipeline.media.source import Signature

    paths = [project.library / f"{index:05}.mp4" for index in range(number)]
    for path in paths:
        path.write_bytes(path.name.encode())
    processor = processor_of(project)
    processor.enqueue(scan(project.library, project.settings().library))
    store = processor.manifest.videos
    config_hash = recipe_of(project.settings()).config_hash
    while jobs := processor.manifest.jobs.claim(ClaimRequest("test", 500)):
        for job in jobs:
            path = Path(job.subject)
            store.save(KnownVideo(path, project.library, path.stem, str(Signature.of(path.stat())), "sha256:x", "y"))
            processor.manifest.jobs.succeed(job.lease, JobResult(video_key=path.stem, config_hash=config_hash))
    return paths


def test_the_plan_says_why(processed: Project) -> None:
    assert [video.action for video in plan_of(processed).videos] == [Action.KEEP]
    (video,) = plan_of(processed, detection__rms_threshold=0.2).videos
    assert video.action is Action.REDO
    assert video.reasons == {
        "detections": "detection.rms_threshold 0.1 -> 0.2",
        "montage": "follows detections",
    }
    (video,) = plan_of(processed, render__crf=20).videos
    assert video.reasons == {"montage": "render.crf 23 -> 20"}
    output = next(processed.output.glob("*.mp4"))
    output.unlink()
    (video,) = plan_of(processed).videos
    assert video.reasons == {"montage": f"output missing: {output}"}


def test_a_changed_input_and_a_new_file_are_told_apart(processed: Project, short: Path) -> None:
    game = processed.library / "game.mp4"
    os.utime(game)
    shutil.copy(short, processed.library / "other.mp4")
    reasons = {video.found.path.name: set(video.reasons.values()) for video in plan_of(processed).videos}
    assert reasons == {"game.mp4": {"file times changed"}, "other.mp4": {"new"}}
    game.write_bytes(game.read_bytes() + b"more")
    reasons = {video.found.path.name: set(video.reasons.values()) for video in plan_of(processed).videos}
    assert reasons["game.mp4"] == {"input changed"}


def test_planning_changes_nothing(processed: Project) -> None:
    before = processor_of(processed).manifest.jobs.counts()
    plan_of(processed, detection__rms_threshold=0.3)
    assert processor_of(processed).manifest.jobs.counts() == before


def test_a_failed_video_is_left_until_something_changes(project: Project) -> None:
    (project.library / "bad.mp4").write_text("this is no video")
    assert project.process()["bad.mp4"].error_code == "not_a_video"
    again = project.process()["bad.mp4"]
    assert (again.status, again.error_code, again.stages) == ("failed", "not_a_video", {})
    job = processor_of(project).manifest.jobs.find(PROCESSING, str(project.library / "bad.mp4"))
    assert job.claim_count == 1
    (project.library / "bad.mp4").write_text("this is still no video")
    assert project.process()["bad.mp4"].error_code == "not_a_video"
    assert processor_of(project).manifest.jobs.get(job.job_id).claim_count == 2


def test_renaming_a_thousand_files_recomputes_nothing(project: Project) -> None:
    paths = pretend_processed(project, 1000)
    (project.library / "moved").mkdir()
    for path in paths:
        path.rename(project.library / "moved" / f"renamed-{path.name}")
    planned = plan_of(project, library__recursive=True)
    assert len(planned.renamed) == 1000
    assert planned.to_run == ()
    outcomes = project.process(library__recursive=True)
    assert {outcome.status for outcome in outcomes.values()} == {"succeeded"}
    assert {how for outcome in outcomes.values() for how in outcome.stages.values()} == {"reused"}
    assert plan_of(project, library__recursive=True).renamed == ()
    counts = processor_of(project).manifest.jobs.counts()
    assert counts[State.SUCCEEDED] == sum(counts.values()) == 1000


def test_an_unchanged_library_is_planned_without_reading_a_file(project: Project) -> None:
    paths = pretend_processed(project, 200)
    for path in paths:
        os.utime(path, ns=(1, path.stat().st_mtime_ns))
        os.chmod(path, 0)
    pretend = plan_of(project)
    # Taking the right to read changes the ctime, and so the signature: known, and to be looked at again, unread.
    assert {video.action for video in pretend.videos} == {Action.REDO}
    assert all(path.stat().st_atime_ns == 1 for path in paths)


def test_a_file_that_is_being_written_is_left_alone_until_it_is_whole(project: Project, short: Path) -> None:
    data = short.read_bytes()
    target = project.library / "game.mp4"
    go_on, written = threading.Event(), threading.Event()

    def copy_slowly() -> None:
        with target.open("wb") as file:
            file.write(data[: len(data) // 2])
            file.flush()
            written.set()
            go_on.wait(60)
            file.write(data[len(data) // 2 :])

    writer = threading.Thread(target=copy_slowly)
    writer.start()
    try:
        assert written.wait(10)
        outcome = project.process()["game.mp4"]
        assert outcome.status == "unsettled"
        assert processor_of(project).manifest.jobs.list() == []
    finally:
        go_on.set()
        writer.join()
    assert computed(project.process()["game.mp4"])


def test_a_file_that_just_changed_is_waited_for(project: Project, short: Path) -> None:
    shutil.copy(short, project.library / "game.mp4")
    started = time.monotonic()
    assert project.process(library__settle_s=0.5)["game.mp4"].status == "succeeded"
    assert time.monotonic() - started > 0.5


def test_an_unmounted_library_is_one_pause_and_no_failure(processed: Project) -> None:
    away = processed.library.rename(processed.library.with_name("away"))
    processed.library.mkdir()  # the empty mount point
    with pytest.raises(LibraryOffline, match="the manifest knows 1 video there"):
        plan_of(processed)
    manifest = processor_of_known(processed)
    assert manifest.jobs.counts()[State.FAILED] == 0
    processed.library.rmdir()
    away.rename(processed.library)
    assert computed(processed.process()["game.mp4"]) == set()


def processor_of_known(project: Project) -> Any:
    from content_pipeline.manifest.open import open_manifest

    return open_manifest(project.settings())


def test_a_library_that_goes_away_while_jobs_wait_pauses_them_at_no_cost(project: Project, short: Path) -> None:
    for name in ("a.mp4", "b.mp4", "c.mp4"):
        shutil.copy(short, project.library / name)
        with (project.library / name).open("ab") as file:
            file.write(name.encode())
    settings = project.settings()
    processor = processor_of(project)
    jobs = processor.enqueue(scan(project.library, settings.library))
    project.library.rename(project.library.with_name("away"))
    processor.work(build_definitions, jobs)
    manifest = processor.manifest
    assert manifest.jobs.counts()[State.PENDING] == 3
    assert {job.attempt_count for job in manifest.jobs.list()} == {0}
    (breaker,) = manifest.breakers.all()
    assert (breaker.scope, breaker.error_code) == (f"library:{project.library}", "library_offline")


def test_too_little_space_pauses_and_costs_no_attempt(project: Project, short: Path) -> None:
    shutil.copy(short, project.library / "game.mp4")
    outcome = project.process(queue__space_factor=100, output__max_duration_s=1e9)["game.mp4"]
    assert (outcome.status, outcome.error_code) == ("pending", "disk_full")
    manifest = processor_of(project).manifest
    (job,) = manifest.jobs.list()
    assert (job.status, job.attempt_count) == (State.PENDING, 0)
    assert [breaker.scope for breaker in manifest.breakers.all()] == ["everything"]
    manifest.breakers.close()
    manifest.jobs.retry(JobFilter())
    with database_of(manifest).engine.begin() as connection:
        connection.exec_driver_sql("UPDATE job_items SET available_at = created_at")
    assert computed(project.process()["game.mp4"])


def cancel_once_it_runs(settings: Settings) -> None:
    manifest = open_manifest(settings)
    eventually(
        lambda: any(job.status is State.RUNNING and job.run_id for job in manifest.jobs.list()),
        "a job runs",
        within_s=120,
    )
    manifest.jobs.cancel(JobFilter())


def test_a_running_job_stops_when_a_person_cancels_it(project: Project, samples_folder: Path) -> None:
    long = samples.recording(samples_folder, "long.mp4", seconds=60, size=(640, 360), bursts=((10, 12), (40, 42)))
    shutil.copy(long, project.library / "long.mp4")
    manifest = processor_of(project).manifest
    # A process of its own, as a person is: a thread here could hold a lock at the moment a child is forked.
    person = multiprocessing.get_context("spawn").Process(target=cancel_once_it_runs, args=(project.settings(),))
    person.start()
    slow: dict[str, Any] = {"render__mode": "encode", "render__preset": "veryslow", "queue__heartbeat_s": 0.2}
    outcome = project.process(**slow)["long.mp4"]
    person.join()
    assert outcome.status == "cancelled"
    (job,) = manifest.jobs.list()
    assert job.status is State.CANCELLED
    import dagster as dg

    (run,) = project.instance().get_runs()
    assert run.status is dg.DagsterRunStatus.CANCELED


def test_costs_are_recorded_and_foretell_the_next_ones(processed: Project) -> None:
    (job,) = processor_of(processed).manifest.jobs.list()
    assert set(job.cost) == {"fingerprint", "energy", "detections", "montage"}
    assert all(cost["wall_s"] >= 0 and cost["cpu_s"] >= 0 and cost["peak_bytes"] > 0 for cost in job.cost.values())
    from content_pipeline.library.plan import expected_seconds

    planned = plan_of(processed, detection__rms_threshold=0.2)
    (seconds,) = expected_seconds(planned.videos, processor_of(processed).manifest.jobs.recent_costs()).values()
    spent = job.cost["detections"]["wall_s"] + job.cost["montage"]["wall_s"]
    assert seconds == pytest.approx(spent, rel=0.01)


def test_a_job_that_failed_for_a_while_is_tried_again_when_its_time_has_come(project: Project, short: Path) -> None:
    shutil.copy(short, project.library / "game.mp4")
    processor = processor_of(project)
    jobs = processor.enqueue(scan(project.library, project.settings().library))
    from content_pipeline.errors import RetryPolicy

    (job,) = processor.manifest.jobs.claim(ClaimRequest("somebody", job_ids=jobs))
    processor.manifest.jobs.fail(job.lease, JobFailure("read_failed", "the share hiccuped", RetryPolicy.TRANSIENT))
    with database_of(processor.manifest).engine.begin() as connection:  # no test waits for half a minute
        connection.exec_driver_sql("UPDATE job_items SET available_at = created_at")
    outcome = project.process()["game.mp4"]
    assert outcome.status == "succeeded"
    assert [one.outcome for one in processor.manifest.jobs.attempts(job.job_id)] == ["failed", "succeeded"]


def test_a_worker_that_dies_is_tried_again_and_then_put_aside(
    project: Project, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(short, project.library / "game.mp4")
    from content_pipeline.stages import energy

    monkeypatch.setattr(energy, "_measure", lambda *_: os.kill(os.getpid(), 9))  # a poison file, as far as we can tell
    outcome = project.process()["game.mp4"]
    assert (outcome.status, outcome.error_code) == ("failed", "crashed")
    (job,) = processor_of(project).manifest.jobs.list()
    assert (job.crash_count, job.claim_count) == (2, 2)
    assert processor_of(project).manifest.check() == []


def test_two_commands_on_one_folder_share_the_work(project: Project, short: Path) -> None:
    for index in range(4):
        shutil.copy(short, project.library / f"{index}.mp4")
        with (project.library / f"{index}.mp4").open("ab") as file:
            file.write(str(index).encode())
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    others = [context.Process(target=_process_into, args=(project.library.parent, queue)) for _ in range(2)]
    for other in others:
        other.start()
    found = [queue.get(timeout=120) for _ in others]
    for other in others:
        other.join(60)
    manifest = processor_of(project).manifest
    assert manifest.jobs.counts()[State.SUCCEEDED] == 4
    assert {job.claim_count for job in manifest.jobs.list()} == {1}
    assert sum(statuses.count("succeeded") for statuses in found) >= 4
    assert manifest.check() == []


def _process_into(folder: Path, queue: Any) -> None:
    project = Project.__new__(Project)
    project.library, project.output, project._state = folder / "library", folder / "output", folder / "state"
    queue.put([outcome.status for outcome in project.process().values()])


def test_our_own_montages_are_no_recordings(tmp_path: Path, short: Path) -> None:
    from content_pipeline_tests.acceptance.test_cli import content_ai

    shutil.copy(short, tmp_path / "game.mp4")
    for _ in range(2):
        done = content_ai("process", "-i", tmp_path, "-o", tmp_path, "-r", "--json", cwd=tmp_path)
        assert json.loads(done.stdout)["totals"]["videos"] == 1, done.stdout


def test_a_setting_given_by_set_holds(tmp_path: Path) -> None:
    from content_pipeline_tests.acceptance.test_cli import content_ai

    done = content_ai("queue", "process", "--set", "workers=0", cwd=tmp_path)
    assert done.returncode == 2
    assert "workers" in done.stderr
    done = content_ai("process", "-i", tmp_path, "--set", "output.max_duration_s=-1", cwd=tmp_path)
    assert done.returncode == 2
    assert "output.max_duration_s" in done.stderr


def test_artifacts_that_nothing_uses_are_collected_in_time(processed: Project) -> None:
    from content_pipeline.artifacts import ArtifactStore

    processed.process(detection__rms_threshold=0.2)
    store = ArtifactStore(processed.settings().state_dir / "artifacts")
    in_use = processor_of(processed).manifest.artifact_keys()
    assert store.collect(in_use, time.time() - 3600) == 0
    assert store.collect(in_use, time.time() + 1) > 0
    assert computed(processed.process(detection__rms_threshold=0.2)["game.mp4"]) == set()
    assert "energy" not in computed(processed.process()["game.mp4"])


def test_the_lock_of_an_artifact_names_the_attempt_that_makes_it(processed: Project) -> None:
    """So that whoever wants the same can ask whether that attempt is still to be waited for."""
    (job,) = processor_of(processed).manifest.jobs.list()
    locks = processed.settings().state_dir / "artifacts" / ".locks"
    assert list(locks.iterdir()) == []
    run_context = RunContext(lease=Lease(job.job_id, job.claim_count, "a token", "a worker"))
    with open_stage_context(processed.settings(), run_context).artifacts.only_one("montage", "a key"):
        (lock,) = locks.iterdir()
        assert lock.read_text() == f"{job.job_id}:{job.claim_count}"
