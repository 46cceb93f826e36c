"""Shared storage under different mount points: hosts that map it differently share one manifest."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from content_pipeline.errors import NewerSchema, RetryPolicy, StillInUse, StorageMismatch
from content_pipeline.library.presence import is_offline
from content_pipeline.manifest import compatibility
from content_pipeline.manifest.breaker import ELSEWHERE
from content_pipeline.manifest.calibrations import AppliedCalibration
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job, JobRequest, JobResult
from content_pipeline.manifest.publications import Publication
from content_pipeline.manifest.restore import RecordedResult, RecordedVideo
from content_pipeline.manifest.seen_roots import RootState, attach_known
from content_pipeline.manifest.videos import KnownVideo, Rename
from content_pipeline.media.source import Signature
from content_pipeline.system.root_marker import NAME, make_marker
from content_pipeline_tests.conformance.manifests import START, Clock, claim, database_of, fail, succeed

SIGNATURE, SHARED = "66:77:1000:2000:3000", "-:-:1000:2000:-"
Host = Callable[..., Manifest]


@pytest.fixture
def host(url: str, clock: Clock) -> Iterator[Host]:
    """A manifest as a host opens it that maps these roots."""

    @contextmanager
    def opened(roots: dict[str, Path]) -> Iterator[Manifest]:
        engine = open_engine(url)
        try:
            attach_known(engine, roots)
            yield Manifest(engine, clock, random=lambda: 0.5, roots=roots)
        finally:
            engine.dispose()

    with ExitStack() as stack:
        yield lambda **roots: stack.enter_context(opened(roots))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def there(tmp_path: Path, here: Path) -> Path:
    """The same storage at another place, as far as its marker tells."""
    (tmp_path / "there").mkdir()
    shutil.copy(marked(here), tmp_path / "there" / NAME)
    return tmp_path / "there"


def marked(folder: Path) -> Path:
    make_marker(folder, "the-storage")
    return folder / NAME


def added(manifest: Manifest, folder: Path) -> int:
    marked(folder)
    return manifest.roots.add("nas", "the-storage")


def asked(manifest: Manifest, folder: Path, name: str = "a.mp4", output: Path | None = None) -> Job:
    """A job about a file below a folder, and what is known of the file."""
    video = folder / "games" / name
    options = {"output_dir": str((folder if output is None else output) / "out"), "settings": {}}
    manifest.jobs.enqueue([JobRequest(str(video), str(video.parent), options=options)])
    manifest.videos.save(KnownVideo(video, video.parent, "key", SIGNATURE, "quick", "full"))
    found = manifest.jobs.find("processing", str(video))
    assert found is not None
    return found


def published(folder: Path) -> Publication:
    return Publication(folder / "out" / "A.mp4", "key", "montage.mp4", "0" * 64, mtime_ns=5, size_bytes=6)


def stored(manifest: Manifest, text: str) -> list[str]:
    with database_of(manifest).engine.connect() as connection:
        return list(connection.execute(sa.text(text)).scalars())


def everything_known(manifest: Manifest) -> dict[str, object]:
    return {
        "jobs": manifest.jobs.list(),
        "videos": manifest.videos.all(),
        "libraries": manifest.libraries.roots(),
        "calibrations": manifest.calibrations.all(),
        "publications": manifest.publications.all(),
        "breakers": manifest.breakers.all(),
    }


def worked_on(manifest: Manifest, folder: Path) -> None:
    """Something in every table that holds a path."""
    asked(manifest, folder)
    job = claim(manifest)
    output = str(folder / "out" / "A.mp4")
    manifest.publications.under(job.lease).settle([published(folder)], [])
    results = {"facts": {"clips": 3}, "output_stats": {output: [6, 5]}}
    succeed(manifest, job, output_files=[output], output_hashes={output: "0" * 64}, results=results)
    asked(manifest, folder, "b.mp4")
    fail(manifest, claim(manifest), RetryPolicy.ENVIRONMENTAL, "library_offline")
    calibration = JobRequest(str(folder / "games"), str(folder / "games"), kind="calibration")
    manifest.jobs.enqueue([calibration])
    (claimed,) = manifest.jobs.claim(ClaimRequest("w", kind="calibration", ignore_backoff=True)) or (None,)
    assert claimed is None, "its library is paused"
    manifest.breakers.close()
    (claimed,) = manifest.jobs.claim(ClaimRequest("w", kind="calibration"))
    applied = AppliedCalibration(str(folder / "games"), "broadband", "sensitivity", 2.0, "k")
    manifest.calibrations.succeed_job(claimed.lease, JobResult(), applied)
    fail(manifest, claim(manifest), RetryPolicy.ENVIRONMENTAL, "library_offline")


def test_a_root_that_is_added_later_changes_nothing_that_is_known(host: Host, here: Path) -> None:
    before = host()
    worked_on(before, here)
    known = repr(everything_known(before)).replace(SIGNATURE, SHARED)
    after = host(nas=here)
    assert added(after, here) > 5
    assert repr(everything_known(after)) == known
    assert Signature(1, 2, 1000, 2000, 9).matches(after.videos.all()[0].signature)
    assert str(here) not in repr(everything_known(host())), "not a path is left that only this host understands"


def test_another_host_reads_everything_at_its_own_place(host: Host, here: Path, there: Path) -> None:
    mine = host(nas=here)
    added(mine, here)
    worked_on(mine, here)
    theirs = host(nas=there)
    assert repr(everything_known(theirs)) == repr(everything_known(mine)).replace(str(here), str(there))
    assert set(theirs.videos.signatures_under(there)) == {str(there / "games" / name) for name in ("a.mp4", "b.mp4")}
    assert len(theirs.jobs.summaries_under(there / "games")) == 2
    assert list(theirs.publications.at([there / "out" / "a.MP4"])) == [there / "out" / "a.MP4"]
    assert theirs.jobs.list(JobFilter(library=str(there / "games"))) == theirs.jobs.list()
    assert set(stored(mine, "SELECT path FROM videos")) == {"root:nas/games/a.mp4", "root:nas/games/b.mp4"}


def test_what_lies_outside_every_root_stays_an_absolute_path(host: Host, here: Path, tmp_path: Path) -> None:
    manifest = host(nas=here)
    added(manifest, here)
    beside = tmp_path / "here2"
    asked(manifest, beside)
    assert stored(manifest, "SELECT subject FROM job_items") == [str(beside / "games" / "a.mp4")]
    assert not manifest.jobs.summaries_under(here)
    assert claim(host()).subject == str(beside / "games" / "a.mp4")


def test_a_folder_that_holds_a_root_holds_what_is_below_it(host: Host, here: Path, tmp_path: Path) -> None:
    manifest = host(nas=here)
    added(manifest, here)
    asked(manifest, here)
    asked(manifest, tmp_path / "local", "b.mp4")
    assert len(manifest.jobs.summaries_under(tmp_path)) == 2
    assert len(manifest.videos.signatures_under(Path("/"))) == 2
    assert len(manifest.jobs.ages_under(tmp_path)) == 2


def test_the_root_itself_may_be_a_library(host: Host, here: Path, there: Path) -> None:
    manifest = host(nas=here)
    manifest.jobs.enqueue([JobRequest(str(here / "a.mp4"), str(here))])
    added(manifest, here)
    assert host(nas=there).libraries.roots() == [there]
    assert [job.subject for job in host(nas=there).jobs.summaries_under(there)] == [str(there / "a.mp4")]
    assert host().libraries.roots() == [Path("root:nas")]


def test_a_name_that_is_no_utf_8_keeps_every_byte(host: Host, here: Path, there: Path) -> None:
    name = os.fsdecode(b"caf\xe9 \xc3\xbc.mp4")
    asked(host(), here, name)
    added(host(nas=here), here)
    assert host(nas=there).videos.all()[0].path == there / "games" / name


# --- who may claim


def test_a_host_claims_only_what_it_sees(host: Host, here: Path, there: Path) -> None:
    mine = host(nas=here)
    added(mine, here)
    job = asked(mine, here)
    without = host()
    assert without.jobs.claim(ClaimRequest("w")) == []
    assert "not mapped on this host" in str(without.roots.why_not_here(without.jobs.get(job.job_id)))
    assert [one.error_code for one in without.roots.only_elsewhere()] == [ELSEWHERE]
    assert without.roots.only_elsewhere()[0].blocks(without.jobs.list()[0].library, None)
    assert [one.job_id for one in without.jobs.due(ClaimRequest("w"))] == [job.job_id], "a run of it can be asked for"
    theirs = host(nas=there)
    assert theirs.roots.why_not_here(theirs.jobs.get(job.job_id)) is None
    assert claim(theirs).subject == str(there / "games" / "a.mp4")
    assert theirs.roots.only_elsewhere() == []


def test_a_job_whose_outputs_go_below_a_root_needs_it_too(host: Host, here: Path, tmp_path: Path) -> None:
    mine = host(nas=here)
    added(mine, here)
    asked(mine, tmp_path / "local", output=here)
    assert host().jobs.claim(ClaimRequest("w")) == []
    assert claim(mine)


def test_a_root_that_is_unmounted_while_a_worker_lives_is_not_claimed_from(host: Host, here: Path) -> None:
    manifest = host(nas=here)
    added(manifest, here)
    job = asked(manifest, here)
    (here / NAME).rename(here / "away")
    assert manifest.jobs.claim(ClaimRequest("w")) == []
    assert "is the storage mounted" in str(manifest.roots.why_not_here(job))
    (here / "away").rename(here / NAME)
    assert claim(manifest).job_id == job.job_id


def test_names_that_begin_alike_are_different_roots(host: Host, tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("nas", "nas_2")}
    both = host(**folders)
    for name, folder in folders.items():
        folder.mkdir()
        both.roots.add(name, make_marker(folder, f"id-{name}"))
    asked(both, folders["nas"])
    asked(both, folders["nas_2"], "b.mp4")
    one = host(nas_2=folders["nas_2"])
    assert claim(one).subject.endswith("b.mp4")
    assert one.jobs.claim(ClaimRequest("w")) == []
    assert len(one.jobs.summaries_under(folders["nas_2"])) == 1


# --- whether a host sees the same files


def test_every_way_to_see_other_files_is_told_apart(host: Host, here: Path, there: Path, tmp_path: Path) -> None:
    assert [view.state for view in host(nas=here).roots.views()] == [RootState.UNKNOWN]
    added(host(nas=here), here)
    assert host(nas=here).roots.expect() == []
    assert [view.state for view in host().roots.views()] == [RootState.UNMAPPED]
    assert len(host().roots.expect()) == 1, "it is said, and no reason not to start"
    (tmp_path / "link").symlink_to(here)
    (tmp_path / "other").mkdir()
    make_marker(tmp_path / "other", "other-storage")
    wrong = {
        tmp_path / "nowhere": "is the storage mounted",
        tmp_path / "other": "marker of other storage",
        tmp_path / "link": f"write {here}",
    }
    for folder, said in wrong.items():
        with pytest.raises(StorageMismatch, match=said):
            host(nas=folder).roots.expect()
    (there / NAME).write_text("mine")
    with pytest.raises(StorageMismatch, match="has no"):
        host(nas=there).roots.expect()


def test_named_storage_is_not_scanned_under_another_name(host: Host, here: Path) -> None:
    added(host(nas=here), here)
    host(nas=here).roots.expect_mapped(here / "games")
    with pytest.raises(StorageMismatch, match='write `nas = "'):
        host().roots.expect_mapped(here / "games")


# --- adding one


def test_no_root_is_added_while_somebody_works(host: Host, here: Path) -> None:
    before = host()
    asked(before, here)
    job = claim(before)
    manifest = host(nas=here)
    known = everything_known(manifest)
    with pytest.raises(StillInUse, match="1 job is running"):
        added(manifest, here)
    assert everything_known(manifest) == known
    succeed(before, job)
    assert added(manifest, here)


def test_adding_it_twice_changes_nothing(host: Host, here: Path) -> None:
    manifest = host(nas=here)
    asked(manifest, here)
    assert added(manifest, here)
    known = everything_known(manifest)
    assert manifest.roots.add("nas", "the-storage") == 0
    assert everything_known(manifest) == known


def test_one_storage_has_one_name_and_one_name_one_storage(host: Host, here: Path, there: Path) -> None:
    added(host(nas=here), here)
    with pytest.raises(StorageMismatch, match="known as the root `nas` already"):
        host(studio=there).roots.add("studio", "the-storage")
    with pytest.raises(StorageMismatch, match="other storage"):
        host(nas=there).roots.add("nas", "other-storage")
    assert [view.name for view in host().roots.views()] == ["nas"]


def test_the_version_before_claims_nothing_once_a_root_has_a_name(
    host: Host, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, before = host(nas=here), host()
    asked(manifest, here)
    monkeypatch.setattr(compatibility, "SCHEMA_VERSION", "0007")
    assert before.jobs.due(ClaimRequest("w"))
    before.jobs.claim(ClaimRequest("w", number=0))  # before a root is named it goes on
    added(manifest, here)
    with pytest.raises(NewerSchema):
        before.jobs.claim(ClaimRequest("w"))


# --- what is not seen is not gone


def test_a_host_that_cannot_look_forgets_nothing(host: Host, here: Path, clock: Clock) -> None:
    manifest = host(nas=here)
    added(manifest, here)
    asked(manifest, here)
    job = claim(manifest)
    manifest.publications.under(job.lease).settle([published(here)], [])
    succeed(manifest, job, output_files=[])
    clock.pass_s(100)
    without = host()
    assert without.publications.forget_missing(clock()) == 0
    assert is_offline(without.videos.all()[0].path, "")
    assert without.check(lambda _path: None) == []
    (here / NAME).rename(here / "away")
    assert manifest.publications.forget_missing(clock()) == 0
    (here / "away").rename(here / NAME)
    assert manifest.publications.forget_missing(clock()) == 1, "who sees the storage sees that it is gone"


def test_what_another_record_knows_by_name_is_restored_anywhere(host: Host, here: Path, there: Path) -> None:
    added(host(nas=here), here)
    theirs = host(nas=there)
    video = KnownVideo(Path("root:nas/games/a.mp4"), Path("root:nas/games"), "key", SIGNATURE, "q", "f")
    output = "root:nas/out/A.mp4"
    made = RecordedResult(JobResult(output_files=[output], output_hashes={output: "0"}), START)
    counts = theirs.restore([RecordedVideo(video, START, made)], {}, "rebuilt")
    assert (counts.videos, counts.jobs) == (1, 1)
    (job,) = theirs.jobs.list()
    assert (job.subject, job.output_files) == (str(there / "games" / "a.mp4"), [str(there / "out" / "A.mp4")])
    assert theirs.videos.all()[0].signature == SHARED
    again = theirs.restore([RecordedVideo(video, START, made)], {}, "rebuilt")
    assert (again.videos, again.jobs) == (0, 0)


def test_a_file_that_moves_onto_the_storage_is_known_there(host: Host, here: Path, there: Path, tmp_path: Path) -> None:
    manifest = host(nas=here)
    added(manifest, here)
    asked(manifest, tmp_path / "local")
    before, after = tmp_path / "local/games/a.mp4", here / "games" / "b.mp4"
    manifest.videos.rename([Rename(before, after, after.parent, SIGNATURE)])
    assert host(nas=there).videos.all()[0].path == there / "games" / "b.mp4"
    assert host(nas=there).videos.all()[0].signature == SHARED
