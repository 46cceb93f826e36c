"""Profiles change defaults; four variables of other queues mean a setting of ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from content_pipeline.errors import BadSettings
from content_pipeline.services import configuration
from content_pipeline.settings import Settings, load
from content_pipeline.settings.profiles import PROFILES, VARIABLES

SECRET = "s3cr3t"


def test_without_a_profile_the_defaults_are_as_they_were() -> None:
    assert load(env={}).settings == Settings()


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_changes_defaults_and_says_so(name: str) -> None:
    resolved = load(env={"CONTENT_AI_PROFILE": name})
    shown = configuration.show(resolved).settings
    for key, value in PROFILES[name].items():
        assert (shown[key].value, shown[key].origin) == (value, f"profile {name}")
    assert shown["queue.max_crashes"].origin == "default"


def test_what_is_explicit_wins_over_a_profile_wherever_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("profile = 'production'\n[queue]\nlease_s = 100\nstall_s = 200\n")
    env = {"CONTENT_AI_QUEUE__STALL_S": "300"}
    resolved = load(flags={"queue.grace_s": 4}, config_file=file, env=env)
    queue = resolved.settings.queue
    assert (queue.lease_s, queue.stall_s, queue.grace_s, queue.max_attempts) == (100, 300, 4, 5)
    assert resolved.origins["queue.lease_s"] == f"file {file}"
    assert load(flags={"profile": "none"}, config_file=file, env={}).settings.queue.max_attempts == 3


def test_an_unknown_profile_is_refused_by_name() -> None:
    with pytest.raises(BadSettings, match="`profile` = 'staging'"):
        load(env={"CONTENT_AI_PROFILE": "staging"})


@pytest.mark.parametrize("name", [None, *PROFILES])
def test_in_every_profile_a_worker_renews_several_times_before_its_lease_ends_and_gives_up_first(
    name: str | None,
) -> None:
    queue = load(flags={"profile": name}, env={}).settings.queue
    assert 3 * queue.heartbeat_s <= queue.lease_s
    assert queue.heartbeat_s < queue.give_up_s < queue.lease_s


def test_the_variables_of_other_queues_are_understood() -> None:
    env = {
        "REDIS_URL": f"redis://:{SECRET}@host:6379/0",
        "POLLER_INTERVAL_SECONDS": "7",
        "STALE_JOB_TIMEOUT_SECONDS": "180",
        "FAILED_JOB_TIMEOUT_SECONDS": "3600",
    }
    resolved = load(env=env)
    settings = resolved.settings
    assert settings.redis_url is not None and settings.redis_url.reveal() == env["REDIS_URL"]
    assert settings.schedule.watch_interval_s == 7
    assert (settings.queue.lease_s, settings.queue.heartbeat_s, settings.queue.give_up_s) == (180, 20, 120)
    assert settings.queue.stall_s == 3600
    for name, key in VARIABLES.items():
        assert resolved.origins[key] == f"environment {name}"
    assert SECRET not in configuration.show(resolved).model_dump_json() and SECRET not in repr(resolved)


def test_our_own_names_win_over_theirs_and_theirs_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("[queue]\nlease_s = 100\nstall_s = 200\nheartbeat_s = 11\n")
    env = {"STALE_JOB_TIMEOUT_SECONDS": "60", "FAILED_JOB_TIMEOUT_SECONDS": "50", "CONTENT_AI_QUEUE__STALL_S": "70"}
    queue = load(config_file=file, env=env).settings.queue
    assert (queue.lease_s, queue.stall_s, queue.heartbeat_s) == (60, 70, 11)


@pytest.mark.parametrize("value", ["soon", "-1", "0", "nan"])
@pytest.mark.parametrize("name", [name for name in VARIABLES if name != "REDIS_URL"])
def test_a_variable_that_makes_no_sense_is_refused_with_its_name(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=f"environment {name}"):
        load(env={name: value})


def test_an_empty_variable_says_nothing() -> None:
    assert load(env=dict.fromkeys(VARIABLES, "")).settings == Settings()


def test_a_redis_url_is_never_shown_with_its_password() -> None:
    with pytest.raises(BadSettings) as refused:
        load(env={"REDIS_URL": f"http://me:{SECRET}@host"})
    assert SECRET not in str(refused.value)
    assert SECRET not in json.dumps(load(env={"REDIS_URL": f"redis://me:{SECRET}@h"}).settings.model_dump(mode="json"))
