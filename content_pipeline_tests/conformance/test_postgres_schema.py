"""Where in a Postgres database the manifest is: in a schema of its own, or where an earlier version made it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2  # type: ignore[import-untyped]
import pytest
import sqlalchemy as sa

import content_pipeline.manifest.migrate as migrate
from content_pipeline.errors import DatabasePermission, ForeignDatabase
from content_pipeline.manifest.database import Access, open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.schema import metadata
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.conformance.manifests import add, claim, succeed

FOREIGN = "CREATE TABLE public.notes (text varchar(9))"


@pytest.fixture
def database() -> Iterator[str]:
    server = postgres.server()
    name = server.create()
    yield name
    server.drop(name)


def tables_in(database: str, schema: str) -> set[str]:
    connection = psycopg2.connect(host=str(postgres.server().folder), user="postgres", dbname=database)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,))
            return {row[0] for row in cursor.fetchall()}
    finally:
        connection.close()


def made_by_an_earlier_version(database: str) -> None:
    url = sa.make_url(postgres.server().url(database)).set(drivername="postgresql+psycopg2")
    engine = sa.create_engine(url)
    migrate.upgrade(engine, "0006")
    engine.dispose()


def works(database: str, **options: str) -> None:
    url = sa.make_url(postgres.server().url(database)).update_query_dict(options)
    engine = open_engine(url.render_as_string(hide_password=False))
    manifest = Manifest(engine)
    add(manifest, "new.mp4")
    succeed(manifest, claim(manifest))
    assert manifest.check() == []
    engine.dispose()


def test_a_new_manifest_has_a_schema_of_its_own(database: str) -> None:
    works(database)
    assert tables_in(database, "content_ai") == {*metadata.tables, "alembic_version"}
    assert tables_in(database, "public") == set()


def test_a_manifest_that_an_earlier_version_made_is_used_where_it_is(database: str) -> None:
    made_by_an_earlier_version(database)
    works(database)
    assert tables_in(database, "public") == {*metadata.tables, "alembic_version"}
    assert tables_in(database, "content_ai") == set()


def test_it_is_still_found_after_an_administrator_has_made_the_schema(database: str) -> None:
    made_by_an_earlier_version(database)
    postgres.server().execute("CREATE SCHEMA content_ai", database)
    works(database)
    assert tables_in(database, "content_ai") == set()


def test_tables_of_somebody_else_are_refused_until_an_administrator_has_made_the_schema(database: str) -> None:
    server = postgres.server()
    server.execute(FOREIGN, database)
    for access in Access:
        with pytest.raises(ForeignDatabase, match="notes"):
            open_engine(server.url(database), access)
    server.execute("CREATE SCHEMA content_ai", database)
    works(database)
    assert tables_in(database, "public") == {"notes"}


def test_tables_of_somebody_else_in_the_schema_are_refused(database: str) -> None:
    server = postgres.server()
    server.execute("CREATE SCHEMA content_ai", database)
    server.execute("CREATE TABLE content_ai.notes (text varchar(9))", database)
    with pytest.raises(ForeignDatabase, match="notes"):
        open_engine(server.url(database))


def test_who_names_a_search_path_in_the_url_gets_it(database: str) -> None:
    postgres.server().execute("CREATE SCHEMA mine", database)
    works(database, options="-csearch_path=mine")
    assert tables_in(database, "mine") == {*metadata.tables, "alembic_version"}
    assert tables_in(database, "content_ai") == set()


def test_a_user_who_may_make_no_schema_has_the_manifest_in_the_default_one(database: str) -> None:
    server = postgres.server()
    server.execute("DROP ROLE IF EXISTS modest")
    server.execute("CREATE ROLE modest LOGIN")
    server.execute("GRANT CREATE ON SCHEMA public TO modest", database)
    url = server.url(database).replace("postgres@", "modest@")
    open_engine(url).dispose()
    assert tables_in(database, "public") == {*metadata.tables, "alembic_version"}
    open_engine(url).dispose()


def test_a_user_without_any_right_is_told_so(database: str) -> None:
    server = postgres.server()
    works(database)
    server.execute("DROP ROLE IF EXISTS stranger")
    server.execute("CREATE ROLE stranger LOGIN")
    for access in Access:
        with pytest.raises(DatabasePermission, match="may not look into the schema content_ai"):
            open_engine(server.url(database).replace("postgres@", "stranger@"), access)
