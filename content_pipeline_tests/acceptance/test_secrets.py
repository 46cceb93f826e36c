"""A password that the manifest's database asks for: used, and never shown or left behind."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.manifest.model import JobRequest
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import load
from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.stored_texts import files_holding

SECRET = "s3cr3t@f/x:y"
ENCODED = "s3cr3t%40f%2Fx%3Ay"


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    with postgres.with_passwords() as started:
        started.execute(f"CREATE ROLE me LOGIN SUPERUSER PASSWORD '{SECRET}'")
        yield started


@pytest.fixture
def url(server: postgres.Server) -> str:
    return server.url_with_password(server.create(), "me", ENCODED)


@pytest.fixture
def library(tmp_path: Path, samples_folder: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    shutil.copy(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), folder / "game.mp4")
    return folder


def open_to_others(folder: Path) -> list[Path]:
    return sorted(path for path in (folder, *folder.rglob("*")) if path.stat().st_mode & 0o077)


@pytest.mark.parametrize(
    "command",
    [
        ["config", "show"],
        ["config", "show", "--json"],
        ["doctor"],
        ["doctor", "--json"],
        ["queue", "status"],
        ["queue", "status", "--json"],
        ["plan", "--input", "library"],
    ],
    ids=" ".join,
)
def test_a_password_is_used_and_not_shown(command: list[str], url: str, library: Path, tmp_path: Path) -> None:
    environment = {"CONTENT_AI_DB": url, "CONTENT_AI_DEBUG": "1", "COLUMNS": "400"}
    if command[0] == "queue":  # which makes no manifest where there is none
        content_ai("process", "--input", "library", "--no-process", cwd=tmp_path, env=environment)
    done = content_ai(*command, cwd=tmp_path, env=environment)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert SECRET not in said and ENCODED not in said
    if command[0] in ("config", "doctor"):
        assert "postgresql+psycopg2://me:***@127.0.0.1" in said


def test_a_wrong_password_is_not_shown_either(server: postgres.Server, tmp_path: Path) -> None:
    wrong = server.url_with_password("postgres", "me", "wr0ng")
    for command in (["doctor"], ["queue", "status"], ["config", "show"], ["process", "--input", "."]):
        for given in (wrong, f"{wrong}&", wrong.replace("@", "@@", 1), wrong.replace("127.0.0.1:", "127.0.0.1:x")):
            done = content_ai(*command, cwd=tmp_path, env={"CONTENT_AI_DB": given, "CONTENT_AI_DEBUG": "1"})
            assert "wr0ng" not in done.stdout + done.stderr


def test_nothing_that_work_leaves_behind_holds_the_password(url: str, library: Path, tmp_path: Path) -> None:
    done = content_ai("process", "--input", library, "--db", url, "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["totals"]["succeeded"] == 1
    assert files_holding(tmp_path, SECRET, ENCODED) == []


@dg.job
def nothing() -> None:
    """A run has to be of some job."""


def test_a_password_in_an_event_or_in_the_manifest_would_be_found(tmp_path: Path) -> None:
    """What the tests here look with sees more than the bytes of files: events are compressed."""
    settings = load(flags={"state_dir": tmp_path}, env={}).settings
    open_manifest(settings).jobs.enqueue([JobRequest(f"/{SECRET}.mp4", "/")])
    with open_instance(settings) as instance:
        run = instance.create_run_for_job(nothing)
        instance.report_engine_event(f"The password is {SECRET}.", run)
    records = tmp_path / "dagster" / "history" / "event_log.db"
    assert files_holding(tmp_path, SECRET) == [records, tmp_path / "queue.db"]
    assert files_holding(tmp_path, "wr0ng") == []


@pytest.mark.parametrize("how", ["query", "PGPASSWORD", "pgpass", "service"])
def test_a_password_may_come_by_every_way_that_postgres_knows(
    how: str, server: postgres.Server, tmp_path: Path
) -> None:
    from urllib.parse import quote

    name = server.create()
    url, env = f"postgresql://me@127.0.0.1:{server.port}/{name}", {"HOME": str(tmp_path)}
    escaped = SECRET.replace(":", "\\:")
    if how == "query":
        url += f"?password={quote(SECRET, safe='')}"
    elif how == "PGPASSWORD":
        env["PGPASSWORD"] = SECRET
    elif how == "pgpass":
        file = tmp_path / ".pgpass"
        file.write_text(f"127.0.0.1:{server.port}:*:me:{escaped}\n")
        file.chmod(0o600)
    else:
        file = tmp_path / ".pg_service.conf"
        file.write_text(f"[ours]\nhost=127.0.0.1\nport={server.port}\nuser=me\ndbname={name}\npassword={SECRET}\n")
        url = "postgres://?service=ours"
    done = content_ai("doctor", cwd=tmp_path, env={**env, "CONTENT_AI_DB": url})
    manifest = next(line for line in done.stdout.splitlines() if " manifest " in line)
    assert manifest.startswith("ok"), manifest
    assert "s3cr3t" not in done.stdout + done.stderr


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_state_is_the_owners_alone_and_outputs_go_by_the_umask(umask: int, library: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "content_pipeline.cli", "process", "--input", str(library)]
    subprocess.run(command, cwd=tmp_path, umask=umask, check=True, capture_output=True)
    state = tmp_path / ".content-ai"
    assert open_to_others(state) == []
    outputs = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "output").iterdir()}
    assert outputs == {0o666 & ~umask}
    assert stat.S_IMODE((tmp_path / "output").stat().st_mode) == 0o777 & ~umask


def test_a_state_folder_of_before_is_closed_and_a_project_folder_is_not(library: Path, tmp_path: Path) -> None:
    for name, own in ((".content-ai", False), ("state", False), ("project", True)):
        folder = tmp_path / name
        folder.mkdir(mode=0o755)
        (folder / "queue.db").touch()
        if own:
            (folder / "notes.txt").touch()
        done = content_ai("process", "--input", library, "--state-dir", folder, "-o", f"out-{name}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert stat.S_IMODE(folder.stat().st_mode) == (0o755 if own else 0o700)
        assert open_to_others(folder) == ([folder, folder / "notes.txt"] if own else [])
