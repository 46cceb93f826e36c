"""What the manifest knows of published files: written by the job that holds the lease, and by nobody else."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from content_pipeline.errors import LostLease, NameTaken
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.publications import Publication, place_of
from content_pipeline_tests.conformance.manifests import Clock, add, claim, dump, succeed

GAME = Publication(Path("/out/Gäme.mp4"), "game-key", "montage.mp4", "a" * 64)


def _left(one: Publication) -> Publication:
    return replace(one, size_bytes=10, mtime_ns=20, replaces=None)


def test_a_file_is_announced_and_then_settled(manifest: Manifest) -> None:
    add(manifest, "a")
    job = claim(manifest)
    records = manifest.publications.under(job.lease)
    records.announce([replace(GAME, replaces="b" * 64)])
    (coming,) = records.of("game-key")
    assert (coming.is_settled, coming.known) == (False, {"a" * 64, "b" * 64})
    assert records.unsettled_folders() == {Path("/out")}
    records.settle([_left(GAME)], [])
    assert records.of("game-key") == [replace(_left(GAME), job_id=job.job_id)]
    assert records.unsettled_folders() == set()
    records.settle([], [GAME])
    assert records.all() == []


def test_who_lost_the_lease_records_nothing(manifest: Manifest) -> None:
    add(manifest, "a")
    job = claim(manifest)
    manifest.jobs.release(job.lease, "stopping")
    records, before = manifest.publications.under(job.lease), dump(manifest)
    for write in (
        records.check_lease,
        lambda: records.announce([GAME]),
        lambda: records.settle([GAME], []),
        lambda: records.settle([], [GAME]),
    ):
        with pytest.raises(LostLease):
            write()
    assert dump(manifest) == before


def test_a_name_belongs_to_one_video_whatever_its_case(manifest: Manifest) -> None:
    records = manifest.publications
    records.settle([_left(GAME)], [])
    for name in ("Gäme.mp4", "GÄME.MP4", "ga\u0308me.mp4"):
        other = replace(GAME, path=Path("/out") / name, owner="other")
        with pytest.raises(NameTaken):
            records.announce([other])
        assert records.at([other.path]) == {other.path: _left(GAME)}
    records.announce([replace(GAME, path=Path("/OUT/Gäme.mp4"), owner="other")])  # another folder
    assert len(records.all()) == 2


def test_a_path_of_any_bytes_is_kept(manifest: Manifest) -> None:
    path = Path("/out/caf\udce9.mp4")
    manifest.publications.settle([replace(_left(GAME), path=path)], [])
    assert [one.path for one in manifest.publications.montages()] == [path]
    assert place_of(path) == str(path)


def test_what_a_person_changed_is_never_ours(manifest: Manifest) -> None:
    records = manifest.publications
    records.settle([replace(_left(GAME), kept=True)], [])
    (kept,) = records.all()
    assert kept.known == frozenset()
    assert records.montages() == [kept], "and no recording either"


def test_recordings_of_one_name_are_found(manifest: Manifest) -> None:
    add(manifest, "a/game.mp4", "a/other.mp4", "a/game_1.mp4", input_size=10)
    records, root = manifest.publications, Path("/games")
    assert not records.has_namesake(root, "game", "key", 10), "itself, or a copy: nobody has looked yet"
    assert records.has_namesake(root, "Game", "key", 11)
    assert not records.has_namesake(Path("/elsewhere"), "game", "key", 11)
    assert not records.has_namesake(root, "gameX1", "key", 11), "no letter of a name stands for others"
    succeed(manifest, claim(manifest), video_key="key")
    assert not records.has_namesake(root, "game", "key", 11)
    assert records.has_namesake(root, "game", "another", 10)


def test_what_is_missing_for_long_is_forgotten_unless_a_job_counts_on_it(
    manifest: Manifest, clock: Clock, tmp_path: Path
) -> None:
    there, gone, counted_on = (tmp_path / name for name in ("there", "gone", "counted_on"))
    there.touch()
    records = manifest.publications
    records.settle([replace(_left(GAME), path=path, file=path.name) for path in (there, gone, counted_on)], [])
    add(manifest, "a")
    succeed(manifest, claim(manifest), output_files=[str(counted_on)])
    now = clock.time
    assert records.forget_missing(now - timedelta(days=1)) == 0
    assert records.forget_missing(now + timedelta(days=1)) == 1
    assert {one.path for one in records.all()} == {there, counted_on}


def test_forgetting_everything_forgets_what_was_published(manifest: Manifest) -> None:
    manifest.publications.settle([_left(GAME)], [])
    manifest.reset()
    assert manifest.publications.all() == []
