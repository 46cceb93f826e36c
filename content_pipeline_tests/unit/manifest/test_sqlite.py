from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from content_pipeline.errors import BadSettings, DatabaseAway, DatabaseBusy, ForeignDatabase, LostLease
from content_pipeline.manifest.database import on_network_filesystem, open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobRequest, JobResult
from content_pipeline_tests.conformance.manifests import database_of

MOUNTS = r"""/dev/sda1 / ext4 rw 0 0
server:/export /mnt/share nfs4 rw 0 0
//nas/video /mnt/na\040s cifs rw 0 0
/dev/sdb1 /mnt/share/local ext4 rw 0 0
tmpfs /mnt/twice tmpfs rw 0 0
host:/x /mnt/twice fuse.sshfs rw 0 0
broken line
"""


def test_what_is_committed_is_on_the_disk(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/manifest.db")
    with engine.connect() as connection:
        asked = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("synchronous", "journal_mode")
        }
    assert asked == {"synchronous": 2, "journal_mode": "truncate"}


@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("/home/me/manifest.db", False),
        ("/mnt/share/manifest.db", True),
        ("/mnt/shared/manifest.db", False),
        ("/mnt/share/local/manifest.db", False),
        ("/mnt/na s/deep/down/manifest.db", True),
        ("/mnt/twice/manifest.db", True),
    ],
)
def test_a_network_file_system_is_known_by_its_mount(path: str, remote: bool) -> None:
    assert on_network_filesystem(Path(path), MOUNTS) is remote


def test_the_disk_of_the_tests_is_local(tmp_path: Path) -> None:
    assert not on_network_filesystem(tmp_path / "not" / "there" / "yet.db")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///", "mysql://x/y", "not a url"])
def test_what_can_be_no_manifest_is_refused(url: str) -> None:
    with pytest.raises(BadSettings, match="`db`"):
        open_engine(url)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "video.mp4"
    file.write_bytes(b"this is a video, not a database" * 100)
    with pytest.raises(ForeignDatabase, match="is no SQLite database"):
        open_engine(f"sqlite:///{file}")
    assert file.read_bytes() == b"this is a video, not a database" * 100


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadSettings, match=r"file/manifest\.db cannot be used"):
        open_engine(f"sqlite:///{tmp_path}/file/manifest.db")


def test_a_server_that_does_not_answer_is_away_and_its_password_unsaid() -> None:
    with pytest.raises(DatabaseAway) as said:
        open_engine("postgresql://me:secret@127.0.0.1:1/manifest")
    assert "secret" not in str(said.value)


def test_a_database_locked_for_too_long_is_away(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/manifest.db")
    sa.event.listen(engine, "checkout", lambda connection, *_: connection.execute("PRAGMA busy_timeout=10"))
    other = sqlite3.connect(tmp_path / "manifest.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseBusy, match="locked"):
        Manifest(engine).jobs.enqueue([JobRequest("/a", "/")])
    other.close()


def test_a_folder_with_any_name_may_hold_the_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "100% ä?#"
    engine = open_engine(str(sa.URL.create("sqlite", database=os.fspath(folder / "manifest.db"))))
    assert Manifest(engine).jobs.enqueue([JobRequest("/a", "/")]) == 1


# --- the file at the manifest's place is deleted, or another is put there, while connections are open


def opened(folder: Path, name: str = "manifest.db") -> Manifest:
    return Manifest(open_engine(f"sqlite:///{folder}/{name}"))


def subjects(manifest: Manifest) -> list[str]:
    return [job.subject for job in manifest.jobs.list()]


def test_a_deleted_manifest_begins_anew_where_everybody_sees_it(tmp_path: Path) -> None:
    ours, theirs = opened(tmp_path), opened(tmp_path)
    ours.jobs.enqueue([JobRequest("/a", "/")])
    assert subjects(theirs) == ["/a"]
    (tmp_path / "manifest.db").unlink()
    ours.jobs.enqueue([JobRequest("/b", "/")])
    assert subjects(ours) == subjects(theirs) == subjects(opened(tmp_path)) == ["/b"]
    assert ours.check() == []


def test_another_file_in_its_place_is_the_manifest(tmp_path: Path) -> None:
    ours, backup = opened(tmp_path), opened(tmp_path, "backup.db")
    ours.jobs.enqueue([JobRequest("/a", "/")])
    backup.jobs.enqueue([JobRequest("/b", "/")])
    backup.close()
    (tmp_path / "backup.db").replace(tmp_path / "manifest.db")
    assert subjects(ours) == ["/b"]
    ours.jobs.enqueue([JobRequest("/c", "/")])
    assert subjects(opened(tmp_path)) == ["/b", "/c"]


def test_a_worker_whose_jobs_vanished_has_lost_its_lease(tmp_path: Path) -> None:
    manifest = opened(tmp_path)
    manifest.jobs.enqueue([JobRequest("/a", "/")])
    (job,) = manifest.jobs.claim(ClaimRequest("worker"))
    (tmp_path / "manifest.db").unlink()
    assert manifest.jobs.renew("worker", [job.lease]).lost == {job.job_id}
    with pytest.raises(LostLease):
        manifest.jobs.succeed(job.lease, JobResult())


def test_parent_and_child_each_notice(tmp_path: Path) -> None:
    manifest = opened(tmp_path)
    manifest.jobs.enqueue([JobRequest("/a", "/")])
    child = os.fork()
    if child == 0:
        try:
            (tmp_path / "manifest.db").unlink()
            manifest.jobs.enqueue([JobRequest("/child", "/")])
            os._exit(0 if subjects(manifest) == ["/child"] else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert subjects(manifest) == ["/child"]
    manifest.jobs.enqueue([JobRequest("/parent", "/")])
    assert subjects(opened(tmp_path)) == ["/child", "/parent"]


def test_a_file_deleted_in_the_middle_of_a_write_is_away_for_that_moment_only(tmp_path: Path) -> None:
    manifest = opened(tmp_path)
    sa.event.listen(
        database_of(manifest).engine,
        "checkout",
        lambda *_: (tmp_path / "manifest.db").unlink(missing_ok=True),
        once=True,
    )
    with pytest.raises(DatabaseAway):
        manifest.jobs.enqueue([JobRequest("/a", "/")])
    manifest.jobs.enqueue([JobRequest("/b", "/")])
    assert subjects(opened(tmp_path)) == ["/b"]


def test_a_manifest_whose_folder_is_gone_is_away_and_comes_back_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    manifest = opened(folder)
    manifest.jobs.enqueue([JobRequest("/a", "/")])
    folder.rename(tmp_path / "unmounted")
    with pytest.raises(DatabaseAway):
        manifest.jobs.list()
    (tmp_path / "unmounted").rename(folder)
    assert subjects(manifest) == ["/a"]
