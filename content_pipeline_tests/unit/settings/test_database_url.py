from __future__ import annotations

import json
import traceback
from typing import Any

import pytest

from content_pipeline.errors import BadSettings
from content_pipeline.manifest.database import open_engine
from content_pipeline.settings import Settings, load
from content_pipeline.settings.database_url import DatabaseUrl, masked

SECRET = "s3cr3t"
ENCODED = "p%40ss%2Fw%3Ard"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (f"postgres://me:{SECRET}@host/db", "postgresql+psycopg2://me:***@host/db"),
        (f"postgresql://me:{SECRET}@host:5432/db", "postgresql+psycopg2://me:***@host:5432/db"),
        (f"postgresql+psycopg2://me:{SECRET}@[::1]:5432/db", "postgresql+psycopg2://me:***@[::1]:5432/db"),
        (f"POSTGRES://me:{SECRET}@host/db", "postgresql+psycopg2://me:***@host/db"),
        (f"postgres://me:{ENCODED}@host/db", "postgresql+psycopg2://me:***@host/db"),
        (f"postgres://me:{SECRET}?/{SECRET}@host/db", "postgresql+psycopg2://me:***@host/db"),
        (
            f"postgres://host/db?user=me&password={SECRET}&sslmode=require",
            "postgresql+psycopg2://host/db?user=me&password=***&sslmode=require",
        ),
        (f"postgres://h/db?sslpassword={SECRET}", "postgresql+psycopg2://h/db?sslpassword=***"),
        (f"postgres://h/db?pass%77ord={SECRET}", "postgresql+psycopg2://h/db?pass%77ord=***"),
        ("postgres://me@/db?host=/run/pg", "postgresql+psycopg2://me@/db?host=/run/pg"),
        ("queue.db", "queue.db"),
        ("sqlite:////srv/me@home/a:b/queue.db", "sqlite:////srv/me@home/a:b/queue.db"),
    ],
)
def test_an_address_is_shown_without_its_password(given: str, shown: str) -> None:
    url = DatabaseUrl(given)
    settings = Settings(db=url)
    assert str(url) == shown
    assert repr(url) == f"DatabaseUrl({shown!r})"
    assert settings.model_dump(mode="json")["db"] == shown
    assert json.loads(settings.model_dump_json())["db"] == shown
    for text in (str(settings), repr(settings), f"{settings.manifest_url}", url.identity):
        assert SECRET not in text and ENCODED not in text


@pytest.mark.parametrize(
    "given",
    [
        f"postgres://me:{SECRET}@{SECRET}@host/db",  # an @ in the password
        f"postgres://me:{SECRET}@{SECRET}/{SECRET}@host/db",
        f"postgres://me:{SECRET}/db",  # the @ was forgotten
        f"mysql://me:{SECRET}@host/db",
        f"host=db.example password={SECRET}",
        f"password={SECRET}",
        "postgres://me:***@host/db",  # copied from what was shown
        [f"postgres://me:{SECRET}@host/db"],
        {"url": f"postgres://me:{SECRET}@host/db"},
    ],
)
@pytest.mark.parametrize("key", ["db", "workers", "render.crf", "dbb"])
def test_an_address_that_is_refused_is_refused_without_its_password(given: Any, key: str) -> None:
    with pytest.raises(BadSettings) as refused:
        load(flags={key: given}, env={})
    assert SECRET not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("url", [f"postgres://me:{SECRET}@h:1:2/db", f"postgres://me:{SECRET}/db", f"x://:{SECRET}@y"])
def test_the_engine_refuses_without_saying_the_password(url: str) -> None:
    with pytest.raises(BadSettings, match="`db`") as refused:
        open_engine(url)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_addresses_are_equal_when_they_mean_the_same() -> None:
    assert DatabaseUrl("postgres://me:a@h/db") == DatabaseUrl("postgresql+psycopg2://me:a@h/db")
    assert DatabaseUrl("postgres://me:a@h/db") != DatabaseUrl("postgres://me:b@h/db")
    assert len({DatabaseUrl("postgres://h/db"), DatabaseUrl("postgresql://h/db")}) == 1


def test_the_identity_tells_passwords_apart() -> None:
    one, other = DatabaseUrl("postgres://me:a@h/db"), DatabaseUrl("postgres://me:b@h/db")
    assert one.identity == DatabaseUrl("postgresql://me:a@h/db").identity
    assert one.identity != other.identity
    assert DatabaseUrl("queue.db").identity == "queue.db"


def test_text_of_others_is_masked_as_well() -> None:
    assert masked(f"['postgres://me:{SECRET}@h/db']") == "['postgres://***"
    assert masked("nothing to hide: a=b") == "nothing to hide: a=b"


def test_an_empty_address_means_the_default(tmp_path: Any) -> None:
    assert load(env={"CONTENT_AI_DB": "", "CONTENT_AI_STATE_DIR": str(tmp_path)}).settings.manifest_url == DatabaseUrl(
        f"sqlite:///{tmp_path}/queue.db"
    )
