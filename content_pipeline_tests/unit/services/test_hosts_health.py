"""What `doctor` says of the database's clock, of a role's rights and of the workers on all hosts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from content_pipeline.manifest.open import open_manifest
from content_pipeline.manifest.rights import Rights
from content_pipeline.manifest.seen_roots import RootState, RootView
from content_pipeline.manifest.workers import WorkerInfo
from content_pipeline.services.health import examine
from content_pipeline.services.hosts_health import judge_clock, judge_rights, judge_roots, judge_workers
from content_pipeline.services.workers import WorkerDocument
from content_pipeline.settings import load
from content_pipeline.version import __version__

ALL = Rights("me", "content_ai", may_read=True, may_write=True, may_change_tables=True)
WORKER = WorkerDocument(
    worker_id="w",
    host="a",
    pid=1,
    role="worker",
    version=__version__,
    state="idle",
    slots=1,
    capabilities=(),
    since=datetime(2026, 1, 1, tzinfo=UTC),
    last_heartbeat=datetime(2026, 1, 1, tzinfo=UTC),
    silent_s=3,
    jobs=(),
)


@pytest.mark.parametrize(
    ("difference_s", "verdict", "said"),
    [(0.01, "ok", "agrees"), (-0.2, "ok", "agrees"), (60, "warning", "60.0 s ahead of"), (-7, "warning", "behind")],
)
def test_a_clock_that_is_far_off_is_a_warning(difference_s: float, verdict: str, said: str) -> None:
    found, detail = judge_clock(difference_s, took_s=0.001)
    assert found == verdict and said in detail


@pytest.mark.parametrize(
    ("rights", "verdict", "said"),
    [
        (None, "ok", "SQLite"),
        (ALL, "ok", "and change tables"),
        (replace(ALL, may_change_tables=False), "ok", "but not change tables"),
        (replace(ALL, may_change_tables=False, may_write=False), "warning", "may read only"),
        (replace(ALL, may_read=False), "problem", "deploy/postgres-roles.sql"),
    ],
)
def test_a_role_is_told_what_it_may_do(rights: Rights | None, verdict: str, said: str) -> None:
    found, detail = judge_rights(rights)
    assert found == verdict and said in detail


def test_workers_are_told_by_host_and_silence_and_other_versions_are_warnings() -> None:
    other = WORKER.model_copy(update={"worker_id": "v", "host": "b"})
    assert judge_workers([]) == ("ok", "none is running")
    assert judge_workers([WORKER, other]) == ("ok", f"2 workers on a, b, version {__version__}")
    silent = judge_workers([WORKER, other.model_copy(update={"state": "stale", "silent_s": 300})])
    assert silent[0] == "warning" and "no heartbeat from b pid 1 since 300 s" in silent[1]
    older = judge_workers([WORKER, other.model_copy(update={"version": "0.0.1"})])
    assert older[0] == "warning" and "different versions: 0.0.1" in older[1]


def test_doctor_looks_at_the_whole_set_up_and_makes_nothing(tmp_path: Path) -> None:
    settings = load(flags={"state_dir": tmp_path / "state"}, env={}).settings
    found = {finding.name: finding for finding in examine(settings).root}
    assert found["workers"].detail == "none is running" and not (tmp_path / "state").exists()
    open_manifest(settings).workers.beat(WorkerInfo("far:1", "far", 9, "0.0.1", "worker", 1, 90))
    found = {finding.name: finding for finding in examine(settings).root}
    assert found["workers"].verdict == "warning" and "far" in found["workers"].detail
    assert found["database clock"].verdict == "ok" and found["database role"].verdict == "ok"


SEEN = RootView("nas", Path("/mnt/nas"), RootState.SEEN)


@pytest.mark.parametrize(
    ("views", "output_dir", "verdict", "said"),
    [
        ([], "/out", "ok", "no roots"),
        ([SEEN], "/mnt/nas/out", "ok", "same files as every host: nas at /mnt/nas"),
        ([SEEN], "/home/me/out", "warning", "/home/me/out lies below none"),
        ([SEEN, RootView("b", None, RootState.UNMAPPED)], "/mnt/nas/out", "warning", "`b` is not mapped"),
        ([SEEN, RootView("b", Path("/b"), RootState.MISSING)], "/mnt/nas/out", "problem", "(/b) has no"),
        ([RootView("b", Path("/b"), RootState.ANOTHER)], "/b", "problem", "other storage"),
        ([RootView("b", Path("/b"), RootState.UNKNOWN)], "/b", "problem", "content-ai roots add b"),
    ],
)
def test_what_a_host_sees_of_the_storage_is_judged(
    views: list[RootView], output_dir: str, verdict: str, said: str
) -> None:
    found, detail = judge_roots(views, load({"output_dir": output_dir}, env={}).settings)
    assert (found, said in detail) == (verdict, True), detail
