"""Who executes a run that is about no job: one worker at a time, also after Redis has lost its memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from content_pipeline.launchers.rq.redis_server import RedisServer
from content_pipeline.launchers.rq.run_leases import RunLeases, holder_of, leased_runs
from content_pipeline.settings import load
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.valkey import Valkey, valkey_server

RUN = "0b5fbbd2-7c0b-4c2e-9a55-0d0c1f6f2f11"


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with valkey_server() as server:
        yield server


@pytest.fixture
def server(valkey: Valkey) -> RedisServer:
    valkey.client.flushall()
    return RedisServer(load(env={"CONTENT_AI_REDIS_URL": valkey.url}).settings)


def test_a_run_is_claimed_by_one_and_free_again_when_it_is_released(server: RedisServer) -> None:
    first, second = RunLeases(server, "first", 60), RunLeases(server, "second", 60)
    assert first.claim(RUN, started_before=False)
    assert not second.claim(RUN, started_before=False)
    assert (holder_of(server, RUN), leased_runs(server)) == ("first", {RUN})
    first.release(RUN)
    assert second.claim(RUN, started_before=False)


def test_a_lease_that_nobody_renews_runs_out(server: RedisServer) -> None:
    assert RunLeases(server, "dead", 1).claim(RUN, started_before=False)
    eventually(lambda: holder_of(server, RUN) is None, "it ran out", 10)


def test_a_holder_writes_its_lease_again_before_another_takes_a_run_that_was_started(
    server: RedisServer, valkey: Valkey
) -> None:
    first, second = RunLeases(server, "first", 60), RunLeases(server, "second", 60)
    assert first.claim(RUN, started_before=False)
    valkey.client.flushall()
    assert not second.claim(RUN, started_before=True), "the first look leaves it alone"
    assert first.renew(RUN)
    assert not second.claim(RUN, started_before=True)


def test_a_run_whose_holder_died_is_taken_at_the_second_look_and_the_dead_is_told(
    server: RedisServer, valkey: Valkey
) -> None:
    first, second = RunLeases(server, "first", 60), RunLeases(server, "second", 60)
    assert first.claim(RUN, started_before=False)
    valkey.client.flushall()
    assert [second.claim(RUN, started_before=True) for _ in range(2)] == [False, True]
    assert not first.renew(RUN) and second.renew(RUN)
