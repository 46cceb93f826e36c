"""A state folder moves to Postgres with one command: every row, compared; and nothing is computed again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from content_pipeline.dagster_runtime import copy_to_postgres as copying
from content_pipeline.errors import CopyDiffers, StillInUse
from content_pipeline.manifest.table_copy import TableDigest, copy_rows
from content_pipeline.settings import load
from content_pipeline.settings.database_url import DatabaseUrl
from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually

CONTENT_AI = str(Path(sys.executable).parent / "content-ai")


@pytest.fixture
def database() -> Iterator[str]:
    server = postgres.server()
    name = server.create()
    yield name
    server.drop(name)


@pytest.fixture
def moved_to(database: str) -> dict[str, str]:
    url = postgres.server().url(database)
    return {"CONTENT_AI_DB": url, "CONTENT_AI_DAGSTER_STORAGE": "postgres"}


@pytest.fixture
def folder(tmp_path: Path, samples_folder: Path) -> Path:
    """A folder in which recordings were processed, one of which cannot be, and whose Dagster has seen some ticks."""
    library = tmp_path / "library"
    library.mkdir()
    for number in range(2):
        made = samples.recording(samples_folder, f"short-{number}.mp4", seconds=6 + number, bursts=((2, 3),))
        shutil.copy(made, library / f"game{number}.mp4")
    (library / "noise.mp4").write_bytes(b"no recording" * 100)
    assert content_ai("process", "-i", "library", cwd=tmp_path).returncode == 3
    return tmp_path


def files_of(folder: Path) -> dict[str, tuple[str, int]]:
    """Every database and what lies beside it: content and time."""
    found = [path for path in (folder / ".content-ai").rglob("*") if ".db" in path.name]
    assert len(found) >= 4
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in sorted(found)
    }


def move(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return content_ai("database", "move", "--json", cwd=folder, env=environment)


LOOK = """
import json
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.settings import load
with open_instance(load().settings) as instance:
    runs = instance.get_runs()
    print(json.dumps({
        "runs": sorted([run.run_id, run.status.value] for run in runs),
        "events": sorted(entry.timestamp for run in runs for entry in instance.all_logs(run.run_id)),
        "assets": sorted(key.to_user_string() for key in instance.all_asset_keys()),
        "partitions": sorted(instance.get_dynamic_partitions("videos")),
    }))
"""


def what_dagster_shows(folder: Path, environment: dict[str, str]) -> dict[str, list[object]]:
    """Asked by a process that is gone afterwards: one that has the records open is in the way."""
    given = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", LOOK], cwd=folder, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[object]] = json.loads(done.stdout)
    assert all(found.values())
    return found


def test_everything_is_there_afterwards_nothing_is_computed_and_the_files_are_untouched(
    folder: Path, moved_to: dict[str, str]
) -> None:
    known, before = what_dagster_shows(folder, {}), files_of(folder)
    done = move(folder, moved_to)
    assert done.returncode == 0, done.stderr
    rows = {one["table"]: one["rows"] for one in json.loads(done.stdout)["tables"]}
    assert rows["manifest.job_items"] == 3 and rows["dagster_records.runs"] >= 2
    assert rows["dagster_records.event_logs"] > 50 and rows["dagster_records.dynamic_partitions"] >= 2
    assert files_of(folder) == before
    assert what_dagster_shows(folder, moved_to) == known

    again = content_ai("process", "-i", "library", "--json", cwd=folder, env=moved_to)
    assert again.returncode in (0, 3), again.stderr
    stages = [how for video in json.loads(again.stdout)["videos"] for how in video["stages"].values()]
    assert "computed" not in stages
    assert content_ai("queue", "check", cwd=folder, env=moved_to).returncode == 0
    forced = content_ai("process", "-i", "library/game0.mp4", "--force", cwd=folder, env=moved_to)
    assert forced.returncode == 0, forced.stderr  # new rows get new numbers


def test_a_second_move_finds_it_done_and_another_s_records_are_refused(
    folder: Path, database: str, moved_to: dict[str, str]
) -> None:
    assert json.loads(move(folder, moved_to).stdout)["was_there"] is False
    assert json.loads(move(folder, moved_to).stdout)["was_there"] is True
    postgres.server().execute("DELETE FROM job_items WHERE subject LIKE '%noise%'", database)
    refused = move(folder, moved_to)
    assert refused.returncode == 2, refused.stdout
    assert "already holds other records: manifest.job_items" in refused.stderr


def test_without_a_target_and_without_a_terminal_it_says_how_to_name_one(folder: Path) -> None:
    done = content_ai("database", "move", cwd=folder)
    assert done.returncode == 2 and "CONTENT_AI_DB" in done.stderr


def test_it_is_refused_while_a_worker_runs(folder: Path, moved_to: dict[str, str]) -> None:
    worker = subprocess.Popen(
        [CONTENT_AI, "worker"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)
    )
    try:
        eventually(lambda: "idle" in content_ai("worker", "list", cwd=folder).stdout, "the worker waits", 60)
        refused = move(folder, moved_to)
        assert refused.returncode == 1 and "a worker is running" in refused.stderr, refused.stderr
    finally:
        with contextlib.suppress(ProcessLookupError):
            worker.send_signal(signal.SIGTERM)
        worker.wait()
    assert move(folder, moved_to).returncode == 0


def test_it_is_refused_while_a_process_has_the_records_open(folder: Path, moved_to: dict[str, str]) -> None:
    path = folder / ".content-ai" / "dagster" / "history" / "runs.db"
    hold = "import sys; held = open(sys.argv[1], 'rb'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "open\n"
        refused = move(folder, moved_to)
        assert refused.returncode == 1 and f"process {holder.pid} has the databases open" in refused.stderr
        holder.communicate()


def test_what_is_written_to_meanwhile_is_not_moved(
    folder: Path, moved_to: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By somebody who came and went while it was copied."""
    from content_pipeline.services import moving

    settings = load(flags={"state_dir": folder / ".content-ai"}, env={}).settings
    target = DatabaseUrl(moved_to["CONTENT_AI_DB"])
    real = copying.copy_to_postgres

    def meanwhile(source: DatabaseUrl, home: Path, to: DatabaseUrl, expect_alone: Callable[[], None]) -> copying.Copied:
        def touch_first() -> None:
            os.utime(home / "history" / "event_log.db")
            expect_alone()

        return real(source, home, to, touch_first)

    monkeypatch.setattr(moving, "copy_to_postgres", meanwhile)
    with pytest.raises(StillInUse, match="was written to meanwhile"):
        moving.move_to_postgres(settings, target)
    monkeypatch.undo()
    assert not moving.move_to_postgres(settings, target).was_there, "nothing was left of the first try"


def test_what_differs_after_the_copy_is_not_kept(
    folder: Path, moved_to: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a row had been lost on the way."""
    monkeypatch.setattr(copying, "copy_rows", lambda *given: None if given[2].name == "run_tags" else copy_rows(*given))
    source = DatabaseUrl(f"sqlite:///{folder / '.content-ai' / 'queue.db'}")
    target = DatabaseUrl(moved_to["CONTENT_AI_DB"])
    home = folder / ".content-ai" / "dagster"
    with pytest.raises(CopyDiffers, match=r"run_tags \(\d+ rows, 0 there\)"):
        copying.copy_to_postgres(source, home, target, lambda: None)
    monkeypatch.undo()
    copied = copying.copy_to_postgres(source, home, target, lambda: None)
    assert not copied.was_there, "nothing was left of the first try"
    assert copied.tables["manifest.job_items"] == TableDigest(3, copied.tables["manifest.job_items"].digest)


def test_storage_that_has_a_name_keeps_it(folder: Path, moved_to: dict[str, str], database: str) -> None:
    mapped = {"CONTENT_AI_ROOTS__GAMES": str(folder / "library")}
    assert content_ai("roots", "add", "games", cwd=folder, env=mapped).returncode == 0
    assert move(folder, moved_to).returncode == 0
    planned = content_ai("plan", "-i", "library", "--json", cwd=folder, env={**moved_to, **mapped})
    assert [video["action"] for video in json.loads(planned.stdout)["videos"]] == ["keep", "keep", "leave"]
    engine = sa.create_engine(sa.make_url(postgres.server().url(database)).set(drivername="postgresql+psycopg2"))
    with engine.connect() as connection:
        oldest = connection.execute(sa.text("SELECT oldest_program FROM content_ai.alembic_version")).scalar_one()
    engine.dispose()
    assert oldest == "0008", "an older program would take the name for a file"
