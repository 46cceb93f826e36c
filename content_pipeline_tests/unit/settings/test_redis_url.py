"""The address of Redis is used, and its password never shown."""

from __future__ import annotations

import pytest

from content_pipeline.errors import BadSettings
from content_pipeline.settings import load
from content_pipeline.settings.redis_url import RedisUrl

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("given", "used", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0", "redis://host:6379/0"),
        (f"redis://:{SECRET}@host/1", f"redis://:{SECRET}@host/1", "redis://:***@host/1"),
        (f"rediss://me:{SECRET}@host:6380", f"rediss://me:{SECRET}@host:6380", "rediss://me:***@host:6380"),
        (f"valkey://:{SECRET}@host", f"redis://:{SECRET}@host", "redis://:***@host"),
        (f"redis://host?password={SECRET}", f"redis://host?password={SECRET}", "redis://host?password=***"),
        (f"unix://:{SECRET}@/run/r.sock", f"unix://:{SECRET}@/run/r.sock", "unix://:***@/run/r.sock"),
    ],
)
def test_what_is_shown_of_it_is_masked(given: str, used: str, shown: str) -> None:
    url = RedisUrl(given)
    assert (url.reveal(), str(url), repr(url)) == (used, shown, f"RedisUrl({shown!r})")
    settings = load(env={"CONTENT_AI_REDIS_URL": given}).settings
    assert settings.redis_url == url
    assert SECRET not in settings.model_dump_json() + repr(settings)


@pytest.mark.parametrize(
    "given",
    [
        f"http://:{SECRET}@host",
        f"redis://:{SECRET}@a@host",
        f":{SECRET}@host:6379",
        f"redis://:{SECRET} x@host",
        "redis://:***@host",
    ],
)
def test_what_cannot_be_one_is_refused_without_showing_its_password(given: str) -> None:
    with pytest.raises(BadSettings) as refused:
        load(env={"CONTENT_AI_REDIS_URL": given})
    assert "`redis_url`" in str(refused.value) and SECRET not in str(refused.value)


def test_nothing_takes_it_back() -> None:
    assert load(env={"CONTENT_AI_REDIS_URL": ""}).settings.redis_url is None
