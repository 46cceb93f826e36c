from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from content_pipeline.errors import BadSettings, DatabaseAway
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest
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
        (f"postgres://h/db?Password={SECRET}", "postgresql+psycopg2://h/db?Password=***"),
        (f"postgres://h/db?pass={SECRET}&SSLMode=require", "postgresql+psycopg2://h/db?pass=***&SSLMode=require"),
        (f"postgres://h/db?options=-cpassword%3D{SECRET}", "postgresql+psycopg2://h/db?options=***"),
        (f"postgres://h/db?sslmode=require;password={SECRET}", "postgresql+psycopg2://h/db?sslmode=***"),
        (f"postgres://h/db?user=me:{SECRET}%40h", "postgresql+psycopg2://h/db?user=***"),
        (f"postgres://h/db?{SECRET}", "postgresql+psycopg2://h/db?***"),
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
        f"postgresql:/me:{SECRET}@host/db",
        f"postgresql//me:{SECRET}@host/db",
        f"postgresql:me:{SECRET}@host/db",
        f"Postgres;//me@host/db?x={SECRET}",
        f"me:{SECRET}@host/db",
        f"host/db?Password={SECRET}",
        f"me:{SECRET}@postgresql://host/db",
        f"sqlite://me:{SECRET}@host@host/db",
        "postgres://me:***@host/db",  # copied from what was shown
        "postgres://me@host/db?options=***",
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


def test_a_manifest_is_named_without_the_secrets_among_its_options() -> None:
    """SQLAlchemy itself hides only the password before the host."""
    url = f"postgresql+psycopg2://me:{SECRET}@127.0.0.1:1/db?sslmode=disable&options=-cpassword%3D{SECRET}"
    with pytest.raises(DatabaseAway) as refused:
        open_engine(url)
    assert SECRET not in "".join(traceback.format_exception(refused.value))
    assert SECRET not in Manifest(sa.create_engine(url)).name


def test_a_file_may_have_any_name_when_it_is_called_a_file(tmp_path: Path) -> None:
    open_engine(f"sqlite:///{tmp_path}/postgres:me@home.db")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".db"] == ["postgres:me@home.db"]


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
