"""Deciding again: a thousand cached hours under a new threshold, as the command a person types and as plain work."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench import recordings
from bench.measure import PROJECT, Row, cost_of, cost_of_command
from bench.pretended import processed, project
from content_pipeline.artifacts import ArtifactStore
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.settings import Settings
from content_pipeline.stages.context import StageContext

if TYPE_CHECKING:
    from content_pipeline.media.curves.model import Curves
    from content_pipeline.media.probe import MediaInfo

HOURS = 1_000


def rows(folder: Path) -> Iterator[Row]:
    with project(folder / "hours", workers=2) as settings:
        _cache_hours(folder, settings)
        library = folder / "hours" / "library"
        program: list[str | Path] = [sys.executable, "-m", "content_pipeline.cli"]
        tune = [*program, "tune", "--json", "--input", library, "--workers", "2"]
        cost = cost_of_command([*tune, "--values", "3.3"], PROJECT)
        assert json.loads(cost.value)["videos"] == HOURS
        name = f"`tune` of {HOURS:,} cached hours, one new value: time"
        yield Row(name, cost.wall_s, 5.0, "s", 1, note="process start and the check of 2 GB of curves included")
    one, twenty = (cost_of(partial(_decide, _an_hour(folder)[0], count), _load).value for count in (1, 20))
    yield Row("an hour under 20 thresholds: time", twenty, 20 * one, "ms", 3, "20 times one")


def _load() -> None:
    import content_pipeline.media.detection.broadband
    import content_pipeline.media.selection.highlights  # noqa: F401


def _decide(curves: Curves, count: int) -> float:
    """Milliseconds for so many thresholds; the best of five."""
    from content_pipeline.media.detection.detector import detector_for
    from content_pipeline.settings import DetectionSettings

    took_s = []
    for _ in range(5):
        started = time.perf_counter()
        evidence = detector_for(DetectionSettings()).evidence(curves)
        for number in range(count):
            evidence.decide(DetectionSettings(sensitivity=2 + number / 10))
        took_s.append(time.perf_counter() - started)
    return 1000 * min(took_s)


def _an_hour(folder: Path) -> tuple[Curves, MediaInfo]:
    """Real curves of a short recording, again and again for an hour."""
    import numpy as np

    from content_pipeline.media.curves.measure import measure
    from content_pipeline.media.curves.model import FRAME_RATE_HZ
    from content_pipeline.media.probe import probe
    from content_pipeline.media.source import open_source

    settings = Settings()
    with open_source(recordings.gameplay(folder)) as source:
        info = probe(source)
        measured = measure(source, info, settings.energy, settings.detection.hpss_margin)
    short, frames = measured.tracks[measured.primary], round(3600 * FRAME_RATE_HZ)
    return short.each(lambda curve: np.resize(curve, frames)), info


def _cache_hours(folder: Path, settings: Settings) -> None:
    """A library whose curves are all there: each video starts at another moment and is a little louder or quieter."""
    from dataclasses import replace

    import numpy as np

    from content_pipeline.media.curves.model import Curves, store

    curves, info = _an_hour(folder)
    info = replace(info, duration_s=3600.0, video=None)
    processed(folder / "hours" / "library", settings, HOURS)
    manifest = Manifest(open_engine(settings.manifest_url))
    videos, artifacts = manifest.videos, ArtifactStore(settings.state_dir.absolute() / "artifacts")
    bench = StageContext(settings, artifacts, videos, manifest.publications)
    for number, video in enumerate(videos.of_library(folder / "hours" / "library")):
        assert video.full is not None
        shifted = (
            np.roll(curve, 997 * number) * np.float32(1 - number / (2 * HOURS)) for curve in vars(curves).values()
        )
        media_key = bench.stage_key("fingerprint", content=video.full)
        with bench.artifacts.draft("fingerprint", media_key) as draft:
            draft.write_json("media.json", info.as_json())
        media = bench.artifacts.find("fingerprint", media_key)
        assert media is not None
        with bench.artifacts.draft(
            "energy", bench.stage_key("energy", content=video.full, media=media.digest)
        ) as draft:
            store(draft.path("curves.npz"), {0: Curves(*shifted)})
            draft.facts = {"track": 0}
