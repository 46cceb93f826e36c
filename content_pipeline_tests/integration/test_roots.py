"""A library on storage that has a name: what Dagster remembers of it is understood wherever it is mounted."""

from __future__ import annotations

import shutil
from pathlib import Path

from content_pipeline.dagster_runtime.lost_manifest import recover
from content_pipeline.definitions import build_definitions
from content_pipeline.library.plan import Action
from content_pipeline.library.scan import scan
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.planner import Planner, command_terms
from content_pipeline.services.processing import NoProgress, Processor
from content_pipeline.services.storage import add_root, list_roots
from content_pipeline.settings import Settings, load
from content_pipeline.system.hashing import sha256_of
from content_pipeline_tests.helpers import samples


def settings_at(storage: Path, state: Path) -> Settings:
    flags = {"state_dir": state, "output_dir": storage / "out", "roots.nas": storage, "library.settle_s": 0}
    return load(flags, env={}).settings


def test_a_lost_manifest_is_rebuilt_where_the_storage_is_mounted_elsewhere(
    tmp_path: Path, samples_folder: Path
) -> None:
    before, state = tmp_path / "mnt" / "nas", tmp_path / "state"
    (before / "games").mkdir(parents=True)
    recording = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    shutil.copy(recording, before / "games" / "one.mp4")
    settings = settings_at(before, state)
    add_root(settings, "nas")
    processor = Processor(settings, open_manifest(settings), NoProgress())
    processor.work(build_definitions, processor.enqueue(scan(before / "games", settings.library)))
    assert [outcome.status for outcome in processor.outcomes] == ["succeeded"]

    (state / "queue.db").unlink()
    after = tmp_path / "volumes" / "studio"
    after.parent.mkdir()
    before.rename(after)
    moved = settings_at(after, state)
    assert add_root(moved, "nas").renamed == 0, "its marker is there already"
    assert [root.state for root in list_roots(moved).root] == ["seen"]
    manifest = open_manifest(moved)
    rebuilt = recover(moved, manifest)
    assert rebuilt is not None and (rebuilt.videos, rebuilt.jobs) == (1, 1)
    (job,) = manifest.jobs.list()
    assert job.subject == str(after / "games" / "one.mp4")
    assert job.output_files[0] == str(after / "out" / "one.mp4")
    planner = Planner(moved, manifest, command_terms(moved))
    (video,) = planner.plan(scan(after / "games", moved.library)).videos
    assert (video.action, video.reasons) == (Action.KEEP, {})
    assert manifest.check(lambda path: sha256_of(Path(path))) == []
