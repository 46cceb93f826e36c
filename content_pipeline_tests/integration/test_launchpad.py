"""What a person sets for one run in the launchpad: it counts in every stage of it, and it is kept with the job."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from content_pipeline.job_kinds import CALIBRATION
from content_pipeline.library.plan import Action
from content_pipeline.library.recipe import recipe_of
from content_pipeline.library.scan import scan
from content_pipeline.manifest.calibrations import AppliedCalibration
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import ClaimRequest, JobRequest, JobResult
from content_pipeline.services.planner import Planner
from content_pipeline.settings import load
from content_pipeline.settings.job_options import settings_for
from content_pipeline.stage import VIDEO_STAGES
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.launching import LaunchedProject, launched_project

SUCCESS, FAILURE = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE
ONE_CLIP = {"detections": {"max_segments": 1}}


@pytest.fixture
def game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples_folder: Path) -> Iterator[LaunchedProject]:
    """A recording with two highlights, processed with the settings as they are."""
    with launched_project(tmp_path, monkeypatch) as project:
        two = samples.recording(samples_folder, "two.mp4", seconds=40, bursts=((10, 11), (30, 31)))
        shutil.copy(two, project.library / "game.mp4")
        project.enqueue()
        (run,) = project.launch_due().values()
        assert project.ends(run) is SUCCESS
        yield project


def key(game: LaunchedProject) -> str:
    found = game.job("game.mp4").video_key
    assert found is not None
    return found


def clips(game: LaunchedProject) -> int:
    (document,) = game.output.glob("*.json")
    return len(json.loads(document.read_text())["cuts"])


def made(game: LaunchedProject, run_id: str) -> dict[str, tuple[str, bool]]:
    """The data version of each asset of a run, and whether it was made anew."""
    with game.instance() as instance:
        logs = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
        found = [log.asset_materialization for log in logs if log.asset_materialization is not None]
        return {
            one.asset_key.to_user_string(): (
                (one.tags or {})["dagster/data_version"],
                not one.metadata["reused"].value,
            )
            for one in found
        }


def anew(game: LaunchedProject, run_id: str) -> set[str]:
    return {asset for asset, (_, computed) in made(game, run_id).items() if computed}


def planned(game: LaunchedProject) -> Any:
    (video,) = Planner(game.settings, game.manifest).plan(scan(game.library, game.settings.library)).videos
    return video


def test_a_setting_changes_what_reads_it_and_the_job_keeps_what_it_was_made_with(game: LaunchedProject) -> None:
    before = game.job("game.mp4")
    run = game.launch_by_hand(key(game), config=ONE_CLIP)
    assert game.ends(run) is SUCCESS
    assert clips(game) == 1
    assert anew(game, run) == {"detections", "montage"}
    job = game.job("game.mp4")
    assert job.stage_keys["energy"] == before.stage_keys["energy"]
    assert {stage: version for stage, (version, _) in made(game, run).items()} == job.stage_keys
    made_with = settings_for(job.options, game.settings)
    assert made_with.output.max_segments == 1
    assert (job.status, job.config_hash) == (State.SUCCEEDED, recipe_of(made_with).config_hash)


def test_a_run_without_config_goes_by_the_settings_again(game: LaunchedProject) -> None:
    before = game.job("game.mp4")
    assert game.ends(game.launch_by_hand(key(game), config=ONE_CLIP)) is SUCCESS
    run = game.launch_by_hand(key(game))
    assert game.ends(run) is SUCCESS
    assert (clips(game), anew(game, run)) == (2, set()), "all of it is still in the cache"
    job = game.job("game.mp4")
    assert (job.options, job.config_hash) == (before.options, before.config_hash)


def test_a_run_that_is_executed_again_uses_the_same_config(game: LaunchedProject) -> None:
    first = game.launch_by_hand(key(game), config=ONE_CLIP)
    assert game.ends(first) is SUCCESS
    again = game.launch_again(first)
    assert game.ends(again) is SUCCESS
    assert (clips(game), anew(game, again)) == (1, set())
    assert {stage: version for stage, (version, _) in made(game, again).items()} == game.job("game.mp4").stage_keys


def test_a_plan_tells_what_differs_and_brings_it_back_to_the_settings_once(game: LaunchedProject) -> None:
    assert game.ends(game.launch_by_hand(key(game), config=ONE_CLIP)) is SUCCESS
    video = planned(game)
    assert (video.action, video.why) == (Action.REDO, "dirty: output.max_segments 1 -> 12")
    game.enqueue()  # as the nightly backfill does
    (run,) = game.launch_due().values()
    assert game.ends(run) is SUCCESS
    assert (clips(game), anew(game, run)) == (2, set())
    assert planned(game).action is Action.KEEP
    assert game.job("game.mp4").options is None
    assert game.launch_due() == {}


def test_force_makes_the_named_asset_anew_and_no_other(game: LaunchedProject) -> None:
    run = game.launch_by_hand(key(game), config={"detections": {"force": True}})
    assert game.ends(run) is SUCCESS
    assert anew(game, run) == {"detections"}, "it made the same, so what follows it holds"
    everything: dict[str, Any] = {stage: {"force": True} for stage in VIDEO_STAGES}
    run = game.launch_by_hand(key(game), config=everything)
    assert game.ends(run) is SUCCESS
    assert anew(game, run) == set(everything)
    job = game.job("game.mp4")
    assert (job.status, job.force_id) == (State.SUCCEEDED, None)
    run = game.launch_by_hand(key(game))
    assert (game.ends(run), anew(game, run)) == (SUCCESS, set())


def test_a_forced_run_that_loses_its_worker_makes_nothing_anew_twice(game: LaunchedProject) -> None:
    game.set(KILL_AT="child:detections_sealed")

    os.kill(game.supervisor(), signal.SIGKILL)  # the next one kills its children
    game.restart_supervisor()
    run = game.launch_by_hand(key(game), config={"detections": {"force": True}, "montage": {"force": True}})
    assert game.ends(run) is SUCCESS
    assert game.job("game.mp4").crash_count == 1
    assert anew(game, run) == {"montage"}, "the dead worker had made the detections"


def test_one_asset_alone_is_made_with_the_config_and_so_is_the_rest_of_its_job(game: LaunchedProject) -> None:
    run = game.launch_by_hand(key(game), "detections", config=ONE_CLIP)
    assert game.ends(run) is SUCCESS
    assert anew(game, run) == {"detections"}
    assert game.job("game.mp4").status is State.PENDING
    (rest,) = game.launch_due().values()
    assert game.ends(rest) is SUCCESS
    assert (clips(game), anew(game, rest)) == (1, {"montage"})


@pytest.mark.parametrize(
    ("config", "section", "given", "sensitivity"),
    [
        ({"rms_threshold": 0.15}, "detection", {"rms_threshold": 0.15}, 2.5),
        ({"max_segments": 1}, "output", {"max_segments": 1}, 2.6),
    ],
    ids=["a threshold", "anything else"],
)
def test_a_threshold_takes_the_place_of_the_library_s_calibration(
    game: LaunchedProject, config: dict[str, Any], section: str, given: dict[str, Any], sensitivity: float
) -> None:
    calibrate(game, 2.6)
    assert game.ends(game.launch_by_hand(key(game), config={"detections": config})) is SUCCESS
    flags = {"detection.sensitivity": sensitivity, **{f"{section}.{name}": value for name, value in given.items()}}
    job = game.job("game.mp4")
    assert job.config_hash == recipe_of(load(flags=flags).settings).config_hash
    assert config.keys() <= {name for why in planned(game).reasons.values() for name in config if name in why}


def calibrate(game: LaunchedProject, sensitivity: float) -> None:
    library, jobs = str(game.library), game.manifest.jobs
    jobs.enqueue([JobRequest(library, library, kind=CALIBRATION)])
    (claimed,) = jobs.claim(ClaimRequest("a worker", kind=CALIBRATION))
    applied = AppliedCalibration(library, "broadband", "sensitivity", sensitivity, "of an artifact")
    game.manifest.calibrations.succeed_job(claimed.lease, JobResult(), applied)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"detections": {"rms_treshold": 0.2}}, 'unexpected config entry "rms_treshold" at path root:ops:detections'),
        ({"energy": {"rms_threshold": 0.2}}, 'unexpected config entry "rms_threshold" at path root:ops:energy'),
        ({"detections": {"rms_threshold": "loud"}}, "root:ops:detections:config:rms_threshold"),
        ({"montage": {"preset": "fastest"}}, "root:ops:montage:config:preset not in enum type RenderPreset"),
    ],
    ids=["a slip", "of another asset", "another type", "no such word"],
)
def test_what_is_no_config_is_refused_by_dagster_before_there_is_a_run(
    game: LaunchedProject, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match=said):
        game.launch_by_hand(key(game), config=config)


def test_a_value_beyond_its_limits_is_refused_by_name_and_the_job_stays_as_it_is(game: LaunchedProject) -> None:
    before = game.job("game.mp4")
    run = game.launch_by_hand(key(game), config={"detections": {"rms_threshold": -1.0}})
    assert game.ends(run) is FAILURE
    said = "`detection.rms_threshold` = -1.0 (run config): Input should be greater than 0"
    assert any(said in message for message in game.messages(run))
    assert game.job("game.mp4") == before
