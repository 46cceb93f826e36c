"""The manifest is lost: what Dagster remembers brings it back, and nothing is done again."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from content_pipeline.dagster_runtime.manifest_rebuild import REASON, Rebuilt, forget_videos, missing_keys, rebuild
from content_pipeline.dagster_runtime.records import RECOVERY
from content_pipeline.library.plan import Action
from content_pipeline.library.scan import scan
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.open import open_manifest
from content_pipeline.manifest.schema import metadata
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.services.planner import Planner
from content_pipeline.system.hashing import sha256_of
from content_pipeline_tests.conformance.manifests import dump
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.processing import Project, computed

SHORT: dict[str, Any] = {"detection__event_lookback_s": 0.5, "processing__context_padding_s": 0.2}
ODD_NAME = os.fsdecode(b"caf\xe9 \xff.mp4")
NAMES = {"game.mp4", "copy.mp4", "quiet.mp4", ODD_NAME}
NEW_EACH_TIME = ("job_id", "created_at", "updated_at", "available_at", "started_at", "completed_at")
OF_ATTEMPTS = ("claim_count", "attempt_count", "cost")
# A recipe says what was made; what was asked for is asked anew by the next plan.
ASKED_FOR = ("options",)


def process(project: Project, samples_folder: Path) -> Project:
    """Two recordings with highlights, one of them with a name that is no text, a copy, and one without highlights."""
    game = samples.recording(samples_folder, "bursts.mp4", seconds=16, bursts=((3, 4), (8, 9), (13, 14)))
    short = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    quiet = samples.recording(samples_folder, "quiet.mp4", seconds=6, bursts=())
    for source, name in ((game, "game.mp4"), (game, "copy.mp4"), (short, ODD_NAME), (quiet, "quiet.mp4")):
        shutil.copy(source, project.library / name)
    outcomes = project.process(**SHORT)
    assert {outcome.status for outcome in outcomes.values()} == {"succeeded"}
    assert outcomes["copy.mp4"].key == outcomes["game.mp4"].key
    return project


@pytest.fixture
def processed(project: Project, samples_folder: Path) -> Project:
    return process(project, samples_folder)


@pytest.fixture(scope="module")
def as_it_was(tmp_path_factory: pytest.TempPathFactory, samples_folder: Path) -> AsItWas:
    return AsItWas.of(process(Project(tmp_path_factory.mktemp("kept")), samples_folder))


@pytest.fixture
def lost(as_it_was: AsItWas) -> Project:
    """The same project again and again, without its manifest. Its recordings and outputs are not to be touched."""
    database(as_it_was.project).unlink()
    return as_it_was.project


@dataclass(frozen=True)
class AsItWas:
    """What the manifest knew when everything had just been processed."""

    project: Project
    jobs: dict[str, dict[str, object]]
    videos: set[KnownVideo]
    recipes: dict[str, dict[str, object]]
    ended: dict[str, datetime]
    runs: int

    @classmethod
    def of(cls, project: Project) -> AsItWas:
        manifest = opened(project)
        return cls(
            project=project,
            jobs=known_jobs(manifest),
            videos=set(manifest.videos.all()),
            recipes=manifest.recipes.all(),
            ended={job.subject: job.completed_at for job in manifest.jobs.list()},
            runs=runs(project),
        )


def database(project: Project) -> Path:
    return project.settings().state_dir / "queue.db"


def opened(project: Project) -> Manifest:
    return open_manifest(project.settings(**SHORT))


def known_jobs(manifest: Manifest) -> dict[str, dict[str, Any]]:
    jobs = {Path(job.subject).name: asdict(job) for job in manifest.jobs.list()}
    return {
        name: {key: value for key, value in job.items() if key not in (*NEW_EACH_TIME, *OF_ATTEMPTS, *ASKED_FOR)}
        for name, job in jobs.items()
    }


def actions(project: Project, **changed: Any) -> dict[str, Action]:
    settings = project.settings(**{**SHORT, **changed})
    planned = Planner(settings, open_manifest(settings)).plan(scan(project.library, settings.library))
    return {video.found.path.name: video.action for video in planned.videos}


def runs(project: Project) -> int:
    with project.instance() as instance:
        return len(instance.get_runs())


def hash_if_there(path: str) -> str | None:
    return sha256_of(Path(path)) if Path(path).exists() else None


def test_everything_that_was_done_is_known_again(as_it_was: AsItWas, lost: Project) -> None:
    manifest = opened(lost)
    with lost.instance() as instance:
        assert len(missing_keys(instance, manifest)) == 3
        assert rebuild(instance, manifest) == Rebuilt(videos=4, jobs=4)
        assert missing_keys(instance, manifest) == []
    assert set(manifest.videos.all()) == as_it_was.videos
    # Of a video with copies, the latest run is the run of each.
    anyhow = {"run_id": None}
    after = {name: job | anyhow for name, job in known_jobs(manifest).items()}
    assert after == {name: job | anyhow for name, job in as_it_was.jobs.items()}
    assert all(job.run_id is not None for job in manifest.jobs.list())
    assert all(
        abs(job.completed_at - as_it_was.ended[job.subject]) < timedelta(minutes=1) for job in manifest.jobs.list()
    )
    assert manifest.recipes.all() == as_it_was.recipes
    assert {one.reason for job in manifest.jobs.list() for one in manifest.jobs.history(job.job_id)} == {REASON}
    assert manifest.check(hash_if_there) == []
    assert actions(lost) == dict.fromkeys(NAMES, Action.KEEP)


def test_rebuilding_twice_changes_nothing(lost: Project) -> None:
    manifest = opened(lost)
    with lost.instance() as instance:
        rebuild(instance, manifest)
        once = dump(manifest)
        assert rebuild(instance, manifest) == Rebuilt()
    assert dump(manifest) == once


def test_the_next_batch_rebuilds_by_itself_and_starts_no_run(as_it_was: AsItWas, lost: Project) -> None:
    outcomes = lost.process(**SHORT)
    assert {name: (one.status, computed(one)) for name, one in outcomes.items()} == dict.fromkeys(
        NAMES, ("succeeded", set())
    )
    assert outcomes["quiet.mp4"].no_highlights
    assert runs(lost) == as_it_was.runs
    assert opened(lost).check(hash_if_there) == []


def test_a_changed_setting_is_named_and_recomputes_what_reads_it(processed: Project) -> None:
    database(processed).unlink()
    with processed.instance() as instance:
        rebuild(instance, opened(processed))
    changed: dict[str, Any] = {"detection__rms_threshold": 0.12}
    settings = processed.settings(**SHORT, **changed)
    planned = Planner(settings, open_manifest(settings)).plan(scan(processed.library, settings.library))
    assert {tuple(video.reasons.items()) for video in planned.videos} == {
        (("detections", "detection.rms_threshold 0.1 -> 0.12"), ("montage", "follows detections"))
    }
    outcomes = processed.process(**SHORT, **changed)
    assert set().union(*(computed(one) for one in outcomes.values())) <= {"detections", "montage"}
    assert opened(processed).check(hash_if_there) == []


def test_a_lost_output_an_edit_and_a_move_are_found_as_ever(processed: Project, samples_folder: Path) -> None:
    outputs = {one["video_key"]: one["output_files"] for one in known_jobs(opened(processed)).values()}
    odd = known_jobs(opened(processed))[ODD_NAME]["video_key"]
    database(processed).unlink()
    Path(outputs[odd][0]).unlink()
    (processed.library / "game.mp4").rename(processed.library / "moved.mp4")
    other = samples.recording(samples_folder, "other.mp4", seconds=5, bursts=((1, 2),))
    shutil.copy(other, processed.library / "quiet.mp4")
    runs_before = runs(processed)
    outcomes = processed.process(**SHORT)
    assert computed(outcomes["moved.mp4"]) == computed(outcomes["copy.mp4"]) == set()
    assert (computed(outcomes[ODD_NAME]), outcomes[ODD_NAME].written) == (set(), tuple(outputs[odd][:1]))
    assert outcomes["quiet.mp4"].facts["clips"] == 1
    assert runs(processed) == runs_before + 2
    assert opened(processed).check(hash_if_there) == []


def test_what_was_not_finished_is_left_to_the_plan(processed: Project) -> None:
    """The file was edited, and its run ended after the fingerprint: the old montage says nothing of it."""
    manifest = opened(processed)
    before = known_jobs(manifest)
    key = before[ODD_NAME]["video_key"]
    with processed.instance() as instance:
        changed = dg.AssetMaterialization(
            "fingerprint",
            partition=key,
            metadata={
                "digest": "blake3:other",
                "quick_digest": "sha256:other",
                "files": dg.MetadataValue.json([{"path": "/games/a.mp4", "root": "/games", "signature": "1:2:3:4:5"}]),
            },
            tags={"dagster/data_version": "other"},
        )
        instance.report_runless_asset_event(changed)
        database(processed).unlink()
        assert rebuild(instance, manifest) == Rebuilt(videos=4, jobs=3)
    assert {Path(job.subject).name for job in manifest.jobs.list()} == NAMES - {ODD_NAME}
    assert manifest.check() == []


def test_a_path_belongs_to_the_video_that_was_there_last(processed: Project, samples_folder: Path) -> None:
    """`copy.mp4` was a copy of the game, and then another recording; the game's own record still names it."""
    other = samples.recording(samples_folder, "other.mp4", seconds=5, bursts=((1, 2),))
    shutil.copy(other, processed.library / "copy.mp4")
    processed.process(**SHORT)
    before = known_jobs(opened(processed))
    database(processed).unlink()
    with processed.instance() as instance:
        rebuild(instance, opened(processed))
    after = known_jobs(opened(processed))
    assert after["copy.mp4"] == before["copy.mp4"]
    assert after["copy.mp4"]["video_key"] != after["game.mp4"]["video_key"]
    assert actions(processed) == dict.fromkeys(NAMES, Action.KEEP)


def test_records_that_say_nothing_of_files_are_counted_and_passed_over(lost: Project) -> None:
    manifest, others = opened(lost), ["by-hand", "never-run"]
    with lost.instance() as instance:
        instance.add_dynamic_partitions("videos", others)
        instance.report_runless_asset_event(dg.AssetMaterialization("fingerprint", partition="by-hand"))
        assert rebuild(instance, manifest) == Rebuilt(videos=4, jobs=4, unknown=1)
        assert sorted(missing_keys(instance, manifest)) == others
        for key in others:
            instance.delete_dynamic_partition("videos", key)


def test_time_runs_out_between_chunks_and_the_rest_is_left(lost: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = opened(lost)
    monkeypatch.setattr("content_pipeline.dagster_runtime.manifest_rebuild.VIDEOS_AT_A_TIME", 1)
    with lost.instance() as instance:
        first = rebuild(instance, manifest, budget_s=0)
        assert first.left == 2
        rest = rebuild(instance, manifest, budget_s=60)
        assert (rest.left, first.jobs + rest.jobs) == (0, 4)


def test_an_open_manifest_goes_on_with_the_file_that_is_there(lost: Project) -> None:
    manifest = opened(lost)
    assert manifest.jobs.list() == []
    database(lost).unlink()
    with lost.instance() as instance:
        assert rebuild(instance, manifest).jobs == 4
    assert len(opened(lost).jobs.list()) == len(manifest.jobs.list()) == 4
    assert {job.status for job in manifest.jobs.list()} == {State.SUCCEEDED}


def test_what_a_person_forgot_stays_forgotten(processed: Project) -> None:
    manifest = opened(processed)
    with processed.instance() as instance:
        assert forget_videos(instance) == 3
        manifest.reset()
        assert rebuild(instance, manifest) == Rebuilt()
    assert all(rows == [] for name, rows in dump(manifest).items() if name in metadata.tables)


def test_the_records_stay_small(as_it_was: AsItWas) -> None:
    with as_it_was.project.instance() as instance:
        for name, most in (("fingerprint", 1_000), ("montage", 8_000)):
            found = instance.fetch_materializations(dg.AssetKey(name), limit=10).records
            entries = [record.asset_materialization.metadata for record in found if record.run_id]
            assert entries
            assert all(len(str(one[RECOVERY].value)) < most for one in entries)


def test_people_see_a_picture_and_numbers_first_and_what_a_rebuild_reads_last_in_one_entry(as_it_was: AsItWas) -> None:
    with as_it_was.project.instance() as instance:
        montages = instance.fetch_materializations(dg.AssetKey("montage"), limit=10).records
        records = instance.fetch_materializations(dg.AssetKey("fingerprint"), limit=10).records
    fingerprints = [record for record in records if record.run_id]  # not those reported by hand
    shown = [list(record.asset_materialization.metadata) for record in montages]
    assert {keys[0] for keys in shown} == {"contact_sheet", "result"}
    assert all(keys[-1] == RECOVERY for keys in shown)
    folded = {"recipe", "stage_keys", "outputs", "facts", "publications", "config_hash", "files", "quick_digest"}
    for record in (*montages, *fingerprints):
        assert not folded & set(record.asset_materialization.metadata)
    assert all(next(iter(one.asset_materialization.metadata)) == "path" for one in fingerprints)


def test_records_of_before_they_were_folded_are_understood(processed: Project) -> None:
    manifest = opened(processed)
    before = known_jobs(manifest)
    with processed.instance() as instance:
        for name in ("fingerprint", "montage"):
            for record in reversed(instance.fetch_materializations(dg.AssetKey(name), limit=10).records):
                instance.report_runless_asset_event(as_before_folding(record.asset_materialization))
        database(processed).unlink()
        assert rebuild(instance, manifest) == Rebuilt(videos=4, jobs=4)
    after = known_jobs(manifest)
    assert {name: without_run(job) for name, job in after.items()} == {
        name: without_run(job) for name, job in before.items()
    }
    assert actions(processed) == dict.fromkeys(NAMES, Action.KEEP)


def as_before_folding(made: dg.AssetMaterialization) -> dg.AssetMaterialization:
    """With an entry of its own for everything."""
    shown = {name: value for name, value in made.metadata.items() if name != RECOVERY}
    folded: Any = made.metadata[RECOVERY].value
    apart = {name: value if isinstance(value, str) else dg.MetadataValue.json(value) for name, value in folded.items()}
    return dg.AssetMaterialization(
        made.asset_key, partition=made.partition, metadata={**shown, **apart}, tags=made.tags
    )


def without_run(job: dict[str, Any]) -> dict[str, Any]:
    """These records were reported without a run."""
    return {name: value for name, value in job.items() if name != "run_id"}


def test_what_was_published_where_is_known_again(processed: Project, tmp_path: Path) -> None:
    processed.process(**SHORT, output_dir=tmp_path / "elsewhere")
    montage = next(processed.output.glob("*.mp4"))
    montage.write_bytes(b"my edit")
    processed.process(**SHORT)
    before = {replace(one, job_id=None) for one in opened(processed).publications.all()}
    assert {one.path.parent for one in before} == {processed.output, tmp_path / "elsewhere"}
    assert {one.path for one in before if one.kept} == {montage}
    database(processed).unlink()
    elsewhere = next((tmp_path / "elsewhere").glob("*.mp4"))
    elsewhere.write_bytes(b"another edit")
    processed.process(**SHORT)
    assert {replace(one, job_id=None) for one in opened(processed).publications.all()} == before
    processed.process(**SHORT, detection__rms_threshold=10.0)
    processed.process(**SHORT, detection__rms_threshold=10.0, output_dir=tmp_path / "elsewhere")
    assert (montage.read_bytes(), elsewhere.read_bytes()) == (b"my edit", b"another edit")
