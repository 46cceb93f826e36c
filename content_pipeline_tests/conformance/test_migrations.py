"""Bringing a database to the newest schema, from any earlier one, by several processes at once."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import content_pipeline.manifest.migrate as migrate
from content_pipeline.errors import ForeignDatabase, NewerSchema, NoManifest, OldSchema
from content_pipeline.manifest.compatibility import SCHEMA_VERSION
from content_pipeline.manifest.database import Access, open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.schema import metadata
from content_pipeline_tests.conformance.manifests import add, claim, database_url, succeed

OLD_VIDEO = """INSERT INTO videos (path, root, key, signature, quick, first_seen, last_seen)
VALUES ('/games/a.mp4', '/games', 'a-key', 'sig', 'quick', '2026-01-01 00:00:00', '2026-01-01 00:00:00')"""


@pytest.fixture
def empty_url(kind: str, tmp_path: Path) -> Iterator[str]:
    with database_url(kind, tmp_path) as found:
        yield found


def _revisions() -> list[str]:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]


def _plain_engine(url: str) -> sa.Engine:
    """Without bringing the database up to date."""
    parsed = sa.make_url(url)
    engine = sa.create_engine(parsed if url.startswith("sqlite") else parsed.set(drivername="postgresql+psycopg2"))
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    return engine


def _is_whole(url: str) -> None:
    engine = open_engine(url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    manifest = Manifest(engine)
    add(manifest, "new.mp4")
    succeed(manifest, claim(manifest))
    assert manifest.check() == []
    engine.dispose()


@pytest.mark.parametrize("access", [Access.READ, Access.USE])
def test_only_who_may_make_a_manifest_makes_one(empty_url: str, access: Access) -> None:
    for _ in range(2):
        with pytest.raises(NoManifest, match="there is no manifest at"):
            open_engine(empty_url, access)
    assert _tables(empty_url) == set()
    open_engine(empty_url).dispose()
    open_engine(empty_url, access).dispose()


def _tables(url: str) -> set[str]:
    engine = _plain_engine(url)
    with engine.connect() as connection:
        found = set(sa.inspect(connection).get_table_names())
    engine.dispose()
    return found


def _executed(url: str, *statements: str) -> None:
    engine = _plain_engine(url)
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
        connection.commit()
    engine.dispose()


FOREIGN = {
    "other tables": ["CREATE TABLE notes (text varchar(9))"],
    "a table of videos, but not ours": ["CREATE TABLE videos (id integer, title varchar(9))"],
    "another program that uses alembic": [
        "CREATE TABLE alembic_version (version_num varchar(32))",
        "INSERT INTO alembic_version VALUES ('0002')",
        "CREATE TABLE job_items (id integer)",
    ],
    "nothing but somebody's revision": [
        "CREATE TABLE alembic_version (version_num varchar(32))",
        "INSERT INTO alembic_version VALUES ('0001')",
    ],
}


@pytest.mark.parametrize("access", list(Access))
@pytest.mark.parametrize("statements", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_database_of_somebody_else_is_refused_and_left_alone(
    empty_url: str, statements: list[str], access: Access
) -> None:
    _executed(empty_url, *statements)
    before = _tables(empty_url)
    with pytest.raises(ForeignDatabase, match="is no manifest"):
        open_engine(empty_url, access)
    assert _tables(empty_url) == before


def test_who_only_looks_does_not_bring_a_manifest_up_to_date(empty_url: str) -> None:
    migrate.upgrade(_plain_engine(empty_url), "0003")
    with pytest.raises(OldSchema, match="has schema 0003"):
        open_engine(empty_url, Access.READ)
    assert "publications" not in _tables(empty_url)
    open_engine(empty_url, Access.USE).dispose()
    assert "publications" in _tables(empty_url)


def test_a_database_made_from_nothing_is_what_the_code_expects(empty_url: str) -> None:
    _is_whole(empty_url)


def test_the_schema_version_is_that_of_the_last_migration() -> None:
    assert _revisions()[-1] == SCHEMA_VERSION


@pytest.mark.parametrize("revision", _revisions())
def test_a_database_of_an_earlier_version_is_brought_up_to_date_with_what_is_in_it(
    empty_url: str, revision: str
) -> None:
    engine = _plain_engine(empty_url)
    migrate.upgrade(engine, revision)
    _remove_mark(engine)
    _put_a_video_in(engine)
    _is_whole(empty_url)
    _has_the_video(empty_url)


def test_a_database_of_the_first_release_that_knew_no_versions_is_brought_up_to_date(empty_url: str) -> None:
    engine = _plain_engine(empty_url)
    migrate.upgrade(engine, "0001")
    with engine.connect() as connection:
        connection.exec_driver_sql("DROP TABLE alembic_version")
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA application_id=0")
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql('ALTER TABLE videos ALTER COLUMN path TYPE text COLLATE "default"')
        connection.commit()
    _put_a_video_in(engine)
    _is_whole(empty_url)
    _has_the_video(empty_url)


def _remove_mark(engine: sa.Engine) -> None:
    """Versions before wrote none."""
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA application_id=0")


def _put_a_video_in(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql(OLD_VIDEO)
        connection.commit()
    engine.dispose()


def _has_the_video(url: str) -> None:
    engine = open_engine(url)
    found = Manifest(engine).videos.at(Path("/games/a.mp4"))
    assert found is not None and found.key == "a-key"
    engine.dispose()


OLD_JOB = """INSERT INTO job_items (job_id, queue_type, library, video_path, video_key, stage_keys, status, priority,
claim_count, attempt_count, max_attempts, crash_count, max_crashes, available_at, created_at, updated_at, completed_at,
cancel_requested, output_files, output_hashes, results, cost, metadata)
VALUES ('{job}', 'processing', '/games', '{path}',
'a-key', '{{}}', 'succeeded', 0, 0, 0, 3, 0, 2, '2026-01-01', '2026-01-01', '2026-01-01', '2026-01-01', false,
'["/out/a-key.mp4"]', '{{"/out/a-key.mp4": "{digest}", "/out/a-key.sheet.jpg": "{digest}"}}',
'{{"output_stats": {{"/out/a-key.mp4": [10, 20]}}}}', '{{}}', '{{}}')"""


def test_what_was_published_before_is_known_afterwards(empty_url: str) -> None:
    engine = _plain_engine(empty_url)
    migrate.upgrade(engine, "0003")
    with engine.connect() as connection:
        for job, path in (("j1", "/games/a.mp4"), ("j2", "/games/copy.mp4")):
            connection.exec_driver_sql(OLD_JOB.format(job=job, path=path, digest="0" * 64))
        connection.commit()
    engine.dispose()
    engine = open_engine(empty_url)
    montage, sheet = sorted(Manifest(engine).publications.of("a-key"), key=lambda one: one.file)
    assert (str(montage.path), montage.file, montage.sha256) == ("/out/a-key.mp4", "montage.mp4", "0" * 64)
    assert (montage.size_bytes, montage.mtime_ns, montage.kept, montage.job_id) == (10, 20, False, "j1")
    assert (str(sheet.path), sheet.file, sheet.mtime_ns) == ("/out/a-key.sheet.jpg", "sheet.jpg", None)
    engine.dispose()


@pytest.mark.parametrize("revision", ["0003", "0004"])
def test_jobs_from_before_follow_the_settings_and_calibrations_keep_what_was_asked(
    empty_url: str, revision: str
) -> None:
    engine = _plain_engine(empty_url)
    migrate.upgrade(engine, revision)
    with engine.connect() as connection:
        connection.exec_driver_sql(OLD_JOB.format(job="j1", path="/games/a.mp4", digest="0" * 64))
        connection.exec_driver_sql(OLD_JOB.format(job="j2", path="/games", digest="0" * 64))
        asked = '{"calibration": {"montage_s": 60.0}}'
        as_calibration = f"UPDATE job_items SET queue_type = 'calibration', metadata = '{asked}' WHERE job_id = 'j2'"
        connection.exec_driver_sql(as_calibration)
        connection.commit()
    engine.dispose()
    engine = open_engine(empty_url)
    video, calibration = Manifest(engine).jobs.list()
    assert (video.options, video.force_id, video.metadata) == (None, None, {})
    assert (calibration.options, calibration.metadata) == ({"calibration": {"montage_s": 60.0}}, {})
    engine.dispose()


def test_paths_are_kept_in_the_order_of_their_bytes(empty_url: str) -> None:
    engine = open_engine(empty_url)
    if engine.dialect.name == "postgresql":
        query = "SELECT table_name, column_name FROM information_schema.columns WHERE collation_name = 'C'"
        with engine.connect() as connection:
            found = {tuple(row) for row in connection.exec_driver_sql(query)}
        assert found >= {("videos", "path"), ("videos", "root"), ("job_items", "subject"), ("job_items", "library")}
    engine.dispose()


def test_a_database_of_a_newer_version_is_refused(empty_url: str) -> None:
    engine = open_engine(empty_url)
    with engine.connect() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999', oldest_program = '9999'")
        connection.commit()
    engine.dispose()
    with pytest.raises(NewerSchema, match=r"schema 9999.* newer version"):
        open_engine(empty_url)


def test_several_processes_may_open_a_new_database_at_once(empty_url: str) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    processes = [context.Process(target=_open, args=(empty_url, barrier, str(number))) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    engine = open_engine(empty_url)
    assert len(Manifest(engine).jobs.list()) == 4
    _is_whole(empty_url)
    engine.dispose()


def _open(url: str, barrier: object, name: str) -> None:
    barrier.wait(60)  # type: ignore[attr-defined]
    add(Manifest(open_engine(url)), name)
