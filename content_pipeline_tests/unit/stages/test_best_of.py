"""The best-of of a library of real recordings: different formats in, one checked video out, published whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.defs.assets.best_of import build
from content_pipeline.defs.assets.common import picture
from content_pipeline.defs.partitions import LIBRARIES
from content_pipeline.errors import CorruptMedia, DiskFull, LibraryOffline
from content_pipeline.library.identify import identify
from content_pipeline.library.keys import library_key
from content_pipeline.manifest.model import ClaimRequest, JobRequest, JobResult
from content_pipeline.manifest.open import open_manifest
from content_pipeline.media.probe import probe
from content_pipeline.media.render.clip import Clip, ClipOrder, render_clip
from content_pipeline.media.source import open_source
from content_pipeline.settings import Settings, load
from content_pipeline.stages import clips
from content_pipeline.stages.best_of import BestOfLibrary, Processed, best_of
from content_pipeline.stages.context import StageContext, StageResult
from content_pipeline.stages.video import VideoStages
from content_pipeline.system.hashing import sha256_of
from content_pipeline_tests.helpers import samples

BURSTS = ((3.0, 4.0), (14.0, 15.5), (25.0, 25.6))
# Without what leads up to it, so that each burst is a highlight of its own.
FLAGS = {"detection.event_lookback_s": 0, "processing.context_padding_s": 0.3, "best_of.max_per_video": 1}


class Library:
    """Processed up to detections, in a temporary folder."""

    def __init__(self, folder: Path, samples_folder: Path) -> None:
        self.root = folder / "Game Night"
        self.root.mkdir()
        self.samples = samples_folder
        self.output = folder / "output"
        self.jobs: list[Processed] = []
        self._base = {"state_dir": folder / "state", "output_dir": self.output, **FLAGS}
        self.context = self._context()

    def _context(self, **changed: object) -> StageContext:
        flags = {name.replace("__", "."): value for name, value in changed.items()}
        settings: Settings = load(flags={**self._base, **flags}, env={}).settings
        manifest, artifacts = open_manifest(settings), ArtifactStore(settings.state_dir / "artifacts")
        return StageContext(settings, artifacts, manifest.videos, manifest.publications)

    def add(self, name: str, **how: Any) -> Path:
        made = samples.recording(self.samples, f"best-{name}", **{"seconds": 30.0, "bursts": BURSTS, **how})
        return self.process(Path(shutil.copy(made, self.root / name)))

    def process(self, path: Path) -> Path:
        key = identify(path, self.root, self.context.videos).key
        made = VideoStages(self.context, key).detections()
        results = (made.energy.fingerprint.result, made.energy.result, made.result)
        self.jobs.append(Processed(key, path, made.content.full, {result.stage: result.key for result in results}))
        return path

    def artifact(self, job: Processed, name: str) -> Path:
        return next(self.context.artifacts.root.glob(f"{name}/*/{job.stage_keys[name]}"))

    def make(self, **changed: object) -> StageResult:
        return best_of(self._context(**changed), BestOfLibrary(library_key(self.root), self.root), self.jobs)

    def published(self) -> list[str]:
        return sorted(path.name for path in self.output.glob("*")) if self.output.is_dir() else []

    @property
    def names(self) -> list[str]:
        return [f"best-of-Game Night{ending}" for ending in (".json", ".mp4", ".sheet.jpg")]

    def stats(self) -> dict[str, tuple[int, int, int]]:
        """What a file is known by; when it was last read is no part of that."""
        found = {name: (self.output / name).stat() for name in self.names}
        return {name: (status.st_ino, status.st_size, status.st_mtime_ns) for name, status in found.items()}

    def told(self) -> dict:
        return json.loads((self.output / self.names[0]).read_text())


@pytest.fixture
def empty(tmp_path: Path, samples_folder: Path) -> Library:
    return Library(tmp_path, samples_folder)


@pytest.fixture
def library(empty: Library) -> Library:
    """Two recordings that have nothing in common but their sound."""
    empty.add("wide.mp4")
    empty.add("old.avi", size=(160, 120), fps=25, codec="mpeg4", sound="mp3", rate_hz=48_000, channels=1)
    return empty


def facts(result: StageResult) -> dict:
    return dict(result.artifact.facts)


def test_recordings_of_different_formats_are_joined_to_one_that_plays(library: Library) -> None:
    result = library.make(best_of__max_per_video=2)
    assert library.published() == library.names
    assert facts(result)["clips"] == 4 and facts(result)["videos"] == 2 and facts(result)["left_out"] == 0
    with open_source(library.output / library.names[1]) as source:
        info = probe(source)
    assert (info.video.width, info.video.height, info.video.codec) == (320, 180, "h264")
    assert info.duration_s == pytest.approx(facts(result)["montage_s"], abs=0.05) and len(info.audio) == 1
    assert result.outputs == {library.output / name: sha256_of(library.output / name) for name in library.names}


def test_the_json_tells_where_each_cut_is_from_and_how_it_stands(library: Library) -> None:
    library.make(best_of__max_per_video=2)
    told = library.told()
    cuts = told["cuts"]
    assert {(cut["video"], cut["path"]) for cut in cuts} == {(job.video_key, job.path.name) for job in library.jobs}
    assert [cut["standing"] for cut in cuts] == sorted((cut["standing"] for cut in cuts), reverse=True)
    assert all(cut["score"] > 0 and 0 <= cut["source_start_s"] < cut["source_end_s"] <= 30.1 for cut in cuts)
    assert cuts[0]["start_s"] == 0 and cuts[-1]["end_s"] == pytest.approx(told["duration_s"])
    # The longest burst stands out most, in either of the recordings.
    assert all(abs(cut["source_start_s"] - 13.7) < 0.5 for cut in cuts[:2])


def test_a_video_gets_no_more_than_its_share(library: Library) -> None:
    assert facts(library.make(best_of__max_per_video=1))["clips"] == 2
    assert len({cut["video"] for cut in library.told()["cuts"]}) == 2


def test_the_same_again_makes_nothing_and_changes_nothing(library: Library) -> None:
    first = library.make()
    before = library.stats()
    library.jobs.reverse()
    second = library.make()
    assert not first.reused and second.reused and second.key == first.key
    assert library.stats() == before
    assert second.outputs == first.outputs


def test_made_from_nothing_again_it_is_the_same_to_the_byte(library: Library) -> None:
    first = library.make()
    shutil.rmtree(library.context.artifacts.root / "best_of")
    shutil.rmtree(library.context.artifacts.root / "clip")
    again = library.make()
    assert not again.reused and again.artifact.hashes["montage.json"] == first.artifact.hashes["montage.json"]


def test_clips_are_kept_one_by_one(library: Library) -> None:
    library.make()
    more = library.make(best_of__max_per_video=2)
    assert not more.reused and (facts(more)["clips"], facts(more)["clips_reused"]) == (4, 2)


def test_a_best_of_that_a_person_replaced_is_theirs(library: Library) -> None:
    first = library.make()
    (library.output / library.names[1]).unlink()
    assert library.make().outputs == first.outputs, "one that is gone comes back"
    (library.output / library.names[1]).write_text("something else")
    again = library.make()
    assert again.reused and sorted(again.outputs.values()) == sorted(first.outputs.values())
    assert (library.output / library.names[1]).read_text() == "something else"
    assert library.make().outputs == again.outputs


@pytest.mark.parametrize("trouble", ["gone", "changed", "no detections", "damaged detections", "no keys", "unknown"])
def test_a_video_that_cannot_be_read_is_left_out_and_counted(library: Library, trouble: str) -> None:
    job = library.jobs[1]
    match trouble:
        case "gone":
            job.path.unlink()
        case "changed":
            job.path.write_bytes(job.path.read_bytes() + b"more")
        case "no detections":
            shutil.rmtree(library.artifact(job, "detections"))
        case "damaged detections":
            (library.artifact(job, "detections") / "detections.json").write_text("{}")
        case "no keys":
            library.jobs[1] = replace(job, stage_keys={})
        case "unknown":
            library.jobs[1] = replace(job, full=None)
    result = library.make()
    assert (facts(result)["videos"], facts(result)["left_out"], facts(result)["clips"]) == (1, 1, 1)
    assert facts(result)["left_out_by"] == {"file_in_use" if trouble == "changed" else "missing_file": 1}
    assert {cut["path"] for cut in library.told()["cuts"]} == {"wide.mp4"}


def test_a_video_found_damaged_while_cutting_makes_room_for_another(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = render_clip

    def cut_or_fail(order: ClipOrder, progress: Callable[[float], None]) -> Clip:
        if order.source.path.name == "wide.mp4":
            raise CorruptMedia("a hole")
        return cut(order, progress)

    monkeypatch.setattr(clips, "render_clip", cut_or_fail)
    result = library.make(best_of__max_segments=1)
    assert facts(result)["left_out_by"] == {"corrupt_media": 1} and facts(result)["clips"] == 1
    assert {cut["path"] for cut in library.told()["cuts"]} == {"old.avi"}


def test_a_full_disk_is_nobodys_fault(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_rest: Any, **_more: Any) -> None:
        raise DiskFull("full")

    monkeypatch.setattr(clips, "render_clip", fail)
    with pytest.raises(DiskFull):
        library.make()
    assert library.published() == []


def test_two_copies_of_a_recording_are_shown_once(library: Library) -> None:
    library.process(Path(shutil.copy(library.root / "wide.mp4", library.root / "copy.mp4")))
    result = library.make()
    assert (len(library.jobs), facts(result)["videos"], facts(result)["clips"]) == (3, 2, 2)
    assert {cut["path"] for cut in library.told()["cuts"]} == {"copy.mp4", "old.avi"}


@pytest.mark.parametrize("lost", ["copy.mp4", "wide.mp4"])
def test_a_copy_that_can_be_read_speaks_for_one_that_cannot(library: Library, lost: str) -> None:
    library.process(Path(shutil.copy(library.root / "wide.mp4", library.root / "copy.mp4")))
    library.jobs = [replace(job, stage_keys={}) if job.path.name == lost else job for job in library.jobs]
    result = library.make()
    assert (facts(result)["videos"], facts(result)["left_out"]) == (2, 0)
    assert lost not in {cut["path"] for cut in library.told()["cuts"]}


def test_nothing_to_show_is_a_success_without_a_file_and_takes_back_the_old_one(empty: Library) -> None:
    empty.add("wide.mp4")
    empty.make()
    assert empty.published() == empty.names
    empty.jobs.clear()
    empty.add("dull.mp4", bursts=())
    result = empty.make()
    assert (facts(result)["clips"], facts(result)["videos"], result.outputs) == (0, 1, {})
    assert empty.published() == [] and not result.reused
    assert empty.make().reused


def test_when_nothing_can_be_read_what_was_published_stays(library: Library) -> None:
    library.make()
    for job in library.jobs:
        job.path.unlink()
    result = library.make()
    assert (facts(result)["clips"], facts(result)["left_out"], result.outputs) == (0, 2, {})
    assert library.published() == library.names
    shutil.rmtree(library.root)
    with pytest.raises(LibraryOffline):
        library.make()
    assert library.published() == library.names


def test_libraries_of_one_name_do_not_share_a_best_of(tmp_path: Path) -> None:
    assert library_key(tmp_path / "a" / "Games") != library_key(tmp_path / "b" / "Games")
    assert library_key(Path("/x/Game Night!")).startswith("game-night-")
    assert library_key(Path("/x/游戏")).startswith("library-")


# --- as Dagster sees it


def materialize(library: Library, key: str) -> dg.ExecuteInProcessResult:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(str(LIBRARIES.name), [key])
        asset = build(library.context.settings)
        return dg.materialize(
            [asset],
            partition_key=key,
            resources={"stage_context": library.context},
            instance=instance,
            raise_on_error=False,
        )


def test_the_asset_finds_its_library_by_its_key_and_shows_the_cuts(library: Library) -> None:
    manifest = open_manifest(library.context.settings)
    manifest.jobs.enqueue([JobRequest(str(job.path), str(library.root)) for job in library.jobs])
    done = {str(job.path): job for job in library.jobs}
    for job in manifest.jobs.claim(ClaimRequest("worker", number=2)):
        known = done[job.subject]
        keys = dict(known.stage_keys)
        manifest.jobs.succeed(job.lease, JobResult(known.video_key, input_hash_full=known.full, stage_keys=keys))
    assert manifest.libraries.roots() == [library.root]

    result = materialize(library, library_key(library.root))
    assert result.success
    (made,) = result.asset_materializations_for_node("best_of")
    assert made.metadata["clips"].value == 2 and made.metadata["videos"].value == 2
    assert len(made.metadata["cuts"].value.records) == 2
    sheet = (library.output / library.names[2]).read_bytes()
    shown = str(made.metadata["contact_sheet_file"].value)
    assert Path(shown).read_bytes() == sheet
    assert made.metadata["contact_sheet"] == picture("sheet", Path(shown), "one picture per clip")["sheet"]
    checks = result.get_asset_check_evaluations()
    assert len(checks) == 4 and all(check.passed for check in checks)


def test_the_asset_refuses_a_library_that_nobody_knows(library: Library) -> None:
    result = materialize(library, "nothing-0123456789")
    failure = result.failure_data_for_node("best_of")
    assert not result.success and "no library is known" in str(failure.user_failure_data.description)
